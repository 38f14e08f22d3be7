//! Timers: called repeatedly according to their interval, their alignment and the idle time of their object.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_rs::{Callback, PermanentError, Registry, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Gate, TestOperator, Working, is_handled};

scenarios! {
    a_timer_is_called_again_and_again;
    an_interval_counts_from_the_end_of_a_call [memory];
    a_sharp_interval_counts_from_begin_to_begin [memory];
    an_initial_delay_comes_before_the_first_call [memory];
    an_idle_timer_waits_until_its_object_is_left_alone [memory];
    an_idle_timer_without_an_interval_is_called_once_after_each_change [memory];
    errors_take_the_place_of_the_schedule [memory];
    a_timer_that_changes_its_object_delays_no_handler [memory];
    a_due_timer_asks_no_filter_of_change_handlers [memory];
    a_permanent_error_ends_a_timer_until_its_object_is_changed [memory];
    a_timer_without_a_schedule_is_called_once [memory];
    a_timer_at_rest_holds_up_no_deletion [memory];
    a_timer_in_a_call_is_waited_for [memory];
    idle_timers_hold_up_neither_an_end_nor_a_deletion [memory];
    results_of_a_timer_are_written_each_time;
    first_calls_are_spread_over_the_interval [memory];
    a_timer_sees_the_current_object [memory];
    a_timer_of_an_unreadable_object_continues_with_its_next_event [memory];
    due_calls_of_an_unreadable_object_continue_once_it_is_readable [memory];
    a_week_of_a_timer_that_fails_now_and_then [memory];
    objects_of_simultaneous_timers_are_read_a_few_at_a_time [memory];
    panics_of_functions_for_delays_block_nothing_else [memory];
    an_operator_that_is_to_end_calls_each_timer_once [memory];
    an_operator_that_is_to_end_reports_timers_that_fail_or_do_not_return [memory];
    a_timer_that_runs_on_is_not_advised_an_option_of_daemons [memory];
    an_interval_of_zero_or_less_is_reported_at_the_start [memory];
}

/// A timer that records the seconds since the start of the test, and takes `tenths` of a second.
fn timed(test: &TestOperator, id: &'static str, tenths: u64) -> Callback {
    let (calls, begun) = (test.calls.clone(), Instant::now());
    handler(id, move |_| {
        calls.note(format!("{id} {:.1}", begun.elapsed().as_secs_f64()));
        async move {
            tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
            Ok(())
        }
    })
}

fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"] == json!(["tester.kopf.rs/finalizer"])
}

/// Returns the numbers that the calls of `id` have recorded.
fn seconds(test: &TestOperator, id: &str) -> Vec<f64> {
    let calls = test.calls.all();
    let numbers = calls.iter().filter_map(|call| {
        let number = call.strip_prefix(id)?.trim().parse::<f64>();
        number.ok()
    });
    let numbers: Vec<f64> = numbers.collect();
    let first = numbers.first().copied().unwrap_or_default();
    let tenths = |number: f64| ((number - first) * 10.0).round() / 10.0;
    numbers.into_iter().map(tenths).collect()
}

async fn a_timer_is_called_again_and_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.noting("t").interval(0.1);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.calls.until(5).await;
    test.until("it is held", "a", is_held).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    test.line("Timer 't' succeeded.").await;
    test.assert_writes("a", 2).await;
}

/// A due timer needs no plan for change handlers: their filters are evaluated only for changes of the object.
async fn a_due_timer_asks_no_filter_of_change_handlers(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let update = test.noting("u").when(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    let timer = test.noting("t").interval(1);
    let registry = Registry::new().timer(test.selector(), timer).on_update(test.selector(), update);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(3).await;
    let before = asked.load(Ordering::Relaxed);
    assert!(before > 0);
    test.calls.until(8).await;
    assert_eq!(asked.load(Ordering::Relaxed), before);
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.line("Handler 'u' succeeded.").await;
    working.stop().await;
}

async fn an_interval_counts_from_the_end_of_a_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = timed(&test, "t", 3).interval(1);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.calls.until(4).await;
    working.stop().await;
    assert_eq!(seconds(&test, "t"), [0.0, 1.3, 2.6, 3.9]);
}

