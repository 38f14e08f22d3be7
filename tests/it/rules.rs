//! Validation rules: the API server enforces them by itself, from the definition of the kind or from a policy.

use kopf_rs::prelude::*;
use kopf_rs::{Operator, Registry, ValidationRule, register_crd};
use kopf_rs_tests::{TestCluster, scenarios};

use crate::operating::{KIND, TestOperator, Working, definition};

scenarios! {
    a_definition_enforces_its_rules;
    a_rule_that_costs_too_much_is_refused;
    a_definition_without_a_rule_is_told [memory];
    policies_follow_their_rules;
    policies_of_others_are_left_alone [memory tcp];
    a_policy_denies;
    policies_that_may_not_be_written_are_told [memory];
    a_refused_policy_keeps_no_other_from_being_written [memory];
}

/// The group of the kind whose rules are constants: they are of this program, whatever server it asks.
const GROUP: &str = "rules.kopf.dev";

#[validation_rule(GROUP, "v1", KIND, message = "it never shrinks", field = "spec.size")]
const RISES: &str = "!has(oldSelf.spec.size) || self.spec.size >= oldSelf.spec.size";

#[validation_rule(
    GROUP,
    "v1",
    KIND,
    message_expression = "self.spec.size > 11 ? 'far above 10' : 'above 10'"
)]
const AT_MOST: &str = "!has(self.spec.size) || self.spec.size <= 10";

#[validation_rule(GROUP, "v1", KIND, message = "a name is short")]
const SHORT: &str = "size(self.metadata.name) < 9";

#[on_startup]
async fn register(client: Client) -> HandlerResult {
    register_crd(&client, &definition(GROUP)).await
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// An operator with a name of its own: policies have no namespace.
fn start(test: &TestOperator, registry: Registry) -> Working {
    let namespace = test.cluster.namespace();
    let operator = Operator::new(registry).name(namespace);
    Working::start(&test.cluster, operator.namespaces([namespace]))
}

/// The name of a rule's policy.
fn policy(test: &TestOperator, rule: &str) -> String {
    format!("{rule}.{}.kopf.rs", test.cluster.namespace())
}

async fn there(test: &TestOperator, kind: &str, name: &str) -> Value {
    let is_there = |found: Option<&Value>| found.is_some();
    test.cluster
        .until("it is there", kind, name, is_there)
        .await
}

async fn gone(test: &TestOperator, kind: &str, name: &str) {
    let is_gone = |found: Option<&Value>| found.is_none();
    test.cluster.until("it is gone", kind, name, is_gone).await;
}

fn object(group: &str, name: &str, spec: &Value) -> Value {
    let api_version = format!("{group}/v1");
    json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": name}, "spec": spec})
}

/// What the server says of a request that it refuses.
async fn refusal(cluster: &TestCluster, method: &str, path: &str, body: &Value) -> Value {
    match cluster.request(method, path, Some(body)).await {
        Err(kube::Error::Api(status)) => serde_json::to_value(&*status).expect("a status is JSON"),
        other => panic!("{method} {path}: {other:?}"),
    }
}

async fn a_definition_enforces_its_rules(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::in_module(module_path!()).expect("they are in order");
    // Before there are rules, an object breaks one.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = format!("{KIND}.{GROUP}");
    test.cluster.apply(&definition(GROUP).to_string()).await;
    let old = object(GROUP, "old", &json!({"size": 11}));
    test.cluster.create(&old).await;

    let working = start(&test, registry);
    let has_rules = |crd: Option<&Value>| {
        let versions = crd.map(|it| it["spec"]["versions"].to_string());
        versions.is_some_and(|it| it.matches("\"rule\"").count() == 3)
    };
    test.cluster
        .until("it has its rules", definitions, &name, has_rules)
        .await;
    let path = format!(
        "/apis/{GROUP}/v1/namespaces/{}/{KIND}",
        test.cluster.namespace()
    );
    let bad = object(GROUP, "much-too-long", &json!({"size": 12}));
    // A real server enforces a new definition a moment later.
    let told = loop {
        match test
            .cluster
            .request("POST", &format!("{path}?dryRun=All"), Some(&bad))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 422 => {
                break serde_json::to_value(&*status).expect("a status is JSON");
            }
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    // All that is wrong is told at once.
    let causes = told["details"]["causes"].as_array().expect("causes");
    let messages: Vec<_> = causes.iter().map(|it| it["message"].to_string()).collect();
    assert_eq!(causes.len(), 2, "{told:#}");
    let is_told = |text: &str| messages.iter().any(|it| it.contains(text));
    assert!(
        is_told("far above 10") && is_told("a name is short"),
        "{messages:?}"
    );

    what_was_broken_before_is_let_be(&test.cluster, &path).await;
    working.stop().await;
}

/// As long as nobody touches it.
async fn what_was_broken_before_is_let_be(cluster: &TestCluster, path: &str) {
    let other = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.patch(path, "old", &other).await;
    let path = format!("{path}/old");
    let less = json!({"spec": {"size": 10}});
    let told = refusal(cluster, "PATCH", &path, &less).await;
    assert_eq!(
        told["details"]["causes"][0]["field"], "spec.size",
        "{told:#}"
    );
    assert!(
        told["message"].to_string().contains("it never shrinks"),
        "{told:#}"
    );
    let more = json!({"spec": {"size": 12}});
    let told = refusal(cluster, "PATCH", &path, &more).await;
    assert!(
        told["message"].to_string().contains("far above 10"),
        "{told:#}"
    );
}

async fn a_rule_that_costs_too_much_is_refused(cluster: TestCluster) {
    let mut crd = definition(&format!("costs.{}.kopf.dev", cluster.namespace()));
    let names = json!({"type": "array", "items": {"type": "string"}});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["names"] =
        names;
    let rule = "self.spec.names.all(a, self.spec.names.exists_one(b, a == b))";
    let registry = Registry::new().validation_rule(KIND, ValidationRule::new("distinct", rule));
    let with_rules = registry.definition(&crd).expect("it is JSON");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let told = refusal(&cluster, "POST", path, &with_rules).await;
    let message = told["message"].to_string();
    let factor = "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and \
                  maxLength where arrays, maps, and strings are declared)";
    assert!(message.contains(factor), "{message}");
    // With bounds it is taken.
    let names = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"]["names"];
    *names = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}});
    let with_rules = registry.definition(&crd).expect("it is JSON");
    let taken = cluster.request("POST", path, Some(&with_rules)).await;
    assert!(taken.is_ok(), "{taken:?}");
}

