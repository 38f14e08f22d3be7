//! New objects: the operator handles each once, with the minimum of writes.

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, is_handled};

scenarios! {
    objects_from_before_and_after_the_start_are_handled_once_with_one_write;
    a_finalizer_costs_one_write_more [memory];
    every_further_handler_costs_one_write_more [memory];
    patches_of_handlers_are_written_with_the_state;
    text_arrives_unharmed;
    many_objects_are_handled_each_once [memory];
    a_started_operator_logs_the_resources_that_it_serves [memory];
}

async fn a_started_operator_logs_the_resources_that_it_serves(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_create("configmaps", test.noting("map_fn"));
    let working = test.start(registry);
    let told = test.line("Serving ").await;
    working.stop().await;
    let (group, version, _) = test.selector();
    let expected = [format!("kopfexamples.{version}.{group}"), "configmaps.v1".to_owned()];
    assert!(told.trim_start().starts_with("INFO"), "{told}");
    assert!(expected.iter().all(|it| told.contains(it)), "{told}");
}

async fn objects_from_before_and_after_the_start_are_handled_once_with_one_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("before", json!({"size": 1})).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.calls.until(1).await;
    test.create("after", json!({"size": 2})).await;
    for name in ["before", "after"] {
        let object = test.until("it is handled", name, is_handled).await;
        let annotations = object["metadata"]["annotations"].as_object();
        let annotations = annotations.expect("a handled object has annotations");
        assert!(annotations.keys().all(|key| !key.contains("create_fn")), "{annotations:?}");
        assert_eq!(object["metadata"]["finalizers"], Value::Null);
    }
    let report = working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn before", "create_fn after"]);
    assert_eq!(report.failed, []);
    test.assert_writes("before", 1).await;
    test.assert_writes("after", 1).await;
}

async fn a_finalizer_costs_one_write_more(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.line("Creation is processed: 1 succeeded; 0 failed.").await;
    let object = test.until("it is handled", "a", is_handled).await;
    assert_eq!(object["metadata"]["finalizers"], json!(["tester.kopf.rs/finalizer"]));
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
    test.assert_writes("a", 2).await;
}

async fn every_further_handler_costs_one_write_more(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("first"))
        .on_create(test.selector(), test.noting("second"))
        .on_create(test.selector(), test.noting("third"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["first a", "second a", "third a"]);
    test.assert_writes("a", 3).await;
}

async fn patches_of_handlers_are_written_with_the_state(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(
        test.selector(),
        handler("create_fn", |context| async move {
            context.patch(|patch| patch["metadata"]["labels"]["made-by"] = json!("test"));
            context.patch(|patch| patch["status"]["phase"] = json!("Ready"));
            Ok(())
        }),
    );
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(object["metadata"]["labels"], json!({"made-by": "test"}));
    assert_eq!(object["status"]["phase"], "Ready");
}

async fn text_arrives_unharmed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let banner = "\u{1f680} \"quoted\" \\ back\u{301} \u{0}nul \u{7f} end";
    let registry = Registry::new().on_create(
        test.selector(),
        test.handler("create_fn", |context| async move { Ok(context.spec::<Value>()?["banner"].take()) }),
    );
    let working = test.start(registry);
    test.create("a", json!({"banner": banner})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(object["status"]["create_fn"], banner);
    assert_eq!(object["spec"]["banner"], banner);
}

async fn many_objects_are_handled_each_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let mut expected = Vec::new();
    for number in 0..50 {
        let name = format!("object-{number:02}");
        test.create(&name, json!({"size": number})).await;
        expected.push(format!("create_fn {name}"));
    }
    for number in 0..50 {
        test.until("it is handled", &format!("object-{number:02}"), is_handled).await;
    }
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, expected);
    test.assert_writes("object-00", 1).await;
    test.assert_writes("object-49", 1).await;
}
