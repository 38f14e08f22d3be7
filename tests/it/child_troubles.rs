//! Children in trouble: requests that nobody awaits, names that were refused, versions and lists that come and go.

use std::time::Duration;

use kopf_rs::{Context, HandlerResult, Registry, Settings};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, KIND, TestOperator, Working, definition_of_versions};
use crate::owned::{keeping, map, settled, until};

scenarios! {
    an_apply_that_is_not_awaited_delays_nothing [memory];
    a_name_that_was_refused_is_free_for_another_owner [memory];
    handlers_that_own_a_kind_in_two_versions_are_both_called;
    a_failing_reconciler_that_changes_its_object_waits_for_the_next_attempt [memory];
    a_restart_changes_nothing_and_reports_that [memory];
    an_owner_that_is_deleted_during_its_call_is_no_error;
}

/// One request for a child takes the only place of all writes, and its handler does something else meanwhile.
async fn an_apply_that_is_not_awaited_delays_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let delay = Fault::delay_answer(Duration::from_secs(3));
    let _delays = server.fault(delay.on(Verb::Patch).plural("configmaps"));
    let gate = Gate::closed();
    let held = gate.clone();
    let careless = test.handler("careless", move |context: Context| {
        let gate = held.clone();
        async move {
            let wanted = map("child", &json!({"a": "1"}));
            let children = context.children()?;
            let mut apply = Box::pin(children.apply(&wanted));
            let begun = tokio::time::timeout(Duration::from_secs(1), &mut apply).await;
            assert!(begun.is_err(), "it is under way");
            gate.pass().await;
            apply.await?;
            Ok(json!("applied"))
        }
    });
    let other = test.handler("other", |_| async { Ok(json!("written")) });
    let registry = Registry::new()
        .on_create(test.selector(), careless.label("role", "careless"))
        .on_create(test.selector(), other.label("role", "other"));
    let settings = Settings::with(|it| it.networking.concurrent_writes = 1);
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    create_as(&test, "one", "careless").await;
    test.calls.until(1).await;
    until(&test, "it is made", |_| true).await;
    create_as(&test, "two", "other").await;
    test.until("it is written", "two", |it| it["status"]["other"] == "written").await;
    gate.open(1);
    test.until("it is written", "one", |it| it["status"]["careless"] == "applied").await;
    working.stop().await;
}

async fn create_as(test: &TestOperator, name: &str, role: &str) {
    let api_version = format!("{}/v1", test.group);
    let metadata = json!({"name": name, "labels": {"role": role}});
    let object = json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": metadata});
    test.cluster.create(&object).await;
}

async fn a_name_that_was_refused_is_free_for_another_owner(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().reconcile(test.selector(), keeping(&test)));
    let mut wrong = map("child", &json!({"a": "1"}));
    wrong["colour"] = json!("red");
    test.create("one", json!({"children": [wrong]})).await;
    let told = test.line("Reconciler 'keep' failed permanently").await;
    assert!(told.contains("colour"), "{told}");
    let right = map("child", &json!({"a": "1"}));
    let owner = test.create("two", json!({"children": [right]})).await;
    let made = until(&test, "it is made", |_| true).await;
    let references = &made["metadata"]["ownerReferences"];
    assert_eq!(references[0]["uid"], owner["metadata"]["uid"]);
    working.stop().await;
}

/// The kind of a child, in the group and in this version.
fn inner(group: &str, version: &str) -> Value {
    let api_version = format!("{group}/{version}");
    json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": "inner"}, "spec": {"size": 1}})
}

async fn handlers_that_own_a_kind_in_two_versions_are_both_called(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let group = format!("inner.{}", test.group);
    let versions = [("v1", true, true), ("v2", true, false)];
    let crd = definition_of_versions(&group, &versions);
    test.cluster.apply(&crd.to_string()).await;
    let first = keeping(&test).owns((group.as_str(), "v1", KIND));
    let second = test.noting("second").owns((group.as_str(), "v2", KIND));
    let registry = Registry::new().reconcile(test.selector(), first).reconcile(test.selector(), second);
    let working = test.start(registry);
    test.create("one", json!({"children": [inner(&group, "v1")]})).await;
    let kind = format!("{KIND}.{group}");
    let is_there = |object: Option<&Value>| object.is_some();
    test.cluster.until("it is made", &kind, "inner", is_there).await;
    test.line("Reconciler 'keep' succeeded.").await;
    test.line("Reconciler 'second' succeeded.").await;
    let before = test.calls.all().len();
    let edit = json!({"spec": {"size": 2}});
    test.cluster.patch(&kind, "inner", &edit).await;
    let mut calls = test.calls.until(before + 2).await.split_off(before);
    calls.sort();
    working.stop().await;
    assert_eq!(calls, ["keep one", "second one"]);
}

async fn a_failing_reconciler_that_changes_its_object_waits_for_the_next_attempt(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let function = test.handler("r", |cause| async move {
        let retry = cause.retry().to_string();
        cause.patch(|patch| patch.set(["metadata", "labels", "retry"], retry));
        Err(kopf_rs::TemporaryError::new("not yet").delay(30).into())
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    let begun = tokio::time::Instant::now();
    test.calls.until(4).await;
    assert_eq!(begun.elapsed().as_secs(), 90);
    // Others are waited for by nobody.
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(5).await;
    assert_eq!(begun.elapsed().as_secs(), 90);
    working.stop().await;
}

async fn a_restart_changes_nothing_and_reports_that(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().reconcile(test.selector(), keeping(&test));
    let working = test.start(registry());
    settled(&test).await;
    test.line("Reconciler 'keep' succeeded.").await;
    working.stop().await;
    let working = test.start(registry());
    test.calls.until(2).await;
    test.line("ConfigMap `child` is applied without a change.").await;
    working.stop().await;
    let lines = test.cluster.lines();
    let changed = lines.count(|line| line.contains("ConfigMap `child` is changed."));
    assert_eq!(changed, 0, "{}", lines.all().join("\n"));
}

/// Applies a child once the gate lets it.
async fn apply_late(context: Context, gate: Gate) -> HandlerResult<Value> {
    gate.pass().await;
    let late = map("late", &json!({}));
    context.children()?.apply(&late).await?;
    Ok(Value::Null)
}

async fn an_owner_that_is_deleted_during_its_call_is_no_error(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let function = test.handler("r", move |context| apply_late(context, held.clone()));
    let registry =
        Registry::new().reconcile(test.selector(), function).on_delete(test.selector(), test.noting("clean"));
    let working = test.start(registry);
    test.create("one", json!({})).await;
    test.calls.until(1).await;
    test.delete("one").await;
    let is_deleting = |it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
    test.until("it is to be deleted", "one", is_deleting).await;
    test.calls_until("clean one").await;
    gate.open(5);
    test.until_gone("one").await;
    test.line("Reconciler 'r' is ended, because the object is being deleted").await;
    let report = working.stop().await;
    assert!(report.failed.is_empty(), "{report:?}");
    let lines = test.cluster.lines();
    let errors = lines.count(|line| line.contains("ERROR") || line.contains("WARN"));
    assert_eq!(errors, 0, "{}", lines.all().join("\n"));
    assert_eq!(test.cluster.get("configmaps", "late").await, None);
}
