//! Objects that an operator finds again when it starts.

use kopf_rs::{Reason, Registry, handler};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::json;

use crate::operating::{Field, is_handled, last_handled};

scenarios! {
    what_was_handled_before_is_resumed_once_per_start;
    what_changed_meanwhile_is_updated;
    a_start_on_handled_objects_writes_nothing;
}

async fn what_was_handled_before_is_resumed_once_per_start(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = || {
        let calls = field.calls.clone();
        let both = move |context: kopf_rs::Context| {
            calls.note(context.reason().map_or("none", Reason::as_str));
            async { Ok(()) }
        };
        Registry::new()
            .on_create(field.selector(), handler("both", both.clone()))
            .on_resume(field.selector(), handler("both_again", both))
    };
    let working = field.start(registry());
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create"]);
    for count in [2, 3] {
        let working = field.start(registry());
        field.calls.until(count).await;
        working.stop().await;
    }
    assert_eq!(field.calls.all(), ["create", "resume", "resume"]);
}

async fn what_changed_meanwhile_is_updated(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = || Registry::new().on_update(field.selector(), field.noting("update_fn"));
    field.create("a", json!({"size": 1})).await;
    let working = field.start(registry());
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    field.patch("a", json!({"spec": {"size": 2}})).await;
    let working = field.start(registry());
    let handled = |object: &_| last_handled(object).is_some_and(|it| it["spec"]["size"] == 2);
    field.until("it is handled", "a", handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["update_fn a"]);
}

async fn a_start_on_handled_objects_writes_nothing(bed: Bed) {
    let field = Field::of(bed).await;
    let registry = || Registry::new().on_create(field.selector(), field.noting("create_fn"));
    for name in ["a", "b", "c"] {
        field.create(name, json!({})).await;
    }
    for _ in 0..2 {
        let client = field.bed.client();
        let report = field
            .operator(registry())
            .once()
            .run(client, std::future::pending::<()>());
        let report = report.await.expect("the operator ends well");
        assert_eq!(report.failed, []);
        assert_eq!(field.calls.all().len(), 3);
        field.assert_writes("a", 1).await;
    }
}
