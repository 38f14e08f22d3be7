//! Conversion between versions: the API server calls the operator whenever it shows or stores an object in another version.

use std::time::Duration;

use kopf_rs::{Conversion, HandlerResult, PermanentError, Registry, conversion, handler};
use kopf_rs_apiserver::Fault;
use kopf_rs_tests::{TestCluster, scenarios};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::releases::in_cluster;
use super::{operator, settings};
use crate::health::{self, port_in};
use crate::operating::{KIND, TestOperator, Working, definition_of_versions};

scenarios! {
    objects_are_shown_in_each_version;
    a_definition_that_others_write_is_corrected [tcp real];
    one_bad_object_fails_no_listing [tcp real];
    versions_of_a_newer_release_keep_no_other_from_being_converted [tcp real];
    certificates_are_replaced_while_objects_are_converted [tcp real];
    objects_are_applied_in_both_versions [tcp real];
    an_operator_starts_on_objects_of_the_old_version [tcp real];
    a_correct_definition_is_not_written [tcp];
    an_endpoint_is_ready_for_conversions_that_its_own_listing_waits_for [tcp];
}

pub(super) const DEFINITIONS: &str = "customresourcedefinitions";

#[derive(Serialize, Deserialize)]
struct Old {
    address: String,
}

#[derive(Serialize, Deserialize)]
struct New {
    host: String,
    port: u16,
}

fn up() -> Conversion {
    conversion("up", |old: Old| {
        let parts = old.address.split_once(':');
        let (host, port) = parts.ok_or_else(|| PermanentError::new("there is no port"))?;
        Ok(New { host: host.to_owned(), port: port.parse()? })
    })
}

fn down() -> Conversion {
    conversion("down", |new: New| Ok(Old { address: format!("{}:{}", new.host, new.port) }))
}

pub(super) fn registry(test: &TestOperator) -> Registry {
    let of = |version| (test.group.as_str(), version, KIND);
    Registry::new().on_convert(of("v1alpha1"), of("v1"), up()).on_convert(of("v1"), of("v1alpha1"), down())
}

/// Returns a definition of both versions, each with different fields; `stored` names the storage version.
pub(super) fn definition(test: &TestOperator, stored: &str) -> Value {
    let versions = ["v1", "v1alpha1"].map(|name| (name, true, name == stored));
    let mut definition = definition_of_versions(&test.group, &versions);
    let string = json!({"type": "string"});
    let fields = [
        json!({"host": string, "port": {"type": "integer"}, "note": string}),
        json!({"address": string, "size": {"type": "integer"}}),
    ];
    for (number, fields) in fields.into_iter().enumerate() {
        let schema = &mut definition["spec"]["versions"][number]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"type": "object", "properties": fields});
    }
    definition
}

pub(super) async fn serve(cluster: TestCluster, stored: &str) -> TestOperator {
    let test = TestOperator::bare(cluster);
    let definition = definition(&test, stored);
    test.cluster.apply(&definition.to_string()).await;
    test
}

/// Starts an operator, and waits until the API server calls it for conversions: until then, it removes the fields that the stored version
/// lacks.
pub(super) async fn start(test: &TestOperator, registry: Registry) -> Working {
    let working = Working::start(&test.cluster, operator(test, registry));
    converted_by_webhook(test).await;
    for (version, spec) in
        [("v1alpha1", json!({"address": "host:80"})), ("v1", json!({"host": "host", "port": 80}))]
    {
        let path = format!("{}?dryRun=All", collection(test, version));
        let probe = object(test, version, "probe", &spec);
        let converted = async { while ask(test, "POST", &path, Some(&probe)).await["spec"] != spec {} };
        let waited = tokio::time::timeout(test.cluster.server().patience(), converted).await;
        waited.expect("the conversion takes effect");
    }
    working
}

pub(super) async fn converted_by_webhook(test: &TestOperator) -> Value {
    let converts =
        |found: Option<&Value>| found.is_some_and(|it| it["spec"]["conversion"]["strategy"] == "Webhook");
    let kind = test.kind();
    let until = test.cluster.until("it is converted", DEFINITIONS, &kind, converts);
    until.await["spec"]["conversion"].clone()
}

