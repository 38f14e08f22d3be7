//! Instances as processes, which are killed, frozen and ended while objects are made: what the cluster has seen of them tells who has written
//! when, and what was lost.

mod group;
mod history;

use std::cell::Cell;
use std::time::Duration;

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;
use tokio::time::sleep;

use group::{DURATION, Group, RETRY, WORKERS};
use history::History;

scenarios! {
    three_take_turns_through_kills_and_freezes [tcp real];
}

/// What befalls the instance at work, in turn.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    /// Until another one has written.
    Frozen,
    Ended,
    /// For less time than its term has.
    Suspended,
}

const FAULTS: [Fault; 4] = [Fault::Killed, Fault::Frozen, Fault::Ended, Fault::Suspended];

/// How many of them, unless `KOPF_RS_FAULTS` says otherwise.
const ROUNDS: usize = 4;

/// Between two new objects.
const PACE: Duration = Duration::from_millis(100);

/// By `docs/replicas.md`, the Lease is taken once it has not changed for its duration, and renewals come in time. Then the new instance reads an object,
/// works and writes: all that, and what else a busy machine holds up, has two seconds.
const LONGEST_GAP: Duration = DURATION.saturating_add(RETRY).saturating_add(Duration::from_secs(2));

/// LE3, LE5, LE6
async fn three_take_turns_through_kills_and_freezes(cluster: TestCluster) {
    let rounds = std::env::var("KOPF_RS_FAULTS").ok();
    let rounds = rounds.map_or(ROUNDS, |it| it.parse().expect("a number"));
    let history = History::follow(&cluster).await;
    let mut group = Group::start(&cluster, 3).await;
    let enough = Cell::new(false);
    let faults = async {
        for round in 0..rounds {
            let at = group.at_work(&history).await;
            // Not to wait for something, but to hit anywhere.
            sleep(Duration::from_millis(random(round) % 1000)).await;
            befall(&mut group, &history, at, FAULTS[round % FAULTS.len()]).await;
        }
        group.at_work(&history).await;
        enough.set(true);
    };
    let (made, ()) = tokio::join!(load(&cluster, &enough), faults);
    history.until_handled(made).await;
    group.end().await;
    history.assert_one_writer();
    assert_each_attempt_counts_once(&group, &history, rounds);
}

/// New objects, until it is enough.
async fn load(cluster: &TestCluster, enough: &Cell<bool>) -> usize {
    let mut made = 0;
    while !enough.get() {
        let metadata = json!({"name": format!("object-{made}"), "labels": {"replicated": "yes"}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        cluster.create(&object).await;
        made += 1;
        sleep(PACE).await;
    }
    made
}

async fn befall(group: &mut Group<'_>, history: &History, at: usize, fault: Fault) {
    match fault {
        Fault::Killed => {
            group.kill(at).await;
            group.add().await;
        }
        Fault::Ended => {
            group.end_one(at).await;
            group.add().await;
        }
        Fault::Frozen => {
            let name = group.name(at).to_owned();
            let before = group.losses(at);
            group.signal(at, "STOP").await;
            history.until_written_by_another(&name).await;
            group.signal(at, "CONT").await;
            group.until_lost(at, before).await;
        }
        Fault::Suspended => {
            group.signal(at, "STOP").await;
            sleep(Duration::from_secs(1)).await;
            group.signal(at, "CONT").await;
        }
    }
}

/// Each object has what two attempts have left, whoever has made them; what was begun beside that was in flight when its instance was hit.
fn assert_each_attempt_counts_once(group: &Group<'_>, history: &History, rounds: usize) {
    let attempts = history.attempts();
    for (name, attempts) in &attempts {
        let numbers: Vec<_> = attempts.iter().filter_map(|it| it.split_once('/')).collect();
        let numbers: Vec<_> = numbers.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, ["0", "1"], "{name}: {attempts:?}");
    }
    let begun = group.attempts_begun();
    let again = begun.saturating_sub(2 * attempts.len());
    let interruptions = group.interruptions();
    let gap = history.longest_gap();
    kopf_rs_tests::say(&format!(
        "replicas: {rounds} faults, {} terms, {} objects, {again} attempts made again, {gap:?} at most without a write",
        history.terms(),
        attempts.len(),
    ));
    let most = WORKERS * interruptions;
    let said = || group.said();
    assert!(again <= most, "{again} attempts made again, {most} at most\n{}", said());
    assert!(gap <= LONGEST_GAP, "{gap:?}, {LONGEST_GAP:?} at most\n{}", said());
}

/// The same moments in every run: a multiplicative hash of the round.
fn random(round: usize) -> u64 {
    let round = u64::try_from(round).expect("few rounds") + 1;
    round.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}
