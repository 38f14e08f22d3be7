//! Daemons, timers and an index in random histories, in which objects are created, edited and deleted.
//!
//! The checks: every live object has its daemons and no daemon outlives its object, no daemon or timer runs twice at once, no timer ticks
//! before its interval has passed, and the index matches the live objects.

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
const HISTORIES: u64 = 40;

/// The counts of a history.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    objects: usize,
    calls: usize,
    edits: usize,
    troubles: usize,
    starts: usize,
}

#[test]
fn daemons_and_timers_live_as_long_as_their_objects() {
    let total = Mutex::new(Tally::default());
    let play = |seed, lines: Option<&Lines>| play(seed, lines, tally);
    let count = explore(HISTORIES, play, |tally| {
        add(&mut total.lock().expect("no panics here"), tally);
    });
    let Some(count) = count else { return };
    let Tally { objects, calls, edits, troubles, starts } = total.into_inner().expect("no panics here");
    say(&format!(
        "{count} histories of daemons and timers: {objects} objects, {calls} calls, {edits} edits, {troubles} troubles, {starts} starts; daemons \
         without their object: 0, objects without their daemon: 0, two calls of one at once: 0, ticks before their time: 0, indices \
         that differ from a computation from scratch: 0"
    ));
}

#[test]
fn a_seed_tells_the_same_story_of_daemons_again() {
    // With several objects due at once, their order is random, so this test uses one object.
    let alone = |number| Seed { number, size: 1 };
    assert_told_again((0..8).map(alone), |seed| {
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
        calls: record.calls.len(),
        edits: record.lives.iter().map(|life| life.edits).sum(),
        troubles: state.troubles,
        starts: record.start,
    }
}

fn add(total: &mut Tally, tally: Tally) {
    total.objects += tally.objects;
    total.calls += tally.calls;
    total.edits += tally.edits;
    total.troubles += tally.troubles;
    total.starts += tally.starts;
}
