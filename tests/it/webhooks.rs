//! Admission webhooks of operators: the API server calls them over HTTPS, and the operator itself registers them.
//!
//! Only the in-process server with sockets can call webhooks, not the in-memory one.

mod asking;
mod carrying;
mod certificates;
mod cleaning;
mod client;
mod converting;
mod endpoint;
mod guarding;
mod killing;
mod managing;
mod migrating;
mod recorded;
mod releases;
mod rolling;
mod unconverted;

use std::time::Duration;

use kopf_rs::{AdmissionError, AdmissionServer, Operation, Operator, Registry, Settings, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::health::port_in;
use crate::metrics::{OPEN, figures, scrape};
use crate::operating::{TestOperator, Working};

scenarios! {
    objects_are_denied_changed_and_warned_of [tcp real];
    the_api_server_gets_the_webhooks_of_handlers [tcp real];
    webhooks_follow_kinds_that_come_and_go [tcp real];
    foreign_changes_of_a_configuration_are_reverted [tcp real];
    unchanged_values_are_not_written [tcp];
    a_denial_is_counted_with_the_code_that_clients_see [tcp];
    only_persistent_webhooks_stay_at_the_end [tcp real];
    no_review_fails_while_the_operator_ends [tcp real];
    kubectl_shows_the_answers_of_handlers [tcp real];
    example_17_admission [tcp];
}

pub(crate) const VALIDATING: &str = "validatingwebhookconfigurations";
pub(crate) const MUTATING: &str = "mutatingwebhookconfigurations";

/// Returns the name of the webhook configurations of this test's operator.
pub(crate) fn managed(test: &TestOperator) -> String {
    format!("{}.example.com", test.cluster.namespace())
}

/// Returns settings for a local API server.
pub(crate) fn settings(test: &TestOperator) -> Settings {
    Settings::with(|settings| {
        settings.admission.server = Some(AdmissionServer::local());
        settings.admission.managed = Some(managed(test));
        settings.admission.propagation = Duration::from_millis(500);
    })
}

pub(crate) fn operator(test: &TestOperator, registry: Registry) -> Operator {
    test.operator(registry).settings(settings(test))
}

/// Starts the operator, and waits until the API server has this number of webhooks of a kind.
pub(crate) async fn start(test: &TestOperator, registry: Registry, of_kind: &str, count: usize) -> Working {
    let working = Working::start(&test.cluster, operator(test, registry));
    configured(test, of_kind, count).await;
    working
}

/// Waits until a configuration has this number of webhooks, and returns them.
pub(crate) async fn configured(test: &TestOperator, of_kind: &str, count: usize) -> Vec<Value> {
    let what = format!("{of_kind} have {count} webhooks");
    let has_them = |found: Option<&Value>| found.is_some_and(|it| hooks(it).len() == count);
    let name = managed(test);
    let found = test.cluster.until(&what, of_kind, &name, has_them).await;
    hooks(&found)
}

pub(crate) fn hooks(configuration: &Value) -> Vec<Value> {
    let hooks = configuration["webhooks"].as_array();
    hooks.cloned().unwrap_or_default()
}

/// Returns the path for creations of the test's kind, and an object of that kind.
pub(crate) fn object(test: &TestOperator, name: &str, spec: &Value) -> (String, Value) {
    let namespace = test.cluster.namespace();
    let path = format!("/apis/{}/v1/namespaces/{namespace}/kopfexamples", test.group);
    let api_version = format!("{}/v1", test.group);
    let object = json!({
        "apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": name}, "spec": spec,
    });
    (path, object)
}

