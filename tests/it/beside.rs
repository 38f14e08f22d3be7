//! Daemons and timers beside the handlers of their object: neither side delays the other or loses its results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf_rs::{Callback, Registry, TemporaryError, handler};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Gate, TestOperator, definition, is_handled};

scenarios! {
    a_timer_is_called_while_a_handler_of_its_object_runs [memory];
    labels_start_and_stop_a_daemon_while_a_handler_of_its_object_runs [memory];
    a_deletion_reaches_a_daemon_while_a_handler_of_its_object_runs [memory];
    a_daemon_is_tried_again_and_sees_changes_while_a_handler_of_its_object_runs [memory];
    a_change_is_handled_though_a_timer_has_written_after_it;
    finalizers_of_others_stay_as_they_are_though_a_daemon_has_written;
    a_refused_change_of_a_timer_does_not_affect_handlers [memory];
    outcomes_are_written_before_the_wait_for_a_daemon [memory];
    a_daemon_that_has_returned_is_not_called_again_where_its_object_is_watched_again [memory];
    a_timer_does_not_cut_short_the_pauses_after_refusals [memory];
    a_timer_that_writes_excuses_no_handler_that_calls_itself [memory];
    changes_of_a_timer_are_written_while_a_refused_handler_pauses [memory];
    a_failed_write_beside_a_handler_is_reported_and_repeated_when_the_server_asks [memory];
    a_missing_permission_beside_a_handler_is_reported [memory];
    a_timers_function_counts_once_though_an_answer_beside_a_handler_is_lost [memory];
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("this server is in the process")
}

/// Returns the number of calls of the handler for the object `a`.
fn calls_of(test: &TestOperator, id: &str) -> usize {
    let (call, calls) = (format!("{id} a"), test.calls.all());
    calls.iter().filter(|it| **it == call).count()
}

/// A timer that returns its number of calls.
fn counting(test: &TestOperator, id: &str) -> Callback {
    let count = Arc::new(AtomicU64::new(0));
    test.handler(id, move |_| {
        let nth = count.fetch_add(1, Ordering::Relaxed) + 1;
        async move { Ok(json!(nth)) }
    })
}

/// A daemon that records the reason of its stop, and returns it.
fn patient(test: &TestOperator, id: &'static str) -> Callback {
    let calls = test.calls.clone();
    test.handler(id, move |context| {
        let calls = calls.clone();
        async move {
            let stopped = context.stopped().expect("a daemon has a stop flag").clone();
            let reason = stopped.wait().await.to_string();
            calls.note(format!("{id} ends: {reason}"));
            Ok(json!(reason))
        }
    })
}

fn is_held(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|it| it.contains(&json!("tester.kopf.rs/finalizer")))
}

fn label(value: Option<&str>) -> Value {
    json!({"metadata": {"labels": {"on": value}}})
}

/// Returns the number of calls of the timer `t`, as stored on the object.
fn count(object: &Value) -> u64 {
    object["status"]["t"].as_u64().unwrap_or_default()
}

async fn a_timer_is_called_while_a_handler_of_its_object_runs(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .timer(test.selector(), counting(&test, "t").interval(0.2));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("five calls are written", "a", |it| count(it) >= 5).await;
    assert!(!is_handled(&test.get("a").await));
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(calls_of(&test, "create_fn"), 1);
}