pub(super) fn collection(test: &TestOperator, version: &str) -> String {
    let namespace = test.cluster.namespace();
    format!("/apis/{}/{version}/namespaces/{namespace}/{KIND}", test.group)
}

pub(super) fn object(test: &TestOperator, version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", test.group), "kind": "KopfExample", "metadata": {"name": name}, "spec": spec,
    })
}

/// Repeats a request until it succeeds, because a changed definition takes effect with a short delay.
pub(super) async fn ask(test: &TestOperator, method: &str, path: &str, body: Option<&Value>) -> Value {
    let mut last = String::new();
    let asked = async {
        loop {
            match test.cluster.request(method, path, body).await {
                Ok(answer) => return answer,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let asked = tokio::time::timeout(test.cluster.server().patience(), asked).await;
    asked.unwrap_or_else(|_| panic!("{method} {path}: {last}"))
}

pub(super) async fn create(test: &TestOperator, version: &str, name: &str, spec: Value) -> Value {
    let object = object(test, version, name, &spec);
    ask(test, "POST", &collection(test, version), Some(&object)).await
}

pub(super) async fn get(test: &TestOperator, version: &str, name: &str) -> Value {
    let path = format!("{}/{name}", collection(test, version));
    ask(test, "GET", &path, None).await
}

async fn objects_are_shown_in_each_version(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    let old = json!({"address": "host:80", "size": 7});
    let made = create(&test, "v1alpha1", "old", old.clone()).await;
    assert_eq!(made["spec"], old);
    create(&test, "v1", "new", json!({"host": "other", "port": 81, "note": "n"})).await;

    let seen = get(&test, "v1", "old").await;
    assert_eq!(seen["spec"], json!({"host": "host", "port": 80}));
    assert!(seen["metadata"]["annotations"]["conversion.kopf.rs/v1alpha1"].is_string());
    let seen = get(&test, "v1alpha1", "old").await;
    assert_eq!(seen["spec"], old);
    assert!(seen["metadata"].get("annotations").is_none(), "{seen}");
    let listed = ask(&test, "GET", &collection(&test, "v1alpha1"), None).await;
    let listed: Vec<_> = listed["items"].as_array().expect("items").iter().collect();
    let specs: Vec<_> = listed.iter().map(|it| &it["spec"]).collect();
    assert_eq!(specs, [&json!({"address": "other:81"}), &old]);

    // A change in one version shows in the other one, and the rest stays.
    let merge = json!({"spec": {"port": 90}});
    test.cluster.patch(&test.kind(), "old", &merge).await;
    let seen = get(&test, "v1alpha1", "old").await;
    assert_eq!(seen["spec"], json!({"address": "host:90", "size": 7}));
    let path = format!("{}/new", collection(&test, "v1alpha1"));
    let mut other = get(&test, "v1alpha1", "new").await;
    other["spec"]["address"] = json!("third:1");
    ask(&test, "PUT", &path, Some(&other)).await;
    let seen = get(&test, "v1", "new").await;
    assert_eq!(seen["spec"], json!({"host": "third", "port": 1, "note": "n"}));
    assert!(seen["metadata"].get("annotations").is_none(), "{seen}");
    working.stop().await;
}

async fn a_definition_that_others_write_is_corrected(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    let wanted = converted_by_webhook(&test).await;
    let url = wanted["webhook"]["clientConfig"]["url"].as_str().expect("a URL");
    assert!(url.ends_with(&format!("/convert/{}", test.kind())), "{url}");
    let kind = test.kind();
    let is_right = |found: Option<&Value>| found.is_some_and(|it| it["spec"]["conversion"] == wanted);
    for reset in 0..5 {
        let spoiled = match reset % 2 {
            0 => json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}),
            _ => json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}}),
        };
        test.cluster.patch(DEFINITIONS, &kind, &spoiled).await;
        let until = test.cluster.until("it is right", DEFINITIONS, &kind, is_right);
        until.await;
    }
    create(&test, "v1alpha1", "old", json!({"address": "host:80"})).await;
    let told = test.cluster.lines();
    let line = format!("CustomResourceDefinition {kind} is written");
    assert_eq!(told.count(|it| it.contains(&line)), 6);
    // The conversion webhook stays after the operator ends, because objects still need conversions.
    working.stop().await;
    assert_eq!(converted_by_webhook(&test).await, wanted);
}

