//! Tests timers with a schedule: their calls, their records, and missed runs.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::background::{ON, label, labelled, timer};
use super::world::World;
use crate::handler::options::Callback;
use crate::object::event::EventType;
use crate::object::patch::Patch;

const DAY: i64 = 24 * 60 * 60;

/// A timer for each night at three in Kyiv, which is one hour after midnight UTC in the winter.
fn nightly(options: impl FnOnce(&mut Callback)) -> World {
    timer(|it| {
        it.schedule = Some("0 3 * * *".into());
        it.zone = Some("Europe/Kyiv".into());
        options(it);
    })
}

impl World {
    pub(super) fn keep_of_background(&mut self, patch: Patch) {
        if !patch.is_empty() {
            self.seen.as_mut().unwrap().keep_of_background(patch);
        }
    }

    fn noted(&self) -> Value {
        let object = self.object.as_ref().unwrap();
        object["metadata"]["annotations"]["op.kopf.rs/last-run.x"].clone()
    }

    /// Returns the reports about missed runs.
    fn missed(&mut self) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.contains("has missed"));
        lines
    }
}

#[test]
fn a_timer_is_called_when_its_schedule_says_so() {
    let mut world = nightly(|_| {});
    world.create(json!({}));
    assert_eq!((world.calls(), world.due()), (String::new(), Some(3600)));
    assert_eq!(world.writes(), 1, "the first note goes with the finalizer");
    assert_eq!(world.noted(), "2026-01-01T00:00:00Z");
    world.wake().sleep(90).ends("x", "ok");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(DAY - 90)));
    assert_eq!(world.noted(), "2026-01-01T01:00:00Z", "when it began");
    assert_eq!(world.writes(), 1);
    world.update(json!({"spec": {"a": 1}})).again();
    assert_eq!(world.calls(), "", "a change calls nobody");
    world.delete();
    assert!(world.object.is_none(), "it rests: nothing waits for it");
}

#[test]
fn runs_that_a_slow_call_passes_are_left_out() {
    let mut world = timer(|it| it.schedule = Some("*/5 * * * *".into()));
    world.create(json!({})).wake().sleep(11 * 60).ends("x", "ok");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(4 * 60)));
    assert_eq!(world.missed(), [""; 0]);
}

#[test]
fn what_was_missed_is_told_and_made_once() {
    for (days, said) in [
        (1, "Timer 'x' has missed its run at 2026-01-02T01:00:00Z: it is called once now."),
        (9, "Timer 'x' has missed several runs, the first at 2026-01-02T01:00:00Z: it is called once now."),
    ] {
        let mut world = nightly(|_| {});
        world.create(json!({})).wake().ends("x", "ok").missed();
        world.sleep(days * 86_400 + 7).restart();
        assert_eq!(world.missed(), [said]);
        let due = world.due().unwrap();
        assert!((0..60).contains(&due), "spread over a minute: {due}");
        world.calls();
        world.wake().ends("x", "ok");
        assert_eq!(world.calls(), "x#0");
        world.restart();
        assert_eq!((world.missed(), world.calls()), (vec![], String::new()));
    }
}

#[test]
fn nothing_is_missed_between_two_runs() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().ends("x", "ok");
    for _ in 0..3 {
        world.sleep(3 * 3600).restart();
    }
    assert_eq!(world.missed(), [""; 0]);
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(DAY - 9 * 3600)));
    assert_eq!(world.writes(), 2);
}

#[test]
fn a_run_before_the_first_one_is_missed_too() {
    let mut world = nightly(|_| {});
    world.create(json!({})).sleep(2 * 3600).restart();
    assert_eq!(world.missed().len(), 1);
}

#[test]
fn objects_that_are_older_than_the_timer_have_missed_nothing() {
    let mut world = nightly(|_| {});
    world.put(json!({}));
    world.edit(json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}}));
    world.see(EventType::Listed);
    assert_eq!((world.missed(), world.due()), (vec![], Some(3600)));
}

