//! The end of a term and the start of the next one: running calls end in time even if their worker waits, and a new term begins like a
//! start.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::{
    AdmissionServer, Callback, Context, HandlerResult, Registry, Settings, handler, handler_blocking,
};
use kopf_rs_apiserver::{Entry, Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Calls, KIND, TestOperator, Working, is_handled};
use crate::owned::{apply_as_operator, keeping, late_for_operators, map, settled, until};
use crate::peering::{with_peering, write as write_record};
use crate::replicas::{LEASES, NAME, client_of, shared};

scenarios! {
    a_partition_ends_running_calls_while_the_worker_waits_for_the_server [memory];
    a_lost_term_ends_running_calls_while_the_worker_waits_after_a_refusal [memory];
    a_term_that_is_lost_while_the_operator_stops_ends_its_calls [memory];
    a_second_term_is_a_start [memory];
    a_second_term_begins_with_the_records_of_peers [memory];
    an_instance_that_cannot_start_leaves_the_lease_to_others [memory];
    an_attempt_that_ends_after_the_signal_is_written_before_the_lease_is_given_back [memory];
    a_blocking_attempt_that_outlives_its_instance_writes_nothing [tcp];
    foreign_changes_without_a_leader_are_corrected [memory];
    children_applied_by_another_instance_are_read_and_corrected_despite_a_late_watch [memory];
}

/// Records that a call was dropped.
struct Dropped(Calls, String);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note(self.1.clone());
    }
}

/// Drops all requests of operators from now on.
fn partition(test: &TestOperator) -> FaultHandle {
    let server = test.cluster.in_process().expect("a server in the process");
    let by_operator = |agent: Option<&str>| agent != Some(TestCluster::USER_AGENT);
    server.fault(Fault::drop_before().when(move |it| by_operator(it.user_agent.as_deref())))
}

/// Gives the Lease to a holder that does not renew it.
async fn take_lease(test: &TestOperator) {
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    test.cluster.patch(LEASES, NAME, &edit).await;
    test.line("This instance has lost the Lease").await;
}

/// A timer's write and a read are retried while the server is unavailable. The daemon and the reconciler of the object do not wait for
/// that.
async fn a_partition_ends_running_calls_while_the_worker_waits_for_the_server(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let endless = |id: &'static str, begins: &'static str, ends: &'static str| {
        let calls = test.calls.clone();
        handler(id, move |_| {
            let calls = calls.clone();
            async move {
                let _dropped = Dropped(calls.clone(), ends.to_owned());
                calls.note(begins.to_owned());
                pending::<HandlerResult<Value>>().await
            }
        })
    };
    let daemon = endless("d", "daemon begins", "daemon ends");
    let reconciler = endless("r", "reconciler begins", "reconciler ends");
    let tick = endless("s", "tick begins", "tick ends");
    let counted = test.calls.clone();
    let timer = handler("t", move |_| {
        let count = counted.all().len();
        counted.note("timer".to_owned());
        async move { Ok(json!(count)) }
    });
    let registry = Registry::new()
        .daemon(test.selector(), daemon)
        .reconcile(test.selector(), reconciler)
        .timer(test.selector(), tick.interval(1.0))
        .timer(test.selector(), timer.interval(1.0));
    test.create("one", json!({})).await;
    let only = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    for begins in ["daemon begins", "reconciler begins", "tick begins", "timer"] {
        test.calls_until(begins).await;
    }
    let away = partition(&test);
    let begun = Instant::now();
    for ends in ["reconciler ends", "tick ends", "daemon ends"] {
        test.calls_until(ends).await;
        let took = begun.elapsed();
        // Another instance may take the Lease fifteen seconds after the last renewal.
        assert!(took <= Duration::from_secs(13), "{ends} after {took:?}");
    }
    let ticks = test.calls.all().iter().filter(|it| *it == "timer").count();
    tokio::time::sleep(Duration::from_secs(45)).await;
    let later = test.calls.all();
    assert_eq!(later.iter().filter(|it| *it == "timer").count(), ticks);
    away.clear();
    test.calls.until(later.len() + 3).await;
    only.stop().await;
}

