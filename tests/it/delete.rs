//! Deletions: the handlers run first, and no failure blocks a deletion forever.

use kopf_rs::{PermanentError, Registry};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, Working, is_handled};

scenarios! {
    a_deletion_is_one_call_and_one_write;
    a_handler_that_fails_permanently_releases_the_object [memory];
    finalizers_of_others_stay;
    an_optional_handler_is_called_although_it_does_not_hold_the_object [memory];
    a_handler_that_outlives_its_object_leaves_the_next_one_alone;
    an_optional_handler_that_outlives_its_object_is_called_once [memory];
    an_object_that_does_not_fit_its_deletion_handler_stays_until_it_does [memory];
}

async fn a_deletion_is_one_call_and_one_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.delete("a").await;
    test.until_gone("a").await;
    test.line("Deleted, really deleted, and we are notified.").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["delete_fn a"]);
    // One write each for the finalizer, the handled state, and the removal of the finalizer.
    test.assert_writes("a", 3).await;
}

async fn a_handler_that_fails_permanently_releases_the_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let delete = test.handler("delete_fn", |_| async { Err(PermanentError::new("never").into()) });
    let working = test.start(Registry::new().on_delete(test.selector(), delete));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.delete("a").await;
    test.until_gone("a").await;
    let report = working.stop().await;
    assert_eq!(report.failed.len(), 1);
    assert_eq!(report.failed[0].handler, "delete_fn");
    let object = report.failed[0].object.as_ref().expect("it is about an object");
    assert_eq!(object.to_string(), format!("{}/a", test.cluster.namespace()));
}

async fn finalizers_of_others_stay(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"metadata": {"finalizers": ["example.com/other", "tester.kopf.rs/finalizer"]}}))
        .await;
    test.delete("a").await;
    let left = json!(["example.com/other"]);
    test.until("ours is off", "a", |object| object["metadata"]["finalizers"] == left).await;
    test.patch("a", json!({"metadata": {"finalizers": null}})).await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["delete_fn a"]);
}

async fn an_optional_handler_is_called_although_it_does_not_hold_the_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_delete(test.selector(), test.noting("delete_fn").optional());
    let working = test.start(registry);
    let object = test.create("a", json!({})).await;
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
    test.until("it is handled", "a", is_handled).await;
    test.delete("a").await;
    test.calls.until(1).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["delete_fn a"]);
}

async fn a_handler_that_outlives_its_object_leaves_the_next_one_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let create = test.handler("create_fn", move |context| {
        let held = held.clone();
        async move {
            let size = context.spec::<Value>()?["size"].clone();
            if size == 1 {
                held.pass().await;
            }
            Ok(json!({"size": size}))
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({"size": 1})).await;
    test.calls.until(1).await;
    test.delete("a").await;
    test.until_gone("a").await;
    test.create("a", json!({"size": 2})).await;
    test.until("it is handled", "a", is_handled).await;
    gate.open(1);
    test.line("the object does not exist anymore").await;
    working.stop().await;
    assert_eq!(test.get("a").await["status"]["create_fn"], json!({"size": 2}));
}

async fn an_optional_handler_that_outlives_its_object_is_called_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    test.create("a", json!({})).await;
    test.patch("a", finalizers(json!(["example.com/other"]))).await;
    test.delete("a").await;
    let gate = Gate::closed();
    let delete = test.waiting_with("delete_fn", &gate, json!("done"));
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_delete(test.selector(), delete.optional());
    let working = Working::start(&test.cluster, test.operator(registry).once());
    test.calls.until(1).await;
    test.patch("a", finalizers(Value::Null)).await;
    // Events arrive in order: when `b` is handled, the operator has received the deletion of `a`.
    test.create("b", json!({})).await;
    test.calls.until(2).await;
    gate.open(2);
    working.end().await.expect("it ends well");
    assert_eq!(test.calls.all(), ["delete_fn a", "create_fn b"]);
}

/// An upgrade may change the type of the spec; the resources that the former version created must not be leaked.
async fn an_object_that_does_not_fit_its_deletion_handler_stays_until_it_does(cluster: TestCluster) {
    #[derive(serde::Deserialize)]
    struct Spec {
        bucket: String,
    }
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let delete = test.handler("delete_fn", move |context| {
        let calls = calls.clone();
        async move {
            let Spec { bucket } = context.spec()?;
            calls.note(format!("{bucket} is deleted"));
            Ok(Value::Null)
        }
    });
    let delete = delete.backoff(0.5);
    let working = test.start(Registry::new().on_delete(test.selector(), delete));
    test.create("a", json!({"bucket": 7})).await;
    test.until("it is handled", "a", is_handled).await;
    test.delete("a").await;
    let line = test.line("Handler 'delete_fn' failed").await;
    for words in ["will try again", "spec.bucket: expected a string", "correct the object"] {
        assert!(line.contains(words), "{line}");
    }
    assert!(!test.get("a").await["metadata"]["finalizers"].is_null());
    test.patch("a", json!({"spec": {"bucket": "b"}})).await;
    test.until_gone("a").await;
    working.stop().await;
    let calls = test.calls.all();
    assert_eq!(calls.last().map(String::as_str), Some("b is deleted"));
}
