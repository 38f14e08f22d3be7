//! Validation rules, which the API server enforces by itself, in the definition of the kind or in a policy.

use kopf_rs::prelude::*;
use kopf_rs::{Operator, Registry, ValidationRule, register_crd};
use kopf_rs_tests::{TestCluster, scenarios};

use crate::operating::{KIND, TestOperator, Working, definition};

scenarios! {
    a_definition_enforces_its_rules;
    a_rule_that_costs_too_much_is_refused;
    a_definition_without_a_rule_is_reported [memory];
    policies_follow_their_rules;
    policies_of_others_are_left_alone [memory];
    policies_of_kinds_that_are_not_served_list_who_would_write_them [memory];
    a_policy_denies;
    policies_that_may_not_be_written_are_reported [memory];
    a_policy_covers_all_ways_to_change_an_object [real];
    a_policy_about_metadata_blocks_no_status_update;
    a_refused_policy_keeps_no_other_from_being_written [memory];
}

/// The group of the kind with constant rules; it belongs to this program, not to a test.
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

/// Starts an operator with a unique name, because policies are cluster-wide.
fn start(test: &TestOperator, registry: Registry) -> Working {
    let namespace = test.cluster.namespace();
    let operator = Operator::new(registry).name(namespace);
    Working::start(&test.cluster, operator.namespaces([namespace]))
}

/// Returns the name of a rule's policy.
fn policy(test: &TestOperator, rule: &str) -> String {
    format!("{rule}.{}.kopf.rs", test.cluster.namespace())
}

async fn there(test: &TestOperator, kind: &str, name: &str) -> Value {
    let is_there = |found: Option<&Value>| found.is_some();
    test.cluster.until("it is there", kind, name, is_there).await
}

async fn gone(test: &TestOperator, kind: &str, name: &str) {
    let is_gone = |found: Option<&Value>| found.is_none();
    test.cluster.until("it is gone", kind, name, is_gone).await;
}

fn object(group: &str, name: &str, spec: &Value) -> Value {
    let api_version = format!("{group}/v1");
    json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": name}, "spec": spec})
}

/// Returns the server's error for a request that it refuses.
async fn refusal(cluster: &TestCluster, method: &str, path: &str, body: &Value) -> Value {
    match cluster.request(method, path, Some(body)).await {
        Err(kube::Error::Api(status)) => serde_json::to_value(&*status).expect("a status is JSON"),
        other => panic!("{method} {path}: {other:?}"),
    }
}

async fn a_definition_enforces_its_rules(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::in_module(module_path!()).expect("they are in order");
    // Create an object that violates a rule before the rules exist.
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
    test.cluster.until("it has its rules", definitions, &name, has_rules).await;
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/{KIND}", test.cluster.namespace());
    let bad = object(GROUP, "much-too-long", &json!({"size": 12}));
    // A real server enforces a new definition after a short delay.
    let told = loop {
        match test.cluster.request("POST", &format!("{path}?dryRun=All"), Some(&bad)).await {
            Err(kube::Error::Api(status)) if status.code == 422 => {
                break serde_json::to_value(&*status).expect("a status is JSON");
            }
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    // The server reports all violations at once.
    let causes = told["details"]["causes"].as_array().expect("causes");
    let messages: Vec<_> = causes.iter().map(|it| it["message"].to_string()).collect();
    assert_eq!(causes.len(), 2, "{told:#}");
    let is_told = |text: &str| messages.iter().any(|it| it.contains(text));
    assert!(is_told("far above 10") && is_told("a name is short"), "{messages:?}");

    what_was_broken_before_is_let_be(&test.cluster, &path).await;
    working.stop().await;
}

/// Checks that an object that violates a rule may stay, but that a change of its violating part is refused.
async fn what_was_broken_before_is_let_be(cluster: &TestCluster, path: &str) {
    let other = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.patch(path, "old", &other).await;
    let path = format!("{path}/old");
    let less = json!({"spec": {"size": 10}});
    let told = refusal(cluster, "PATCH", &path, &less).await;
    assert_eq!(told["details"]["causes"][0]["field"], "spec.size", "{told:#}");
    assert!(told["message"].to_string().contains("it never shrinks"), "{told:#}");
    let more = json!({"spec": {"size": 12}});
    let told = refusal(cluster, "PATCH", &path, &more).await;
    assert!(told["message"].to_string().contains("far above 10"), "{told:#}");
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
    // With size limits the server accepts the rule.
    let names = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["names"];
    *names = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}});
    let with_rules = registry.definition(&crd).expect("it is JSON");
    let taken = cluster.request("POST", path, Some(&with_rules)).await;
    assert!(taken.is_ok(), "{taken:?}");
}

