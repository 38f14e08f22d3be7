//! Several operators for the same objects: one is active, the others are paused, as the records in a peering object say.

mod kopf;
mod pause;
mod replicas;

use std::collections::BTreeMap;
use std::time::Duration;

use kopf_rs::{Callback, Operator, Registry, Settings, handler};
use kopf_rs_apiserver::{Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, KIND, TestOperator, Working, is_handled};
use crate::owned::{self, map};

scenarios! {
    a_record_comes_and_goes_with_its_operator [memory];
    no_object_is_handled_before_the_records_are_read [memory];
    a_higher_priority_pauses_and_the_end_of_it_resumes [memory];
    of_two_equal_operators_one_continues [memory];
    a_kopf_operator_of_equal_priority_is_reported [memory];
    the_record_of_a_killed_operator_is_dead_after_its_lifetime [memory];
    a_request_to_pause_holds_for_its_lifetime_or_until_it_is_taken_back [memory];
    a_mandatory_peering_is_waited_for [memory];
    a_standalone_operator_takes_no_part [memory];
    a_conflict_in_one_namespace_pauses_all_of_the_operator [memory];
    a_pause_holds_for_the_objects_of_a_deleted_namespace_too [memory];
    the_whole_cluster_has_a_peering_of_its_own [memory];
    signs_of_life_come_before_the_lifetime_is_over [memory];
    a_record_that_others_take_away_is_written_again [memory];
    an_operator_without_permission_works_and_reports_it [tcp];
    a_pause_between_an_apply_and_a_deletion_leaves_children_to_others [memory];
    signs_of_life_wait_for_no_other_write [memory];
    a_watch_that_is_cut_ends_no_pause [memory];
    the_end_of_a_pause_is_a_start_for_busy_objects [memory];
    a_child_that_is_edited_during_a_pause_is_corrected_after_it [memory];
    children_applied_by_another_release_are_corrected [memory];
}

const PEERINGS: &str = "kopfpeerings";

/// Kopf's definitions of both kinds.
fn definitions() -> String {
    let definition = |kind: &str, scope: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.kopf.dev")},
            "spec": {
                "group": "kopf.dev",
                "scope": scope,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        },
                    }},
                }],
            },
        })
        .to_string()
    };
    [definition("ClusterKopfPeering", "Cluster"), definition("KopfPeering", "Namespaced")].join("\n---\n")
}

fn peering() -> Value {
    json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}})
}

/// A cluster with a peering for its namespace.
pub(crate) async fn with_peering(cluster: TestCluster) -> TestOperator {
    let test = TestOperator::of(cluster).await;
    test.cluster.apply(&definitions()).await;
    test.cluster.create(&peering()).await;
    test
}

/// The records, by their operators.
fn records(object: &Value) -> BTreeMap<&String, &Value> {
    object["status"].as_object().into_iter().flatten().collect()
}

async fn until(test: &TestOperator, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let there = |object: Option<&Value>| object.is_some_and(&condition);
    test.cluster.until(what, PEERINGS, "default", there).await
}

async fn until_records(test: &TestOperator, count: usize) -> Value {
    let what = format!("{count} records");
    until(test, &what, |object| records(object).len() == count).await
}

async fn until_hits(fault: &FaultHandle, count: usize) {
    let mut pulse = tokio::time::interval(Duration::from_millis(100));
    while fault.hits() < count {
        pulse.tick().await;
    }
}

/// An operator of one handler for creations.
fn creating(test: &TestOperator, id: &str) -> Operator {
    test.operator(Registry::new().on_create(test.selector(), test.noting(id)))
}

fn start(test: &TestOperator, operator: Operator, change: impl FnOnce(&mut Settings)) -> Working {
    let operator = operator.settings(Settings::with(change));
    Working::start(&test.cluster, operator)
}

/// As another operator writes it.
pub(crate) async fn write(test: &TestOperator, identity: &str, record: Value) {
    let change = json!({"status": {identity: record}});
    test.cluster.patch(PEERINGS, "default", &change).await;
}

/// P1
async fn a_record_comes_and_goes_with_its_operator(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), test.noting("c")));
    let object = until_records(&test, 1).await;
    let (identity, record) = records(&object).pop_first().expect("it is there");
    assert!(identity.contains('@'), "{identity}");
    assert_eq!([&record["priority"], &record["lifetime"]], [0, 60]);
    assert_eq!(record["engine"], "kopf-rs");
    test.line("Keep-alive in 'default' in").await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    working.stop().await;
    assert_eq!(test.cluster.get(PEERINGS, "default").await.expect("it is there")["status"], json!({}));
}

