//! Timers with a schedule: called at the times of a cron expression, and once for all missed runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kopf_rs::{Callback, PermanentError, Registry};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{TestOperator, is_handled};

scenarios! {
    a_timer_is_called_at_the_times_of_its_schedule [memory];
    what_was_missed_is_told_and_made_once [memory];
    a_slow_run_delays_the_next_ones_without_a_backlog [memory];
    the_next_operator_does_not_repeat_a_permanently_failed_run [memory];
    the_first_note_goes_with_the_finalizer;
    an_impossible_schedule_is_reported_at_the_start [memory];
    a_missed_run_that_another_instance_makes_meanwhile_is_not_made_again [memory];
    a_filter_that_panics_at_first_hides_no_missed_run [memory];
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn nightly(timer: Callback) -> Callback {
    timer.schedule("0 3 * * *").zone("Europe/Kyiv")
}

/// Returns the time of the timer's last call, or of its first sight of the object, as stored on the object.
fn noted(object: &Value) -> Option<Timestamp> {
    let annotations = &object["metadata"]["annotations"];
    annotations["tester.kopf.rs/last-run.t"].as_str()?.parse().ok()
}

/// Waits until noon, which is far from three o'clock in any season.
async fn until_noon(test: &TestOperator) {
    test.create("clock", json!({})).await;
    let object = test.until("it is noted", "clock", |it| noted(it).is_some()).await;
    let now = noted(&object).expect("it is noted").as_second();
    test.delete("clock").await;
    test.until_gone("clock").await;
    let wait = (12 * 60 * 60 - now).rem_euclid(24 * 60 * 60);
    tokio::time::sleep(Duration::from_secs(wait.unsigned_abs())).await;
}

async fn a_timer_is_called_at_the_times_of_its_schedule(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().timer(test.selector(), nightly(test.noting("t"))));
    until_noon(&test).await;
    test.create("a", json!({})).await;
    let zone = TimeZone::get("Europe/Kyiv").expect("a zone");
    let mut runs = Vec::new();
    for _ in 0..5 {
        let before = test.calls.all().len();
        tokio::time::sleep(DAY).await;
        assert_eq!(test.calls.all().len(), before + 1, "one in each day");
        let run = noted(&test.get("a").await).expect("it is noted");
        let shown = zone.to_offset(run).to_datetime(run);
        assert_eq!((shown.hour(), shown.minute()), (3, 0), "{run}");
        assert!(!runs.contains(&run));
        runs.push(run);
    }
    working.stop().await;
    test.assert_writes("a", 6).await;
}

async fn what_was_missed_is_told_and_made_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let timer = nightly(test.noting("t"));
        let created = test.noting("create_fn");
        let registry = Registry::new().on_create(test.selector(), created);
        registry.timer(test.selector(), timer)
    };
    let working = test.start(registry());
    until_noon(&test).await;
    test.create("a", json!({})).await;
    tokio::time::sleep(DAY).await;
    working.stop().await;
    assert_eq!(test.calls.all()[1..], ["create_fn a", "t a"]);
    for (days, said, calls) in [
        (1, "Timer 't' has missed its run at ", 4),
        (30, "Timer 't' has missed several runs, the first at ", 5),
    ] {
        tokio::time::sleep(DAY * days).await;
        let working = test.start(registry());
        let line = test.line(said).await;
        assert!(line.contains("it is called once now."), "{line}");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(test.calls.all().len(), calls);
        working.stop().await;
        // No run is due between these two, so none is missed.
        let working = test.start(registry());
        tokio::time::sleep(Duration::from_secs(61)).await;
        working.stop().await;
    }
    let told = |line: &str| line.contains("has missed");
    assert_eq!(test.cluster.lines().count(told), 2);
}

async fn a_slow_run_delays_the_next_ones_without_a_backlog(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.handler("t", |_| async {
        tokio::time::sleep(Duration::from_secs(150)).await;
        Ok(Value::Null)
    });
    let timer = timer.schedule("* * * * *");
    let working = test.start(Registry::new().timer(test.selector(), timer));
    test.create("a", json!({})).await;
    tokio::time::sleep(HOUR).await;
    let calls = test.calls.all().len();
    assert_eq!(calls, 20, "every third minute");
    working.stop().await;
}

async fn the_next_operator_does_not_repeat_a_permanently_failed_run(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let timer = test.handler("t", |_| async { Err(PermanentError::new("no").into()) });
        Registry::new().timer(test.selector(), timer.schedule("0 * * * *"))
    };
    let working = test.start(registry());
    test.create("a", json!({})).await;
    test.line("Timer 't' failed permanently: no").await;
    tokio::time::sleep(HOUR / 2).await;
    working.stop().await;
    let working = test.start(registry());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(test.calls.all().len(), 1);
    test.calls.until(2).await;
    working.stop().await;
}

/// Tests on all servers that the first record causes no separate write.
async fn the_first_note_goes_with_the_finalizer(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), nightly(test.noting("t")));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    assert!(noted(&object).is_some(), "{object}");
    let held = json!(["tester.kopf.rs/finalizer"]);
    assert_eq!(object["metadata"]["finalizers"], held);
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    test.assert_writes("a", 3).await;
}

async fn an_impossible_schedule_is_reported_at_the_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let timer = test.noting("t").schedule("0 0 30 2 *");
    let working = test.start(Registry::new().timer(test.selector(), timer));
    let error = working.end().await.expect_err("it does not start");
    let said = error.to_string();
    assert!(said.contains("`schedule` never comes"), "{said}");
    assert!(said.contains("timer"), "{said}");
}

fn hourly(test: &TestOperator) -> Callback {
    test.noting("t").schedule("0 * * * *")
}

/// Runs an operator until the first run of an hourly timer, and then waits until ten minutes past the second full hour after it. Returns
/// the time of the first run.
async fn has_missed_two_runs(test: &TestOperator) -> Timestamp {
    let working = test.start(Registry::new().timer(test.selector(), hourly(test)));
    test.create("a", json!({})).await;
    while test.calls.all().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    working.stop().await;
    tokio::time::sleep(HOUR * 2 + HOUR / 6).await;
    noted(&test.get("a").await).expect("it is noted")
}

/// Stands for two instances of the operator during a handover.
async fn a_missed_run_that_another_instance_makes_meanwhile_is_not_made_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let first = has_missed_two_runs(&test).await;
    let working = test.start(Registry::new().timer(test.selector(), hourly(&test)));
    test.line("Timer 't' has missed several runs").await;
    let others = (first + SignedDuration::from_hours(2)).to_string();
    let note = json!({"metadata": {"annotations": {"tester.kopf.rs/last-run.t": others}}});
    test.patch("a", note).await;
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(test.calls.all().len(), 1, "nothing is missed any more");
    tokio::time::sleep(HOUR).await;
    assert_eq!(test.calls.all().len(), 2, "the next run");
    working.stop().await;
}

async fn a_filter_that_panics_at_first_hides_no_missed_run(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    has_missed_two_runs(&test).await;
    let is_first = AtomicBool::new(true);
    let timer = hourly(&test).when(move |_| {
        assert!(!is_first.swap(false, Ordering::Relaxed), "at first");
        true
    });
    let working = test.start(Registry::new().timer(test.selector(), timer));
    tokio::time::sleep(HOUR / 6).await;
    assert_eq!(test.calls.all().len(), 2, "the run that was missed");
    working.stop().await;
}
