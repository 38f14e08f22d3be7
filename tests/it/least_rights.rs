//! Operators whose account has only certain permissions: each printed rule that is missing is named at the start.

use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::{Lines, Program, TestCluster, documents, say, scenarios};
use serde_json::{Value, json};

use crate::cli::operator;
use crate::manifests::{kubeconfig_of, printed};

scenarios! {
    each_rule_that_is_missing_is_named_at_the_start [tcp real];
}

/// The programs are built already.
const PATIENCE: Duration = Duration::from_secs(180);
const API: &str = "rbac.authorization.k8s.io";

/// A rule of a Role in a namespace, or of a `ClusterRole`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    namespace: Option<String>,
    rule: Value,
}

impl Rule {
    pub(crate) fn everywhere(rule: Value) -> Self {
        Self { namespace: None, rule }
    }

    pub(crate) fn inside(namespace: &str, rule: Value) -> Self {
        Self { namespace: Some(namespace.to_owned()), rule }
    }
}

/// Returns the rules of all roles among these objects.
pub(crate) fn rules_of(objects: &[Value]) -> Vec<Rule> {
    let roles = objects
        .iter()
        .filter(|it| ["Role", "ClusterRole"].contains(&it["kind"].as_str().unwrap_or_default()));
    let of_all = roles.flat_map(|role| {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        let all = role["rules"].as_array().into_iter().flatten().cloned();
        all.map(move |rule| Rule { namespace: namespace.clone(), rule })
    });
    of_all.collect()
}

/// Creates a user with these rules and no others. Returns its name.
pub(crate) async fn user_with_only(cluster: &TestCluster, rules: &[Rule]) -> String {
    let user = cluster.restricted_user();
    for (nth, Rule { namespace, rule }) in rules.iter().enumerate() {
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let kind = format!("{prefix}Role");
        let mut metadata = json!({"name": format!("{}-{user}-{nth}", cluster.namespace())});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        let (version, name) = (format!("{API}/v1"), metadata["name"].clone());
        let role = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [rule]});
        cluster.create(&role).await;
        cluster
            .create(&json!({
                "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": API, "kind": kind, "name": name},
                "subjects": [{"apiGroup": API, "kind": "User", "name": user}],
            }))
            .await;
    }
    user
}

/// Starts a program as a user with these rules and no others. `command` gets the path of the user's kubeconfig.
pub(crate) async fn run_with_only(
    cluster: &TestCluster,
    rules: &[Rule],
    command: impl FnOnce(&str) -> Command,
) -> Program {
    let user = user_with_only(cluster, rules).await;
    let kubeconfig = kubeconfig_of(cluster, &user).display().to_string();
    Program::start(command(&kubeconfig), PATIENCE)
}

/// The start of the message that names missing rules.
const MISSING: &str = "lacks permissions that this operator needs. Add ";

/// Returns the rules that the message at the start names, in the form of a role.
pub(crate) fn named(lines: &Lines) -> Vec<Value> {
    let text = lines.all().join("\n");
    let Some((_, message)) = text.split_once(MISSING) else {
        return Vec::new();
    };
    let mut rules: Vec<Value> = Vec::new();
    for line in message.lines().skip(1).take_while(|it| it.starts_with("  ") || it.starts_with("and to ")) {
        let field = line.trim_start_matches(['-', ' ']).split_once(": ");
        let Some((field, items)) = field.filter(|_| line.starts_with("  ")) else {
            continue;
        };
        if line.starts_with("  - ") {
            rules.push(json!({}));
        }
        let items: Value = serde_json::from_str(items).expect("a list");
        rules.last_mut().expect("a rule begins with a dash")[field] = items;
    }
    rules
}

/// Returns true if the message at the start names this rule and no other: the verbs that no other rule grants or, while the operator starts,
/// those that its startup functions declare.
fn names(lines: &Lines, rule: &Value) -> bool {
    let named = named(lines);
    let [found] = &named[..] else {
        return false;
    };
    let rest = |it: &Value| [it["apiGroups"].clone(), it["resources"].clone(), it["resourceNames"].clone()];
    let verbs = |it: &Value| it["verbs"].as_array().cloned().unwrap_or_default();
    let is_part = verbs(found).iter().all(|it| verbs(rule).contains(it));
    is_part && !verbs(found).is_empty() && rest(found) == rest(rule)
}

/// Starts the program without each of the rules in turn, and then with all of them. Returns the number of rules, and the rules that the
/// message at the start does not name exactly.
pub(crate) async fn rules_not_named(
    cluster: &TestCluster,
    rules: &[Rule],
    command: impl Fn(&str) -> Command,
) -> (usize, Vec<Value>) {
    let mut not_named = Vec::new();
    for left_out in rules {
        let others: Vec<Rule> = rules.iter().filter(|it| *it != left_out).cloned().collect();
        let mut program = run_with_only(cluster, &others, &command).await;
        program.lines().until("the missing rule", |line| line.contains(MISSING)).await;
        program.signal("TERM").await;
        program.ended().await;
        if !names(program.lines(), &left_out.rule) {
            not_named.push(left_out.rule.clone());
        }
    }
    let mut program = run_with_only(cluster, rules, &command).await;
    program.lines().until("it works", |line| line.contains("Serving ")).await;
    program.signal("TERM").await;
    program.ended().await;
    assert_eq!(named(program.lines()), [] as [Value; 0], "all are granted");
    (rules.len(), not_named)
}

async fn each_rule_that_is_missing_is_named_at_the_start(cluster: TestCluster) {
    let namespace = cluster.namespace();
    let objects = documents(&printed(namespace, &["--lease", "--standalone"]).await);
    for definition in objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition") {
        cluster.apply(&definition.to_string()).await;
    }
    let rules = rules_of(&objects);
    let command = |kubeconfig: &str| {
        let mut command =
            operator("myapp", &["--kubeconfig", kubeconfig, "-n", namespace, "--lease", "--standalone"]);
        command.env("KOPF_RS_LEASE_NAMESPACE", namespace);
        command
    };
    let (tried, not_named) = rules_not_named(&cluster, &rules, command).await;
    say(&format!("rules tried / named: {tried} / {}", tried - not_named.len()));
    assert!(tried > 5, "{rules:?}");
    assert_eq!(not_named, [] as [Value; 0]);
}