/// Tries to create an object until the server refuses it, because webhooks take effect with a short delay.
pub(crate) async fn refusal(test: &TestOperator, spec: &Value) -> Value {
    let (path, object) = object(test, "refused", spec);
    let path = format!("{path}?dryRun=All");
    let refused = async {
        loop {
            match test.cluster.request("POST", &path, Some(&object)).await {
                // A real server refuses requests while it changes the storage of a definition.
                Err(kube::Error::Api(status)) if status.message == "apiserver is shutting down" => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                Err(kube::Error::Api(status)) => {
                    return serde_json::to_value(&*status).expect("a status is JSON");
                }
                Err(error) => panic!("POST {path}: {error}"),
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let refused = tokio::time::timeout(test.cluster.server().patience(), refused).await;
    refused.expect("the webhook counts soon")
}

/// Tries to create an object until the stored object satisfies `condition`.
async fn stored(test: &TestOperator, spec: &Value, condition: impl Fn(&Value) -> bool) -> Value {
    let (path, object) = object(test, "stored", spec);
    let path = format!("{path}?dryRun=All");
    let stored = async {
        loop {
            let stored = test.cluster.request("POST", &path, Some(&object)).await;
            let stored = stored.unwrap_or_else(|error| panic!("POST {path}: {error}"));
            if condition(&stored) {
                return stored;
            }
            tokio::task::yield_now().await;
        }
    };
    let stored = tokio::time::timeout(test.cluster.server().patience(), stored).await;
    stored.expect("the webhook counts soon")
}

/// A handler that denies objects with a size over 100.
pub(crate) fn denying() -> kopf_rs::Callback {
    handler("not_too_large", |context: kopf_rs::Context| async move {
        let spec: Value = context.spec()?;
        let size = spec["size"].as_i64().unwrap_or_default();
        if size > 100 {
            return Err(AdmissionError::new("the size must be at most 100").code(422).into());
        }
        Ok(())
    })
}

fn changing() -> kopf_rs::Callback {
    handler("with_colour", |context: kopf_rs::Context| async move {
        let spec: Value = context.spec()?;
        if spec["colour"].is_null() {
            context.patch(|patch| patch["spec"]["colour"] = json!("blue"));
        }
        context.warnings().push("blue is the only colour");
        Ok(())
    })
}

async fn a_denial_is_counted_with_the_code_that_clients_see(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let operator = operator(&test, registry).metrics("127.0.0.1:0");
    let working = Working::start(&test.cluster, operator);
    let port = port_in(&test.line("Serving metrics at ").await);
    configured(&test, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    let scraped = figures(&scrape(port, OPEN).await.text);
    let is_denial = |(series, count): &(&String, &String)| {
        let is_of_requests = series.starts_with("kopf_rs_webhook_requests_total");
        is_of_requests && series.contains(r#"allowed="false""#) && *count != "0"
    };
    let denials: Vec<_> = scraped.iter().filter(is_denial).collect();
    assert_eq!(denials.len(), 1, "{denials:?}");
    assert!(denials[0].0.contains(r#"code="422""#), "{denials:?}");
    working.stop().await;
}

async fn objects_are_denied_changed_and_warned_of(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().on_validate(test.selector(), denying()).on_mutate(test.selector(), changing());
    let working = start(&test, registry, VALIDATING, 1).await;
    let refused = refusal(&test, &json!({"size": 101})).await;
    let name = format!("not-too-large.{}", managed(&test));
    assert_eq!(refused["code"], 422, "{refused}");
    assert_eq!(
        refused["message"],
        format!("admission webhook \"{name}\" denied the request: the size must be at most 100")
    );
    let is_blue = |stored: &Value| stored["spec"]["colour"] == "blue";
    stored(&test, &json!({"size": 1}), is_blue).await;
    let green = stored(&test, &json!({"colour": "green"}), |_| true).await;
    assert_eq!(green["spec"]["colour"], "green");
    working.stop().await;
}

async fn the_api_server_gets_the_webhooks_of_handlers(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let validating = denying()
        .operations([Operation::Create])
        .label("app", kopf_rs::PRESENT)
        .ignore_failures(true)
        .timeout(3);
    let registry = Registry::new()
        .on_validate(test.selector(), validating)
        .on_mutate(test.selector(), changing().side_effects());
    let working = start(&test, registry, VALIDATING, 1).await;
    let hook = &configured(&test, VALIDATING, 1).await[0];
    let rule = json!([{
        "apiGroups": [test.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["kopfexamples"], "scope": "*",
    }]);
    assert_eq!(hook["rules"], rule);
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["timeoutSeconds"], 3);
    assert_eq!(hook["sideEffects"], "None");
    let labels = json!([{"key": "app", "operator": "Exists"}]);
    assert_eq!(hook["objectSelector"]["matchExpressions"], labels);
    let namespaces = &hook["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(namespaces["operator"], "In");
    assert_eq!(namespaces["values"], json!([test.cluster.namespace()]));
    let url = hook["clientConfig"]["url"].as_str().expect("a URL");
    assert!(url.ends_with("/validate/not-too-large"), "{url}");
    let hook = &configured(&test, MUTATING, 1).await[0];
    assert_eq!(hook["sideEffects"], "NoneOnDryRun");
    assert_eq!(hook["reinvocationPolicy"], "IfNeeded");
    assert_eq!(hook["timeoutSeconds"], 5);
    working.stop().await;
}

async fn webhooks_follow_kinds_that_come_and_go(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = Working::start(&test.cluster, operator(&test, registry));
    test.line("Unresolved resources").await;
    for _ in 0..2 {
        test.serve().await;
        configured(&test, VALIDATING, 1).await;
        refusal(&test, &json!({"size": 101})).await;
        let definitions = "customresourcedefinitions";
        test.cluster.delete(definitions, &test.kind()).await;
        let gone = |found: Option<&Value>| found.is_none();
        let kind = test.kind();
        let until = test.cluster.until("it is gone", definitions, &kind, gone);
        until.await;
        configured(&test, VALIDATING, 0).await;
    }
    working.stop().await;
}

async fn foreign_changes_of_a_configuration_are_reverted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let wanted = configured(&test, VALIDATING, 1).await;
    let name = managed(&test);
    let emptied = json!({"webhooks": []});
    test.cluster.patch(VALIDATING, &name, &emptied).await;
    assert_eq!(configured(&test, VALIDATING, 1).await, wanted);
    let mut other = wanted.clone();
    other[0]["failurePolicy"] = json!("Fail");
    other[0]["clientConfig"]["caBundle"] = Value::Null;
    let other = json!({"webhooks": other});
    test.cluster.patch(VALIDATING, &name, &other).await;
    let is_right = |found: Option<&Value>| found.is_some_and(|it| hooks(it) == wanted);
    let until = test.cluster.until("it is right", VALIDATING, &name, is_right);
    until.await;
    test.cluster.delete(VALIDATING, &name).await;
    assert_eq!(configured(&test, VALIDATING, 1).await, wanted);
    refusal(&test, &json!({"size": 101})).await;
    working.stop().await;
}

async fn unchanged_values_are_not_written(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    // A kind without handlers: discovery changes, but the webhook configuration must not.
    let mut other = crate::operating::definition(&format!("other.{}", test.group));
    other["spec"]["names"]["shortNames"] = json!([]);
    test.cluster.apply(&other.to_string()).await;
    let name = managed(&test);
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
    test.cluster.patch(VALIDATING, &name, &touched).await;
    refusal(&test, &json!({"size": 101})).await;
    let writes = test.cluster.writes_to(VALIDATING, &name).await;
    let own = writes.iter().filter(|it| it.verb != "create");
    assert_eq!(own.count(), 0, "{writes:?}");
    working.stop().await;
}

async fn only_persistent_webhooks_stay_at_the_end(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let staying = handler("staying", |_| async { Ok(()) }).persistent();
    let registry =
        Registry::new().on_validate(test.selector(), denying()).on_validate(test.selector(), staying);
    let working = start(&test, registry, VALIDATING, 2).await;
    // An operator outside of the cluster is not restarted automatically, so only persistent webhooks get the failure policy `Fail`.
    let policies: Vec<_> = configured(&test, VALIDATING, 2).await;
    let policies: Vec<_> = policies.iter().map(|it| it["failurePolicy"].clone()).collect();
    assert_eq!(policies, ["Ignore", "Fail"]);
    refusal(&test, &json!({"size": 101})).await;
    working.stop().await;
    let left = configured(&test, VALIDATING, 1).await;
    assert_eq!(left[0]["name"], format!("staying.{}", managed(&test)));
    let refused = refusal(&test, &json!({"size": 1})).await;
    let message = refused["message"].as_str().unwrap_or_default();
    let start = format!("Internal error occurred: failed calling webhook \"staying.{}\"", managed(&test));
    assert!(message.starts_with(&start), "{message}");
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

async fn no_review_fails_while_the_operator_ends(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let refusing = denying().ignore_failures(false);
    let registry = Registry::new().on_validate(test.selector(), refusing);
    let mut slow = settings(&test);
    // Long enough for some requests even on a busy machine.
    slow.admission.propagation = Duration::from_secs(3);
    let working = Working::start(&test.cluster, test.operator(registry).settings(slow));
    configured(&test, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    let (path, small) = object(&test, "small", &json!({"size": 1}));
    let path = format!("{path}?dryRun=All");
    let mut stopping = tokio::spawn(working.stop());
    let mut count = 0;
    let stopped = loop {
        let created = test.cluster.request("POST", &path, Some(&small)).await;
        created.unwrap_or_else(|error| panic!("request {count}: {error}"));
        count += 1;
        let soon = tokio::time::timeout(Duration::from_millis(5), &mut stopping);
        if let Ok(stopped) = soon.await {
            break stopped;
        }
    };
    stopped.expect("the operator ends");
    configured(&test, VALIDATING, 0).await;
}

async fn kubectl_shows_the_answers_of_handlers(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().on_validate(test.selector(), denying()).on_mutate(test.selector(), changing());
    let working = start(&test, registry, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    stored(&test, &json!({}), |it| it["spec"]["colour"] == "blue").await;
    let folder = std::env::temp_dir().join(test.cluster.namespace());
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for (size, success, told) in [
        (1, true, "Warning: blue is the only colour"),
        (101, false, "denied the request: the size must be at most 100"),
    ] {
        let (_, object) = object(&test, &format!("of-{size}"), &json!({"size": size}));
        let file = folder.join("object.json");
        std::fs::write(&file, object.to_string()).expect("a file can be written");
        let file = file.to_string_lossy();
        let Some(output) = test.cluster.kubectl(&["create", "-f", &file]).await else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), success, "{said}");
        assert!(said.contains(told), "{said}");
    }
    assert_eq!(test.get("of-1").await["spec"]["colour"], "blue");
    working.stop().await;
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

async fn example_17_admission(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::in_module("it::kopf_examples::admission");
    let registry = registry.expect("valid handlers");
    let working = start(&test, registry, VALIDATING, 3).await;
    let refused = refusal(&test, &json!({"field": "not-allowed"})).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert_eq!(refused["code"], 555);
    assert!(message.ends_with("denied the request: not today"), "{message}");
    let (path, mut labelled) = object(&test, "labelled", &json!({"field": "value"}));
    labelled["metadata"]["labels"] = json!({"somelabel": "somevalue"});
    let stored = test.cluster.request("POST", &path, Some(&labelled)).await;
    assert_eq!(stored.expect("it is allowed")["spec"]["injected"], 123);
    working.stop().await;
}
