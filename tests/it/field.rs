//! Handlers of one field: called for it alone, with its own values.

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, is_handled, last_handled};

scenarios! {
    a_field_is_told_of_its_own_changes_only;
    a_handler_is_not_called_again_for_what_another_one_writes_elsewhere;
}

async fn a_field_is_told_of_its_own_changes_only(bed: Bed) {
    let field = Field::of(bed).await;
    let calls = field.calls.clone();
    let resized = handler("resized", move |context| {
        calls.note(format!("{:?} {:?}", context.old(), context.new()));
        async { Ok(()) }
    });
    let working =
        field.start(Registry::new().on_field(field.selector(), resized.field("spec.size")));
    field.create("a", json!({"size": 1})).await;
    field.until("it is handled", "a", is_handled).await;
    field.patch("a", json!({"spec": {"other": 1}})).await;
    let handled = |object: &_| last_handled(object).is_some_and(|it| it["spec"]["other"] == 1);
    field.until("it is handled", "a", handled).await;
    field.patch("a", json!({"spec": {"size": 2}})).await;
    let handled = |object: &_| last_handled(object).is_some_and(|it| it["spec"]["size"] == 2);
    field.until("it is handled", "a", handled).await;
    working.stop().await;
    let expected = ["None Some(Number(1))", "Some(Number(1)) Some(Number(2))"];
    assert_eq!(field.calls.all(), expected);
}

async fn a_handler_is_not_called_again_for_what_another_one_writes_elsewhere(bed: Bed) {
    let field = Field::of(bed).await;
    let calls = field.calls.clone();
    let first = field.handler("first", async |context| {
        context.patch()["spec"]["other"] = json!("written");
        Ok(Value::Null)
    });
    let second = handler("second", move |context| {
        calls.note(format!("{:?} {:?}", context.old(), context.new()));
        async { Ok(()) }
    });
    let registry = Registry::new()
        .on_field(field.selector(), first.field("spec.size"))
        .on_field(field.selector(), second.field("spec.size"));
    let working = field.start(registry);
    field.create("a", json!({"size": 1})).await;
    let handled =
        |object: &_| last_handled(object).is_some_and(|it| it["spec"]["other"] == "written");
    field.until("all of it is handled", "a", handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["first a", "None Some(Number(1))"]);
}