async fn one_bad_object_fails_no_listing(cluster: TestCluster) {
    let test = serve(cluster, "v1alpha1").await;
    let working = start(&test, registry(&test)).await;
    create(&test, "v1alpha1", "bad", json!({"address": "nowhere"})).await;
    create(&test, "v1alpha1", "good", json!({"address": "host:80"})).await;
    let listed = ask(&test, "GET", &collection(&test, "v1"), None).await;
    let listed = listed["items"].as_array().expect("items");
    let specs: Vec<_> = listed.iter().map(|it| it["spec"].clone()).collect();
    assert_eq!(specs, [json!({}), json!({"host": "host", "port": 80})]);
    let line = format!("The object cannot be converted to {}/v1", test.group);
    let told = test.line(&line).await;
    assert!(told.contains("`up` has failed: there is no port"), "{told}");
    let path = format!("{}/bad", collection(&test, "v1"));
    ask(&test, "DELETE", &path, None).await;
    working.stop().await;
}

async fn versions_of_a_newer_release_keep_no_other_from_being_converted(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let versions = [("v1", true, true), ("v1alpha1", true, false), ("v2", true, false)];
    let definition = definition_of_versions(&test.group, &versions);
    test.cluster.apply(&definition.to_string()).await;
    // As after a rollback: the newer release has added v2.
    let working = Working::start(&test.cluster, operator(&test, registry(&test)));
    let why = test.line("has a version that this release").await;
    let expected = "cannot be converted from v1 to v2, nor from v1alpha1 to v2, nor from v2 to v1, nor from v2 to v1alpha1";
    assert!(why.contains(expected), "{why}");
    converted_by_webhook(&test).await;
    create(&test, "v1", "one", json!({"host": "h", "port": 1})).await;
    let old = get(&test, "v1alpha1", "one").await;
    assert_eq!(old["spec"], json!({"address": "h:1"}));
    working.stop().await;
}

async fn certificates_are_replaced_while_objects_are_converted(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let mut short = settings(&test);
    // A busy API server notices a changed definition late.
    short.admission.propagation = Duration::from_secs(3);
    short.admission.certificate_life = Duration::from_secs(15);
    let registry = registry(&test).on_event(test.selector(), test.noting("seen"));
    let working = Working::start(&test.cluster, test.operator(registry).settings(short));
    converted_by_webhook(&test).await;
    create(&test, "v1", "one", json!({"host": "h", "port": 1})).await;
    get(&test, "v1alpha1", "one").await;
    let lines = test.cluster.lines();
    let path = format!("{}/one", collection(&test, "v1alpha1"));
    let mut count = 0;
    while lines.count(|it| it.contains("Certificate number 4 is served")) == 0 {
        let read = test.cluster.request("GET", &path, None).await;
        read.unwrap_or_else(|error| panic!("read {count}: {error}"));
        count += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(count > 30, "{count}");
    let line = format!("CustomResourceDefinition {} is written", test.kind());
    // The first write, and one for each generation.
    let written = lines.count(|it| it.contains(&line));
    assert!((4..=5).contains(&written), "{written}");
    working.stop().await;
}

async fn objects_are_applied_in_both_versions(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    let path = |version: &str, manager: &str| {
        let collection = collection(&test, version);
        format!("{collection}/one?fieldManager={manager}&force=true")
    };
    let old = object(&test, "v1alpha1", "one", &json!({"address": "host:80", "size": 7}));
    apply(&test, &path("v1alpha1", "a"), &old).await;
    let labels = json!({"metadata": {"labels": {"by": "b"}}});
    test.cluster.patch(&test.kind(), "one", &labels).await;
    for round in 0..5_u16 {
        let mut new = object(&test, "v1", "one", &json!({"host": "host", "port": 81 + round}));
        apply(&test, &path("v1", "a"), &new).await;
        new["spec"] = json!({"note": format!("n{round}")});
        apply(&test, &path("v1", "c"), &new).await;
        apply(&test, &path("v1alpha1", "a"), &old).await;
        let seen = get(&test, "v1", "one").await;
        assert_eq!(seen["spec"]["port"], 80, "{seen}");
        assert_eq!(seen["spec"]["note"], format!("n{round}"), "{seen}");
        assert_eq!(seen["metadata"]["labels"], json!({"by": "b"}));
        let seen = get(&test, "v1alpha1", "one").await;
        assert_eq!(seen["spec"], old["spec"]);
    }
    working.stop().await;
}

pub(super) async fn apply(test: &TestOperator, path: &str, object: &Value) -> Value {
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes());
    let request = request.expect("a valid request");
    let applied = test.cluster.client().request::<Value>(request).await;
    applied.unwrap_or_else(|error| panic!("PATCH {path} with {object}: {error}"))
}

