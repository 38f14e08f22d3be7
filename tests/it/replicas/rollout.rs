//! A rollout replaces the Pods of a Deployment one after the other, while objects are created.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::health::{get, port_in};
use crate::operating::{TestOperator, Working};
use crate::replicas::journal::{Called, Journal};
use crate::replicas::partitions::until;
use crate::replicas::{LEASES, NAME, shared};

scenarios! {
    a_rollout_under_load_is_never_stuck [memory];
}

/// The interval between two new objects.
const PACE: Duration = Duration::from_millis(50);

/// LE22, in the worst order: the active one of the old Pods is always replaced next. The rollout allows one extra Pod and no missing Pod.
async fn a_rollout_under_load_is_never_stuck(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let journal = Journal::default();
    let mut old = Vec::new();
    for name in ["old 1", "old 2", "old 3"] {
        old.push((name, ready(&test, &journal, name).await));
    }
    let enough = Cell::new(false);
    let load = async {
        let mut made = 0;
        while !enough.get() {
            test.create(&format!("object-{made}"), json!({})).await;
            made += 1;
            sleep(PACE).await;
        }
        made
    };
    let at_work = || journal.last().map(|it| it.instance);
    let rollout = async {
        let (mut new, mut ended) = (Vec::new(), None);
        for name in ["new 1", "new 2", "new 3"] {
            until("another one at work", || at_work() != ended).await;
            new.push(ready(&test, &journal, name).await);
            let leader = at_work();
            let at = old.iter().position(|(name, _)| Some(*name) == leader);
            let (name, working) = old.remove(at.unwrap_or_default());
            working.stop().await;
            ended = Some(name);
        }
        enough.set(true);
        new
    };
    let (made, new) = tokio::join!(load, rollout);
    until("all objects handled", || journal.all().len() >= made).await;
    let lease = test.cluster.get(LEASES, NAME).await.expect("it is there");
    for working in new {
        working.stop().await;
    }
    let calls = journal.all();
    let objects: BTreeSet<&str> = calls.iter().map(Called::object).collect();
    assert_eq!((calls.len(), objects.len()), (made, made));
    let (gap, _) = journal.longest_gap();
    assert!(gap < Duration::from_secs(2), "{gap:?}");
    // One transition for each active instance that ended.
    let transitions = lease["spec"]["leaseTransitions"].as_u64();
    assert!(transitions.is_some_and(|it| (1..=3).contains(&it)), "{lease}");
}

/// Starts an instance, and waits until it is ready, active or not.
async fn ready(test: &TestOperator, journal: &Journal, instance: &'static str) -> Working {
    let journal = journal.clone();
    let create = handler("create", move |context| {
        drop(journal.begin(instance, "create", &context));
        async { Ok(Value::Null) }
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let operator = shared(test, test.operator(registry)).liveness("http://127.0.0.1:0/healthz");
    let serves = |line: &String| line.contains("Serving health status at ");
    let count = || test.cluster.lines().all().into_iter().filter(serves).count();
    let before = count();
    let working = Working::start(&test.cluster, operator);
    until("an endpoint", || count() > before).await;
    let line = test.cluster.lines().all().into_iter().rfind(serves);
    let port = port_in(&line.expect("it is there"));
    for _ in 0..100 {
        let answer = get(port, "/readyz").await;
        if answer.code == 200 {
            return working;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{instance} is not ready: {:?}", get(port, "/readyz").await);
}
