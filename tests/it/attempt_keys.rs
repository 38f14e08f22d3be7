//! Attempt keys, for effects outside of the cluster: a repeated attempt has the same key, even in another process.

use std::collections::BTreeSet;

use kopf_rs::{Callback, Context, Registry, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;

use crate::operating::{Gate, TestOperator, is_handled};

scenarios! {
    a_crash_after_a_call_of_the_cloud_makes_no_second_one [memory];
    another_change_has_another_key [memory];
    a_handler_without_keys_gets_an_error [memory];
}

/// Stands for a cloud call that uses the key; it passes the gate and fails as `spec.fails` demands.
fn calling(test: &TestOperator, id: &'static str, gate: &Gate) -> Callback {
    let (calls, gate) = (test.calls.clone(), gate.clone());
    handler(id, move |context: Context| {
        let (calls, gate) = (calls.clone(), gate.clone());
        async move {
            calls.note(format!("{id} {}", context.attempt()?.key()));
            gate.pass().await;
            if context.retry() == 0 && context.body().spec()["fails"] == true {
                return Err(TemporaryError::new("no answer").delay(0.1).into());
            }
            Ok(())
        }
    })
    .keyed()
}

async fn a_crash_after_a_call_of_the_cloud_makes_no_second_one(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    // One gate for the calls that are cut off, and one for the others.
    let (closed, gate) = (Gate::closed(), Gate::closed());
    let registry = |gate| Registry::new().on_create(test.selector(), calling(&test, "make", gate));
    let working = test.start(registry(&closed));
    test.create("a", json!({"fails": true})).await;
    test.calls.until(1).await;
    working.kill().await;
    let working = test.start(registry(&closed));
    test.calls.until(2).await;
    working.kill().await;
    let working = test.start(registry(&gate));
    gate.open(2);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    let calls = test.calls.all();
    // One attempt per process, and one more after the error.
    assert_eq!(calls.len(), 4, "{calls:?}");
    let made: BTreeSet<&String> = calls.iter().collect();
    assert_eq!(made.len(), 1, "{calls:?}");
}

async fn another_change_has_another_key(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    gate.open(100);
    let registry = Registry::new()
        .on_create(test.selector(), calling(&test, "make", &gate))
        .on_update(test.selector(), calling(&test, "change", &gate))
        .on_delete(test.selector(), calling(&test, "unmake", &gate));
    let working = test.start(registry);
    for name in ["a", "b"] {
        test.create(name, json!({"size": 1})).await;
        test.until("it is handled", name, is_handled).await;
    }
    // One write each for the finalizer, the record of the attempt, and the state handled last.
    test.assert_writes("a", 3).await;
    for (nth, size) in [2, 1, 2].into_iter().enumerate() {
        test.patch("a", json!({"spec": {"size": size}})).await;
        test.calls.until(3 + nth).await;
    }
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    let calls = test.calls.all();
    let keys = calls.iter().filter_map(|it| it.split_once(' '));
    let keys: BTreeSet<&str> = keys.map(|(_, key)| key).collect();
    assert_eq!((calls.len(), keys.len()), (6, 6), "{calls:?}");
}

async fn a_handler_without_keys_gets_an_error(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let function = handler("make", |context: Context| async move {
        context.attempt()?;
        Ok(())
    });
    let working = test.start(Registry::new().on_create(test.selector(), function));
    test.create("a", json!({})).await;
    test.line("'make' failed permanently: this attempt has no key").await;
    working.stop().await;
}
