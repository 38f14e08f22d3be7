//! Three instances in virtual time, each of which may be killed, stopped, partitioned or delayed: no object is handled by two of them, and
//! none is left unhandled for long.
//!
//! Only a separate process can be frozen. Here a delayed instance keeps running, and its requests and watch events arrive late.

use std::time::Duration;

use kopf_rs_apiserver::{Fault, FaultHandle};
use kopf_rs_tests::{TestCluster, say, scenarios};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::operating::{TestOperator, Working};
use crate::replicas::journal::Journal;
use crate::replicas::partitions::{OWNERS, child_until, cut_off, everything, fault_of, start, until};

scenarios! {
    three_take_turns_through_random_faults [memory];
}

/// The default number of faults; `KOPF_RS_FAULTS` overrides it, and `KOPF_RS_SEED` selects other faults.
const ROUNDS: u64 = 8;

/// By `docs/replicas.md`, an instance takes the Lease after 15 seconds without a change, and renewals come every two seconds.
const LONGEST_GAP: Duration = Duration::from_secs(17);

type Member = (&'static str, Working);

async fn three_take_turns_through_random_faults(cluster: TestCluster) {
    let rounds = number("KOPF_RS_FAULTS", ROUNDS);
    let mut random = Random(number("KOPF_RS_SEED", 0));
    let test = TestOperator::of(cluster).await;
    let journal = Journal::default();
    for owner in OWNERS {
        test.create(owner, json!({"value": "first"})).await;
    }
    let begin = |number: u64| -> Member {
        let name: &'static str = format!("i{number}").leak();
        (name, start(&test, name, everything(&test, &journal, name)))
    };
    let mut group: Vec<Member> = (0..3).map(begin).collect();
    let (mut story, started) = (Vec::new(), Instant::now());
    for round in 0..rounds {
        let now = Instant::now();
        let is_at_work = || journal.last().is_some_and(|it| it.begun > now);
        until("an instance at work", is_at_work).await;
        // Not a wait for a condition: the faults must hit arbitrary moments.
        sleep(Duration::from_millis(random.below(5000))).await;
        let leader = journal.last().expect("one is at work").instance;
        let at = group.iter().position(|(name, _)| *name == leader);
        let at = match (at, random.below(4)) {
            (Some(at), 1..) => at,
            _ => usize::try_from(random.below(3)).expect("it is small"),
        };
        let fate = random.below(4);
        let time = Duration::from_millis(random.below(40_000));
        let name = group[at].0;
        let fated = ["killed", "ended", "cut off", "held up"][usize::try_from(fate).expect("small")];
        story.push(format!("{:?}: {name} is {fated}, {time:?}, {leader} is at work", started.elapsed()));
        match fate {
            0 => group.remove(at).1.kill().await,
            1 => drop(group.remove(at).1.stop().await),
            2 => pass(cut_off(&test, name), time).await,
            _ => pass(held_up(&test, name, time), time).await,
        }
        if group.len() < 3 {
            group.push(begin(3 + round));
        }
    }
    for owner in OWNERS {
        test.patch(owner, json!({"spec": {"value": "last"}})).await;
        child_until(&test, owner, "last").await;
    }
    for (_, working) in group {
        working.stop().await;
    }
    judge(&journal, started, &story.join("\n"));
    let terms = test.cluster.lines().count(|it| it.contains("This instance is the leader"));
    assert!(terms > 1, "{story:#?}");
    say(&format!("turns: {rounds} faults, {terms} terms"));
}

fn judge(journal: &Journal, started: Instant, story: &str) {
    assert_eq!(journal.overlap(), None, "\n{story}");
    let (gap, end) = journal.longest_gap();
    assert!(gap <= LONGEST_GAP, "{gap:?} until {:?}\n{story}", end - started);
    say(&format!("turns: {gap:?} at most without a call"));
}

/// Delays the requests and the watch events of an instance.
fn held_up(test: &TestOperator, name: &'static str, time: Duration) -> [FaultHandle; 2] {
    [Fault::delay(time), Fault::late(time)].map(|fault| fault_of(test, name, fault))
}

async fn pass(faults: [FaultHandle; 2], time: Duration) {
    sleep(time).await;
    faults.into_iter().for_each(FaultHandle::clear);
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.map_or(otherwise, |it| it.parse().expect("a number"))
}

/// A random number generator (`SplitMix64`) that repeats the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}
