//! Raw events: delivered as they come, including those of the operator's own writes; failures of the handlers have no consequences.

use kopf_rs::{EventType, Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;

use crate::operating::{TestOperator, is_handled};

scenarios! {
    raw_events_are_passed_with_their_types;
    an_event_handler_may_patch_and_return [memory];
    the_result_of_an_event_handler_takes_the_place_of_a_status_that_is_no_object [memory];
}

async fn the_result_of_an_event_handler_takes_the_place_of_a_status_that_is_no_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let event = test.handler("event_fn", |context| async move {
        if context.event_type() != Some(EventType::Modified) {
            context.patch(|patch| patch["status"] = json!("no object"));
        }
        Ok(json!({"seen": true}))
    });
    let working = test.start(Registry::new().on_event(test.selector(), event));
    test.create("a", json!({})).await;
    let seen = |object: &serde_json::Value| object["status"]["event_fn"] == json!({"seen": true});
    test.until("the result is there", "a", seen).await;
    working.stop().await;
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|line| line.contains("a bug in kopf-rs")), 0);
}

async fn raw_events_are_passed_with_their_types(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("old", json!({})).await;
    let calls = test.calls.clone();
    let event = handler("event_fn", move |context| {
        let event = context.event_type().and_then(EventType::as_str);
        calls.note(format!("{} {event:?}", context.name()));
        async { Ok(()) }
    });
    let working = test.start(Registry::new().on_event(test.selector(), event));
    test.calls.until(1).await;
    test.create("new", json!({})).await;
    test.calls.until(2).await;
    test.patch("new", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    test.delete("new").await;
    test.calls.until(4).await;
    working.stop().await;
    let expected = ["old None", "new Some(\"ADDED\")", "new Some(\"MODIFIED\")", "new Some(\"DELETED\")"];
    assert_eq!(test.calls.all(), expected);
    // One line per watch event would drown out all others.
    let is_success = |line: &&String| line.contains("Handler 'event_fn' succeeded.");
    let lines = test.cluster.lines().all();
    let successes: Vec<_> = lines.iter().filter(is_success).collect();
    assert_eq!(successes.len(), 4);
    for line in successes {
        assert!(line.trim_start().starts_with("DEBUG"), "{line}");
    }
    test.assert_writes("old", 0).await;
}

async fn an_event_handler_may_patch_and_return(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let event = handler("event_fn", |context| async move {
        if context.event_type() != Some(EventType::Deleted) {
            context.patch(|patch| patch["metadata"]["labels"]["seen"] = json!("yes"));
        }
        Ok(json!({"seen": true}))
    });
    let working = test.start(Registry::new().on_event(test.selector(), event));
    test.create("a", json!({})).await;
    let object = test
        .until("both are there", "a", |object| {
            object["metadata"]["labels"]["seen"] == "yes" && object["status"]["event_fn"]["seen"] == true
        })
        .await;
    working.stop().await;
    assert!(!is_handled(&object));
}
