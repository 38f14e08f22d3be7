//! Instances that cannot reach the server, or reach it late: the times of their calls show when each of them is active.

use std::future::pending;
use std::time::Duration;

use kopf_rs::{Context, HandlerResult, Registry, handler};
use kopf_rs_apiserver::{Entry, Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{KIND, TestOperator, Working, is_handled};
use crate::owned::map;
use crate::replicas::journal::{Called, Journal};
use crate::replicas::{LEASES, NAME, client_of, lease_until, shared};

scenarios! {
    no_object_has_two_instances_while_the_leader_is_cut_off [memory];
    a_server_that_is_away_ends_no_instance [memory];
    late_answers_to_renewals_cause_no_overlap [memory];
    a_write_that_the_server_holds_back_is_not_carried_out_after_its_term [memory];
    a_standby_whose_watch_is_late_calls_nothing_again [memory];
}

/// The age of a term from which another instance may be active.
const FENCED: Duration = Duration::from_secs(13);

/// Waits for a condition by polling.
pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(600), waiting).await;
    assert!(waited.is_ok(), "{what}: in vain");
}

/// Applies a fault to the requests and open watches of one instance.
pub(super) fn fault_of(test: &TestOperator, instance: &'static str, fault: Fault) -> FaultHandle {
    let server = test.cluster.in_process().expect("a server in the process");
    server.fault(fault.when(move |it| it.user == instance))
}

/// Drops all requests of the instance and stalls its watches.
pub(super) fn cut_off(test: &TestOperator, instance: &'static str) -> [FaultHandle; 2] {
    [Fault::drop_before(), Fault::stall()].map(|fault| fault_of(test, instance, fault))
}

pub(super) fn start(test: &TestOperator, instance: &'static str, registry: Registry) -> Working {
    let operator = shared(test, test.operator(registry));
    Working::start_as(client_of(test, instance), operator)
}

/// Returns one handler of each background kind: a daemon, a timer that patches, a reconciler with a child.
pub(super) fn everything(test: &TestOperator, journal: &Journal, instance: &'static str) -> Registry {
    let of_daemon = journal.clone();
    let daemon = handler("daemon", move |context| {
        let running = of_daemon.begin(instance, "daemon", &context);
        async move {
            let _running = running;
            pending::<HandlerResult<Value>>().await
        }
    });
    let of_timer = journal.clone();
    let timer = handler("timer", move |context| {
        let running = of_timer.begin(instance, "timer", &context);
        async move {
            let _running = running;
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(json!(format!("{instance} at {:?}", Instant::now())))
        }
    });
    let of_reconciler = journal.clone();
    let reconciler = handler("reconciler", move |context: Context| {
        let running = of_reconciler.begin(instance, "reconciler", &context);
        async move {
            let _running = running;
            let value: Value = context.read("spec.value")?;
            let child = map(&format!("child-{}", context.name()), &json!({"a": value}));
            context.children()?.apply(&child).await?;
            Ok(Value::Null)
        }
    });
    Registry::new()
        .daemon(test.selector(), daemon)
        .timer(test.selector(), timer.interval(1.0))
        .reconcile(test.selector(), reconciler.owns("configmaps"))
}

/// Waits until the child has this value.
pub(super) async fn child_until(test: &TestOperator, owner: &str, value: &str) {
    let is = |child: Option<&Value>| child.is_some_and(|it| it["data"]["a"] == value);
    let name = format!("child-{owner}");
    test.cluster.until("the child is right", "configmaps", &name, is).await;
}

async fn edit_child(test: &TestOperator, owner: &str, value: &str) {
    let edit = json!({"data": {"a": value}});
    let name = format!("child-{owner}");
    test.cluster.patch("configmaps", &name, &edit).await;
}

/// Waits until this number of terms has started.
async fn terms(test: &TestOperator, count: usize) {
    let lines = test.cluster.lines();
    let begun = || lines.count(|it| it.contains("This instance is the leader")) >= count;
    until(&format!("term {count}"), begun).await;
}

pub(super) const OWNERS: [&str; 3] = ["one", "two", "three"];

