//! Storage migration: objects that are stored in a former version are written again, and the definition says so.

use std::time::Duration;

use kopf_rs::{Registry, Settings, handler};
use kopf_rs_apiserver::Fault;
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::converting::{DEFINITIONS, collection, create, definition, registry, serve};
use super::{operator, settings};
use crate::operating::{TestOperator, Working};

scenarios! {
    objects_are_written_again_once [tcp real];
    objects_are_handled_only_as_converted [tcp];
    a_killed_migration_ends_as_any_other [tcp];
    an_object_that_cannot_be_written_keeps_the_version [tcp real];
    the_cluster_is_left_alone_where_it_migrates_by_itself [tcp];
    no_definition_is_written_unless_managed [tcp];
}

fn migrating(test: &TestOperator) -> Settings {
    let mut settings = settings(test);
    settings.admission.propagation = Duration::from_millis(200);
    settings.admission.storage_migration = true;
    settings.admission.migration_rate = 100;
    settings
}

/// So many objects that are stored in the old version, and the new one is to be the stored one.
async fn old_objects(cluster: TestCluster, count: usize) -> TestOperator {
    let test = serve(cluster, "v1alpha1").await;
    for number in 0..count {
        let spec = json!({"address": format!("host:{}", number + 1), "size": number});
        create(&test, "v1alpha1", &format!("n{number:03}"), spec).await;
    }
    let versions = definition(&test, "v1")["spec"]["versions"].clone();
    let merge = json!({"spec": {"versions": versions}});
    test.cluster.patch(DEFINITIONS, &test.kind(), &merge).await;
    assert_eq!(stored_versions(&test).await, ["v1alpha1", "v1"]);
    test
}

async fn stored_versions(test: &TestOperator) -> Vec<String> {
    let found = test.cluster.get(DEFINITIONS, &test.kind()).await;
    let found = found.expect("the definition is there");
    let versions = found["status"]["storedVersions"].as_array();
    let versions = versions.into_iter().flatten().filter_map(Value::as_str);
    versions.map(str::to_owned).collect()
}

async fn migrated(test: &TestOperator) {
    let is_done =
        |found: Option<&Value>| found.is_some_and(|it| it["status"]["storedVersions"] == json!(["v1"]));
    let kind = test.kind();
    let until = test.cluster.until("it is migrated", DEFINITIONS, &kind, is_done);
    until.await;
}

fn start(test: &TestOperator, registry: Registry) -> Working {
    let operator = test.operator(registry).settings(migrating(test));
    Working::start(&test.cluster, operator)
}

/// The names of all objects, with their versions in the store.
async fn revisions(test: &TestOperator) -> Vec<(String, String)> {
    let listed = super::converting::ask(test, "GET", &collection(test, "v1"), None).await;
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = listed["items"].as_array().expect("items").iter();
    let revisions = items.map(|it| {
        let metadata = &it["metadata"];
        (string(&metadata["name"]), string(&metadata["resourceVersion"]))
    });
    revisions.collect()
}

async fn objects_are_written_again_once(cluster: TestCluster) {
    let test = old_objects(cluster, 40).await;
    let registry = registry(&test)
        .on_create(test.selector(), test.noting("created"))
        .on_update(test.selector(), test.noting("updated"));
    let begun = tokio::time::Instant::now();
    let working = start(&test, registry);
    migrated(&test).await;
    assert!(begun.elapsed() > Duration::from_millis(590), "{:?}", begun.elapsed());
    let told = test.line("Storage migration of").await;
    assert!(told.contains("objects may be stored as v1alpha1"), "{told}");
    test.line("done; 40 objects were looked at").await;
    // Each was handled as what the operator has found at its start, and as nothing else.
    let calls = test.calls.until(40).await;
    assert!(calls.iter().all(|it| it.starts_with("created ")), "{calls:?}");
    working.stop().await;
    assert_eq!(test.calls.all().len(), 40);
    let path = format!("{}/n007", collection(&test, "v1alpha1"));
    let again = start(&test, super::converting::registry(&test));
    let old = super::converting::ask(&test, "GET", &path, None).await;
    assert_eq!(old["spec"], json!({"address": "host:8", "size": 7}));
    again.stop().await;
}

/// Otherwise a handler would see the content of the stored version, and then the conversion as a change.
async fn objects_are_handled_only_as_converted(cluster: TestCluster) {
    let test = old_objects(cluster, 3).await;
    let server = test.cluster.in_process().expect("this server is in the process");
    let slow = server.fault(Fault::delay(Duration::from_secs(1)).method("PATCH").plural(DEFINITIONS));
    let handlers = super::converting::registry(&test).on_create(test.selector(), test.noting("created"));
    let working = Working::start(&test.cluster, operator(&test, handlers));
    test.calls.until(1).await;
    assert!(slow.hits() > 0);
    let found = test.cluster.get(DEFINITIONS, &test.kind()).await.expect("the definition is there");
    assert_eq!(found["spec"]["conversion"]["strategy"], "Webhook");
    working.stop().await;
}