async fn a_definition_without_a_rule_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let rule = ValidationRule::new("rises", "self.spec.size >= oldSelf.spec.size");
    let registry = || Registry::new().validation_rule(test.selector(), rule.clone());
    let working = start(&test, registry());
    test.line("The validation rule `rises` is not enforced: the definition kopfexamples.").await;
    working.stop().await;
    let crd = registry().definition(&definition(&test.group)).expect("it is JSON");
    test.cluster.apply(&crd.to_string()).await;
    let told = |test: &TestOperator| {
        let lines = test.cluster.lines().all();
        lines.iter().filter(|it| it.contains("is not enforced")).count()
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
    assert_eq!(binding["spec"], json!({"policyName": second, "validationActions": ["Warn"]}));
    let before = [there(&test, POLICIES, &first).await, there(&test, POLICIES, &second).await];
    working.stop().await;

    // A correct policy is not written again, but a foreign change is reverted.
    let theirs =
        json!({"spec": {"failurePolicy": "Ignore", "variables": [{"name": "x", "expression": "1"}]}});
    test.cluster.patch(POLICIES, &second, &theirs).await;
    let working = start(&test, both());
    let is_right = |found: Option<&Value>| found.is_some_and(|it| it["spec"] == before[1]["spec"]);
    test.cluster.until("it is put right", POLICIES, &second, is_right).await;
    working.stop().await;
    let after = there(&test, POLICIES, &first).await;
    assert_eq!(after["metadata"]["generation"], before[0]["metadata"]["generation"]);

    // One rule is removed.
    let theirs = policy(&test, "theirs");
    let foreign = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": theirs}, "spec": {"policyName": "nothing", "validationActions": ["Deny"]},
    });
    test.cluster.create(&foreign).await;
    let working = start(&test, Registry::new().validation_rule(test.selector(), rule("first", "other")));
    let is_changed =
        |found: Option<&Value>| found.is_some_and(|it| it["spec"]["validations"][0]["message"] == "other");
    test.cluster.until("it has the other message", POLICIES, &first, is_changed).await;
    gone(&test, BINDINGS, &second).await;
    gone(&test, POLICIES, &second).await;
    working.stop().await;
    assert!(test.cluster.get(BINDINGS, &theirs).await.is_some());
    assert!(test.cluster.get(BINDINGS, &first).await.is_some());
    // Clean up, because other tests share the server.
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
    let working = start(&test, Registry::new().validation_rule(test.selector(), rule));
    test.line("The validation rule `mine` is not enforced: ValidatingAdmissionPolicy mine.").await;
    working.stop().await;
    assert_eq!(test.cluster.get(POLICIES, &name).await, Some(theirs));
    assert_eq!(test.cluster.get(BINDINGS, &name).await, None);
}

async fn policies_of_kinds_that_are_not_served_list_who_would_write_them(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (name, namespace) = (policy(&test, "later"), test.cluster.namespace());
    let list = format!("{namespace}.kopf.rs/instances");
    let former = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {
            "name": name, "labels": {format!("{namespace}.kopf.rs/rule"): "true"}, "annotations": {&list: "{}"},
        },
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    test.cluster.create(&former).await;
    let later = ValidationRule::new("later", "request.userInfo.username != 'nobody'");
    let registry = Registry::new().validation_rule("nothings.v1.not-served.example.com", later);
    let working = start(&test, registry);
    let is_listed =
        |found: Option<&Value>| found.is_some_and(|it| it["metadata"]["annotations"][&list] != "{}");
    test.cluster.until("it is listed", BINDINGS, &name, is_listed).await;
    working.stop().await;
    let left = there(&test, BINDINGS, &name).await;
    assert_eq!(left["metadata"]["annotations"][&list], "{}");
}

/// Tries to create an object until the server denies it, because policies take effect with a short delay.
async fn denied(test: &TestOperator, name: &str, spec: &Value, labels: &Value) -> Value {
    let mut object = object(&test.group, name, spec);
    object["metadata"]["labels"] = labels.clone();
    let namespace = test.cluster.namespace();
    let path = format!("/apis/{}/v1/namespaces/{namespace}/{KIND}?dryRun=All", test.group);
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
    let labelled = ValidationRule::new("labelled", "has(self.metadata.labels)").message("it needs a label");
    let named = ValidationRule::new("named", "request.name == 'a' && self.spec.size > 0");
    let registry =
        Registry::new().validation_rule(test.selector(), labelled).validation_rule(test.selector(), named);
    let working = start(&test, registry);
    let name = policy(&test, "labelled");
    let told = denied(&test, "a", &json!({"size": 1}), &Value::Null).await;
    let message =
        format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: it needs a label");
    assert!(told["message"].as_str().is_some_and(|it| it.ends_with(&message)), "{told:#}");
    assert_eq!((&told["code"], &told["reason"]), (&json!(422), &json!("Invalid")));
    let told = denied(&test, "b", &json!({"size": 1}), &json!({"a": "b"})).await;
    let message = "denied request: failed expression: request.name == 'a' && object.spec.size > 0";
    assert!(told["message"].as_str().is_some_and(|it| it.ends_with(message)), "{told:#}");
    // An expression with a runtime error denies the request, too.
    let told = denied(&test, "a", &json!({}), &json!({"a": "b"})).await;
    assert!(told["message"].as_str().is_some_and(|it| it.contains("no such key: size")), "{told:#}");
    working.stop().await;
    for rule in ["labelled", "named"] {
        test.cluster.delete(BINDINGS, &policy(&test, rule)).await;
        test.cluster.delete(POLICIES, &policy(&test, rule)).await;
    }
}

