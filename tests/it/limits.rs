//! Limits on concurrency and time, and handlers that cannot be interrupted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use kopf_rs::{Registry, Settings, TemporaryError, handler};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, Working, is_handled};

scenarios! {
    so_many_objects_are_worked_on_at_a_time;
    objects_that_wait_for_a_retry_block_no_others [memory];
    who_waits_for_a_place_is_handled_as_it_is_then [memory];
    the_time_of_a_handler_counts_from_its_first_attempt [memory];
    no_call_begins_after_the_operator_stops [memory];
    no_more_objects_are_planned_than_can_be_written_soon [memory];
    long_running_handlers_block_no_other_objects [memory];
    no_more_outcomes_are_written_at_a_time_than_objects_are_in_a_turn [memory];
    a_slow_server_does_not_block_other_objects_for_long [memory];
    blocking_handlers_that_do_not_end_are_named_and_left_behind [tcp real];
    a_call_that_does_not_return_is_reported_repeatedly [memory];
    a_call_that_delays_a_deletion_is_reported_soon [memory];
    an_activity_that_does_not_return_is_reported [memory];
}

fn one_at_a_time() -> Settings {
    Settings::with(|it| it.queueing.worker_limit = Some(1))
}

async fn so_many_objects_are_worked_on_at_a_time(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (gate.clone(), most.clone());
    let create = test.handler("create_fn", move |_| {
        let (gate, running, most) = (held.clone(), running.clone(), counted.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.pass().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Value::Null)
        }
    });
    let names = ["a", "b", "c", "d"];
    for name in names {
        test.create(name, json!({})).await;
    }
    let registry = Registry::new().on_create(test.selector(), create);
    let working = Working::start(&test.cluster, test.operator(registry).settings(one_at_a_time()));
    for called in 1..=names.len() {
        test.calls.until(called).await;
        gate.open(1);
    }
    for name in names {
        test.until("it is handled", name, is_handled).await;
    }
    working.stop().await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

