//! Daemons: they run in parallel to all other work for the lifetime of their object, and end when the operator stops them.

use std::time::Duration;

use kopf_rs::prelude::Stopped;
use kopf_rs::{Callback, Context, PermanentError, Registry, TemporaryError, handler};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{TestOperator, Working, definition};

scenarios! {
    a_daemon_runs_until_its_object_is_deleted;
    a_daemon_that_returns_lets_its_object_go [memory];
    changes_of_a_daemon_are_written_before_its_next_attempt;
    labels_stop_a_daemon_and_start_it_again [memory];
    a_daemon_that_has_ended_is_not_started_by_labels [memory];
    the_end_of_the_operator_stops_a_daemon_and_the_next_one_starts_it [memory];
    a_daemon_sees_the_changes_of_its_object [memory];
    a_daemon_is_not_called_for_an_object_that_goes_before_its_initial_delay_is_over [memory];
    a_daemon_that_has_failed_permanently_blocks_nothing [memory];
    an_object_stays_until_all_its_daemons_have_ended [memory];
    no_daemon_is_left_of_an_object_that_came_and_went [memory];
    no_daemon_is_left_of_an_object_that_went_during_a_gap [memory];
    a_deletion_handler_is_called_once_while_a_daemon_exits [memory];
    a_daemon_that_ignores_its_flag_is_cut_off [memory];
    a_blocking_daemon_that_ignores_its_flag_is_abandoned [memory];
    a_daemon_that_ignores_its_flag_does_not_hold_up_the_end_of_the_operator [memory];
    an_object_that_is_not_watched_any_more_has_no_daemon [memory];
    a_daemon_that_panics_immediately_is_called_with_growing_pauses [memory];
    functions_of_a_daemon_change_the_current_object;
    an_operator_that_is_to_end_waits_for_no_daemon [memory];
}

/// A daemon that records its start and the reason of its stop, and then returns the reason.
fn patient(test: &TestOperator, id: &'static str) -> Callback {
    let calls = test.calls.clone();
    handler(id, move |context| {
        let calls = calls.clone();
        async move {
            calls.note(format!("{id} {} begins", context.name()));
            let reason = stopped(&context).wait().await;
            calls.note(format!("{id} {} ends: {reason}", context.name()));
            Ok(json!({"ended": true}))
        }
    })
}

/// A daemon that ignores its stop flag.
fn deaf(test: &TestOperator, id: &'static str) -> Callback {
    test.handler(id, |_| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    })
}

fn stopped(context: &Context) -> Stopped {
    let stopped = context.stopped();
    stopped.expect("a daemon has a stop flag").clone()
}

fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"] == json!(["tester.kopf.rs/finalizer"])
}

fn is_free(object: &Value) -> bool {
    !is_held(object)
}

/// Returns a patch that sets or removes the label.
fn label(value: Option<&str>) -> Value {
    json!({"metadata": {"labels": {"on": value}}})
}

async fn a_daemon_runs_until_its_object_is_deleted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().daemon(test.selector(), patient(&test, "d")));
    test.create("a", json!({"size": 1})).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    let expected = ["d a begins", "d a ends: RESOURCE_DELETED"];
    assert_eq!(test.calls.all(), expected);
    test.line("Daemon 'd' succeeded.").await;
}

async fn a_daemon_that_returns_lets_its_object_go(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = test.handler("d", |_| async { Ok(json!({"done": true})) });
    let working = test.start(Registry::new().daemon(test.selector(), daemon.clone()));
    test.create("a", json!({})).await;
    let is_done = |object: &Value| object["status"]["d"]["done"] == true && is_free(object);
    test.until("it has ended", "a", is_done).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.create("b", json!({})).await;
    test.until("the next one, too", "b", is_done).await;
    assert_eq!(test.calls.all(), ["d a", "d b"], "none is called again");
    working.stop().await;
    let again = test.start(Registry::new().daemon(test.selector(), daemon));
    test.calls.until(4).await;
    test.until("it has ended", "a", is_free).await;
    again.stop().await;
}

