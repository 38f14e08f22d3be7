//! Patch functions: the changes of other writers are kept, and a faulty function affects only its own object.

use kopf_rs::storage::{AnnotationsDiffBaseStorage, StatusProgressStorage};
use kopf_rs::{Context, Persistence, Registry, Settings, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working, is_handled, last_handled};

scenarios! {
    lists_are_added_to_and_the_status_goes_along;
    a_faster_writer_is_not_overwritten [memory];
    a_function_that_panics_is_reported_and_left_out [memory];
    fields_of_the_server_stay_unchanged_and_the_object_is_deleted;
    a_function_that_changes_nothing_makes_no_write [memory];
    functions_cannot_change_the_operators_state [memory];
    functions_cannot_change_values_of_storages [memory];
}

async fn lists_are_added_to_and_the_status_goes_along(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = handler("create_fn", |cause: Context| async move {
        cause.patch(|patch| {
            patch["metadata"]["labels"]["merged"] = json!("yes");
            patch.transform(|object| {
                let seen = object["metadata"]["labels"]["merged"].clone();
                object["status"]["seen"] = seen;
                if let Some(items) = object["spec"]["items"].as_array_mut() {
                    items.push(json!("three"));
                }
            });
        });
        Ok(json!({"made": true}))
    });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("o", json!({"items": ["one", "two"]})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["spec"]["items"], json!(["one", "two", "three"]));
    assert_eq!(object["metadata"]["labels"]["merged"], "yes");
    assert_eq!(object["status"], json!({"seen": "yes", "create_fn": {"made": true}}));
    test.delete("o").await;
    test.until_gone("o").await;
    working.stop().await;
}

async fn a_faster_writer_is_not_overwritten(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let (client, path) = (
        test.cluster.client(),
        format!("/apis/{}/v1/namespaces/{}/kopfexamples/o", test.group, test.cluster.namespace()),
    );
    let create = handler("create_fn", move |cause: Context| {
        calls.note("create");
        let (client, path) = (client.clone(), path.clone());
        async move {
            cause.patch(|patch| {
                patch.transform(|object| {
                    if let Some(items) = object["spec"]["items"].as_array_mut() {
                        items.push(json!("ours"));
                    }
                });
            });
            let body = json!({"spec": {"items": ["theirs"]}}).to_string().into_bytes();
            let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
            client.request::<Value>(request.body(body)?).await?;
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("o", json!({"items": []})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["spec"]["items"], json!(["theirs", "ours"]));
    working.stop().await;
    assert_eq!(test.calls.all(), ["create"]);
}

async fn a_function_that_panics_is_reported_and_left_out(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = handler("create_fn", |cause: Context| async move {
        cause.patch(|patch| {
            patch.transform(|object| {
                object["spec"]["half"] = json!("done");
                panic!("out of ideas");
            });
            patch.transform(|object| object["spec"]["whole"] = json!("done"));
        });
        Ok(())
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("o", json!({"a": 1})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["spec"], json!({"a": 1, "whole": "done"}));
    let line = test.line("A patch function of 'create_fn' is skipped: it panicked: ").await;
    assert!(line.contains("out of ideas"), "{line}");
    working.stop().await;
}

/// A handler that tries to change the identity of the object.
fn hijacker(id: &str) -> kopf_rs::Callback {
    handler(id, |cause: Context| async move {
        cause.patch(|patch| {
            patch["metadata"]["uid"] = json!("hijacked");
            patch.transform(|object| {
                object["metadata"]["uid"] = json!("hijacked");
                object["metadata"]["resourceVersion"] = json!("1");
                object["metadata"]["labels"]["hijacked"] = json!("no");
            });
        });
        Ok(())
    })
}

async fn fields_of_the_server_stay_unchanged_and_the_object_is_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), hijacker("create_fn"))
        .on_delete(test.selector(), hijacker("delete_fn"));
    let working = test.start(registry);
    let made = test.create("o", json!({"a": 1})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(object["metadata"]["labels"]["hijacked"], "no");
    for lost in ["metadata.uid", "metadata.resourceVersion, metadata.uid"] {
        let line = format!("A handler has patched {lost}, which only the server sets");
        test.line(&line).await;
    }
    test.delete("o").await;
    test.until_gone("o").await;
    working.stop().await;
}

async fn a_function_that_changes_nothing_makes_no_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_event(
        test.selector(),
        handler("event_fn", |cause: Context| async move {
            cause.patch(|patch| patch.transform(|object| object["spec"]["a"] = json!(1)));
            Ok(())
        }),
    );
    let working = test.start(registry);
    test.create("o", json!({"a": 1})).await;
    test.line("Handler 'event_fn' succeeded.").await;
    test.create("changed", json!({"a": 2})).await;
    test.until("it is changed", "changed", |object| object["spec"]["a"] == 1).await;
    test.assert_writes("changed", 1).await;
    assert_eq!(test.writes("o").await, 0);
    working.stop().await;
}

/// A handler that replaces everything on the object.
fn usurper(test: &TestOperator, id: &str) -> kopf_rs::Callback {
    test.handler(id, |cause: Context| async move {
        cause.patch(|patch| {
            patch.transform(|object| {
                object["metadata"]["annotations"] = json!({"x": "y"});
                object["metadata"]["finalizers"] = json!([]);
                object["status"] = json!({"s": "t"});
            });
        });
        Ok(Value::Null)
    })
}

async fn functions_cannot_change_the_operators_state(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), usurper(&test, "create_fn"))
        .on_create(test.selector(), test.noting("late_fn"))
        .on_delete(test.selector(), usurper(&test, "delete_fn"));
    let working = test.start(registry);
    test.create("o", json!({"a": 1})).await;
    let object = test.until("it is handled", "o", is_settled).await;
    assert_eq!(object["metadata"]["finalizers"], json!(["tester.kopf.rs/finalizer"]));
    assert_eq!(test.calls.all(), ["create_fn o", "late_fn o"]);
    let line = test.line("A handler has patched metadata.annotations.").await;
    assert!(line.contains("metadata.finalizers"), "{line}");
    assert!(line.contains("which belongs to the operator: this part of the patch is ignored"), "{line}");
    // One for the finalizer, one per handler, and one for the change that the patch function makes.
    test.assert_writes("o", 5).await;
    test.delete("o").await;
    test.until_gone("o").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn o", "late_fn o", "delete_fn o"]);
}

/// Returns whether the annotation of the patch function is part of the state handled last.
fn is_settled(object: &Value) -> bool {
    let handled = last_handled(object).unwrap_or_default();
    object["metadata"]["annotations"]["x"] == "y" && handled["metadata"]["annotations"] == json!({"x": "y"})
}

async fn functions_cannot_change_values_of_storages(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), usurper(&test, "create_fn"));
    let persistence = Persistence::named("elsewhere")
        .progress(StatusProgressStorage::new("mine"))
        .diff_base(AnnotationsDiffBaseStorage::new("mine.example.com"));
    let settings = Settings::with(|it| it.persistence = Some(persistence));
    let working = Working::start(&test.cluster, test.operator(registry).settings(settings));
    test.create("o", json!({"a": 1})).await;
    let handled = "mine.example.com/last-handled-configuration";
    let is_settled = |object: &Value| {
        let handled = object["metadata"]["annotations"][handled].as_str();
        handled.is_some_and(|text| text.contains(r#""x":"y""#))
    };
    let object = test.until("it is handled", "o", is_settled).await;
    working.stop().await;
    assert_eq!(object["status"]["s"], "t", "{object}");
    assert_eq!(test.calls.all(), ["create_fn o"]);
}
