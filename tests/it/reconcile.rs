//! Level-triggered handlers: they get the present object, never run twice at once for it, and run only after changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_rs::prelude::Again;
use kopf_rs::{PermanentError, Registry, Settings, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Gate, KIND, TestOperator, Working, is_handled};

scenarios! {
    // In memory only: what takes minutes, or is measured.
    it_is_called_for_existing_and_new_objects_and_blocks_nothing;
    no_request_is_sent_at_rest [memory];
    all_that_changes_during_a_call_is_one_more_call [memory];
    its_return_value_requeues_the_object [memory];
    errors_are_repeated_and_permanent_ones_wait_for_another_object [memory];
    a_retrying_handler_does_not_hold_it_up [memory];
    handlers_of_changes_go_first [memory];
    the_finalizer_is_on_before_the_first_call [memory];
    finalizing_is_the_last_thing [memory];
    an_object_that_goes_takes_its_calls_along [memory];
    an_operator_that_is_to_end_reconciles_each_object_once [memory];
    its_own_status_changes_trigger_no_call;
    a_reconciler_that_changes_its_object_each_time_is_reported_and_slowed_down [memory];
    a_reconciler_that_requeues_immediately_is_reported_and_slowed_down [memory];
    a_refused_change_of_a_reconciler_is_reported_as_a_reconcilers [memory];
    no_more_calls_run_at_the_same_time_than_the_settings_say [memory];
}

fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"] == json!(["tester.kopf.rs/finalizer"])
}

async fn it_is_called_for_existing_and_new_objects_and_blocks_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let working = test.start(Registry::new().reconcile(test.selector(), test.noting("r")));
    test.calls_until("r a").await;
    test.create("b", json!({})).await;
    test.calls_until("r b").await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    test.line("Reconciler 'r' succeeded.").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["r a", "r b", "r a"]);
    let working = test.start(Registry::new().reconcile(test.selector(), test.noting("r")));
    test.calls.until(5).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.all_writes("a").await, 0);
}

/// CH2, without children; and the resync after it.
async fn no_request_is_sent_at_rest(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for nth in 0..10 {
        test.create(&format!("a{nth}"), json!({})).await;
    }
    let working = test.start(Registry::new().reconcile(test.selector(), test.noting("r")));
    test.calls.until(10).await;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = |test: &TestOperator| {
        let asked = test.cluster.asked().into_iter();
        asked.filter(|it| it.verb != "watch").count()
    };
    let before = asked(&test);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked(&test), before);
    assert_eq!(test.calls.all().len(), 10);
    // Ten hours, plus or minus a tenth.
    let until = |hours: u64| begun + Duration::from_secs(hours * 3600);
    tokio::time::sleep_until(until(8)).await;
    assert_eq!(test.calls.all().len(), 10);
    tokio::time::sleep_until(until(12)).await;
    assert_eq!(test.calls.all().len(), 20);
    working.stop().await;
}

/// CH46 and CH51 for changes of the object.
async fn all_that_changes_during_a_call_is_one_more_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let (calls, held) = (test.calls.clone(), gate.clone());
    let function = handler("r", move |cause| {
        let (calls, gate) = (calls.clone(), held.clone());
        async move {
            calls.note(format!("begins with {}", cause.body().spec()["size"]));
            gate.pass().await;
            calls.note("ends");
            Ok(())
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({"size": 0})).await;
    test.calls.until(1).await;
    for size in 1..=20 {
        test.patch("a", json!({"spec": {"size": size}})).await;
    }
    gate.open(1);
    test.calls.until(3).await;
    gate.open(5);
    test.calls.until(4).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["begins with 0", "ends", "begins with 20", "ends"]);
}