async fn a_definition_without_a_rule_is_told(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let rule = ValidationRule::new("rises", "self.spec.size >= oldSelf.spec.size");
    let registry = || Registry::new().validation_rule(test.selector(), rule.clone());
    let working = start(&test, registry());
    test.line("The validation rule `rises` is not enforced: the definition kopfexamples.")
        .await;
    working.stop().await;
    let crd = registry()
        .definition(&definition(&test.group))
        .expect("it is JSON");
    test.cluster.apply(&crd.to_string()).await;
    let told = |test: &TestOperator| {
        let lines = test.cluster.lines().all();
        lines
            .iter()
            .filter(|it| it.contains("is not enforced"))
            .count()
    };
    assert_eq!(told(&test), 1);
    let working = start(&test, registry());
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    working.stop().await;
    assert_eq!(told(&test), 1);
}

async fn policies_follow_their_rules(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let rule = |id: &str, message: &str| {
        ValidationRule::new(id, "request.userInfo.username != 'nobody'").message(message)
    };
    let both = || {
        let registry = Registry::new().validation_rule(test.selector(), rule("first", "a"));
        registry.validation_rule("configmaps", rule("second", "b").warn())
    };
    let (first, second) = (policy(&test, "first"), policy(&test, "second"));
    let working = start(&test, both());
    let binding = there(&test, BINDINGS, &second).await;
    assert_eq!(
        binding["spec"],
        json!({"policyName": second, "validationActions": ["Warn"]})
    );
    let before = [
        there(&test, POLICIES, &first).await,
        there(&test, POLICIES, &second).await,
    ];
    working.stop().await;

    // What is as it should be is not written again, and what somebody has changed is.
    let theirs = json!({"spec": {"failurePolicy": "Ignore", "variables": [{"name": "x", "expression": "1"}]}});
    test.cluster.patch(POLICIES, &second, &theirs).await;
    let working = start(&test, both());
    let is_right = |found: Option<&Value>| found.is_some_and(|it| it["spec"] == before[1]["spec"]);
    test.cluster
        .until("it is put right", POLICIES, &second, is_right)
        .await;
    working.stop().await;
    let after = there(&test, POLICIES, &first).await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before[0]["metadata"]["resourceVersion"]
    );

    // A rule that is no more.
    let theirs = policy(&test, "theirs");
    let foreign = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": theirs}, "spec": {"policyName": "nothing", "validationActions": ["Deny"]},
    });
    test.cluster.create(&foreign).await;
    let working = start(
        &test,
        Registry::new().validation_rule(test.selector(), rule("first", "other")),
    );
    let is_changed = |found: Option<&Value>| {
        found.is_some_and(|it| it["spec"]["validations"][0]["message"] == "other")
    };
    test.cluster
        .until("it has the other message", POLICIES, &first, is_changed)
        .await;
    gone(&test, BINDINGS, &second).await;
    gone(&test, POLICIES, &second).await;
    working.stop().await;
    assert!(test.cluster.get(BINDINGS, &theirs).await.is_some());
    assert!(test.cluster.get(BINDINGS, &first).await.is_some());
    // On a server that many share.
    for (kind, name) in [(BINDINGS, &theirs), (BINDINGS, &first), (POLICIES, &first)] {
        test.cluster.delete(kind, name).await;
    }
}

