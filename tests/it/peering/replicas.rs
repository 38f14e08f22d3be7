//! Instances that share a Lease, beside others that take part in the same peering: all instances together are one peer.

use std::time::Duration;

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kopf::{run_kopf, said};
use super::{creating, start, until_records, with_peering, write};
use crate::operating::{TestOperator, Working};
use crate::replicas::{LEASES, NAME};

scenarios! {
    above_kopf_one_of_three_acts_and_kopf_pauses [tcp];
    beside_an_equal_kopf_one_of_three_acts_and_kopf_pauses [tcp];
    all_of_three_pause_for_an_operator_on_a_machine [memory];
    all_of_three_pause_as_long_as_they_are_asked_to [memory];
}

const IDS: [&str; 3] = ["a", "b", "c"];

/// Three instances, which note creations with their ids.
fn three(test: &TestOperator, priority: i64) -> Vec<(&'static str, Working)> {
    let begin = |id| {
        let working = start(test, creating(test, id), |it| {
            it.peering.priority = priority;
            it.lease.enabled = true;
            it.lease.namespace = Some(test.cluster.namespace().to_owned());
        });
        (id, working)
    };
    IDS.map(begin).into()
}

/// Await that the object is handled: by whom.
async fn handler_of(test: &TestOperator, object: &str) -> String {
    let mut count = 1;
    loop {
        let calls = test.calls.until(count).await;
        let mut of_object = calls.iter().filter_map(|it| it.split_once(' '));
        if let Some((id, _)) = of_object.find(|(_, name)| *name == object) {
            return id.to_owned();
        }
        count = calls.len() + 1;
    }
}

/// LE25
async fn above_kopf_one_of_three_acts_and_kopf_pauses(cluster: TestCluster) {
    let told = "Pausing operations in favour of";
    beside_kopf(cluster, 100, told).await;
}

/// LE26
async fn beside_an_equal_kopf_one_of_three_acts_and_kopf_pauses(cluster: TestCluster) {
    let told = "Possibly conflicting operators with the same priority";
    beside_kopf(cluster, 0, told).await;
}

/// Kopf, whose priority is 0, pauses until the last of the three has ended; `told`: what it says.
async fn beside_kopf(cluster: TestCluster, priority: i64, told: &str) {
    let test = with_peering(cluster).await;
    let Some(program) = run_kopf(&test, "0") else {
        return;
    };
    test.create("zero", json!({})).await;
    said(&program, "Kopf has seen zero.").await;
    let mut replicas = three(&test, priority);
    // Kopf reports this before it pauses its watches.
    let lines = program.lines();
    let has_paused = |_: &str| {
        let all = lines.all();
        let mut since = all.iter().skip_while(|it| !it.contains(told));
        since.any(|it| it.contains("Pausing the watch-stream"))
    };
    lines.until("about a paused watch", has_paused).await;
    for name in ["one", "two", "three"] {
        test.create(name, json!({})).await;
        let id = handler_of(&test, name).await;
        // Kopf's, and that of the three.
        until_records(&test, 2).await;
        let seen = program.lines().count(|it| it.contains("Kopf has seen"));
        assert_eq!(seen, 1, "{}", program.lines().all().join("\n"));
        let at = replicas.iter().position(|it| it.0 == id);
        let (_, working) = replicas.remove(at.expect("it runs"));
        working.stop().await;
    }
    said(&program, "Kopf has seen three.").await;
    program.signal("TERM").await;
}

/// Who has the Lease, and since when.
async fn lease(test: &TestOperator) -> [Value; 3] {
    let lease = test.cluster.get(LEASES, NAME).await.expect("it is there");
    ["holderIdentity", "leaseTransitions", "acquireTime"].map(|it| lease["spec"][it].clone())
}

/// LE27: `--dev` is a priority of 666. The one that has the Lease keeps it, so no other one of the three acts.
async fn all_of_three_pause_for_an_operator_on_a_machine(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let replicas = three(&test, 0);
    test.create("one", json!({})).await;
    let id = handler_of(&test, "one").await;
    let before = lease(&test).await;
    // It is ended, and it is killed: then it is believed to be alive for its lifetime.
    for (round, longest) in [(1, 1), (2, 60)] {
        let dev = start(&test, creating(&test, "dev"), |it| {
            it.peering.priority = 666;
        });
        until_records(&test, 2).await;
        let (meanwhile, later) = (format!("meanwhile-{round}"), format!("later-{round}"));
        test.create(&meanwhile, json!({})).await;
        assert_eq!(handler_of(&test, &meanwhile).await, "dev");
        let ended = Instant::now();
        if round == 1 {
            dev.stop().await;
        } else {
            dev.kill().await;
        }
        test.create(&later, json!({})).await;
        assert_eq!(handler_of(&test, &later).await, id);
        let took = ended.elapsed();
        let said = || test.cluster.lines().all().join("\n");
        assert!(took <= Duration::from_secs(longest), "{took:?}\n{}", said());
    }
    assert_eq!(lease(&test).await, before);
    assert_eq!(test.calls.all().len(), 5, "{:?}", test.calls.all());
    for (_, working) in replicas {
        working.stop().await;
    }
}

/// LE28
async fn all_of_three_pause_as_long_as_they_are_asked_to(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let replicas = three(&test, 0);
    test.create("one", json!({})).await;
    let id = handler_of(&test, "one").await;
    let before = lease(&test).await;
    let freeze = json!({"priority": 100, "lifetime": 6});
    write(&test, "freeze", freeze).await;
    let frozen = Instant::now();
    test.line("Pausing operations in favour of [<Peer freeze: ").await;
    assert!(frozen.elapsed() < Duration::from_secs(1));
    test.create("two", json!({})).await;
    assert_eq!(handler_of(&test, "two").await, id);
    let held = frozen.elapsed().as_secs_f64();
    assert!((6.0..8.0).contains(&held), "{held}");
    assert_eq!(lease(&test).await, before);
    for (_, working) in replicas {
        working.stop().await;
    }
}