#[test]
fn what_the_filters_have_left_out_is_not_missed() {
    let mut world = nightly(labelled);
    world.create(json!({})).update(label(ON)).wake();
    world.ends("x", "ok").update(label("")).sleep(5 * 86_400);
    world.update(label(ON));
    assert_eq!((world.missed(), world.calls()), (vec![], "x#0".into()));
    assert_eq!(world.due(), Some(DAY));
    world.sleep(60).restart();
    assert_eq!(world.missed(), [""; 0], "nor after a restart");
}

#[test]
fn a_run_that_fails_for_good_is_over() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().ends("x", "p");
    assert_eq!((world.due(), world.is_held()), (None, false));
    assert_eq!(world.noted(), "2026-01-01T01:00:00Z");
    world.sleep(60).update(json!({"spec": {"a": 1}}));
    assert_eq!(world.due(), Some(DAY - 60), "after a change, with the next run");
    world.calls();
    world.wake().ends("x", "p").sleep(3600 + 2 * 86_400);
    world.update(json!({"spec": {"a": 2}}));
    assert_eq!(world.due(), Some(DAY - 3600), "and at no other time");
    world.restart();
    assert_eq!(world.missed().len(), 1, "of two days");
}

#[test]
fn errors_take_the_place_of_the_schedule_for_one_run() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().ends("x", "t600");
    assert_eq!(world.due(), Some(600));
    let first = Value::from("2026-01-01T00:00:00Z");
    assert_eq!(world.noted(), first, "the run is not over");
    world.wake().ends("x", "ok");
    assert_eq!(world.noted(), "2026-01-01T01:00:00Z");
    assert_eq!((world.calls(), world.due()), ("x#0 x#1".into(), Some(DAY - 600)));
}

#[test]
fn an_operator_that_dies_in_a_run_makes_it_again() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().calls();
    world.sleep(5).restart();
    assert_eq!(world.missed().len(), 1);
    world.wake();
    assert_eq!(world.calls(), "x#0");
}

#[test]
fn a_clock_that_was_ahead_misses_nothing_for_long() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().ends("x", "ok");
    world.now = "2025-12-24T12:00:00Z".parse::<Timestamp>().unwrap();
    world.restart();
    assert_eq!((world.missed(), world.due()), (vec![], Some(13 * 3600)));
}

#[test]
fn runs_are_made_when_the_wall_clock_says_so() {
    let mut world = nightly(|_| {});
    world.create(json!({}));
    assert_eq!(world.due(), Some(3600));
    // The machine was suspended for two hours.
    world.wall_ahead = SignedDuration::from_hours(2);
    world.again().ends("x", "ok");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(DAY - 3600)));
    assert_eq!(world.noted(), "2026-01-01T02:00:00Z");
    // Set back slightly: the time of the completed run recurs.
    world.wall_ahead = SignedDuration::from_mins(30);
    world.again();
    assert_eq!((world.calls(), world.due()), (String::new(), Some(DAY + 1800)));
    // The clock was wrong by days.
    world.wall_ahead = SignedDuration::from_hours(-72);
    world.again();
    assert_eq!((world.calls(), world.due()), (String::new(), Some(3600)));
    world.wake().ends("x", "ok");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(DAY)));
}

#[test]
fn a_run_that_another_instance_has_made_is_not_made_again() {
    let mut world = nightly(|_| {});
    world.create(json!({})).wake().ends("x", "ok").calls();
    world.sleep(86_400 + 7).restart();
    assert_eq!(world.missed().len(), 1);
    let noted = json!({"op.kopf.rs/last-run.x": "2026-01-02T01:00:00Z"});
    world.edit(json!({"metadata": {"annotations": noted}}));
    world.sleep(60).again();
    assert_eq!((world.calls(), world.due()), (String::new(), Some(DAY - 67)));
}

#[test]
fn a_scheduled_timer_may_wait_for_the_object_to_be_left_alone() {
    let mut world = nightly(|it| it.handler.timing.idle = Some(std::time::Duration::from_secs(600)));
    world.create(json!({})).sleep(3500);
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.due(), Some(600));
    world.wake().ends("x", "ok");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(DAY - 500)));
}