async fn an_operator_starts_on_objects_of_the_old_version(cluster: TestCluster) {
    let test = serve(cluster, "v1alpha1").await;
    let first = start(&test, registry(&test)).await;
    for name in ["one", "two"] {
        create(&test, "v1alpha1", name, json!({"address": "host:80"})).await;
    }
    first.stop().await;
    // The new version is the stored one now, and no operator converts.
    let definition = definition(&test, "v1");
    let versions = json!({"spec": {"versions": definition["spec"]["versions"]}});
    test.cluster.patch(DEFINITIONS, &test.kind(), &versions).await;
    let made = handler("made", |context: kopf_rs::Context| async move {
        let spec: Value = context.spec()?;
        context.patch(|patch| patch.set("status.seen", format!("{}", spec["host"])));
        HandlerResult::Ok(())
    });
    let registry = registry(&test).on_create(test.selector(), made);
    let begun = tokio::time::Instant::now();
    let second = Working::start(&test.cluster, operator(&test, registry));
    for name in ["one", "two"] {
        // The object must be converted before it can be read.
        while get(&test, "v1", name).await["status"]["seen"] != "\"host\"" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    second.stop().await;
}

/// As a Pod's Service does, the server finds the endpoint only once its readiness probe succeeds.
async fn an_endpoint_is_ready_for_conversions_that_its_own_listing_waits_for(cluster: TestCluster) {
    let test = serve(cluster, "v1alpha1").await;
    create(&test, "v1alpha1", "one", json!({"address": "host:80"})).await;
    let made = test.noting("made");
    let of_new = (test.group.as_str(), "v1", KIND);
    let registry = registry(&test).on_create(of_new, made);
    let operator = test.operator(registry).settings(in_cluster(&test));
    let operator = operator.liveness("http://127.0.0.1:0/healthz");
    let server = test.cluster.in_process().expect("a server in the process");
    // Otherwise, the operator may list before it has written that the objects are converted.
    let outage = server.fault(Fault::answer(503).plural(KIND));
    let working = Working::start(&test.cluster, operator);
    let health = port_in(&test.line("Serving health status at ").await);
    let line = test.line("Admission webhooks are served at port ").await;
    converted_by_webhook(&test).await;
    outage.clear();
    while health::get(health, "/readyz/webhooks").await.code != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let work = health::get(health, "/readyz").await;
    assert_eq!(work.code, 500, "it cannot list: {work:?}");
    let port = line.split("at port ").nth(1);
    let port = port.and_then(|it| it.split(',').next()?.parse::<u16>().ok());
    let at = ([127, 0, 0, 1], port.expect("a port")).into();
    server.place_service(test.cluster.namespace(), "hooks", at);
    test.calls_until("made one").await;
    working.stop().await;
}

async fn a_correct_definition_is_not_written(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = start(&test, registry(&test)).await;
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
    for _ in 0..3 {
        test.cluster.patch(DEFINITIONS, &test.kind(), &touched).await;
        create(&test, "v1alpha1", "old", json!({"address": "host:80"})).await;
        test.delete("old").await;
        test.until_gone("old").await;
    }
    let writes = test.cluster.writes_to(DEFINITIONS, &test.kind()).await;
    assert_eq!(writes.len(), 1, "{writes:?}");
    working.stop().await;
}
