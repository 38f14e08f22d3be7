//! The central guarantee on whole operators: random histories, checked by what users can see, which is objects, requests and calls.

mod actor;
mod actors;
mod check;
mod crash;
mod keeping;
mod play;
mod record;
mod roles;
mod simulation;

use std::sync::Mutex;

use kopf_rs_tests::say;

use crate::random::{Seed, assert_told_again, explore};
use play::{Tally, play, story};

/// The default number of histories.
const HISTORIES: u64 = 100;

#[test]
fn no_change_is_lost_and_nothing_is_done_in_vain() {
    let total = Mutex::new(Tally::default());
    let count = explore(HISTORIES, play, |tally| {
        add(&mut total.lock().expect("no panics here"), tally);
    });
    let Some(count) = count else { return };
    let Tally { calls, writes, troubles, starts, changes } = total.into_inner().expect("no panics here");
    say(&format!(
        "{count} histories of operators: {changes} states of objects, {calls} calls, {writes} writes, {troubles} troubles, {starts} starts; no \
         change was lost, nothing was done in vain"
    ));
}

#[test]
fn a_seed_tells_the_same_story_again() {
    // One of each size.
    assert_told_again((0..8).map(Seed::of), story);
}

fn add(total: &mut Tally, tally: Tally) {
    total.calls += tally.calls;
    total.writes += tally.writes;
    total.troubles += tally.troubles;
    total.starts += tally.starts;
    total.changes += tally.changes;
}