async fn a_killed_migration_ends_as_any_other(cluster: TestCluster) {
    let test = old_objects(cluster, 30).await;
    // All operators here have the same process id, so one that got the port of a killed one would count as the same instance.
    let mut ports = Vec::new();
    for kill_after in [3, 11, 19] {
        let working = start(&test, registry(&test));
        let rewritten = || {
            let asked = test.cluster.asked();
            asked.iter().filter(|it| it.verb == "patch" && it.path.contains("/kopfexamples/")).count()
        };
        let before = rewritten();
        let enough = async {
            while rewritten() < before + kill_after {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let enough = tokio::time::timeout(test.cluster.server().patience(), enough).await;
        assert!(enough.is_ok(), "{} of {kill_after} objects are written", rewritten() - before);
        let told = test.cluster.lines().all();
        let told = told.iter().rev().find_map(|it| it.split_once("are served at port "));
        let port = told.and_then(|(_, tail)| tail.split_once(',')).map(|(port, _)| port.parse::<u16>());
        let port = port.expect("a line names the port").expect("a number");
        working.kill().await;
        ports.extend(std::net::TcpListener::bind(("0.0.0.0", port)));
        assert_eq!(stored_versions(&test).await, ["v1alpha1", "v1"]);
    }
    let working = start(&test, registry(&test));
    migrated(&test).await;
    let done = revisions(&test).await;
    working.stop().await;
    // What is done is not written again.
    let merge = json!({"status": {"storedVersions": ["v1alpha1", "v1"]}});
    let path = format!("/apis/apiextensions.k8s.io/v1/{DEFINITIONS}/{}/status", test.kind());
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(merge.to_string().into_bytes())
        .expect("a valid request");
    let patched = test.cluster.client().request::<Value>(request).await;
    patched.expect("the status can be written");
    let working = start(&test, registry(&test));
    migrated(&test).await;
    assert_eq!(revisions(&test).await, done);
    working.stop().await;
}

async fn an_object_that_cannot_be_written_keeps_the_version(cluster: TestCluster) {
    let test = old_objects(cluster, 5).await;
    let refusing = handler("refusing", |context: kopf_rs::Context| async move {
        if context.name() == "n003" {
            return Err(kopf_rs::AdmissionError::new("hands off").code(422).into());
        }
        Ok(())
    });
    let registry = registry(&test).on_validate(test.selector(), refusing.ignore_failures(false));
    let mut slow = migrating(&test);
    // The webhook has to be there first.
    slow.admission.propagation = Duration::from_secs(3);
    let working = Working::start(&test.cluster, test.operator(registry).settings(slow));
    let line = format!("{}/n003 cannot be written: ", test.cluster.namespace());
    let told = test.line(&line).await;
    assert!(told.contains("hands off"), "{told}");
    test.line("1 objects cannot be written, so status.storedVersions stays").await;
    assert_eq!(stored_versions(&test).await, ["v1alpha1", "v1"]);
    working.stop().await;
}

async fn the_cluster_is_left_alone_where_it_migrates_by_itself(cluster: TestCluster) {
    let test = old_objects(cluster, 3).await;
    let before = {
        let working = Working::start(&test.cluster, operator(&test, registry(&test)));
        let before = revisions(&test).await;
        working.stop().await;
        before
    };
    let condition = json!({"type": "StorageMigrating", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions =
        test.cluster.get(DEFINITIONS, &test.kind()).await.expect("it is there")["status"]["conditions"]
            .clone();
    conditions.as_array_mut().expect("a list").push(condition);
    let merge = json!({"status": {"conditions": conditions}});
    let path = format!("/apis/apiextensions.k8s.io/v1/{DEFINITIONS}/{}/status", test.kind());
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(merge.to_string().into_bytes())
        .expect("a valid request");
    let patched = test.cluster.client().request::<Value>(request).await;
    patched.expect("the status can be written");
    let working = start(&test, registry(&test));
    test.line("it is left to the cluster").await;
    assert_eq!(stored_versions(&test).await, ["v1alpha1", "v1"]);
    assert_eq!(revisions(&test).await, before);
    working.stop().await;
}

async fn no_definition_is_written_unless_managed(cluster: TestCluster) {
    let test = old_objects(cluster, 3).await;
    let working = Working::start(&test.cluster, operator(&test, registry(&test)));
    let before = revisions(&test).await;
    test.create("late", json!({"host": "h", "port": 1})).await;
    let after = revisions(&test).await;
    assert!(before.iter().all(|it| after.contains(it)), "{before:?} {after:?}");
    assert_eq!(stored_versions(&test).await, ["v1alpha1", "v1"]);
    working.stop().await;
}