async fn labels_start_and_stop_a_daemon_while_a_handler_of_its_object_runs(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .daemon(test.selector(), patient(&test, "d").label("on", "yes"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.patch("a", label(Some("yes"))).await;
    test.calls.until(2).await;
    test.patch("a", label(None)).await;
    test.calls.until(3).await;
    test.patch("a", label(Some("yes"))).await;
    test.calls.until(4).await;
    // The operator has not added the finalizer yet.
    test.delete("a").await;
    test.until_gone("a").await;
    test.calls.until(5).await;
    gate.open(1);
    working.stop().await;
    let expected = ["create_fn a", "d a", "d ends: FILTERS_MISMATCH", "d a", "d ends: RESOURCE_DELETED"];
    assert_eq!(test.calls.all(), expected);
}

async fn a_deletion_reaches_a_daemon_while_a_handler_of_its_object_runs(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let deaf = test.handler("d", |_| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    });
    let deaf = deaf.cancellation_backoff(5).cancellation_timeout(5);
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .daemon(test.selector(), deaf);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    test.until("it is held", "a", is_held).await;
    let deleted = Instant::now();
    test.delete("a").await;
    test.line("Daemon 'd' is told to exit: RESOURCE_DELETED.").await;
    test.line("Daemon 'd' has been cut off.").await;
    assert_eq!(deleted.elapsed().as_secs(), 5);
    gate.open(1);
    test.until_gone("a").await;
    working.stop().await;
}

async fn a_daemon_is_tried_again_and_sees_changes_while_a_handler_of_its_object_runs(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let calls = test.calls.clone();
    let daemon = handler("d", move |context| {
        let calls = calls.clone();
        async move {
            if context.retry() < 2 {
                context.patch(|patch| patch["status"]["tried"] = json!(context.retry() + 1));
                return Err(TemporaryError::new("not yet").delay(0.1).into());
            }
            let live = context.live().expect("a daemon sees its object").clone();
            calls.note(format!("tried {}", live.status::<Value>()?["tried"]));
            let stopped = context.stopped().expect("a daemon has a flag").clone();
            while !stopped.wait_for(Duration::from_millis(20)).await {
                if live.spec::<Value>()?["size"] == 2 {
                    calls.note("size 2");
                    break;
                }
            }
            Ok(())
        }
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .daemon(test.selector(), daemon);
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.calls.until(2).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(3).await;
    gate.open(1);
    test.until("it is let go", "a", |it| is_handled(it) && !is_held(it)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "tried 2", "size 2"]);
}

async fn a_change_is_handled_though_a_timer_has_written_after_it(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .on_update(
            test.selector(),
            handler("update_fn", {
                let calls = test.calls.clone();
                move |context| {
                    calls.note(format!("size {}", context.body().spec()["size"]));
                    async { Ok(()) }
                }
            }),
        )
        .timer(test.selector(), counting(&test, "t").interval(0.2));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.until("it is called", "a", |it| count(it) >= 1).await;
    let seen = count(&test.patch("a", json!({"spec": {"size": 2}})).await);
    test.until("it is called again", "a", |it| count(it) >= seen + 2).await;
    gate.open(1);
    test.line("Handler 'update_fn' succeeded.").await;
    working.stop().await;
    let calls = test.calls.all();
    let updates: Vec<_> = calls.iter().filter(|it| it.starts_with("size")).collect();
    assert_eq!(updates, ["size 2"], "{calls:?}");
}

async fn finalizers_of_others_stay_as_they_are_though_a_daemon_has_written(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (deleted, ended) = (Gate::closed(), Gate::closed());
    let daemon = test.waiting_with("d", &ended, json!("ended"));
    let registry = Registry::new()
        .on_delete(test.selector(), test.waiting("delete_fn", &deleted))
        .daemon(test.selector(), daemon);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is held", "a", is_held).await;
    let own = "tester.kopf.rs/finalizer";
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    test.patch("a", finalizers(&[own, "example.com/other"])).await;
    test.delete("a").await;
    test.calls.until(2).await;
    test.patch("a", finalizers(&[own])).await;
    ended.open(1);
    test.until("the daemon has ended", "a", |it| it["status"]["d"] == "ended").await;
    deleted.open(1);
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["d a", "delete_fn a"]);
    let refused = |line: &str| line.contains("refused");
    assert_eq!(test.cluster.lines().count(refused), 0);
}

/// The timer ends and the object changes while a slow write delays both. The operator sends the results of both in one patch, and the server
/// refuses the part of the timer.
async fn a_refused_change_of_a_timer_does_not_affect_handlers(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    test.serve_strictly().await;
    let server = server(&test);
    let (created, ticked) = (Gate::closed(), Gate::closed());
    let update = test.handler("update_fn", |context| async move {
        context.patch(|patch| patch["status"]["size"] = json!(1));
        Ok(Value::Null)
    });
    let timer = test.waiting_with("t", &ticked, json!("no number"));
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &created))
        .on_update(test.selector(), update)
        .timer(test.selector(), timer.interval(3600));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.calls.until(2).await;
    let slow = Fault::delay(Duration::from_secs(5));
    let slow = server.fault(slow.on(Verb::Patch).plural("kopfexamples").times(1));
    created.open(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(slow.hits(), 1, "the creation is being written");
    ticked.open(1);
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.until("what the handler wants is there", "a", |it| it["status"]["size"] == 1).await;
    test.line("no number").await;
    working.stop().await;
    assert!(test.get("a").await["status"]["t"].is_null());
    assert_eq!(calls_of(&test, "update_fn"), 1);
}

async fn outcomes_are_written_before_the_wait_for_a_daemon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let deaf = test.handler("deaf", |_| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    });
    let deaf = deaf.cancellation_backoff(60).cancellation_timeout(1);
    let registry =
        Registry::new().daemon(test.selector(), deaf).timer(test.selector(), patient(&test, "t").interval(1));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    test.until("it is held", "a", is_held).await;
    let told = Instant::now();
    let stopping = tokio::spawn(working.stop());
    test.until("what has ended is written", "a", |it| it["status"]["t"] == "OPERATOR_EXITING").await;
    let elapsed = told.elapsed();
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    stopping.await.expect("the operator ends well");
}

async fn a_daemon_that_has_returned_is_not_called_again_where_its_object_is_watched_again(
    cluster: TestCluster,
) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .daemon(test.selector(), test.noting("quick"))
        .daemon(test.selector(), test.waiting("slow", &gate).cancellation_backoff(60));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    test.line("Daemon 'quick' has exited on its own").await;
    test.until("it is held", "a", is_held).await;
    let mut crd = definition(&test.group);
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(false);
    let versions = crd["spec"]["versions"].as_array_mut().expect("a list");
    versions.push(v2);
    crd["spec"]["versions"][0]["served"] = json!(false);
    test.cluster.apply(&crd.to_string()).await;
    test.line("Daemon 'slow' is told to exit: RESOURCE_UNWATCHED.").await;
    crd["spec"]["versions"][0]["served"] = json!(true);
    test.cluster.apply(&crd.to_string()).await;
    // The new watch reports the old object before the new one.
    test.create("b", json!({})).await;
    test.calls.until(4).await;
    gate.open(3);
    test.calls.until(5).await;
    test.until("both have ended", "a", |it| !is_held(it)).await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, ["quick a", "quick b", "slow a", "slow a", "slow b"]);
}