/// The leader cannot reach the server for a minute, while the other instance can.
async fn no_object_has_two_instances_while_the_leader_is_cut_off(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let journal = Journal::default();
    let first = start(&test, "a", everything(&test, &journal, "a"));
    terms(&test, 1).await;
    for name in OWNERS {
        test.create(name, json!({"value": "1"})).await;
        child_until(&test, name, "1").await;
    }
    let second = start(&test, "b", everything(&test, &journal, "b"));
    test.line("Standing by: the Lease").await;

    let away = cut_off(&test, "a");
    let cut = Instant::now();
    test.patch("one", json!({"spec": {"value": "2"}})).await;
    edit_child(&test, "two", "drift").await;
    terms(&test, 2).await;
    let begun = Instant::now();
    child_until(&test, "one", "2").await;
    child_until(&test, "two", "1").await;
    is_prompt(begun);
    tokio::time::sleep_until(cut + Duration::from_secs(60)).await;
    let healed = Instant::now();
    away.into_iter().for_each(FaultHandle::clear);
    test.patch("three", json!({"spec": {"value": "3"}})).await;
    child_until(&test, "three", "3").await;
    // Long enough to see whether the former leader acts.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let of_former = journal.of("a");
    let late = |it: &&Called| it.ended > cut + FENCED || it.begun > healed;
    assert_eq!(of_former.iter().filter(late).count(), 0, "{of_former:?}");

    // Vice versa, with a time without an active instance: the former leader's second term begins like a start.
    second.kill().await;
    let killed = Instant::now();
    edit_child(&test, "one", "drift").await;
    test.patch("two", json!({"spec": {"value": "4"}})).await;
    terms(&test, 3).await;
    let begun = Instant::now();
    child_until(&test, "one", "2").await;
    child_until(&test, "two", "4").await;
    child_until(&test, "three", "3").await;
    is_prompt(begun);
    let again = |what: &str| {
        let of_former = journal.of("a");
        of_former.iter().any(|it| it.what == what && it.begun > killed)
    };
    for owner in OWNERS {
        let what = format!("timer {owner}");
        until(&what, || again(&what)).await;
    }
    first.stop().await;
    for owner in OWNERS {
        overlap_is_none(&journal, owner, cut + FENCED);
        for handler in ["daemon", "reconciler"] {
            let what = format!("{handler} {owner}");
            assert!(again(&what), "{what} in the second term");
        }
    }
}

/// Asserts that the instance was fast: in virtual time requests take no time, so only its own pauses count.
fn is_prompt(begun: Instant) {
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// Asserts that from then on no calls for the object overlap between the two instances.
fn overlap_is_none(journal: &Journal, owner: &str, from: Instant) {
    let all = journal.all();
    let of = |instance: &'static str| {
        let is_of = move |it: &&Called| it.instance == instance && it.what.ends_with(owner);
        all.iter().filter(is_of).filter(move |it| it.ended >= from)
    };
    assert!(of("b").count() > 10, "{all:?}");
    for one in of("a") {
        let overlap = of("b").find(|it| it.begun < one.ended && one.begun < it.ended);
        assert!(overlap.is_none(), "{one:?}, {overlap:?}");
    }
}

/// LE11
async fn a_server_that_is_away_ends_no_instance(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("a"));
    let only = start(&test, "a", registry);
    terms(&test, 1).await;
    let before = lease_until(&test, "a holder", |it| !it["spec"]["holderIdentity"].is_null()).await;
    let lapses = "Handlers are paused, since the Lease";
    for (name, seconds, expected) in [("short", 5, 0), ("long", 60, 1)] {
        let away = cut_off(&test, "a");
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        away.into_iter().for_each(FaultHandle::clear);
        let back = Instant::now();
        test.create(name, json!({})).await;
        test.calls_until(&format!("a {name}")).await;
        let took = back.elapsed();
        assert!(took < Duration::from_secs(3), "{name}: {took:?}");
        let told = test.cluster.lines().count(|it| it.contains(lapses));
        assert_eq!(told, expected, "{name}");
    }
    let after = test.cluster.get(LEASES, NAME).await.expect("it is there");
    for field in ["holderIdentity", "leaseTransitions", "acquireTime"] {
        assert_eq!(after["spec"][field], before["spec"][field], "{field}");
    }
    only.stop().await;
}