/// CH47, with a change of the object instead of a child.
async fn its_return_value_requeues_the_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (calls, begun) = (test.calls.clone(), Instant::now());
    let function = handler("r", move |cause| {
        calls.note(format!("{}", begun.elapsed().as_secs()));
        async move {
            if cause.body().spec()["wait"] == true {
                cause.again(Again::after(30));
            }
            Ok(())
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({"wait": true})).await;
    test.calls.until(2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    test.patch("a", json!({"spec": {"wait": false}})).await;
    test.calls.until(3).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["0", "30", "40"]);
}

async fn errors_are_repeated_and_permanent_ones_wait_for_another_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let function = test.handler("r", |cause| async move {
        match (cause.body().spec()["size"].as_u64(), cause.retry()) {
            (None, 0) => Err(TemporaryError::new("not yet").delay(5).into()),
            (None, _) => Err(PermanentError::new("never").into()),
            (Some(size), retry) if u64::from(retry) < size => Err("no".into()),
            _ => Ok(Value::Null),
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    let begun = Instant::now();
    test.calls.until(2).await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    test.line("Reconciler 'r' failed temporarily: not yet").await;
    test.line("Reconciler 'r' failed permanently: never").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(test.calls.all().len(), 2);
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let begun = Instant::now();
    test.calls.until(5).await;
    let seconds = begun.elapsed().as_secs_f64();
    assert!((3.0..4.0).contains(&seconds), "one and two seconds: {seconds}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    working.stop().await;
    assert_eq!(test.calls.all().len(), 5);
}

/// CH54.
async fn a_retrying_handler_does_not_hold_it_up(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let until = Instant::now() + Duration::from_secs(3000);
    let update = test.handler("update_fn", move |_| async move {
        if Instant::now() < until {
            return Err(TemporaryError::new("not yet").delay(60).into());
        }
        Ok(json!("done"))
    });
    let registry =
        Registry::new().on_update(test.selector(), update).reconcile(test.selector(), test.noting("r"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls_until("r a").await;
    let changed = Instant::now();
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    assert_eq!(changed.elapsed().as_secs(), 0);
    assert_eq!(test.calls.all()[1..], ["update_fn a", "r a"]);
    test.until("it is handled", "a", |object| object["status"]["update_fn"] == "done" && is_handled(object))
        .await;
    working.stop().await;
    let calls = test.calls.all();
    let reconciled = calls.iter().filter(|it| *it == "r a").count();
    assert_eq!(reconciled, 2, "once for each change");
}

async fn handlers_of_changes_go_first(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let seen = test.calls.clone();
    let function = handler("r", move |cause| {
        seen.note(format!("r sees {}", cause.body().status()["create_fn"]));
        async { Ok(()) }
    });
    let create = test.handler("create_fn", |_| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(json!("made"))
    });
    let registry = Registry::new()
        .reconcile(test.selector(), function)
        .on_create(test.selector(), create)
        .on_resume(test.selector(), test.noting("resume_fn"));
    let working = test.start(registry.clone());
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    working.stop().await;
    let working = test.start(registry);
    let begun = Instant::now();
    test.calls.until(4).await;
    assert_eq!(begun.elapsed().as_secs(), 0);
    working.stop().await;
    let expected = ["create_fn a", "r sees \"made\"", "resume_fn a", "r sees \"made\""];
    assert_eq!(test.calls.all(), expected);
}

async fn the_finalizer_is_on_before_the_first_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let function = handler("r", move |cause| {
        calls.note(format!("held: {}", is_held(cause.body())));
        async { Ok(()) }
    });
    let registry =
        Registry::new().reconcile(test.selector(), function).finalize(test.selector(), test.noting("z"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["held: true", "z a"]);
}

/// CH55.
async fn finalizing_is_the_last_thing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let calls = test.calls.clone();
    let daemon = handler("d", move |cause| {
        let calls = calls.clone();
        async move {
            let stopped = cause.stopped().cloned();
            stopped.expect("daemons have one").wait().await;
            calls.note("d ends");
            Ok(())
        }
    });
    let registry = Registry::new()
        .finalize(test.selector(), test.noting("z"))
        .on_delete(test.selector(), test.noting("delete_fn"))
        .daemon(test.selector(), daemon)
        .reconcile(test.selector(), test.waiting("r", &gate));
    let working = test.start(registry);
    for policy in ["Background", "Foreground"] {
        let before = test.calls.all().len();
        test.create("a", json!({})).await;
        test.calls.until(before + 1).await;
        let path = format!("/apis/{}/v1/namespaces/{}/{KIND}/a", test.group, test.cluster.namespace());
        let options = json!({"propagationPolicy": policy});
        let deleted = test.cluster.request("DELETE", &path, Some(&options)).await;
        deleted.expect("it is there");
        test.calls.until(before + 3).await;
        test.line("Reconciler 'r' is told to exit: RESOURCE_DELETED.").await;
        gate.open(1);
        test.until_gone("a").await;
        let calls = test.calls.all()[before..].to_vec();
        let mut beside = calls[1..3].to_vec();
        beside.sort();
        assert_eq!(beside, ["d ends", "delete_fn a"], "{policy}");
        assert_eq!((&*calls[0], &calls[3..]), ("r a", &["z a".to_owned()][..]), "{policy}");
    }
    working.stop().await;
}

/// No finalizer holds the object.
async fn an_object_that_goes_takes_its_calls_along(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let function = handler("r", move |cause| {
        let calls = calls.clone();
        async move {
            calls.note("begins");
            let stopped = cause.stopped().cloned();
            stopped.expect("it has one").wait().await;
            calls.note("ends");
            cause.patch(|patch| patch.set("status.late", true));
            Ok(())
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.delete("a").await;
    test.until_gone("a").await;
    test.calls.until(2).await;
    test.create("a", json!({})).await;
    test.calls.until(3).await;
    // This is the new object with the same name.
    assert_eq!(test.get("a").await["status"], Value::Null);
    working.stop().await;
}

async fn an_operator_that_is_to_end_reconciles_each_object_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let function = test.handler("r", |cause| async move {
        cause.again(Again::after(30));
        if cause.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(1).into());
        }
        cause.patch(|patch| patch.set("status.done", true));
        Ok(Value::Null)
    });
    let operator = test.operator(Registry::new().reconcile(test.selector(), function));
    let report = Working::start(&test.cluster, operator.once()).end().await;
    let report = report.expect("it ends well");
    assert!(report.failed.is_empty(), "{report:?}");
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, ["r a", "r a", "r b", "r b"]);
    assert_eq!(test.get("b").await["status"]["done"], true);
}

async fn its_own_status_changes_trigger_no_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let count = Arc::new(AtomicUsize::new(0));
    let function = test.handler("r", move |cause| {
        let count = count.fetch_add(1, Ordering::Relaxed);
        async move {
            cause.patch(|patch| patch.set("status.count", count + 1));
            Ok(Value::Null)
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    test.until("it has counted", "a", |object| object["status"]["count"] == 1).await;
    test.patch("a", json!({"metadata": {"labels": {"a": "x"}}})).await;
    test.until("it has counted", "a", |object| object["status"]["count"] == 2).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["r a", "r a"]);
    test.assert_writes("a", 2).await;
}

async fn a_reconciler_that_changes_its_object_each_time_is_reported_and_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let count = Arc::new(AtomicUsize::new(0));
    let function = test.handler("r", move |cause| {
        let count = count.fetch_add(1, Ordering::Relaxed).to_string();
        async move {
            cause.patch(|patch| patch.set(["metadata", "labels", "count"], count));
            Ok(Value::Null)
        }
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    test.calls.until(20).await;
    let told = "Reconciler 'r' has changed what it is called for in 20 calls in a row, the last time at metadata.labels.count";
    test.line(told).await;
    let begun = Instant::now();
    test.calls.until(28).await;
    let slowed = begun.elapsed().as_secs();
    assert!((90..=130).contains(&slowed), "{slowed} seconds");
    // A change of the object by others is not throttled.
    let changed = Instant::now();
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(29).await;
    assert_eq!(changed.elapsed().as_secs(), 0);
    working.stop().await;
}

async fn a_reconciler_that_requeues_immediately_is_reported_and_slowed_down(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let function = test.handler("r", |cause| async move {
        if cause.body().spec()["rests"] != true {
            cause.again(Again::after(0));
        }
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().reconcile(test.selector(), function));
    test.create("a", json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = test.calls.all().len();
    assert!((59..=62).contains(&calls), "{calls} calls");
    test.patch("a", json!({"spec": {"rests": true}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = test.calls.all().len();
    assert!(calls <= 63, "{calls} calls");
    working.stop().await;
    let told =
        "Reconciler 'r' wants to be called again at once (`Again::after(0)`): it is called every 1 seconds";
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|line| line.contains(told)), 1);
}

async fn a_refused_change_of_a_reconciler_is_reported_as_a_reconcilers(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    test.serve_strictly().await;
    test.create("a", json!({})).await;
    let function = test.handler("r", |cause| async move {
        cause.patch(|patch| patch.set("status.text", "no number"));
        Ok(Value::Null)
    });
    let operator = test.operator(Registry::new().reconcile(test.selector(), function));
    let report = Working::start(&test.cluster, operator.once()).end().await;
    let told = report.expect("it ends").unserved.join("\n");
    let expected = "the server has refused the changes of reconcilers: ";
    assert!(told.contains(expected), "{told}");
}

async fn no_more_calls_run_at_the_same_time_than_the_settings_say(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for nth in 0..20 {
        test.create(&format!("a{nth}"), json!({})).await;
    }
    let gate = Gate::closed();
    let (ended, held) = (test.calls.clone(), gate.clone());
    let function = test.handler("r", move |cause| {
        let (ended, gate) = (ended.clone(), held.clone());
        async move {
            gate.pass().await;
            ended.note(format!("ends {}", cause.name()));
            Ok(Value::Null)
        }
    });
    let registry =
        Registry::new().reconcile(test.selector(), function).on_update(test.selector(), test.noting("u"));
    let settings = Settings::with(|settings| settings.execution.max_reconciles = 3);
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    test.calls.until(3).await;
    let begun = |calls: &[String]| calls.iter().filter(|it| it.starts_with("r ")).count();
    // Objects that wait for a slot are not blocked otherwise: their other handlers run, and they can be deleted.
    let calls = test.calls.all();
    let waits = |name: &&String| !calls.contains(&format!("r {name}"));
    let names: Vec<String> = (0..20).map(|nth| format!("a{nth}")).collect();
    let waiting: Vec<&String> = names.iter().filter(waits).collect();
    assert_eq!(waiting.len(), 17, "{calls:?}");
    test.patch(waiting[0], json!({"spec": {"size": 1}})).await;
    test.calls_until(&format!("u {}", waiting[0])).await;
    test.delete(waiting[1]).await;
    test.until_gone(waiting[1]).await;
    assert_eq!(begun(&test.calls.all()), 3);
    for _ in 0..19 {
        let before = test.calls.all().len();
        gate.open(1);
        test.calls.until(before + 1).await;
    }
    let calls = test.calls.until(1 + 2 * 19).await;
    working.stop().await;
    let mut running: i32 = 0;
    for call in calls.iter().filter(|it| !it.starts_with("u ")) {
        running += if call.starts_with("r ") { 1 } else { -1 };
        assert!((0..=3).contains(&running), "{calls:?}");
    }
    assert_eq!(begun(&calls), 19, "each of them once: {calls:?}");
}