async fn a_timer_does_not_cut_short_the_pauses_after_refusals(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = server(&test);
    let refused = server.fault(Fault::answer(422).on(Verb::Patch).plural("kopfexamples"));
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), test.noting("t").interval(1));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(300).await;
    let sent = refused.hits();
    assert!((5..40).contains(&sent), "{sent}");
    drop(refused);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(calls_of(&test, "create_fn"), 1);
}

/// Row 30: the throttling of calls that cause each other does not apply to timers.
async fn a_timer_that_writes_excuses_no_handler_that_calls_itself(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let update = test.handler("update_fn", |context| async move {
        let size = context.read::<u64>("spec.size").unwrap_or_default();
        context.patch(|patch| patch.set("spec.size", size + 1));
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_update(test.selector(), update)
        .timer(test.selector(), counting(&test, "t").interval(5));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.until("it is called", "a", |it| count(it) >= 1).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.until("it is called for ten minutes", "a", |it| count(it) >= 120).await;
    working.stop().await;
    let updates = calls_of(&test, "update_fn");
    assert!((20..60).contains(&updates), "{updates}");
}

async fn changes_of_a_timer_are_written_while_a_refused_handler_pauses(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = server(&test);
    let is_of_handler = |entry: &kopf_rs_apiserver::Entry| {
        let body = entry.body.as_ref().map(ToString::to_string);
        body.is_some_and(|it| it.contains("last-handled"))
    };
    let refused = Fault::answer(422).on(Verb::Patch).when(is_of_handler);
    let refused = server.fault(refused.plural("kopfexamples"));
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .timer(test.selector(), counting(&test, "t").interval(10));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("five calls are written", "a", |it| count(it) >= 5).await;
    assert!(!is_handled(&test.get("a").await));
    drop(refused);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_failed_write_beside_a_handler_is_reported_and_repeated_when_the_server_asks(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = server(&test);
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .timer(test.selector(), counting(&test, "t").initial_delay(5));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let busy = Fault::answer(503).retry_after(Duration::from_secs(60));
    let busy = server.fault(busy.on(Verb::Patch).plural("kopfexamples"));
    test.calls.until(2).await;
    test.line(" WARN kopf.objects: Patching failed").await;
    tokio::time::sleep(Duration::from_secs(240)).await;
    let sent = busy.hits();
    assert!((2..=5).contains(&sent), "{sent}");
    drop(busy);
    test.until("it is written", "a", |it| count(it) == 1).await;
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_missing_permission_beside_a_handler_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = server(&test);
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .timer(test.selector(), counting(&test, "t").initial_delay(5));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let forbidden = server.fault(Fault::answer(403).on(Verb::Patch).plural("kopfexamples"));
    test.calls.until(2).await;
    test.line(" WARN kopf.objects: Patching failed").await;
    drop(forbidden);
    test.until("it is written", "a", |it| count(it) == 1).await;
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

/// The operator writes the status first, then the rest. The answer to one of these writes is lost, the handler ends, and a newer state of
/// the object is queued.
async fn a_timers_function_counts_once_though_an_answer_beside_a_handler_is_lost(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let timer = test.handler("t", |context| async move {
        context.patch(|patch| {
            patch.transform(|object| {
                for part in ["spec", "status"] {
                    match object[part]["items"].as_array_mut() {
                        Some(items) => items.push(json!("one")),
                        None => object[part]["items"] = json!(["one"]),
                    }
                }
            });
        });
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("create_fn", &gate))
        .timer(test.selector(), timer.interval(10_000));
    let working = test.start(registry);
    for part in ["status", "rest"] {
        let fault = Fault::drop_after().on(Verb::Patch).name(part).times(1);
        let fault = fault.when(move |asked| {
            let of_functions = asked.content_type.as_deref() == Some("application/json-patch+json");
            of_functions && asked.subresource.is_some() == (part == "status")
        });
        let armed = server(&test).fault(fault);
        test.create(part, json!({})).await;
        test.calls_until(&format!("create_fn {part}")).await;
        let stanza = if part == "status" { "status" } else { "spec" };
        let has_landed = |object: &Value| object[stanza]["items"].is_array();
        test.until("it has landed", part, has_landed).await;
        gate.open(1);
        let object = test.until("it is handled", part, is_handled).await;
        assert_eq!(armed.hits(), 1, "{part}");
        assert_eq!(object["spec"]["items"], json!(["one"]), "{part}");
        assert_eq!(object["status"]["items"], json!(["one"]), "{part}");
    }
    working.stop().await;
}