async fn changes_of_a_daemon_are_written_before_its_next_attempt(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = test.handler("d", |context| async move {
        let live = context.live().expect("a daemon sees its object").clone();
        let seen: Value = live.status()?;
        context.patch(|patch| patch["status"]["attempts"] = json!(context.retry() + 1));
        if context.retry() < 2 {
            return Err(TemporaryError::new("not yet").delay(0).into());
        }
        Ok(json!({"saw": seen["attempts"]}))
    });
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({})).await;
    let is_done = |object: &Value| object["status"]["d"]["saw"] == 2;
    let object = test.until("it has ended", "a", is_done).await;
    working.stop().await;
    assert_eq!(object["status"]["attempts"], 3);
    test.line("Daemon 'd' failed temporarily: not yet").await;
}

async fn labels_stop_a_daemon_and_start_it_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = patient(&test, "d").label("on", "yes");
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({})).await;
    test.patch("a", label(Some("yes"))).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    test.patch("a", label(None)).await;
    test.calls.until(2).await;
    test.until("it is let go", "a", is_free).await;
    test.patch("a", label(Some("yes"))).await;
    test.calls.until(3).await;
    test.until("it is held again", "a", is_held).await;
    working.stop().await;
    assert_eq!(test.calls.all()[..3], ["d a begins", "d a ends: FILTERS_MISMATCH", "d a begins"]);
}

async fn a_daemon_that_has_ended_is_not_started_by_labels(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .daemon(test.selector(), test.noting("d").label("on", "yes"))
        .on_update(test.selector(), test.noting("update_fn"))
        .on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    for (count, value) in [(3, Some("yes")), (4, None), (5, Some("yes"))] {
        test.patch("a", label(value)).await;
        test.calls.until(count).await;
    }
    test.until("it is let go", "a", is_free).await;
    working.stop().await;
    let calls = test.calls.all();
    let daemons = calls.iter().filter(|call| *call == "d a").count();
    assert_eq!((daemons, calls.len()), (1, 5), "{calls:?}");
}

async fn the_end_of_the_operator_stops_a_daemon_and_the_next_one_starts_it(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().daemon(test.selector(), patient(&test, "d"));
    for _ in 0..2 {
        let working = test.start(registry.clone());
        if test.calls.all().is_empty() {
            test.create("a", json!({})).await;
        }
        test.calls.until(test.calls.all().len() / 2 * 2 + 1).await;
        test.until("it is held", "a", is_held).await;
        working.stop().await;
    }
    let one = ["d a begins", "d a ends: OPERATOR_EXITING"];
    assert_eq!(test.calls.all(), [one, one].concat());
    let object = test.get("a").await;
    assert!(is_held(&object), "{object}");
    assert_eq!(object["status"]["d"]["ended"], true, "what it did is written");
}

async fn a_daemon_sees_the_changes_of_its_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let daemon = handler("d", move |context| {
        let calls = calls.clone();
        async move {
            let (live, stopped) = (context.live().expect("a daemon").clone(), stopped(&context));
            let mut seen = Value::Null;
            while !stopped.wait_for(Duration::from_millis(20)).await {
                let size = live.spec::<Value>()?["size"].clone();
                if size != seen {
                    calls.note(format!("{size}"));
                    seen = size;
                }
            }
            Ok(())
        }
    });
    let registry = Registry::new()
        .daemon(test.selector(), daemon)
        .on_update(test.selector(), handler("u", |_| async { Ok(()) }))
        .on_create(test.selector(), handler("c", |_| async { Ok(()) }));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.calls.until(1).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    test.patch("a", json!({"spec": {"size": 3}})).await;
    test.calls.until(3).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["1", "2", "3"]);
}

async fn a_daemon_is_not_called_for_an_object_that_goes_before_its_initial_delay_is_over(
    cluster: TestCluster,
) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().daemon(test.selector(), test.noting("late").initial_delay(30)).daemon(
        test.selector(),
        test.noting("by_function").initial_delay(|cause: &kopf_rs::Cause| cause.name().len() as u64),
    );
    let working = test.start(registry);
    let begun = Instant::now();
    test.create("abcde", json!({})).await;
    test.calls.until(1).await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    test.delete("abcde").await;
    test.until_gone("abcde").await;
    assert!(begun.elapsed().as_secs() < 10);
    tokio::time::sleep(Duration::from_secs(60)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["by_function abcde"]);
}

async fn a_daemon_that_has_failed_permanently_blocks_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = test.handler("d", |_| async { Err(PermanentError::new("no").into()) });
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({})).await;
    test.line("Daemon 'd' failed permanently: no").await;
    test.until("it is let go", "a", is_free).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.delete("a").await;
    test.until_gone("a").await;
    let report = working.stop().await;
    assert_eq!(test.calls.all(), ["d a"]);
    assert_eq!(report.failed.len(), 1, "{report:?}");
}