/// Kopf handles what its first listing shows before it has read the records.
async fn no_object_is_handled_before_the_records_are_read(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    write(&test, "higher", json!({"priority": 1, "lifetime": 3600})).await;
    test.create("one", json!({})).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    test.line("Pausing operations in favour of [<Peer higher: priority=1, lifetime=3600>].").await;
    until_records(&test, 2).await;
    assert_eq!(test.calls.all(), [""; 0]);
    write(&test, "higher", Value::Null).await;
    test.line("Resuming operations after the pause.").await;
    test.calls_until("c one").await;
    working.stop().await;
}

/// P2
async fn a_higher_priority_pauses_and_the_end_of_it_resumes(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let calls = test.calls.clone();
    let daemon = handler("d", move |context| {
        let calls = calls.clone();
        async move {
            let stopped = context.stopped().cloned().expect("daemons have one");
            stopped.wait().await;
            calls.note(format!("d of {}: {}", context.name(), stopped.reason().expect("it has one")));
            Ok(Value::Null)
        }
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("a"))
        .on_resume(test.selector(), test.noting("resumed"))
        .daemon(test.selector(), daemon);
    test.create("one", json!({})).await;
    let low = test.start(registry);
    test.calls_until("a one").await;
    test.line("Daemon 'd' is invoked").await;
    let high = start(&test, creating(&test, "b"), |it| it.peering.priority = 100);
    test.calls_until("d of one: OPERATOR_PAUSING").await;
    test.line("Pausing operations in favour of [<Peer ").await;
    test.create("two", json!({})).await;
    test.calls_until("b two").await;
    high.stop().await;
    test.line("Resuming operations after the pause.").await;
    test.create("three", json!({})).await;
    test.calls_until("a three").await;
    test.calls_until("resumed two").await;
    // The end of a pause is a start, whoever has handled the object before.
    test.calls_until("resumed one").await;
    low.stop().await;
    let calls = test.calls.all();
    let count = |call: &str| calls.iter().filter(|it| *it == call).count();
    assert_eq!(count("a two"), 0, "{calls:?}");
    assert_eq!(count("a one"), 1, "{calls:?}");
    assert_eq!(count("resumed one"), 1, "{calls:?}");
    assert_eq!(count("d of one: OPERATOR_PAUSING"), 1, "{calls:?}");
    assert_eq!(count("d of one: OPERATOR_EXITING"), 1, "{calls:?}");
}

/// P3, with one that goes on.
async fn of_two_equal_operators_one_continues(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let first = start(&test, creating(&test, "a"), |_| {});
    until_records(&test, 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = start(&test, creating(&test, "b"), |_| {});
    test.line("Pausing operations in favour of [<Peer ").await;
    for name in ["one", "two"] {
        test.create(name, json!({})).await;
        test.calls_until(&format!("a {name}")).await;
    }
    first.stop().await;
    test.line("Resuming operations after the pause.").await;
    test.create("three", json!({})).await;
    test.calls_until("b three").await;
    second.stop().await;
    assert_eq!(test.calls.all(), ["a one", "a two", "b three"]);
}

async fn a_kopf_operator_of_equal_priority_is_reported(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    write(&test, "kopf", json!({"priority": 0, "lifetime": 60})).await;
    let told = test.line("Possibly conflicting operators with the same priority: [<Peer kopf: ").await;
    assert!(told.contains("this one goes on"), "{told}");
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    working.stop().await;
}

/// P4
async fn the_record_of_a_killed_operator_is_dead_after_its_lifetime(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let low = start(&test, creating(&test, "a"), |_| {});
    until_records(&test, 1).await;
    let high = start(&test, creating(&test, "b"), |it| {
        it.peering.priority = 5;
        it.peering.lifetime = Duration::from_secs(30);
    });
    test.line("Pausing operations in favour of").await;
    high.kill().await;
    let killed = tokio::time::Instant::now();
    test.create("one", json!({})).await;
    test.calls_until("a one").await;
    assert!(killed.elapsed() <= Duration::from_secs(31), "{:?}", killed.elapsed());
    until_records(&test, 1).await;
    low.stop().await;
}

/// P5, P6
async fn a_request_to_pause_holds_for_its_lifetime_or_until_it_is_taken_back(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    write(&test, "freeze", json!({"priority": 100, "lifetime": 6})).await;
    let frozen = tokio::time::Instant::now();
    test.line("Pausing operations in favour of [<Peer freeze: ").await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    let held = frozen.elapsed().as_secs_f64();
    assert!((6.0..8.0).contains(&held), "{held}");
    until_records(&test, 1).await;
    write(&test, "again", json!({"priority": 100, "lifetime": 3600})).await;
    test.line("Pausing operations in favour of [<Peer again: ").await;
    test.create("two", json!({})).await;
    write(&test, "again", Value::Null).await;
    let taken_back = tokio::time::Instant::now();
    test.calls_until("c two").await;
    assert!(taken_back.elapsed() < Duration::from_secs(1));
    working.stop().await;
}

/// P7
async fn a_mandatory_peering_is_waited_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let working = start(&test, creating(&test, "c"), |it| {
        it.peering.mandatory = true;
    });
    test.line("Pausing operations until there is a peering object 'default'").await;
    test.cluster.apply(&definitions()).await;
    assert_eq!(test.calls.all(), [""; 0]);
    test.cluster.create(&peering()).await;
    test.calls_until("c one").await;
    until_records(&test, 1).await;
    test.cluster.delete(PEERINGS, "default").await;
    test.create("two", json!({})).await;
    test.cluster.create(&peering()).await;
    test.calls_until("c two").await;
    working.stop().await;
}

/// P8
async fn a_standalone_operator_takes_no_part(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    write(&test, "higher", json!({"priority": 9, "lifetime": 3600})).await;
    let working = start(&test, creating(&test, "c"), |it| {
        it.peering.standalone = true;
    });
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    working.stop().await;
    test.cluster.assert_writes_to(PEERINGS, "default", 0).await;
}

/// P9
async fn a_conflict_in_one_namespace_pauses_all_of_the_operator(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let (here, there) = (test.cluster.namespace(), format!("{}-there", test.cluster.namespace()));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": there}});
    test.cluster.create(&namespace).await;
    let mut other = peering();
    other["metadata"]["namespace"] = json!(there);
    other["status"] = json!({"higher": {"priority": 9, "lifetime": 20}});
    test.cluster.create(&other).await;
    let operator = creating(&test, "c").namespaces([here, &*there]);
    let working = start(&test, operator, |_| {});
    test.line("Pausing operations in favour of [<Peer higher: ").await;
    test.create("one", json!({})).await;
    until_records(&test, 1).await;
    assert_eq!(test.calls.all(), [""; 0]);
    test.calls_until("c one").await;
    working.stop().await;
}

async fn a_pause_holds_for_the_objects_of_a_deleted_namespace_too(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    // The deletion of an object arrives after that of its namespace, while the watch is still open.
    let late = Fault::late(Duration::from_secs(3));
    let _late = server.fault(late.on(Verb::Watch).plural(KIND));
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("c"))
        .on_delete(test.selector(), test.noting("d").optional());
    let all = format!("{}*", test.cluster.namespace());
    let working = start(&test, test.operator(registry).namespaces([&all]), |_| {});
    for (name, is_paused) in [("one", false), ("two", true)] {
        let there = format!("{}-{name}", test.cluster.namespace());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": there}});
        test.cluster.create(&namespace).await;
        let api_version = format!("{}/v1", test.group);
        let metadata = json!({"name": name, "namespace": there});
        let object = json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": metadata});
        test.cluster.create(&object).await;
        test.calls_until(&format!("c {name}")).await;
        test.cluster.delete("namespaces", &there).await;
        // A second of virtual time, in which the operator hears of the namespace.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if is_paused {
            write(&test, "other", json!({"priority": 9, "lifetime": 60})).await;
            test.line("Pausing operations in favour of [<Peer other: ").await;
        }
        tokio::time::sleep(Duration::from_secs(9)).await;
    }
    working.stop().await;
    assert_eq!(test.calls.all(), ["c one", "d one", "c two"]);
}