/// A server that is busy may ask to be left alone for minutes, and the waits for a permission grow to a minute.
async fn a_lost_term_ends_running_calls_while_the_worker_waits_after_a_refusal(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let calls = test.calls.clone();
    let daemon = handler("d", move |context: Context| {
        let calls = calls.clone();
        async move {
            let _dropped = Dropped(calls.clone(), format!("{} ends", context.name()));
            calls.note(format!("{} begins", context.name()));
            pending::<HandlerResult<Value>>().await
        }
    });
    let counted = test.calls.clone();
    let timer = test.handler("t", move |_| {
        let count = counted.all().len();
        async move { Ok(json!(count)) }
    });
    let registry =
        Registry::new().daemon(test.selector(), daemon).timer(test.selector(), timer.interval(1.0));
    let busy = Fault::answer(429).retry_after(Duration::from_secs(300));
    for (name, refusal, count) in [("busy", busy, 1), ("forbidden", Fault::answer(403), 9)] {
        test.create(name, json!({})).await;
        let only = Working::start(&test.cluster, shared(&test, test.operator(registry.clone())));
        test.calls_until(&format!("{name} begins")).await;
        test.calls_until(&format!("t {name}")).await;
        let refused = server.fault(refusal.on(Verb::Patch).plural(KIND).name(name));
        while refused.hits() < count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let edited = Instant::now();
        let edit = json!({"spec": {"holderIdentity": "somebody"}});
        test.cluster.patch(LEASES, NAME, &edit).await;
        test.calls_until(&format!("{name} ends")).await;
        let took = edited.elapsed();
        assert!(took < Duration::from_secs(5), "{name}: {took:?}");
        refused.clear();
        // The worker does not wait into the next term.
        let is_begin = |it: &&String| **it == format!("{name} begins");
        while test.calls.all().iter().filter(is_begin).count() < 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let took = edited.elapsed();
        assert!(took < Duration::from_secs(40), "{name}: {took:?}");
        only.kill().await;
    }
}

async fn a_term_that_is_lost_while_the_operator_stops_ends_its_calls(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let endless = handler("c", move |_| {
        let calls = calls.clone();
        async move {
            let _dropped = Dropped(calls.clone(), "ends".to_owned());
            calls.note("begins".to_owned());
            pending::<HandlerResult<Value>>().await
        }
    });
    let registry = Registry::new().on_create(test.selector(), endless);
    let operator = test.operator(registry).settings(Settings::with(|settings| {
        settings.lease.enabled = true;
        settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        settings.queueing.exit_timeout = Duration::from_secs(600);
    }));
    let only = Working::start(&test.cluster, operator);
    test.create("one", json!({})).await;
    test.calls_until("begins").await;
    let stopping = tokio::spawn(only.stop());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(test.calls.all(), ["begins"], "it may end by itself");
    let edited = Instant::now();
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    test.cluster.patch(LEASES, NAME, &edit).await;
    test.calls_until("ends").await;
    stopping.await.expect("it stops");
    let took = edited.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

async fn a_second_term_is_a_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("created"))
        .on_resume(test.selector(), test.noting("resumed"))
        .on_event(test.selector(), test.noting("seen"));
    let only = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    take_lease(&test).await;
    let before = test.calls.all().len();
    test.calls_until("resumed one").await;
    only.stop().await;
    let calls = test.calls.all();
    let again = &calls[before..];
    assert!(again.iter().any(|it| it == "seen one"), "{calls:?}");
    let created = calls.iter().filter(|it| *it == "created one").count();
    assert_eq!(created, 1, "{calls:?}");
}

async fn foreign_changes_without_a_leader_are_corrected(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), keeping(&test));
    let only = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    settled(&test).await;
    test.until("it is handled", "one", is_handled).await;
    take_lease(&test).await;
    let edit = json!({"data": {"a": "2"}});
    test.cluster.patch("configmaps", "child", &edit).await;
    until(&test, "it is put right", |it: &Value| it["data"]["a"] == "1").await;
    only.stop().await;
}

/// Only the new term says that what the watch has shown may not be so any more.
async fn children_applied_by_another_instance_are_read_and_corrected_despite_a_late_watch(
    cluster: TestCluster,
) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let _late = server.fault(late_for_operators());
    let seen = test.calls.clone();
    let keep = handler("keep", move |context: Context| {
        let seen = seen.clone();
        async move {
            let children = context.children()?;
            let read = children.get::<ConfigMap>("child").await?;
            let data = read.and_then(|it| it.data).unwrap_or_default();
            seen.note(format!("reads {:?}", data.get("a")));
            children.apply(&map("child", &json!({"a": "1"}))).await?;
            HandlerResult::Ok(())
        }
    });
    let registry = Registry::new().reconcile(test.selector(), keep.reads("configmaps"));
    let only = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    test.create("one", json!({})).await;
    let made = until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    test.line("Reconciler 'keep' succeeded").await;
    take_lease(&test).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/child", test.cluster.namespace());
    let client = test.cluster.client();
    let applied = apply_as_operator(&client, &path, &made, &json!({"a": "2"})).await;
    assert!(applied.is_some(), "another instance applies");
    let begun = Instant::now();
    until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    assert!(begun.elapsed() < Duration::from_secs(1800));
    let calls = test.calls.all();
    assert!(calls.iter().any(|it| it == r#"reads Some("2")"#), "{calls:?}");
    only.stop().await;
}

/// A peer with a higher priority has started meanwhile, so this instance must pause.
async fn a_second_term_begins_with_the_records_of_peers(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("created"))
        .on_resume(test.selector(), test.noting("resumed"));
    let only = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    take_lease(&test).await;
    let higher = json!({"priority": 1, "lifetime": 3600});
    write_record(&test, "higher", higher).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = Fault::delay(Duration::from_secs(3)).plural("kopfpeerings");
    let _late = server.fault(late);
    test.line("Pausing operations in favour of [<Peer higher").await;
    assert_eq!(test.calls.all(), ["created one"]);
    write_record(&test, "higher", Value::Null).await;
    test.calls_until("resumed one").await;
    only.stop().await;
}