async fn an_object_stays_until_all_its_daemons_have_ended(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = crate::operating::Gate::closed();
    let registry = Registry::new()
        .daemon(test.selector(), test.noting("quick"))
        .daemon(test.selector(), test.waiting("slow", &gate));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    test.line("Daemon 'quick' has exited on its own").await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.delete("a").await;
    test.until("it is to be deleted", "a", |object| !object["metadata"]["deletionTimestamp"].is_null()).await;
    assert!(is_held(&test.get("a").await));
    gate.open(1);
    test.until_gone("a").await;
    working.stop().await;
}

async fn no_daemon_is_left_of_an_object_that_came_and_went(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    // Delays the finalizer until it is too late.
    let late = server.fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples"));
    let working = test.start(Registry::new().daemon(test.selector(), patient(&test, "d")));
    for name in ["a", "b", "c"] {
        test.create(name, json!({})).await;
    }
    test.calls.until(3).await;
    for name in ["a", "b", "c"] {
        test.delete(name).await;
    }
    test.calls.until(6).await;
    drop(late);
    test.create("d", json!({})).await;
    test.until("the next one is held", "d", is_held).await;
    working.stop().await;
    let calls = test.calls.all();
    let ended = calls.iter().filter(|it| it.ends_with("RESOURCE_DELETED"));
    assert_eq!(ended.count(), 3, "{calls:?}");
}

async fn no_daemon_is_left_of_an_object_that_went_during_a_gap(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let late = server.fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples"));
    let working = test.start(Registry::new().daemon(test.selector(), patient(&test, "d")));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let watches = server.fault(Fault::answer(503).on(Verb::Watch).plural("kopfexamples"));
    let lists = server.fault(Fault::answer(503).on(Verb::List).plural("kopfexamples"));
    drop(server.fault(Fault::cut().on(Verb::Watch).plural("kopfexamples")));
    test.delete("a").await;
    server.compact();
    drop((watches, lists, late));
    test.calls.until(2).await;
    working.stop().await;
    let expected = ["d a begins", "d a ends: RESOURCE_DELETED"];
    assert_eq!(test.calls.all(), expected);
}

async fn a_deletion_handler_is_called_once_while_a_daemon_exits(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = crate::operating::Gate::closed();
    let registry = Registry::new()
        .on_delete(test.selector(), test.noting("delete_fn"))
        .daemon(test.selector(), test.waiting("d", &gate));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    test.delete("a").await;
    test.calls.until(2).await;
    test.line("Handler 'delete_fn' succeeded.").await;
    for size in 0..3 {
        test.patch("a", json!({"spec": {"size": size}})).await;
    }
    test.patch("a", json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    gate.open(1);
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["d a", "delete_fn a"]);
}

async fn a_daemon_that_ignores_its_flag_is_cut_off(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = deaf(&test, "d").cancellation_backoff(2).cancellation_timeout(3);
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({})).await;
    test.until("it is held", "a", is_held).await;
    let deleted = Instant::now();
    test.delete("a").await;
    test.until_gone("a").await;
    assert_eq!(deleted.elapsed().as_secs(), 2);
    for line in [
        "Daemon 'd' is signalled to exit gracefully.",
        "Daemon 'd' is signalled to exit by force.",
        "Daemon 'd' has been cut off.",
    ] {
        test.line(line).await;
    }
    working.stop().await;
}

/// A daemon on a separate thread that ignores its stop flag until the test releases it.
#[expect(clippy::needless_pass_by_value, reason = "handlers take what they are given")]
mod in_a_thread {
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;

    use kopf_rs::prelude::*;

    pub(super) struct Leave(pub(super) Mutex<Receiver<()>>);

    #[daemon(group = "deaf.kopf.dev", version = "v1", plural = "kopfexamples", cancellation_timeout = 2)]
    fn deaf(leave: State<Leave>, name: &str) {
        info!("{name} has a thread");
        let leave = leave.0.lock().expect("nobody panics");
        // The channel is closed when the test has ended.
        leave.recv().unwrap_or_default();
    }
}