/// LE14: the server stores each renewal at once, but answers after the client has given up.
async fn late_answers_to_renewals_cause_no_overlap(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let journal = Journal::default();
    let both = ["a", "b"].map(|instance| {
        let journal = journal.clone();
        let daemon = handler("daemon", move |context| {
            let running = journal.begin(instance, "daemon", &context);
            async move {
                let _running = running;
                pending::<HandlerResult<Value>>().await
            }
        });
        let registry = Registry::new().daemon(test.selector(), daemon);
        let create = test.noting("created");
        start(&test, instance, registry.on_create(test.selector(), create))
    });
    terms(&test, 1).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = Fault::delay_answer(Duration::from_secs(9)).on(Verb::Update);
    let late = server.fault(late.plural("leases"));
    for number in 0..10 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let name = format!("object-{number}");
        test.create(&name, json!({})).await;
        test.until("it is handled", &name, is_handled).await;
    }
    assert!(late.hits() > 30, "{}", late.hits());
    late.clear();
    for working in both {
        working.stop().await;
    }
    let created = test.calls.all();
    assert_eq!(created.len(), 10, "{created:?}");
    let all = journal.all();
    for (number, one) in all.iter().enumerate() {
        let others = all[number + 1..].iter();
        let of_object = others.filter(|it| it.what == one.what);
        let overlap = of_object.clone().find(|it| it.begun < one.ended && one.begun < it.ended);
        assert!(overlap.is_none(), "{one:?}, {overlap:?}");
    }
}

/// LE15: the request contains the time until which it is valid.
async fn a_write_that_the_server_holds_back_is_not_carried_out_after_its_term(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let instance = |id: &'static str| {
        let create = test.handler("made", move |_| async move { Ok(json!(id)) });
        start(&test, id, Registry::new().on_create(test.selector(), create))
    };
    let first = instance("a");
    terms(&test, 1).await;
    let second = instance("b");
    test.line("Standing by: the Lease").await;
    let held = Fault::delay(Duration::from_secs(20)).on(Verb::Patch).plural(KIND);
    let held = fault_of(&test, "a", held);
    test.create("one", json!({})).await;
    until("it is held back", || held.hits() == 1).await;
    let sent = Instant::now();
    let _away = cut_off(&test, "a");
    let made = test.until("it is handled", "one", is_handled).await;
    assert_eq!(made["status"]["made"], "b");
    assert!(sent.elapsed() < Duration::from_secs(20), "before the other one could land");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(test.get("one").await["status"]["made"], "b");
    let journal = test.cluster.journal().expect("a server in the process");
    let entries = journal.entries();
    let is_write = |it: &&Entry| it.verb == Verb::Patch && it.plural == KIND && it.changed;
    let writers: Vec<&str> = entries.iter().filter(is_write).map(|it| &*it.user).collect();
    assert!(writers.iter().all(|it| *it == "b"), "{writers:?}");
    second.stop().await;
    first.kill().await;
}

/// LE21
async fn a_standby_whose_watch_is_late_calls_nothing_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let instance = |id: &'static str| {
        let (created, updated) = (format!("{id} created"), format!("{id} updated"));
        let registry = Registry::new()
            .on_create(test.selector(), test.noting(&created))
            .on_update(test.selector(), test.noting(&updated))
            .on_resume(test.selector(), test.noting(&format!("{id} resumed")));
        start(&test, id, registry)
    };
    let first = instance("a");
    terms(&test, 1).await;
    let second = instance("b");
    test.line("Standing by: the Lease").await;
    test.create("old", json!({"size": 1})).await;
    test.calls_until("a created old").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _late = fault_of(&test, "b", Fault::late(Duration::from_secs(3)));
    test.patch("old", json!({"spec": {"size": 2}})).await;
    test.create("new", json!({})).await;
    test.calls_until("a updated old").await;
    test.until("it is handled", "new", is_handled).await;
    first.stop().await;
    test.calls_until("b resumed old").await;
    // All delayed events have arrived by then.
    tokio::time::sleep(Duration::from_secs(10)).await;
    second.stop().await;
    let calls = test.calls.all();
    let of_second: Vec<_> = calls.iter().filter(|it| it.starts_with("b ")).collect();
    assert!(of_second.iter().all(|it| it.starts_with("b resumed")), "{calls:?}");
}
