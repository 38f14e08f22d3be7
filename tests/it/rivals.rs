//! Two operators for the same objects: with names of their own they do not meet, and with one name they do not write for ever.

use kopf_rs::{Registry, TemporaryError};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, Working, is_handled};

scenarios! {
    two_operators_keep_their_state_under_their_names [memory];
    a_finalizer_that_another_operator_restores_is_soon_left_alone [memory];
}

async fn two_operators_keep_their_state_under_their_names(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let one = Registry::new().on_delete(test.selector(), test.noting("one_fn"));
    let other = Registry::new().on_create(test.selector(), test.noting("other_fn"));
    let one = test.start(one);
    let other = Working::start(&test.cluster, test.operator(other).name("other"));
    test.create("a", json!({})).await;
    test.until("both know it", "a", |object| {
        let handled = &object["metadata"]["annotations"]["other.kopf.rs/last-handled-configuration"];
        object["metadata"]["finalizers"] == json!(["tester.kopf.rs/finalizer"]) && !handled.is_null()
    })
    .await;
    test.delete("a").await;
    test.until_gone("a").await;
    one.stop().await;
    other.stop().await;
    assert_eq!(test.calls.all(), ["other_fn a", "one_fn a"]);
}

async fn a_finalizer_that_another_operator_restores_is_soon_left_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let holds = Registry::new().on_delete(test.selector(), test.noting("delete_fn"));
    let strips = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let clock = test.handler("clock_fn", |context| async move {
        match context.retry() {
            0 => Err(TemporaryError::new("ten minutes").delay(600).into()),
            _ => Ok(Value::Null),
        }
    });
    let clock = Registry::new().on_create(test.selector(), clock);
    let clock = test.operator(clock).name("clock");
    let (holds, strips) = (test.start(holds), test.start(strips));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let clock = Working::start(&test.cluster, clock);
    let ticks = |calls: &[String]| calls.iter().filter(|call| *call == "clock_fn a").count();
    let mut count = 1;
    while ticks(&test.calls.until(count).await) < 2 {
        count += 1;
    }
    let writes = test.writes("a").await;
    assert!(writes < 20, "{writes} writes in ten minutes");
    let finalizers = test.get("a").await["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["tester.kopf.rs/finalizer"]));
    for operator in [holds, strips, clock] {
        operator.stop().await;
    }
}
