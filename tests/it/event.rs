//! Raw events: told as they come, own echoes included, failures of handlers without consequences.

use kopf_rs::{EventType, PermanentError, Registry, handler};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::json;

use crate::operating::{Field, is_handled};

scenarios! {
    events_are_told_with_their_types;
    a_failing_event_handler_fails_alone;
    an_event_handler_may_patch_and_return;
    the_result_of_an_event_handler_takes_the_place_of_a_status_that_is_no_object [memory tcp];
}

async fn the_result_of_an_event_handler_takes_the_place_of_a_status_that_is_no_object(bed: Bed) {
    let field = Field::of(bed).await;
    let event = field.handler("event_fn", |context| async move {
        if context.event_type() != Some(EventType::Modified) {
            context.patch()["status"] = json!("no object");
        }
        Ok(json!({"seen": true}))
    });
    let working = field.start(Registry::new().on_event(field.selector(), event));
    field.create("a", json!({})).await;
    let seen = |object: &serde_json::Value| object["status"]["event_fn"] == json!({"seen": true});
    field.until("the result is there", "a", seen).await;
    working.stop().await;
    let lines = field.bed.lines();
    assert_eq!(lines.count(|line| line.contains("a defect of kopf-rs")), 0);
}

async fn events_are_told_with_their_types(bed: Bed) {
    let field = Field::of(bed).await;
    field.create("old", json!({})).await;
    let calls = field.calls.clone();
    let event = handler("event_fn", move |context| {
        let event = context.event_type().and_then(EventType::as_str);
        calls.note(format!("{} {event:?}", context.name()));
        async { Ok(()) }
    });
    let working = field.start(Registry::new().on_event(field.selector(), event));
    field.calls.until(1).await;
    field.create("new", json!({})).await;
    field.calls.until(2).await;
    field.patch("new", json!({"spec": {"size": 1}})).await;
    field.calls.until(3).await;
    field.delete("new").await;
    field.calls.until(4).await;
    working.stop().await;
    let expected = [
        "old None",
        "new Some(\"ADDED\")",
        "new Some(\"MODIFIED\")",
        "new Some(\"DELETED\")",
    ];
    assert_eq!(field.calls.all(), expected);
    field.assert_writes("old", 0).await;
}

async fn a_failing_event_handler_fails_alone(bed: Bed) {
    let field = Field::of(bed).await;
    let event = handler("event_fn", |_| async {
        Err::<(), _>(PermanentError::new("no").into())
    });
    let registry = Registry::new()
        .on_event(field.selector(), event)
        .on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    field
        .line("Handler 'event_fn' failed permanently: no")
        .await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a"]);
}

async fn an_event_handler_may_patch_and_return(bed: Bed) {
    let field = Field::of(bed).await;
    let event = handler("event_fn", |context| async move {
        if context.event_type() != Some(EventType::Deleted) {
            context.patch()["metadata"]["labels"]["seen"] = json!("yes");
        }
        Ok(json!({"seen": true}))
    });
    let working = field.start(Registry::new().on_event(field.selector(), event));
    field.create("a", json!({})).await;
    let object = field
        .until("both are there", "a", |object| {
            object["metadata"]["labels"]["seen"] == "yes"
                && object["status"]["event_fn"]["seen"] == true
        })
        .await;
    working.stop().await;
    assert!(!is_handled(&object));
}