async fn a_sharp_interval_counts_from_begin_to_begin(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .timer(test.selector(), timed(&test, "short", 3).interval(1).sharp())
        .timer(test.selector(), timed(&test, "long", 13).interval(1).sharp());
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(9).await;
    working.stop().await;
    assert_eq!(seconds(&test, "short")[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(seconds(&test, "long")[..3], [0.0, 2.0, 4.0]);
}

async fn an_initial_delay_comes_before_the_first_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = timed(&test, "t", 0).interval(1).initial_delay(5);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    let created = Instant::now();
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    assert_eq!(created.elapsed().as_secs(), 5);
    test.calls.until(3).await;
    working.stop().await;
    assert_eq!(seconds(&test, "t"), [0.0, 1.0, 2.0]);
}

/// Tests the timer with and without other handlers of changes.
async fn an_idle_timer_waits_until_its_object_is_left_alone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for (name, has_others) in [("alone", false), ("beside", true)] {
        let timer = timed(&test, name, 0).interval(1).idle(2);
        let mut registry = Registry::new().timer(test.selector(), timer);
        if has_others {
            registry = registry
                .on_create(test.selector(), handler("c", |_| async { Ok(()) }))
                .on_update(test.selector(), handler("u", |_| async { Ok(()) }));
        }
        let working = test.start(registry);
        let created = Instant::now();
        test.create(name, json!({})).await;
        let before = test.calls.all().len();
        test.calls.until(before + 1).await;
        assert_eq!(created.elapsed().as_secs(), 2, "{name}");
        let status = json!({"status": {"seen": true}});
        let path = format!("{name}/status");
        test.cluster.patch(&test.kind(), &path, &status).await;
        test.calls.until(before + 3).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let changed = Instant::now();
        test.patch(name, json!({"spec": {"size": 1}})).await;
        test.calls.until(before + 4).await;
        assert_eq!(changed.elapsed().as_secs(), 2, "{name}");
        working.stop().await;
        assert_eq!(seconds(&test, name), [0.0, 1.0, 2.0, 4.5], "{name}");
        test.delete(name).await;
        test.patch(name, json!({"metadata": {"finalizers": null}})).await;
        test.until_gone(name).await;
    }
}

async fn an_idle_timer_without_an_interval_is_called_once_after_each_change(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = timed(&test, "t", 0).idle(2);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.calls.all().len(), 1);
    let changed = Instant::now();
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(2).await;
    assert_eq!(changed.elapsed().as_secs(), 2);
    tokio::time::sleep(Duration::from_secs(60)).await;
    working.stop().await;
    assert_eq!(test.calls.all().len(), 2);
}

async fn errors_take_the_place_of_the_schedule(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (calls, begun) = (test.calls.clone(), Instant::now());
    let first = Arc::new(AtomicUsize::new(0));
    let timer = handler("t", move |context| {
        calls.note(format!("t {:.1}", begun.elapsed().as_secs_f64()));
        calls.note(format!("retry {}", context.retry()));
        let is_first = first.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                return Err(TemporaryError::new("not yet").delay(1).into());
            }
            Ok(())
        }
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(5)));
    test.create("a", json!({})).await;
    test.calls.until(6).await;
    working.stop().await;
    assert_eq!(seconds(&test, "t "), [0.0, 1.0, 6.0]);
    let calls = test.calls.all();
    let retries: Vec<_> = calls.iter().filter(|it| it.starts_with("retry")).collect();
    assert_eq!(retries, ["retry 0", "retry 1", "retry 0"]);
}

