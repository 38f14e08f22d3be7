//! Queue and watches: random histories in which kinds, versions, namespaces and watches come and go.
//!
//! The checks: a watch failure never makes a live object look deleted, no object is handled twice at once, and the results of handlers are
//! neither lost nor repeated.

mod check;
mod cluster;
mod event;
mod handler;
mod history;
mod record;
mod roles;
mod simulation;

use std::sync::Mutex;

use kopf_rs_tests::{Lines, say};

use crate::random::{Failure, Seed, assert_told_again, explore, perform};
use history::History;
use record::Record;
use simulation::{Simulation, State};

/// The default number of histories.
const HISTORIES: u64 = 100;

/// The counts of a history.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    objects: usize,
    calls: usize,
    writes: usize,
    troubles: usize,
    starts: usize,
}

#[test]
fn watches_that_come_and_go_lose_nothing() {
    let total = Mutex::new(Tally::default());
    let play = |seed, lines: Option<&Lines>| play(seed, lines, tally);
    let count = explore(HISTORIES, play, |tally| {
        add(&mut total.lock().expect("no panics here"), tally);
    });
    let Some(count) = count else { return };
    let Tally { objects, calls, writes, troubles, starts } = total.into_inner().expect("no panics here");
    say(&format!(
        "{count} histories of queue and watches: {objects} objects, {calls} calls, {writes} writes, {troubles} troubles, {starts} starts; handlers \
         called for live objects as deleted: 0, two attempts at once on one object: 0, finished outcomes lost: 0, succeeded handlers called \
         again for the same reason: 0"
    ));
}

#[test]
fn a_seed_tells_the_same_story_of_watches_again() {
    // If several objects vanish with their watch at once, their order is random, so this test uses one object.
    let alone = |number| Seed { number, size: 1 };
    assert_told_again((0..16).map(alone), |seed| {
        let told = play(seed, None, |state| state.record.story.told());
        told.unwrap_or_else(|failure| failure.story)
    });
}

fn play<T>(seed: Seed, lines: Option<&Lines>, sum: impl FnOnce(&State) -> T) -> Result<T, Failure> {
    let begin = || {
        let history = History::new(seed, Record::new(lines));
        (history.simulation.clone(), history)
    };
    let act = async |history: &mut History| history.play().await;
    let told = |simulation: &Simulation| simulation.state().record.story.told();
    perform(lines, begin, act, told, |simulation| sum(&simulation.state()))
}

fn tally(state: &State) -> Tally {
    let record = &state.record;
    Tally {
        objects: record.lives.len(),
        calls: record.calls,
        writes: record.writes,
        troubles: state.troubles,
        starts: record.start,
    }
}

fn add(total: &mut Tally, tally: Tally) {
    total.objects += tally.objects;
    total.calls += tally.calls;
    total.writes += tally.writes;
    total.troubles += tally.troubles;
    total.starts += tally.starts;
}