/// The instance cannot serve its webhooks, so it can never become active.
async fn an_instance_that_cannot_start_leaves_the_lease_to_others(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let client = client_of(&test, "a");
    let server = test.cluster.in_process().expect("a server in the process");
    let without_secrets = Fault::drop_before().plural("secrets");
    let _without_secrets = server.fault(without_secrets.when(|it| it.user == "a"));
    let registry = Registry::new().on_validate(test.selector(), test.noting("v"));
    let settings = |settings: &mut Settings| {
        let namespace = test.cluster.namespace().to_owned();
        settings.lease.enabled = true;
        settings.lease.namespace = Some(namespace.clone());
        settings.admission.server = Some(AdmissionServer::service(&namespace, "hooks"));
        settings.admission.listen = Some("127.0.0.1:0".to_owned());
    };
    let operator = test.operator(registry).settings(Settings::with(settings));
    let stuck = Working::start_as(client, operator);
    test.line("The certificates for admission webhooks cannot be kept").await;
    let registry = Registry::new().on_create(test.selector(), test.noting("b"));
    let other = Working::start(&test.cluster, shared(&test, test.operator(registry)));
    test.create("one", json!({})).await;
    test.calls_until("b one").await;
    other.stop().await;
    stuck.kill().await;
}

/// LE3
async fn an_attempt_that_ends_after_the_signal_is_written_before_the_lease_is_given_back(
    cluster: TestCluster,
) {
    let test = TestOperator::of(cluster).await;
    let instance = |id: &'static str| {
        let create = test.handler(id, |_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(json!("done"))
        });
        let registry = Registry::new().on_create(test.selector(), create);
        Working::start(&test.cluster, shared(&test, test.operator(registry)))
    };
    let first = instance("a");
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    let second = instance("b");
    test.line("Standing by: the Lease").await;
    first.stop().await;
    test.create("two", json!({})).await;
    test.until("it is handled", "two", is_handled).await;
    second.stop().await;
    assert_eq!(test.calls.all(), ["a one", "b two"]);
    let journal = test.cluster.journal().expect("a server in the process");
    let journal = journal.entries();
    let is_outcome = |it: &Entry| it.verb == Verb::Patch && it.name.as_deref() == Some("one");
    let is_release = |it: &Entry| {
        let body = it.body.as_ref();
        it.plural == "leases" && body.is_some_and(|it| it["spec"]["holderIdentity"] == "")
    };
    let written = journal.iter().rposition(is_outcome).expect("it is written");
    let released = journal.iter().position(is_release).expect("it is given back");
    assert!(written < released, "{written}, {released}");
}

/// LE4: a thread cannot be cancelled, so the next instance repeats the attempt, and the result of the thread is discarded.
async fn a_blocking_attempt_that_outlives_its_instance_writes_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let calls = test.calls.clone();
    let stuck = handler_blocking("made", move |_, _| {
        calls.note("a begins".to_owned());
        // Blocks until the test releases it or fails.
        let _ = held.lock().expect("nobody panics here").recv();
        calls.note("a ends".to_owned());
        Ok(json!("by a"))
    });
    let instance = |made: Callback| {
        let registry = Registry::new().on_create(test.selector(), made);
        let operator = test.operator(registry).settings(Settings::with(|settings| {
            settings.lease.enabled = true;
            settings.lease.namespace = Some(test.cluster.namespace().to_owned());
            settings.queueing.exit_timeout = Duration::from_secs(1);
        }));
        Working::start(&test.cluster, operator)
    };
    let first = instance(stuck);
    test.create("one", json!({})).await;
    test.calls_until("a begins").await;
    let again = test.handler("made", |_| async { Ok(json!("by b")) });
    let second = instance(again);
    test.line("Standing by: the Lease").await;
    first.stop().await;
    let made = test.until("it is handled", "one", is_handled).await;
    assert_eq!(made["status"]["made"], "by b");
    let_go.send(()).expect("the thread waits");
    test.calls_until("a ends").await;
    second.stop().await;
    assert_eq!(test.get("one").await["status"]["made"], "by b");
    assert_eq!(test.calls.all(), ["a begins", "made one", "a ends"]);
}