async fn the_whole_cluster_has_a_peering_of_its_own(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let peering =
        json!({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "mine"}});
    test.cluster.create(&peering).await;
    let operator = creating(&test, "c").all_namespaces();
    let working = start(&test, operator, |it| {
        "mine".clone_into(&mut it.peering.name);
    });
    test.line("Keep-alive in 'mine' cluster-wide: ok.").await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    let path = "/apis/kopf.dev/v1/clusterkopfpeerings/mine";
    let object = test.cluster.request("GET", path, None).await.expect("it is there");
    assert_eq!(records(&object).len(), 1);
    working.stop().await;
    test.cluster.assert_writes_to(PEERINGS, "default", 0).await;
}

/// P10
async fn signs_of_life_come_before_the_lifetime_is_over(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |it| {
        it.peering.lifetime = Duration::from_secs(20);
    });
    let seen = |object: &Value| {
        let record = records(object).pop_first().map(|(_, record)| record.clone());
        record.map(|it| it["lastseen"].as_str().unwrap_or_default().to_owned())
    };
    let mut last = seen(&until_records(&test, 1).await).expect("it is there");
    for _ in 0..10 {
        let is_newer = |object: &Value| seen(object).is_some_and(|it| it != last);
        let next = seen(&until(&test, "it is written again", is_newer).await).expect("it is there");
        let time = |text: &str| text.parse::<jiff::Timestamp>().expect("it is there");
        let between = time(&next).duration_since(time(&last)).as_secs_f64();
        assert!((9.9..15.2).contains(&between), "{between}");
        last = next;
    }
    working.stop().await;
}