/// Returns an operator with such a daemon, and the sender that releases it.
async fn with_a_deaf_thread(cluster: TestCluster) -> (TestOperator, Working, std::sync::mpsc::Sender<()>) {
    let mut test = TestOperator::bare(cluster);
    "deaf.kopf.dev".clone_into(&mut test.group);
    test.serve().await;
    let (leave, waits) = std::sync::mpsc::channel();
    let module = concat!(module_path!(), "::in_a_thread");
    let registry = Registry::in_module(module).expect("the daemon is well declared");
    let state = in_a_thread::Leave(std::sync::Mutex::new(waits));
    let working = Working::start(&test.cluster, test.operator(registry).with(state));
    test.create("a", json!({})).await;
    test.line("a has a thread").await;
    test.until("it is held", "a", is_held).await;
    (test, working, leave)
}

async fn a_blocking_daemon_that_ignores_its_flag_is_abandoned(cluster: TestCluster) {
    let (test, working, leave) = with_a_deaf_thread(cluster).await;
    test.delete("a").await;
    test.until_gone("a").await;
    test.line("Daemon 'deaf' did not exit in time. Leaving it orphaned.").await;
    drop(leave);
    working.stop().await;
}

async fn a_daemon_that_ignores_its_flag_does_not_hold_up_the_end_of_the_operator(cluster: TestCluster) {
    let (test, working, leave) = with_a_deaf_thread(cluster).await;
    let told = Instant::now();
    working.stop().await;
    assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
    assert!(is_held(&test.get("a").await));
    drop(leave);
    let deaf = Registry::new().daemon(test.selector(), deaf(&test, "d"));
    let working = test.start(deaf);
    test.calls.until(1).await;
    let told = Instant::now();
    working.stop().await;
    assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
}

async fn an_object_that_is_not_watched_any_more_has_no_daemon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().daemon(test.selector(), patient(&test, "d")));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    let mut crd = definition(&test.group);
    for served in [false, true] {
        let mut v2 = crd["spec"]["versions"][0].clone();
        v2["name"] = json!("v2");
        v2["storage"] = json!(false);
        crd["spec"]["versions"][0]["served"] = json!(served);
        let versions = crd["spec"]["versions"].as_array_mut().expect("a list");
        if versions.len() == 1 {
            versions.push(v2);
        }
        test.cluster.apply(&crd.to_string()).await;
        test.calls.until(if served { 3 } else { 2 }).await;
    }
    working.stop().await;
    assert_eq!(test.calls.all()[..3], ["d a begins", "d a ends: RESOURCE_UNWATCHED", "d a begins"]);
}

async fn a_daemon_that_panics_immediately_is_called_with_growing_pauses(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let daemon = test.handler("d", |_| async { panic!("at once") });
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    let calls = test.calls.all().len();
    assert!((12..25).contains(&calls), "{calls}");
    test.assert_writes("a", 2).await;
}

async fn functions_of_a_daemon_change_the_current_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = crate::operating::Gate::closed();
    let held = gate.clone();
    let daemon = test.handler("d", move |context| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            context.patch(|patch| {
                patch.transform(|object| {
                    let size = object["spec"]["size"].as_u64().unwrap_or_default();
                    object["spec"]["double"] = json!(size * 2);
                });
            });
            Ok(Value::Null)
        }
    });
    let working = test.start(Registry::new().daemon(test.selector(), daemon));
    test.create("a", json!({"size": 1})).await;
    test.calls.until(1).await;
    test.until("it is held", "a", is_held).await;
    test.patch("a", json!({"spec": {"size": 5}})).await;
    gate.open(1);
    test.until("it is made of the newest", "a", |object| object["spec"]["double"] == 10).await;
    working.stop().await;
}

async fn an_operator_that_is_to_end_waits_for_no_daemon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), test.noting("timer").interval(3600))
        .daemon(test.selector(), patient(&test, "d"));
    let operator = test.operator(registry).once();
    let report = Working::start(&test.cluster, operator).end().await;
    let report = report.expect("it ends well");
    assert_eq!((report.failed.len(), report.unserved.len()), (0, 0), "{report:?}");
    let calls = test.calls.all();
    assert!(calls.contains(&"create_fn a".to_owned()), "{calls:?}");
    let begun = calls.iter().filter(|it| it.ends_with("begins")).count();
    let ended = calls.iter().filter(|it| it.ends_with("OPERATOR_EXITING"));
    assert_eq!(ended.count(), begun, "{calls:?}");
}
