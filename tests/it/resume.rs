//! Objects that exist when an operator starts.

use std::time::Duration;

use kopf_rs::{Reason, Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;
use tokio::time::Instant;

use crate::operating::{TestOperator, is_handled, last_handled};

scenarios! {
    handled_objects_are_resumed_once_per_start;
    objects_changed_meanwhile_are_updated;
    a_start_on_handled_objects_writes_nothing;
    changes_during_a_listing_of_unchanged_objects_are_handled_immediately [memory];
}

async fn handled_objects_are_resumed_once_per_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let calls = test.calls.clone();
        let both = move |context: kopf_rs::Context| {
            calls.note(context.reason().map_or("none", Reason::as_str));
            async { Ok(()) }
        };
        Registry::new()
            .on_create(test.selector(), handler("both", both.clone()))
            .on_resume(test.selector(), handler("both_again", both))
    };
    let working = test.start(registry());
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create"]);
    for count in [2, 3] {
        let working = test.start(registry());
        test.calls.until(count).await;
        working.stop().await;
    }
    assert_eq!(test.calls.all(), ["create", "resume", "resume"]);
}

async fn objects_changed_meanwhile_are_updated(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().on_update(test.selector(), test.noting("update_fn"));
    test.create("a", json!({"size": 1})).await;
    let working = test.start(registry());
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let working = test.start(registry());
    let handled = |object: &_| last_handled(object).is_some_and(|it| it["spec"]["size"] == 2);
    test.until("it is handled", "a", handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["update_fn a"]);
}

async fn a_start_on_handled_objects_writes_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    for name in ["a", "b", "c"] {
        test.create(name, json!({})).await;
    }
    for _ in 0..2 {
        let client = test.cluster.client();
        let report = test.operator(registry()).once().run(client, std::future::pending::<()>());
        let report = report.await.expect("the operator ends well");
        assert_eq!(report.failed, []);
        assert_eq!(test.calls.all().len(), 3);
        test.assert_writes("a", 1).await;
    }
}

/// FA5.
async fn changes_during_a_listing_of_unchanged_objects_are_handled_immediately(cluster: TestCluster) {
    const UNCHANGED: usize = 500;
    let test = TestOperator::of(cluster).await;
    let registry = || {
        Registry::new()
            .on_create(test.selector(), test.noting("create_fn"))
            .on_delete(test.selector(), test.noting("delete_fn"))
    };
    let working = test.start(registry());
    for number in 0..UNCHANGED {
        test.create(&format!("o{number}"), json!({})).await;
    }
    test.calls.until(UNCHANGED).await;
    for number in 0..UNCHANGED {
        test.until("it is handled", &format!("o{number}"), is_handled).await;
    }
    working.stop().await;
    let working = test.start(registry());
    let start = Instant::now();
    test.create("new", json!({})).await;
    test.delete("o7").await;
    test.until_gone("o7").await;
    test.until("it is handled", "new", is_handled).await;
    assert!(start.elapsed() < Duration::from_millis(500));
    working.stop().await;
    let mut calls = test.calls.all().split_off(UNCHANGED);
    calls.sort();
    assert_eq!(calls, ["create_fn new", "delete_fn o7"]);
}