/// Row 30 is about changes that cause each other, but here the clock causes the changes.
async fn a_timer_that_changes_its_object_delays_no_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.handler("t", |context| async move {
        let size = context.read::<u64>("spec.size").unwrap_or_default();
        context.patch(|patch| patch.set("spec.size", size + 1));
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .timer(test.selector(), timer.interval(60))
        .on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.calls.until(60).await;
    working.stop().await;
    let told = |line: &str| line.contains("times in a row");
    assert_eq!(test.cluster.lines().count(told), 0);
}

async fn a_permanent_error_ends_a_timer_until_its_object_is_changed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.handler("t", |_| async { Err(PermanentError::new("no").into()) });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(1)));
    test.create("a", json!({})).await;
    test.line("Timer 't' failed permanently: no").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.calls.all(), ["t a"]);
    test.until("it is let go", "a", |object| !is_held(object)).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["t a", "t a"]);
}

async fn a_timer_without_a_schedule_is_called_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().timer(test.selector(), test.noting("t")));
    test.create("a", json!({})).await;
    test.line("Timer 't' has exited on its own").await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.until("it is let go", "a", |object| !is_held(object)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["t a"]);
}

async fn a_timer_at_rest_holds_up_no_deletion(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.noting("t").interval(365 * 24 * 60 * 60);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.line("Timer 't' succeeded.").await;
    test.until("it is held", "a", is_held).await;
    let deleted = Instant::now();
    test.delete("a").await;
    test.until_gone("a").await;
    assert!(deleted.elapsed() < Duration::from_secs(5));
    working.stop().await;
}

async fn a_timer_in_a_call_is_waited_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let timer = test.waiting("t", &gate).interval(1);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    test.delete("a").await;
    test.line("Timer 't' is told to exit: RESOURCE_DELETED.").await;
    assert!(is_held(&test.get("a").await));
    gate.open(1);
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["t a"]);
}

async fn idle_timers_hold_up_neither_an_end_nor_a_deletion(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), test.noting("t").idle(0.1));
    let working = test.start(registry);
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        test.until("it is handled", name, is_handled).await;
    }
    test.calls.until(4).await;
    test.delete("a").await;
    test.until_gone("a").await;
    let told = Instant::now();
    working.stop().await;
    assert!(told.elapsed() < Duration::from_secs(5));
}

async fn results_of_a_timer_are_written_each_time(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let count = Arc::new(AtomicUsize::new(0));
    let timer = test.handler("t", move |context| {
        let count = count.fetch_add(1, Ordering::Relaxed);
        async move {
            context.patch(|patch| patch["status"]["last"] = json!(count));
            Ok(json!({"count": count}))
        }
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(0.2)));
    test.create("a", json!({})).await;
    for count in [2, 4] {
        test.until("it has counted", "a", |object| {
            let status = &object["status"];
            status["t"]["count"].as_u64() >= Some(count) && status["last"] == status["t"]["count"]
        })
        .await;
    }
    working.stop().await;
}

async fn first_calls_are_spread_over_the_interval(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for nth in 0..40 {
        test.create(&format!("a{nth}"), json!({})).await;
    }
    let begun = Instant::now();
    let calls = test.calls.clone();
    let timer = handler("t", move |_| {
        calls.note(format!("{}", begun.elapsed().as_secs()));
        async { Ok(()) }
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(20)));
    test.calls.until(40).await;
    let all = test.calls.all();
    let first: Vec<u64> = all.iter().filter_map(|it| it.parse().ok()).collect();
    let most = (0..20).map(|at| first.iter().filter(|it| **it == at).count());
    assert!(most.max() < Some(12), "{first:?}");
    assert!(first.iter().all(|it| *it <= 20), "{first:?}");
    let created = Instant::now();
    test.create("new", json!({})).await;
    test.calls.until(41).await;
    assert!(created.elapsed() < Duration::from_secs(1), "a new one is not held back");
    working.stop().await;
}

async fn a_timer_sees_the_current_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let timer = handler("t", move |context| {
        calls.note(context.body().spec()["size"].to_string());
        async { Ok(()) }
    });
    let by_object = |cause: &kopf_rs::Cause| cause.body().spec()["every"].as_u64().unwrap_or(1);
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(by_object)));
    test.create("a", json!({"size": 1, "every": 30})).await;
    test.calls.until(1).await;
    test.patch("a", json!({"spec": {"size": 2, "every": 2}})).await;
    let waited = Instant::now();
    test.calls.until(2).await;
    assert_eq!(waited.elapsed().as_secs(), 30, "as it was when that was asked");
    let waited = Instant::now();
    test.calls.until(3).await;
    assert_eq!(waited.elapsed().as_secs(), 2);
    working.stop().await;
    assert_eq!(test.calls.all(), ["1", "2", "2"]);
}