async fn a_record_that_others_take_away_is_written_again(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    let object = until_records(&test, 1).await;
    let identity = records(&object).pop_first().expect("it is there").0.clone();
    write(&test, &identity, Value::Null).await;
    let taken = tokio::time::Instant::now();
    until_records(&test, 1).await;
    assert!(taken.elapsed() < Duration::from_secs(6), "{:?}", taken.elapsed());
    working.stop().await;
}

async fn an_operator_without_permission_works_and_reports_it(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let fault = kopf_rs_apiserver::Fault::answer(403).on(kopf_rs_apiserver::Verb::Patch).plural(PEERINGS);
    let _refusing = server.fault(fault);
    let working = start(&test, creating(&test, "c"), |_| {});
    test.line("The peering object 'default' of kopfpeerings.v1.kopf.dev in").await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    working.stop().await;
}

/// Lets all be there that the object lists, and nothing else.
fn keeping(test: &TestOperator) -> Registry {
    let keep = || {
        let keep = test.handler("keep", |context| async move {
            let wanted: Vec<Value> = context.read("spec.children")?;
            context.children()?.set(&wanted).await?;
            Ok(Value::Null)
        });
        keep.owns("configmaps")
    };
    Registry::new().on_create(test.selector(), keep()).on_update(test.selector(), keep())
}

/// CH60: what is deleted, and by whom, is for the operator to say that is active.
async fn a_pause_between_an_apply_and_a_deletion_leaves_children_to_others(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let working = test.start(keeping(&test));
    let wanted = |name: &str| json!({"children": [map(name, &json!({}))]});
    let there = |object: Option<&Value>| object.is_some();
    let gone = |object: Option<&Value>| object.is_none();
    test.create("one", wanted("before")).await;
    let made = test.cluster.until("it is made", "configmaps", "before", there);
    made.await;
    test.line("Handler 'keep' succeeded").await;
    let delay = Fault::delay_answer(Duration::from_secs(4));
    let delays = server.fault(delay.on(Verb::Patch).plural("configmaps"));
    test.patch("one", json!({"spec": wanted("after")})).await;
    let made = test.cluster.until("it is made", "configmaps", "after", there);
    made.await;
    write(&test, "higher", json!({"priority": 1, "lifetime": 3600})).await;
    test.line("Pausing operations in favour of [<Peer higher").await;
    test.line("the operator is paused in favour of another one: it writes no children until it continues")
        .await;
    drop(delays);
    let deleted = || {
        let asked = test.cluster.asked().into_iter();
        let by_operator = asked.filter(|it| it.user_agent != TestCluster::USER_AGENT);
        let of_children = by_operator.filter(|it| it.path.contains("/configmaps/"));
        of_children.filter(|it| it.verb == "delete").count()
    };
    assert_eq!(deleted(), 0);
    assert!(test.cluster.get("configmaps", "before").await.is_some());
    write(&test, "higher", Value::Null).await;
    let deletion = test.cluster.until("it is deleted", "configmaps", "before", gone);
    deletion.await;
    working.stop().await;
    assert_eq!(deleted(), 1);
    assert!(test.cluster.get("configmaps", "after").await.is_some());
}

/// A write that is not answered takes the only place that writes have.
async fn signs_of_life_wait_for_no_other_write(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |it| {
        it.peering.lifetime = Duration::from_secs(20);
        it.networking.concurrent_writes = 1;
        it.networking.request_timeout = Duration::from_secs(3600);
    });
    until_records(&test, 1).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let late = kopf_rs_apiserver::Fault::delay(Duration::from_secs(3000));
    let late = late.on(kopf_rs_apiserver::Verb::Patch).plural(KIND);
    let stuck = server.fault(late);
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    let seen = |object: &Value| {
        let record = records(object).pop_first();
        record.map(|(_, record)| record["lastseen"].clone())
    };
    for _ in 0..3 {
        let now = tokio::time::Instant::now();
        let last = seen(&until_records(&test, 1).await);
        until(&test, "it is written again", |it| seen(it) != last).await;
        let took = now.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
    assert_eq!(stuck.hits(), 1);
    working.kill().await;
}

