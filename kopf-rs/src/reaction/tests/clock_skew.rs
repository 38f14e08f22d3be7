//! Tests record times in the future, from wrong clocks or edits.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, handlers, with};
use crate::state::Persistence;

const FAR: &str = "2099-01-01T00:00:00.000000+00:00";

/// Changes the record of a handler on the object, and restarts the process.
fn edited(world: &mut World, id: &str, fields: &Value) {
    let mut record = world.record(id);
    for (name, value) in fields.as_object().unwrap() {
        record[name] = value.clone();
    }
    let annotation = world.annotation_of(id);
    world.edit(json!({"metadata": {"annotations": {annotation: record.to_string()}}}));
    world.lines();
    world.restart();
}

/// Returns the seconds until the next plan.
fn left(world: &World) -> Option<f64> {
    let wake_at = world.wake_at?;
    Some(wake_at.duration_since(world.now).as_secs_f64())
}

fn told(world: &mut World) -> usize {
    let lines = world.lines();
    let ahead = lines.iter().filter(|line| line.contains("The record of handler "));
    ahead.count()
}

#[test]
fn a_delay_beyond_what_the_handler_asks_for_is_capped_and_told_once() {
    let mut world = World::of("create:c").script("c", "t5 ok");
    world.create(json!({}));
    edited(&mut world, "c", &json!({"delayed": FAR}));
    assert_eq!((left(&world), told(&mut world)), (Some(60.0), 1));
    world.sleep(30).restart();
    assert_eq!((left(&world), told(&mut world)), (Some(30.0), 0));
    world.wait();
    assert_eq!(world.calls(), "c create#0 c create#1");
    assert_eq!(told(&mut world), 0);
}

#[test]
fn a_delay_that_was_asked_for_is_kept_however_long() {
    let mut world = World::of("create:c").script("c", "t7200 ok");
    world.create(json!({}));
    world.sleep(60).restart();
    assert_eq!((left(&world), told(&mut world)), (Some(7140.0), 0));
    edited(&mut world, "c", &json!({"delayed": FAR}));
    assert_eq!((left(&world), told(&mut world)), (Some(7200.0), 1));
    let backoff = Duration::from_secs(300);
    let slow = with(handlers("create:c").remove(0), |it| {
        it.retry.backoff = Some(backoff);
    });
    let mut world = World::new(vec![slow]).script("c", "e ok");
    world.create(json!({}));
    edited(&mut world, "c", &json!({"delayed": FAR}));
    assert_eq!((left(&world), told(&mut world)), (Some(300.0), 1));
}

#[test]
fn a_begin_that_lies_ahead_is_now() {
    let timeout = |it: &mut crate::handler::definition::Handler| {
        it.retry.timeout = Some(Duration::from_secs(100));
    };
    let limited = with(handlers("create:c").remove(0), timeout);
    let mut world = World::new(vec![limited]).script("c", "t5 t200 ok");
    world.create(json!({}));
    edited(&mut world, "c", &json!({"started": FAR}));
    assert_eq!(told(&mut world), 1);
    world.wait();
    // From then on: the second failure would be retried beyond the timeout.
    assert_eq!(world.calls(), "c create#0 c create#1");
    assert_eq!(world.failed, ["c"]);
}

#[test]
fn sub_handlers_and_their_parents_are_no_exception() {
    let mut world = World::of("create:p").script("p/one", "t7200 ok");
    world.subs.insert("p".into(), vec!["one"]);
    world.create(json!({}));
    world.sleep(60).restart();
    assert_eq!((left(&world), told(&mut world)), (Some(7140.0), 0));
    edited(&mut world, "p.one", &json!({"delayed": FAR}));
    edited(&mut world, "p", &json!({"delayed": FAR}));
    assert_eq!(told(&mut world), 1);
    world.wait();
    assert_eq!(world.records(), "");
    let passed = world.now.duration_since("2026-01-01T00:00:00Z".parse().unwrap());
    assert!(passed.as_hours() < 5, "{passed:?}");
}

#[test]
fn where_nothing_is_known_of_what_was_asked_for_only_a_month_is_too_long() {
    for (delayed, expected) in [("2026-01-21T00:00:00.000000+00:00", 20.0 * 86_400.0), (FAR, 60.0)] {
        let mut world = World::of("create:c").script("c", "t5 ok");
        world.persistence = Persistence::kopf();
        world.create(json!({}));
        edited(&mut world, "c", &json!({"delayed": delayed}));
        assert_eq!(left(&world), Some(expected), "{delayed}");
        assert_eq!(told(&mut world), usize::from(delayed == FAR));
    }
}

#[test]
fn a_delay_of_a_record_whose_begin_lies_ahead_counts_from_its_begin() {
    let mut world = World::of("create:c").script("c", "t5 ok");
    world.persistence = Persistence::kopf();
    world.create(json!({}));
    let ahead = json!({"started": "2027-01-01T00:00:00+00:00", "delayed": "2027-01-02T00:00:00+00:00"});
    edited(&mut world, "c", &ahead);
    assert_eq!(left(&world), Some(86_400.0));
}

#[test]
fn a_delay_of_a_sub_handler_is_capped_where_memory_holds_what_the_object_says() {
    let mut world = World::of("create:p").script("p/one", "t5 ok");
    world.persistence = Persistence::kopf();
    world.subs.insert("p".into(), vec!["one"]);
    world.create(json!({}));
    edited(&mut world, "p.one", &json!({"delayed": FAR}));
    world.wait();
    assert_eq!(world.records(), "");
    let passed = world.now.duration_since("2026-01-01T00:00:00Z".parse().unwrap());
    assert!(passed.as_hours() < 5, "{passed:?}");
}