async fn a_timer_of_an_unreadable_object_continues_with_its_next_event(cluster: TestCluster) {
    use kopf_rs_apiserver::{Fault, Verb};
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let forbid = |verb| server.fault(Fault::answer(403).on(verb).plural("kopfexamples"));
    let forbidden = [forbid(Verb::Get), forbid(Verb::List)];
    let timer = test.noting("t").interval(5);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.line("cannot read objects of this kind").await;
    assert_eq!(test.calls.all().len(), 1);
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(2).await;
    drop(forbidden);
    working.stop().await;
}

/// Stands for the replacement of a role, which is missing for a moment; the object does not change afterwards.
async fn due_calls_of_an_unreadable_object_continue_once_it_is_readable(cluster: TestCluster) {
    use kopf_rs_apiserver::{Fault, Verb};
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let forbid = |verb| server.fault(Fault::answer(403).on(verb).plural("kopfexamples"));
    let forbidden = [forbid(Verb::Get), forbid(Verb::List)];
    let daemon = test.handler("d", |context| async move {
        if context.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(5).into());
        }
        Ok(json!({"made": true}))
    });
    let registry =
        Registry::new().timer(test.selector(), test.noting("t").interval(5)).daemon(test.selector(), daemon);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.line("cannot read objects of this kind").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.calls.all().len(), 2, "one of each");
    let reads = forbidden[0].hits();
    assert!((2..12).contains(&reads), "{reads} reads in a minute");
    drop(forbidden);
    test.until("the daemon is called again", "a", |object| object["status"]["d"]["made"] == true).await;
    test.calls.until(6).await;
    working.stop().await;
    let ticks = test.calls.all().iter().filter(|call| call.starts_with("t ")).count();
    assert!(ticks >= 3, "{:?}", test.calls.all());
}

/// A week of virtual time, in which every tenth tick fails and every hundredth one panics.
async fn a_week_of_a_timer_that_fails_now_and_then(cluster: TestCluster) {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
    let test = TestOperator::of(cluster).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let timer = handler("t", move |_| {
        let nth = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            assert!(nth % 100 != 50, "the hundredth one");
            if nth % 10 == 5 {
                return Err(TemporaryError::new("not yet").delay(60).into());
            }
            Ok(())
        }
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(3600)));
    test.create("a", json!({})).await;
    let begun = Instant::now();
    while begun.elapsed() < WEEK {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    let ticks = count.load(Ordering::Relaxed);
    // 168 intervals; a failed tick is repeated after a minute, a panic after a second.
    assert!((180..195).contains(&ticks), "{ticks}");
    test.assert_writes("a", 2).await;
}

async fn panics_of_functions_for_delays_block_nothing_else(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let no_interval = |_: &kopf_rs::Cause| -> u64 { panic!("no interval") };
    let no_delay = |_: &kopf_rs::Cause| -> u64 { panic!("no delay") };
    let ticking = test.handler("t", |_| async { Ok(json!(1)) });
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), ticking.interval(no_interval))
        .timer(test.selector(), test.noting("late").initial_delay(no_delay));
    let working = test.start(registry);
    let created = Instant::now();
    test.create("a", json!({})).await;
    test.until("its result is written", "a", |it| it["status"]["t"] == 1).await;
    test.until("it is handled", "a", is_handled).await;
    assert!(created.elapsed() < Duration::from_secs(5));
    let line = "The function that says the interval of Timer 't' panicked";
    assert!(test.line(line).await.contains("no interval"));
    let line = "The function that says the initial delay of Timer 'late' panicked";
    assert!(test.line(line).await.contains("no delay"));
    test.line("Timer 'late' succeeded.").await;
    assert_eq!(created.elapsed().as_secs(), 60);
    working.stop().await;
    let calls = test.calls.all();
    let created = calls.iter().filter(|it| *it == "create_fn a");
    assert_eq!(created.count(), 1, "{calls:?}");
}

