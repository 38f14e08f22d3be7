//! Objects that exist when an operator starts.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;
use tokio::time::Instant;

use crate::operating::{TestOperator, is_handled};

scenarios! {
    a_start_on_handled_objects_writes_nothing;
    changes_during_a_listing_of_unchanged_objects_are_handled_immediately [memory];
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
