//! Handlers and schemas with unusual behaviour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs::{Callback, Context, Registry, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, definition, is_handled, last_handled};

scenarios! {
    a_result_that_is_not_json_is_a_permanent_failure [memory];
    a_function_that_never_settles_is_reported_and_slowed_down [memory];
    a_function_on_events_that_never_settles_is_reported_and_slowed_down [memory];
    a_sub_handler_that_never_settles_is_reported_and_slowed_down [memory];
    a_status_that_the_schema_prunes_is_reported_once;
    annotations_of_handlers_that_outgrow_the_object_are_refused_once;
    invalid_annotations_are_reported_and_stay_unchanged;
    a_refused_patch_is_reported_with_the_changes_of_functions;
}

async fn a_result_that_is_not_json_is_a_permanent_failure(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = handler("create_fn", |_| async { Ok(BTreeMap::from([((1, 2), 3)])) });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.line(
        "Handler 'create_fn' failed permanently: the handler's result cannot be written as JSON: key must be a string",
    )
    .await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(1).await;
    let report = working.stop().await;
    assert_eq!(report.failed.len(), 1);
}

/// A handler whose patch functions change the object every time.
fn counting(id: &str) -> Callback {
    handler(id, |context: Context| async move {
        context.patch(|patch| {
            patch.transform(|object| {
                let count = object["spec"]["size"].as_u64().unwrap_or_default();
                object["spec"]["size"] = json!(count + 1);
            });
        });
        Ok(())
    })
}

async fn a_function_that_never_settles_is_reported_and_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_update(test.selector(), counting("update_fn"));
    unsettled(&test, registry).await;
}

async fn a_sub_handler_that_never_settles_is_reported_and_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let parent = handler("parent", move |cause: Context| {
        let count = count.clone();
        async move {
            let subs = cause.subhandlers()?;
            subs.add(counting("one"));
            subs.add(handler("two", move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            }));
            Ok(())
        }
    });
    let registry = Registry::new().on_update(test.selector(), parent);
    unsettled(&test, registry).await;
    assert!(done.load(Ordering::SeqCst) > 1, "its sibling has its turns");
}

async fn a_function_on_events_that_never_settles_is_reported_and_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_event(test.selector(), counting("event_fn"));
    unsettled(&test, registry).await;
}

async fn unsettled(test: &TestOperator, registry: Registry) {
    let clock = test.handler("clock", |context| async move {
        match (context.name(), context.retry()) {
            ("clock", 0) => Err(TemporaryError::new("ten minutes").delay(600).into()),
            _ => Ok(Value::Null),
        }
    });
    let working = test.start(registry.on_create(test.selector(), clock.label("clock", "yes")));
    test.create("a", json!({"size": 1})).await;
    let other = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": "clock", "labels": {"clock": "yes"}}, "spec": {},
    });
    test.patch("a", json!({"spec": {"size": 5}})).await;
    let told = "have changed it 20 times in a row, and each change has caused their next call";
    test.line(told).await;
    test.cluster.create(&other).await;
    test.calls.until(2).await;
    let writes = test.writes("a").await;
    assert!((20..80).contains(&writes), "{writes} writes in ten minutes");
    test.patch("a", json!({"metadata": {"labels": {"x": "y"}}})).await;
    test.until("others are served", "a", |object| object["metadata"]["labels"]["x"] == "y").await;
    working.stop().await;
    assert_eq!(test.cluster.lines().count(|line| line.contains(told)), 1);
}

async fn a_status_that_the_schema_prunes_is_reported_once(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = json!({"type": "object", "properties": {"known": {"type": "string"}}});
    test.cluster.apply(&crd.to_string()).await;
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| patch["status"]["known"] = json!("x"));
        if context.name() == "by-function" {
            context.patch(|patch| patch.transform(|object| object["status"]["unknown"] = json!(1)));
            return Ok(Value::Null);
        }
        Ok(json!({"made": true}))
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        let object = test.until("it is handled", name, is_handled).await;
        assert_eq!(object["status"], json!({"known": "x"}));
        test.assert_writes(name, 2).await;
    }
    let told = "Merge-patching finished with inconsistencies: status.create_fn.made is missing";
    test.line(told).await;
    test.create("by-function", json!({})).await;
    test.until("it is handled", "by-function", is_handled).await;
    working.stop().await;
    let count = test.cluster.lines().count(|line| line.contains("finished with inconsistencies"));
    // One for each of the two fields.
    assert_eq!(count, 2);
}

async fn annotations_of_handlers_that_outgrow_the_object_are_refused_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let update = test.handler("update_fn", |context| async move {
        context.patch(|patch| {
            patch["metadata"]["annotations"]["example.com/large"] = json!("x".repeat(262_145));
        });
        Ok(json!("done"))
    });
    let registry = Registry::new()
        .on_update(test.selector(), update)
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let before = test.writes("a").await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let sized = |object: &Value| last_handled(object).is_some_and(|last| last["spec"]["size"] == 2);
    let object = test.until("the update is handled", "a", sized).await;
    assert!(object["metadata"]["annotations"]["example.com/large"].is_null());
    assert_eq!(object["status"]["update_fn"], "done");
    let line = test.line("Patching was refused").await;
    assert!(line.contains("metadata.annotations") && line.len() < 10_000, "{} characters", line.len());
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert!(test.writes("a").await <= before + 6);
    assert_eq!(test.calls.all(), ["update_fn a", "delete_fn a"]);
}

/// Sent as a merge patch, and by patch functions.
async fn invalid_annotations_are_reported_and_stay_unchanged(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| {
            patch.merge(json!({"metadata": {"annotations": null}, "spec": {"by": "patch"}}));
        });
        Ok(Value::Null)
    });
    let update = test.handler("update_fn", |context| async move {
        context.patch(|patch| {
            patch.transform(|object| {
                object["metadata"]["annotations"] = json!("text");
                object["spec"]["by"] = json!("function");
            });
        });
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create).on_update(test.selector(), update);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let told = "A handler has patched metadata.annotations, which belongs to the operator";
    test.line(told).await;
    let changed = |object: &Value| last_handled(object).is_some_and(|it| it["spec"]["by"] == "function");
    test.until("both have changed it", "a", changed).await;
    let lines = test.cluster.lines();
    let twice = lines.count(|line| line.contains(told)) >= 2;
    working.stop().await;
    assert!(twice, "{:#?}", lines.all());
}

async fn a_refused_patch_is_reported_with_the_changes_of_functions(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| patch["spec"]["merged"] = json!(true));
        context.patch(|patch| {
            patch.transform(|object| object["metadata"]["labels"] = json!({"l": "no label!"}));
        });
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    let line = test.line("Patching was refused").await;
    working.stop().await;
    let (_, patch) = line.split_once("The refused patch: ").unwrap_or_default();
    assert!(patch.contains(r#""merged":true"#), "{line}");
    assert!(
        patch.contains(r#"by functions: [{"op":"add","path":"/metadata/labels","value":{"l":"no label!"}}]"#),
        "{line}"
    );
}
