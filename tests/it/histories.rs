//! The guarantee on whole operators: random histories, judged by what users see of them, which are objects, requests and calls.
//!
//! `KOPF_RS_HISTORIES=n` plays so many. A failure is made small, told from its beginning, and named by a seed; `KOPF_RS_SEED=n@size` plays that one
//! again, and tells what the operator has logged.

mod actor;
mod cast;
mod check;
mod crash;
mod dice;
mod keeping;
mod play;
mod record;
mod stage;
mod troupe;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf_rs_tests::{Lines, say};

use play::{Seed, Tally, play, story};
use troupe::Failure;

/// So many are played where nothing else is said.
const HISTORIES: u64 = 100;

#[test]
fn no_change_is_lost_and_nothing_is_done_in_vain() {
    if let Ok(seed) = std::env::var("KOPF_RS_SEED") {
        let seed = seed.parse().expect("a seed such as 12 or 12@3");
        return replay(seed);
    }
    let count = std::env::var("KOPF_RS_HISTORIES").ok();
    let count = count.map_or(HISTORIES, |it| it.parse().expect("a number of histories"));
    let (next, total) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let failed = Mutex::new(None);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            match play(Seed::of(number), None) {
                Ok(tally) => add(&mut total.lock().expect("no panics here"), tally),
                Err(failure) => {
                    next.store(count, Ordering::Relaxed);
                    let mut failed = failed.lock().expect("no panics here");
                    failed.get_or_insert((Seed::of(number), failure));
                }
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
    if let Some((seed, failure)) = failed.into_inner().expect("no panics here") {
        let (seed, failure) = smaller(seed).unwrap_or((seed, failure));
        panic!("{}", told(seed, &failure));
    }
    let Tally {
        calls,
        writes,
        troubles,
        starts,
        changes,
    } = total.into_inner().expect("no panics here");
    say(&format!(
        "{count} histories of operators: {changes} states of objects, {calls} calls, {writes} writes, {troubles} troubles, {starts} starts; no \
         change was lost, nothing was done in vain"
    ));
}

/// Requests, calls and times: a failure that cannot be played again could not be understood.
#[test]
fn a_seed_tells_the_same_story_again() {
    for number in 0..24 {
        let seed = Seed::of(number);
        let (first, again) = (story(seed), story(seed));
        let mut lines = first.iter().zip(&again);
        let parted = lines.position(|(first, again)| first != again);
        let parted =
            parted.or((first.len() != again.len()).then_some(first.len().min(again.len())));
        if let Some(place) = parted {
            let from = place.saturating_sub(10);
            let tail = |story: &[String]| story[from..story.len().min(place + 5)].join("\n");
            let (first, again) = (tail(&first), tail(&again));
            panic!("history {seed} is told in two ways:\n{first}\n\nand:\n{again}");
        }
    }
}

fn add(total: &mut Tally, tally: Tally) {
    total.calls += tally.calls;
    total.writes += tally.writes;
    total.troubles += tally.troubles;
    total.starts += tally.starts;
    total.changes += tally.changes;
}

/// A smaller history that fails too.
fn smaller(seed: Seed) -> Option<(Seed, Failure)> {
    const TRIES: u64 = 400;
    let candidates = (1..=seed.size).flat_map(|size| {
        (0..TRIES).map(move |number| Seed {
            number: seed.number + number,
            size,
        })
    });
    let mut failing = candidates.filter_map(|seed| Some((seed, play(seed, None).err()?)));
    failing.next()
}

fn replay(seed: Seed) {
    let lines = Lines::new(Duration::from_secs(1));
    if let Err(failure) = play(seed, Some(&lines)) {
        panic!("{}", told(seed, &failure));
    }
    say(&format!("history {seed}: nothing is wrong with it"));
}

fn told(seed: Seed, failure: &Failure) -> String {
    let Failure { why, story } = failure;
    let story = story.join("\n");
    format!("history {seed}:\n{story}\n\nwrong:\n{why}\n\nplay it again with KOPF_RS_SEED={seed}")
}