async fn objects_that_wait_for_a_retry_block_no_others(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        match context.name() {
            "waiting" => Err(TemporaryError::new("not yet").delay(3600).into()),
            _ => Ok(Value::Null),
        }
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let working = Working::start(&test.cluster, test.operator(registry).settings(one_at_a_time()));
    test.create("waiting", json!({})).await;
    test.line("failed temporarily: not yet").await;
    test.create("other", json!({})).await;
    test.until("it is handled", "other", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn waiting", "create_fn other"]);
}

async fn who_waits_for_a_place_is_handled_as_it_is_then(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let slow = test.waiting("slow_fn", &gate);
    let timed = test.handler("timed_fn", |_| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_create(test.selector(), slow.when(|it| it.name() == "slow"))
        .on_create(test.selector(), timed.timeout(5).when(|it| it.name() != "slow"));
    let working = Working::start(&test.cluster, test.operator(registry).settings(one_at_a_time()));
    test.create("slow", json!({})).await;
    test.calls.until(1).await;
    test.create("gone", json!({})).await;
    test.create("timed", json!({})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    test.delete("gone").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.open(1);
    test.until("it is handled", "timed", is_handled).await;
    test.line("Handler 'timed_fn' succeeded.").await;
    let report = working.stop().await;
    assert_eq!(test.calls.all(), ["slow_fn slow", "timed_fn timed"]);
    assert_eq!(report.failed, []);
}

async fn the_time_of_a_handler_counts_from_its_first_attempt(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = test.handler("first_fn", |_| async { Ok(Value::Null) });
    let timed = test.handler("timed_fn", |_| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok(Value::Null)
    });
    let registry =
        Registry::new().on_create(test.selector(), first).on_create(test.selector(), timed.timeout(5));
    let names = ["a", "b", "c"];
    for name in names {
        test.create(name, json!({})).await;
    }
    let operator = test.operator(registry).settings(one_at_a_time());
    let working = Working::start(&test.cluster, operator);
    for name in names {
        test.until("it is handled", name, is_handled).await;
    }
    let report = working.stop().await;
    assert_eq!(report.failed, []);
    assert_eq!(test.calls.all().len(), 2 * names.len());
}

async fn no_call_begins_after_the_operator_stops(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting("create_fn", &gate);
    let registry = Registry::new().on_create(test.selector(), create);
    let working = Working::start(&test.cluster, test.operator(registry).settings(one_at_a_time()));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.create("b", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let opening = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        gate.open(2);
    };
    tokio::join!(working.stop(), opening);
    assert!(is_handled(&test.get("a").await));
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

/// More objects than hold a permit for a cycle at a time.
const CROWD: usize = 200;

async fn crowd(test: &TestOperator) {
    for number in 0..CROWD {
        test.create(&format!("object-{number}"), json!({})).await;
    }
}

/// Delays all writes.
fn slow_writes(test: &TestOperator, delay: Duration) -> FaultHandle {
    let server = test.cluster.in_process();
    let server = server.expect("this server is in the process");
    server.fault(Fault::delay(delay).on(Verb::Patch))
}

/// A cycle needs memory, so only few objects may be in a cycle at a time, however many have changed.
async fn no_more_objects_are_planned_than_can_be_written_soon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    crowd(&test).await;
    let slow = slow_writes(&test, Duration::from_millis(500));
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.calls.until(1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(test.calls.all().len(), 64);
    slow.clear();
    test.calls.until(CROWD).await;
    working.stop().await;
}

async fn long_running_handlers_block_no_other_objects(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    crowd(&test).await;
    let gate = Gate::closed();
    let create = test.waiting("create_fn", &gate);
    let event = test.handler("event_fn", |_| std::future::pending());
    let registry = Registry::new()
        .on_create(test.selector(), create.when(|it| it.name() != "object-0"))
        .on_event(test.selector(), event.when(|it| it.name() == "object-0"));
    let working = test.start(registry);
    test.calls.until(CROWD).await;
    gate.open(CROWD);
    for number in 1..CROWD {
        let name = format!("object-{number}");
        test.until("it is handled", &name, is_handled).await;
    }
    working.stop().await;
}

/// An object that has waited for its handler needs memory for its write like any other, and comes before objects that have not started.
async fn no_more_outcomes_are_written_at_a_time_than_objects_are_in_a_turn(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    crowd(&test).await;
    let slow = slow_writes(&test, Duration::from_millis(500));
    let create = test.handler("create_fn", |_| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.calls.until(1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let lines = test.cluster.lines();
    let settled = lines.count(|line| line.contains("Handler 'create_fn' succeeded."));
    assert_eq!(settled, 64);
    let called = test.calls.all().len();
    assert!(called < CROWD, "{called} have begun");
    slow.clear();
    test.calls.until(CROWD).await;
    working.stop().await;
}

async fn a_slow_server_does_not_block_other_objects_for_long(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    crowd(&test).await;
    let _slow = slow_writes(&test, Duration::from_secs(60));
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let began = tokio::time::Instant::now();
    let working = test.start(registry);
    test.calls.until(CROWD).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    working.stop().await;
}

mod blocking {
    use std::sync::mpsc::Receiver;
    use std::sync::{Arc, Mutex};

    use kopf_rs::prelude::*;

    #[on_create("endless.kopf.dev", "v1", "kopfexamples", timeout = 0.1)]
    #[expect(clippy::needless_pass_by_value, reason = "handlers get what they ask for by value")]
    fn waits(name: &str, until: State<Arc<Mutex<Receiver<()>>>>) -> HandlerResult {
        if name == "endless" {
            until.lock().map_err(|_| "poisoned")?.recv()?;
        }
        Ok(())
    }
}

async fn blocking_handlers_that_do_not_end_are_named_and_left_behind(cluster: TestCluster) {
    let mut test = TestOperator::bare(cluster);
    "endless.kopf.dev".clone_into(&mut test.group);
    test.serve().await;
    let (release, until) = mpsc::sync_channel(1);
    let until = Arc::new(Mutex::new(until));
    let module = concat!(module_path!(), "::blocking");
    let registry = Registry::in_module(module).expect("the handler is well declared");
    let settings = Settings::with(|it| it.queueing.exit_timeout = Duration::from_millis(100));
    let operator = test.operator(registry).settings(settings).with(until);
    let working = Working::start(&test.cluster, operator);
    test.create("endless", json!({})).await;
    test.line(
        "Handler 'waits' runs past its timeout of 0.1 seconds: a blocking function cannot be interrupted.",
    )
    .await;
    test.create("other", json!({})).await;
    test.until("it is handled", "other", is_handled).await;
    working.stop().await;
    test.line(
        "Handler 'waits' still runs although the operator stops: a blocking function cannot be interrupted.",
    )
    .await;
    test.line("Unprocessed streams left for 1 object(s).").await;
    assert!(!is_handled(&test.get("endless").await));
    release.send(()).expect("the handler still waits");
}

async fn a_call_that_does_not_return_is_reported_repeatedly(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting("create_fn", &gate);
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("stuck", json!({})).await;
    for seconds in [60, 120, 240] {
        let line =
            test.line(&format!("Handler 'create_fn' has been running for {seconds} seconds, since ")).await;
        assert!(line.contains("WARN"), "{line}");
        assert!(line.contains("the object waits for it"), "{line}");
        assert!(line.contains("`timeout = ..` sets one"), "{line}");
        assert!(line.contains("name=\"stuck\""), "{line}");
    }
    gate.open(1);
    test.until("it is handled", "stuck", is_handled).await;
    working.stop().await;
    let told = test.cluster.lines().count(|line| line.contains("has been running"));
    assert_eq!(told, 3);
}

async fn a_call_that_delays_a_deletion_is_reported_soon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting("create_fn", &gate);
    let registry = Registry::new()
        .on_create(test.selector(), create.timeout(3600))
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("stuck", json!({})).await;
    test.calls.until(1).await;
    test.delete("stuck").await;
    let line = test.line("Handler 'create_fn' has been running for 20 seconds, since ").await;
    assert!(line.contains("the deletion of the object waits for it"), "{line}");
    assert!(line.contains("Its timeout of 3600 seconds will end it"), "{line}");
    gate.open(1);
    test.until_gone("stuck").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn stuck", "delete_fn stuck"]);
}

async fn an_activity_that_does_not_return_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let startup = handler("startup_fn", move |_| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(Value::Null)
        }
    });
    let registry = Registry::new().on_startup(startup).on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let line = test.line("Activity 'startup_fn' has been running for 60 seconds, since ").await;
    assert!(line.contains("the operator waits for it"), "{line}");
    gate.open(1);
    working.stop().await;
}
