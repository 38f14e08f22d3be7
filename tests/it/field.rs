//! Handlers of one field: called only for its changes, with its own values.

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, last_handled};

scenarios! {
    a_handler_is_not_called_again_for_another_handlers_writes [memory];
}

async fn a_handler_is_not_called_again_for_another_handlers_writes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let first = test.handler("first", async |context| {
        context.patch(|patch| patch["spec"]["other"] = json!("written"));
        Ok(Value::Null)
    });
    let second = handler("second", move |context| {
        calls.note(format!("{:?} {:?}", context.old(), context.new()));
        async { Ok(()) }
    });
    let registry = Registry::new()
        .on_field(test.selector(), first.field("spec.size"))
        .on_field(test.selector(), second.field("spec.size"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    let handled = |object: &_| last_handled(object).is_some_and(|it| it["spec"]["other"] == "written");
    test.until("all of it is handled", "a", handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["first a", "None Some(Number(1))"]);
}
