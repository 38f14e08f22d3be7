//! Triggers: objects that are reconciled for reasons outside of the cluster.

use std::time::Duration;

use kopf_rs::{Registry, Selector};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;

use crate::operating::{TestOperator, Working};

scenarios! {
    a_trigger_reconciles_its_object [memory];
}

async fn a_trigger_reconciles_its_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .reconcile(test.selector(), test.noting("look"))
        .on_update(test.selector(), test.noting("update"));
    let operator = test.operator(registry);
    let trigger = operator.trigger();
    let namespace = test.cluster.namespace().to_owned();
    trigger.fire_kind(test.selector(), (&*namespace, "one")).expect("it is one kind");
    let working = Working::start(&test.cluster, operator);
    for name in ["one", "two"] {
        test.create(name, json!({})).await;
        test.calls_until(&format!("look {name}")).await;
    }
    for _ in 0..5 {
        trigger.fire_kind(test.selector(), (&*namespace, "one")).expect("it is one kind");
    }
    test.calls.until(3).await;
    let (of_thread, kind) = (trigger.clone(), test.group.clone());
    let thread = std::thread::spawn(move || {
        of_thread.fire_kind((&*kind, "v1", "kopfexamples"), [(&*namespace, "two"), (&*namespace, "unknown")])
    });
    thread.join().expect("it ends").expect("it is one kind");
    test.calls.until(4).await;
    test.line("Triggers are ignored, because the operator reconciles no object of this name").await;
    let several = trigger.fire_kind(Selector::matching(|_| true), "one").expect_err("it is no single kind");
    assert!(several.to_string().contains("a trigger is for one kind"), "{several}");
    test.nothing_more(Duration::from_secs(600)).await;
    assert_eq!(test.calls.all(), ["look one", "look two", "look one", "look two"]);
    working.stop().await;
}