async fn an_operator_that_is_to_end_calls_each_timer_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let retried = test.handler("retried", |context| async move {
        if context.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(1).into());
        }
        Ok(json!("done"))
    });
    let registry = Registry::new()
        .timer(test.selector(), test.noting("hourly").interval(3600))
        .timer(test.selector(), retried)
        .timer(test.selector(), test.noting("late").initial_delay(3600))
        .timer(test.selector(), test.noting("idle").idle(3600));
    let begun = Instant::now();
    let operator = test.operator(registry).once();
    let report = Working::start(&test.cluster, operator).end().await;
    let report = report.expect("it ends well");
    assert_eq!((report.failed.len(), report.unserved.len()), (0, 0), "{report:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    for name in ["a", "b"] {
        let object = test.get(name).await;
        assert_eq!(object["status"]["retried"], "done", "{object}");
        let calls = test.calls.all();
        let count = |id: &str| {
            let call = format!("{id} {name}");
            calls.iter().filter(|it| **it == call).count()
        };
        let counts = ["hourly", "retried", "late", "idle"].map(count);
        assert_eq!(counts, [1, 2, 0, 0], "{calls:?}");
    }
}

async fn an_operator_that_is_to_end_reports_timers_that_fail_or_do_not_return(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let failing = test.handler("fails", |_| async { Err(PermanentError::new("no").into()) });
    let registry = Registry::new().timer(test.selector(), failing.interval(60));
    let operator = test.operator(registry).once();
    let report = Working::start(&test.cluster, operator).end().await;
    let report = report.expect("it ends well");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    let hanging = test.waiting("hangs", &Gate::closed()).interval(60);
    let operator = test.operator(Registry::new().timer(test.selector(), hanging)).once();
    let working = Working::start(&test.cluster, operator);
    test.calls.until(2).await;
    let report = working.stop().await;
    let told = report.unserved.join("\n");
    assert!(told.contains("its handlers had not finished: 'hangs'"), "{report:?}");
}

async fn a_timer_that_runs_on_is_not_advised_an_option_of_daemons(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let timer = test.waiting("t", &gate).interval(60);
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    test.until("it is held", "a", is_held).await;
    test.delete("a").await;
    let line = test.line("Timer 't' is still exiting.").await;
    assert!(!line.contains("cancellation_timeout"), "{line}");
    gate.open(1);
    test.until_gone("a").await;
    working.stop().await;
}

async fn objects_of_simultaneous_timers_are_read_a_few_at_a_time(cluster: TestCluster) {
    use kopf_rs_apiserver::{Fault, Verb};
    const OBJECTS: usize = 200;
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let timer = test.noting("t").interval(60).sharp();
    let working = test.start(Registry::new().timer(test.selector(), timer));
    for nth in 0..OBJECTS {
        test.create(&format!("a{nth}"), json!({})).await;
    }
    test.calls.until(OBJECTS).await;
    let slow = Fault::delay(Duration::from_secs(10)).on(Verb::Get);
    let slow = server.fault(slow.plural("kopfexamples"));
    // All timers are due by then, and no read is answered yet.
    tokio::time::sleep(Duration::from_secs(65)).await;
    let asked = slow.hits();
    assert!((1..=32).contains(&asked), "{asked}");
    drop(slow);
    test.calls.until(2 * OBJECTS).await;
    working.stop().await;
}

async fn an_interval_of_zero_or_less_is_reported_at_the_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for interval in [0.0, -1.0] {
        let timer = test.noting("t").interval(interval);
        let working = test.start(Registry::new().timer(test.selector(), timer));
        let error = working.end().await.expect_err("it does not start");
        let said = error.to_string();
        assert!(said.contains("an `interval` of zero, or a negative one"), "{said}");
    }
}