async fn policies_of_others_are_left_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let name = policy(&test, "mine");
    let theirs = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }]},
            "validations": [{"expression": "true"}],
        },
    });
    let theirs = test.cluster.create(&theirs).await;
    let rule = ValidationRule::new("mine", "has(self.metadata.labels)");
    let working = start(
        &test,
        Registry::new().validation_rule(test.selector(), rule),
    );
    test.line("The validation rule `mine` is not enforced: ValidatingAdmissionPolicy mine.")
        .await;
    working.stop().await;
    assert_eq!(test.cluster.get(POLICIES, &name).await, Some(theirs));
    assert_eq!(test.cluster.get(BINDINGS, &name).await, None);
}

/// Try to create an object until that is refused: the server hears of policies a moment after they are written.
async fn denied(test: &TestOperator, name: &str, spec: &Value, labels: &Value) -> Value {
    let mut object = object(&test.group, name, spec);
    object["metadata"]["labels"] = labels.clone();
    let namespace = test.cluster.namespace();
    let path = format!(
        "/apis/{}/v1/namespaces/{namespace}/{KIND}?dryRun=All",
        test.group
    );
    loop {
        match test.cluster.request("POST", &path, Some(&object)).await {
            Err(kube::Error::Api(status)) => {
                return serde_json::to_value(&*status).expect("a status is JSON");
            }
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn a_policy_denies(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let labelled =
        ValidationRule::new("labelled", "has(self.metadata.labels)").message("it needs a label");
    let named = ValidationRule::new("named", "request.name == 'a' && self.spec.size > 0");
    let registry = Registry::new()
        .validation_rule(test.selector(), labelled)
        .validation_rule(test.selector(), named);
    let working = start(&test, registry);
    let name = policy(&test, "labelled");
    let told = denied(&test, "a", &json!({"size": 1}), &Value::Null).await;
    let message = format!(
        "ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: it needs a label"
    );
    assert!(
        told["message"]
            .as_str()
            .is_some_and(|it| it.ends_with(&message)),
        "{told:#}"
    );
    assert_eq!(
        (&told["code"], &told["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    let told = denied(&test, "b", &json!({"size": 1}), &json!({"a": "b"})).await;
    let message = "denied request: failed expression: request.name == 'a' && object.spec.size > 0";
    assert!(
        told["message"]
            .as_str()
            .is_some_and(|it| it.ends_with(message)),
        "{told:#}"
    );
    // An expression that fails refuses, too.
    let told = denied(&test, "a", &json!({}), &json!({"a": "b"})).await;
    assert!(
        told["message"]
            .as_str()
            .is_some_and(|it| it.contains("no such key: size")),
        "{told:#}"
    );
    working.stop().await;
    for rule in ["labelled", "named"] {
        test.cluster.delete(BINDINGS, &policy(&test, rule)).await;
        test.cluster.delete(POLICIES, &policy(&test, rule)).await;
    }
}

async fn policies_that_may_not_be_written_are_told(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let refusal =
        server.fault(kopf_rs_apiserver::Fault::answer(403).plural("validatingadmissionpolicies"));
    let rule = ValidationRule::new("labelled", "has(self.metadata.labels)");
    let working = start(
        &test,
        Registry::new().validation_rule(test.selector(), rule),
    );
    test.line("The policies of validation rules cannot be written; will retry in")
        .await;
    refusal.clear();
    there(&test, BINDINGS, &policy(&test, "labelled")).await;
    working.stop().await;
}

async fn a_refused_policy_keeps_no_other_from_being_written(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let of = |rule: &str| policy(&test, rule);
    let refused = of("first");
    let refusal = kopf_rs_apiserver::Fault::answer(403).when(move |asked| {
        let body = asked.body.as_ref();
        body.is_some_and(|it| it["metadata"]["name"] == refused.as_str())
    });
    let refusal = server.fault(refusal);
    let [first, second] =
        ["first", "second"].map(|id| ValidationRule::new(id, "has(self.metadata.labels)"));
    let registry = Registry::new()
        .validation_rule(test.selector(), first)
        .validation_rule(test.selector(), second);
    let working = start(&test, registry);
    there(&test, BINDINGS, &of("second")).await;
    let told = || {
        let lines = test.cluster.lines();
        lines.count(|line| line.contains("The policies of validation rules cannot be written"))
    };
    while refusal.hits() < 4 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(told(), 1);
    refusal.clear();
    there(&test, BINDINGS, &of("first")).await;
    working.stop().await;
}