/// Whoever sees nothing of a peer does not know that it is dead.
async fn a_watch_that_is_cut_ends_no_pause(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let alive = |number: u32| json!({"priority": 5, "lifetime": 20, "number": number});
    write(&test, "higher", alive(0)).await;
    let working = start(&test, creating(&test, "c"), |it| {
        it.peering.lifetime = Duration::from_secs(3600);
    });
    test.line("Pausing operations in favour of [<Peer higher: ").await;
    until_records(&test, 2).await;
    test.create("one", json!({})).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let refused = kopf_rs_apiserver::Fault::answer(500).plural(PEERINGS);
    let blind = server.fault(refused.method("GET"));
    let cut = kopf_rs_apiserver::Fault::cut().on(kopf_rs_apiserver::Verb::Watch);
    let cut = server.fault(cut.plural(PEERINGS));
    // An open watch looks for faults when it is woken.
    until_hits(&cut, 1).await;
    drop(cut);
    for number in 1..20 {
        write(&test, "higher", alive(number)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(test.calls.all(), [""; 0], "after {} s", 5 * number);
    }
    assert!(blind.hits() > 0);
    // Nor is one that sees again any wiser at once, but it is in the end.
    drop(blind);
    test.calls_until("c one").await;
    working.stop().await;
}

/// One object whose handler runs through the pause, and one whose outcome cannot be written before its end.
async fn the_end_of_a_pause_is_a_start_for_busy_objects(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("c", &gate))
        .on_resume(test.selector(), test.noting("r"));
    let working = test.start(registry);
    until_records(&test, 1).await;
    let fault = Fault::answer(503).on(Verb::Patch).plural(KIND);
    let refused = server.fault(fault.name("unwritten"));
    test.create("unwritten", json!({})).await;
    gate.open(1);
    until_hits(&refused, 1).await;
    test.create("called", json!({})).await;
    test.calls_until("c called").await;
    write(&test, "higher", json!({"priority": 1, "lifetime": 3600})).await;
    test.line("Pausing operations in favour of [<Peer higher").await;
    // What has ended is written in a pause as well.
    until_hits(&refused, refused.hits() + 2).await;
    write(&test, "higher", Value::Null).await;
    test.line("Resuming operations after the pause.").await;
    gate.open(1);
    test.calls_until("r called").await;
    drop(refused);
    test.calls_until("r unwritten").await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    let expected = ["c called", "c unwritten", "r called", "r unwritten"];
    assert_eq!(calls, expected);
}

/// Its owner is at rest all along: nothing but the child calls the handler again.
async fn a_child_that_is_edited_during_a_pause_is_corrected_after_it(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), owned::keeping(&test)));
    owned::settled(&test).await;
    test.until("it is handled", "one", is_handled).await;
    write(&test, "freeze", json!({"priority": 100, "lifetime": 3600})).await;
    test.line("Pausing operations in favour of [<Peer freeze").await;
    let edit = json!({"data": {"a": "2"}});
    test.cluster.patch("configmaps", "child", &edit).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let found = test.cluster.get("configmaps", "child").await;
    assert_eq!(found.expect("it is there")["data"]["a"], "2");
    write(&test, "freeze", Value::Null).await;
    owned::until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    working.stop().await;
}

/// Wants a child with this value, whatever the object says.
fn wanting(test: &TestOperator, value: &'static str) -> Callback {
    let wanting = test.handler("keep", move |context| async move {
        let child = map("child", &json!({"a": value}));
        context.children()?.apply(&child).await?;
        Ok(Value::Null)
    });
    wanting.owns("configmaps")
}

/// It applies under the same name, as one with `--dev` does, and the fields are the same. The first one does not take the child for its own work.
async fn children_applied_by_another_release_are_corrected(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let version = |value| Registry::new().reconcile(test.selector(), wanting(&test, value));
    let deployed = test.start(version("1"));
    test.create("one", json!({})).await;
    owned::until(&test, "it is made", |it| it["data"]["a"] == "1").await;
    for _ in 0..2 {
        let other = start(&test, test.operator(version("2")), |it| {
            it.peering.priority = 666;
        });
        owned::until(&test, "it is the other's", |it| it["data"]["a"] == "2").await;
        other.stop().await;
        owned::until(&test, "it is put right", |it| it["data"]["a"] == "1").await;
    }
    deployed.stop().await;
}