async fn policies_that_may_not_be_written_are_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let refusal = server.fault(kopf_rs_apiserver::Fault::answer(403).plural("validatingadmissionpolicies"));
    let rule = ValidationRule::new("labelled", "has(self.metadata.labels)");
    let working = start(&test, Registry::new().validation_rule(test.selector(), rule));
    test.line("The policies of validation rules cannot be written; will retry in").await;
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
    let [first, second] = ["first", "second"].map(|id| ValidationRule::new(id, "has(self.metadata.labels)"));
    let registry =
        Registry::new().validation_rule(test.selector(), first).validation_rule(test.selector(), second);
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

/// Returns a Pod, and a Deployment with one replica.
fn workloads() -> [Value; 2] {
    let spec = json!({"containers": [{"name": "main", "image": "none"}]});
    let labels = json!({"app": "one"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    [pod, deployment]
}

async fn a_policy_covers_all_ways_to_change_an_object(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    for object in workloads() {
        test.cluster.create(&object).await;
    }
    let few = ValidationRule::new("few", "self.spec.replicas <= 3").message("at most three");
    let bare = "!has(self.spec.ephemeralContainers)";
    let bare = ValidationRule::new("bare", bare).message("nobody looks into it");
    let registry =
        Registry::new().validation_rule("deployments.v1.apps", few).validation_rule("pods.v1", bare);
    let working = start(&test, registry);
    for rule in ["few", "bare"] {
        there(&test, BINDINGS, &policy(&test, rule)).await;
    }
    let namespace = test.cluster.namespace();
    let scale = format!("/apis/apps/v1/namespaces/{namespace}/deployments/one/scale?dryRun=All");
    let scaled = |replicas: u32| json!({"spec": {"replicas": replicas}});
    let debug = format!("/api/v1/namespaces/{namespace}/pods/one/ephemeralcontainers?dryRun=All");
    let debugged = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}});
    let refused = async |path: &str, merge: &Value| {
        let patience = test.cluster.server().patience();
        let refused = async {
            loop {
                match test.cluster.request("PATCH", path, Some(merge)).await {
                    Err(error) => return error.to_string(),
                    Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                }
            }
        };
        let refused = tokio::time::timeout(patience, refused).await;
        refused.expect("the policy counts soon")
    };
    let why = refused(&scale, &scaled(4)).await;
    assert!(why.contains("at most three"), "{why}");
    let why = refused(&debug, &debugged).await;
    assert!(why.contains("nobody looks into it"), "{why}");
    // The API server omits zero replicas from the reviewed object.
    for replicas in [0, 3] {
        let merge = scaled(replicas);
        let taken = test.cluster.request("PATCH", &scale, Some(&merge));
        taken.await.expect("it is few");
    }
    working.stop().await;
    for rule in ["few", "bare"] {
        for kind in [BINDINGS, POLICIES] {
            test.cluster.delete(kind, &policy(&test, rule)).await;
        }
    }
}

async fn a_policy_about_metadata_blocks_no_status_update(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let [pod, _] = workloads();
    test.cluster.create(&pod).await;
    let team = "has(self.metadata.labels) && 'team' in self.metadata.labels";
    let team = ValidationRule::new("team", team).message("it belongs to a team");
    let working = start(&test, Registry::new().validation_rule("pods.v1", team));
    let rule = policy(&test, "team");
    there(&test, BINDINGS, &rule).await;
    let namespace = test.cluster.namespace();
    let path = format!("/api/v1/namespaces/{namespace}/pods/one/status?dryRun=All");
    let told = |labels: Value| json!({"metadata": {"labels": labels}, "status": {"message": "it runs"}});
    let refused = async {
        let merge = told(json!({"app": "one"}));
        loop {
            match test.cluster.request("PATCH", &path, Some(&merge)).await {
                Err(error) => return error.to_string(),
                Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    };
    let refused = tokio::time::timeout(test.cluster.server().patience(), refused).await;
    let why = refused.expect("the policy counts soon");
    assert!(why.contains("it belongs to a team"), "{why}");
    for labels in [json!({}), json!({"team": "a"})] {
        let merge = told(labels);
        let taken = test.cluster.request("PATCH", &path, Some(&merge));
        taken.await.expect("it breaks no rule with its status");
    }
    working.stop().await;
    for kind in [BINDINGS, POLICIES] {
        test.cluster.delete(kind, &rule).await;
    }
}
