//! Tests daemons and timers: which run, when they are called, and how they end (engines.md D, T; rows 7, 17 and 18).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;
use serde_json::{Value, json};

use super::world::{FINALIZER, World, declared, handler, handlers, pause, with};
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::handler::options::Callback;
use crate::handler::stopped::StopReason;
use crate::handler::timing::Pause;
use crate::object::event::EventType;
use crate::reaction::background::{Stage, stage};

fn world_of(kind: HandlerKind, options: impl FnOnce(&mut Callback)) -> World {
    World::new(vec![declared(kind, "x", options)])
}

fn daemon(options: impl FnOnce(&mut Callback)) -> World {
    world_of(HandlerKind::Daemon, options)
}

pub(super) fn timer(options: impl FnOnce(&mut Callback)) -> World {
    world_of(HandlerKind::Timer, options)
}

pub(super) fn labelled(options: &mut Callback) {
    options.handler.filters.labels = vec![("on".into(), Criterion::Present)];
}

pub(super) const ON: &str = "yes";

pub(super) fn label(value: &str) -> Value {
    json!({"metadata": {"labels": {"on": if value.is_empty() { Value::Null } else { value.into() }}}})
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// === daemons ===

#[test]
fn a_daemon_runs_as_long_as_the_object_is_there_and_holds_it() {
    let mut world = World::of("daemon:d");
    world.create(json!({}));
    assert_eq!((world.calls(), world.is_held()), ("d#0".into(), true));
    world.update(json!({"spec": {"a": 1}})).again();
    assert_eq!(world.calls(), "", "it runs already");
    world.delete();
    assert_eq!(world.reason("d"), "RESOURCE_DELETED");
    assert!(world.is_held(), "the deletion waits for it");
    world.ends("d", "ok");
    assert!(world.object.is_none());
    assert_eq!(world.writes(), 2);
}

#[test]
fn a_daemon_that_returns_is_not_called_again_and_holds_nothing() {
    for (outcome, name) in [("ok", "d9"), ("p", "d13")] {
        let mut world = daemon(labelled);
        world.put(json!({}));
        world.edit(label(ON));
        world.see(EventType::Added).ends("x", outcome);
        assert!(!world.is_held(), "{name}: it has let go");
        world.update(json!({"spec": {"a": 1}}));
        world.update(label(""));
        world.update(label(ON));
        assert_eq!(world.calls(), "x#0", "{name}");
        world.restart();
        assert_eq!(world.calls(), "x#0", "{name}: another process");
    }
}

/// The engine sets the flag directly when its term ends; the worker of the object may hear of the end of the call before that of the term.
#[test]
fn a_daemon_that_returns_because_its_term_ends_is_called_again_in_the_next_one() {
    for reason in [StopReason::OPERATOR_PAUSING, StopReason::OPERATOR_EXITING] {
        let mut world = World::of("daemon:d");
        world.create(json!({}));
        world.running[0].stopped().expect("a daemon").set(reason);
        world.ends("d", "ok");
        assert_eq!(world.calls(), "d#0 d#0", "{reason}");
    }
}

#[test]
fn a_daemon_is_called_again_after_its_errors_and_counts_them() {
    let mut world = World::of("daemon:d");
    world.create(json!({})).ends("d", "t7");
    assert_eq!((world.calls(), world.due()), ("d#0".into(), Some(7)));
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "", "changes do not hurry it");
    world.wake().ends("d", r#"{"a": 1}"#);
    assert_eq!(world.calls(), "d#1");
    let object = world.object.clone().unwrap();
    assert_eq!(object["status"]["d"], json!({"a": 1}));
    assert!(!world.is_held());
}

#[test]
fn limits_end_a_daemon() {
    let mut world = daemon(|it| {
        it.handler.retry.retries = Some(2);
    });
    world.create(json!({})).ends("x", "t1").wake().ends("x", "t1");
    assert_eq!((world.calls(), world.due()), ("x#0 x#1".into(), None));
    assert!(!world.is_held());
}

#[test]
fn a_daemon_is_stopped_and_called_anew_as_its_filters_say() {
    let mut world = daemon(labelled);
    world.create(json!({}));
    assert_eq!((world.calls(), world.is_held()), (String::new(), false));
    world.update(label(ON));
    assert_eq!((world.calls(), world.is_held()), ("x#0".into(), true));
    world.update(label(""));
    assert_eq!(world.reason("x"), "FILTERS_MISMATCH");
    world.update(label(ON));
    assert_eq!(world.calls(), "", "the former one has not ended");
    world.ends("x", "ok");
    assert_eq!(world.calls(), "x#0", "wanted again");
    world.update(label("")).ends("x", "ok");
    assert_eq!((world.calls(), world.is_held()), (String::new(), false));
}

#[test]
fn an_initial_delay_ends_with_the_object() {
    let mut world = daemon(|it| it.handler.timing.initial_delay = Some(pause(30)));
    world.create(json!({}));
    assert_eq!((world.calls(), world.due()), (String::new(), Some(30)));
    world.sleep(5).delete();
    assert_eq!((world.calls(), world.object.is_none()), (String::new(), true));
    let mut world = daemon(|it| {
        it.handler.timing.initial_delay =
            Some(Pause::of(|cause| cause.body().spec()["delay"].as_u64().unwrap_or_default()));
    });
    world.create(json!({"delay": 3}));
    assert_eq!(world.due(), Some(3));
    world.wake();
    assert_eq!(world.calls(), "x#0");
}

#[test]
fn the_stages_of_the_end() {
    let timing = |backoff: Option<u64>, timeout: Option<u64>, age| {
        let handler = declared(HandlerKind::Daemon, "x", |it| {
            it.handler.timing.cancellation_backoff = backoff.map(seconds);
            it.handler.timing.cancellation_timeout = timeout.map(seconds);
        });
        stage(&handler.timing, seconds(age))
    };
    for (backoff, timeout, age, expected) in [
        (None, None, 0, Stage::Awaited),
        (Some(2), None, 1, Stage::Signalled(seconds(2))),
        (Some(2), None, 2, Stage::Awaited),
        (None, Some(3), 0, Stage::Cancelled(seconds(3))),
        (None, Some(3), 3, Stage::Abandoned),
        (Some(2), Some(3), 1, Stage::Signalled(seconds(2))),
        (Some(2), Some(3), 2, Stage::Cancelled(seconds(5))),
        (Some(2), Some(3), 4, Stage::Cancelled(seconds(5))),
        (Some(2), Some(3), 5, Stage::Abandoned),
        (Some(2), Some(0), 2, Stage::Abandoned),
    ] {
        assert_eq!(timing(backoff, timeout, age), expected, "{backoff:?} {timeout:?} {age}");
    }
}

#[test]
fn a_daemon_that_ignores_its_flag_is_cut_off_and_abandoned_in_time() {
    let mut world = daemon(|it| {
        it.handler.timing.cancellation_backoff = Some(seconds(2));
        it.handler.timing.cancellation_timeout = Some(seconds(3));
    });
    world.create(json!({})).delete();
    assert_eq!(world.reason("x"), "RESOURCE_DELETED|DAEMON_SIGNALLED");
    assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(2)));
    world.wake();
    assert_eq!((world.calls(), world.due()), ("x cut off".into(), Some(3)));
    assert!(world.is_held());
    world.lines();
    world.wake();
    assert!(world.object.is_none(), "it is not waited for");
    let told = world.lines().join("\n");
    assert!(told.contains("Daemon 'x' did not exit in time."), "{told}");
}

#[test]
fn what_nothing_cuts_off_is_told_of_and_waited_for() {
    let mut world = daemon(|it| it.handler.timing.cancellation_polling = Some(seconds(30)));
    world.create(json!({})).delete();
    world.lines();
    assert_eq!(world.due(), Some(10));
    world.wake();
    let told = world.lines().join("\n");
    assert!(told.contains("Daemon 'x' is still exiting. The next check is in 30 seconds."), "{told}");
    assert_eq!(world.due(), Some(30));
    world.wake();
    assert!(world.is_held() && world.lines().len() == 1);
    world.sleep(1).ends("x", "ok");
    assert!(world.object.is_none(), "its end is no matter of the next check");
}

#[test]
fn a_deletion_handler_is_called_once_while_a_daemon_exits() {
    let mut world = World::of("delete:gone daemon:d create:c");
    world.create(json!({})).calls();
    world.delete().again();
    world.update(json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(world.calls(), "gone delete#0");
    assert!(world.is_held());
    world.lines();
    world.ends("d", "ok");
    assert_eq!((world.calls(), world.object.is_none()), (String::new(), true));
    let mut world = World::of("delete:gone daemon:d");
    world.create(json!({})).delete().calls();
    world.restart();
    assert_eq!((world.calls(), world.object.is_none()), (String::new(), true), "nor after a restart");
}

#[test]
fn what_a_daemon_wants_is_written_before_its_next_attempt() {
    let mut world = World::of("daemon:d");
    world.create(json!({})).calls();
    world.refuse = 1;
    world.writes();
    world.ends("d", "1");
    assert_eq!(world.object.as_ref().unwrap()["status"]["d"], json!(1));
}

// === timers ===

#[test]
fn a_timer_is_called_an_interval_after_its_end() {
    let mut world = World::of("timer:t");
    world.create(json!({}));
    assert_eq!((world.calls(), world.is_held()), ("t#0".into(), true));
    world.sleep(3).ends("t", "ok");
    assert_eq!((world.due(), world.is_held()), (Some(10), true));
    world.wake().sleep(25).ends("t", "ok");
    assert_eq!((world.calls(), world.due()), ("t#0".into(), Some(10)));
    world.delete();
    assert!(world.object.is_none(), "it rests: nothing waits for it");
}

#[test]
fn a_sharp_timer_keeps_to_its_grid() {
    let mut world = timer(|it| {
        it.handler.timing.interval = Some(pause(10));
        it.handler.timing.sharp = true;
    });
    world.create(json!({})).sleep(3).ends("x", "ok");
    assert_eq!(world.due(), Some(7));
    world.wake().sleep(13).ends("x", "ok");
    assert_eq!(world.due(), Some(7), "what is missed is left out");
    world.wake().sleep(10).ends("x", "ok");
    assert_eq!(world.due(), Some(10), "the moment itself is over");
}

#[test]
fn the_interval_may_depend_on_the_object() {
    let mut world = timer(|it| {
        it.handler.timing.interval =
            Some(Pause::of(|cause| cause.body().spec()["every"].as_f64().unwrap_or(-1.0)));
    });
    world.create(json!({"every": 4})).ends("x", "ok");
    assert_eq!(world.due(), Some(4));
    world.update(json!({"spec": {"every": null}})).wake().ends("x", "ok");
    assert_eq!(world.due(), Some(1));
    let told = world.lines().join("\n");
    assert!(told.contains("has given zero, or less"), "{told}");
}

#[test]
fn errors_take_the_place_of_the_schedule() {
    let mut world = World::of("timer:t");
    world.create(json!({})).ends("t", "t1");
    assert_eq!(world.due(), Some(1));
    world.wake().ends("t", "ok");
    assert_eq!((world.calls(), world.due()), ("t#0 t#1".into(), Some(10)));
    world.wake();
    assert_eq!(world.calls(), "t#0", "a tick of its own");
}

#[test]
fn what_fails_for_good_ends_a_timer_until_its_object_is_changed() {
    let mut world = World::of("timer:t");
    world.create(json!({})).ends("t", "p");
    assert_eq!((world.calls(), world.due(), world.is_held()), ("t#0".into(), None, false));
    world.update(json!({"status": {"a": 1}}));
    assert_eq!(world.calls(), "", "a status is no change");
    world.sleep(4).update(json!({"spec": {"a": 1}}));
    let waits = (String::new(), Some(6), true);
    assert_eq!((world.calls(), world.due(), world.is_held()), waits);
    world.wake();
    assert_eq!(world.calls(), "t#0");
    world.sleep(1).update(json!({"spec": {"a": 2}})).ends("t", "p");
    let waits = (String::new(), Some(10));
    let seen = (world.calls(), world.due());
    assert_eq!(seen, waits, "it may have made the change that it has not seen");
    world.wake();
    assert_eq!(world.calls(), "t#0");
}

#[test]
fn a_timer_without_a_schedule_is_called_once() {
    let mut world = timer(|_| {});
    world.create(json!({})).ends("x", "ok");
    assert_eq!((world.calls(), world.due(), world.is_held()), ("x#0".into(), None, false));
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "");
}

#[test]
fn an_idle_timer_waits_for_the_object_to_be_left_alone() {
    for words in ["", "create:c update:u"] {
        let mut all = handlers(words);
        all.push(declared(HandlerKind::Timer, "x", |it| {
            it.handler.timing.idle = Some(seconds(20));
            it.handler.timing.interval = Some(pause(5));
        }));
        let mut world = World::new(all);
        world.create(json!({})).calls();
        assert_eq!(world.due(), Some(20), "{words}: its creation is a change");
        world.sleep(8).update(json!({"status": {"a": 1}}));
        assert_eq!(world.due(), Some(12), "{words}: its status is none");
        world.update(json!({"spec": {"a": 1}})).calls();
        assert_eq!(world.due(), Some(20), "{words}");
        world.wake().ends("x", "ok");
        assert_eq!((world.calls(), world.due()), ("x#0".into(), Some(5)), "{words}");
        world.sleep(1).update(json!({"spec": {"a": 2}})).calls();
        assert_eq!(world.due(), Some(20), "{words}");
    }
}

#[test]
fn an_idle_timer_without_an_interval_is_called_once_after_each_change() {
    let mut world = timer(|it| it.handler.timing.idle = Some(seconds(20)));
    world.create(json!({})).wake().ends("x", "ok");
    assert_eq!((world.calls(), world.due(), world.is_held()), ("x#0".into(), None, true));
    world.sleep(100).update(json!({"spec": {"a": 1}}));
    assert_eq!((world.calls(), world.due()), (String::new(), Some(20)));
    world.wake();
    world.sleep(1).update(json!({"spec": {"a": 2}})).ends("x", "ok");
    assert_eq!(world.due(), Some(20), "it was called before that change");
    world.delete();
    assert!(world.object.is_none());
}

#[test]
fn a_timer_in_a_call_is_waited_for_and_not_cut_off() {
    let mut world = World::of("timer:t");
    world.create(json!({})).delete();
    assert!(world.is_held());
    world.ends("t", "t5");
    assert_eq!((world.calls(), world.object.is_none()), ("t#0".into(), true));
}

#[test]
fn first_calls_are_spread_where_the_operator_finds_its_objects() {
    let first = |sharp: bool, interval: u32, event| {
        let mut world = timer(|it| {
            it.handler.timing.interval = Some(pause(interval));
            it.handler.timing.sharp = sharp;
        });
        world.put(json!({}));
        world.see(event);
        world.due()
    };
    assert_eq!(first(false, 20, EventType::Added), None, "it runs");
    assert_eq!(first(true, 20, EventType::Listed), None, "it runs");
    let spread = first(false, 20, EventType::Listed).unwrap();
    assert!((1..20).contains(&spread), "{spread}");
    let longest = first(false, 86_400, EventType::Listed).unwrap();
    assert!((1..60).contains(&longest), "{longest}");
}

#[test]
fn one_function_with_two_attributes_runs_once_for_an_object() {
    let mut world = World::of("daemon:d daemon:d timer:d");
    world.create(json!({})).calls();
    let ids: Vec<_> = world.running.iter().map(|it| it.handler.to_string()).collect();
    assert_eq!(ids, ["Daemon 'd'", "Timer 'd'"]);
}

#[test]
fn idle_timers_of_many_objects_are_not_called_at_once_where_the_operator_finds_them() {
    for interval in [None, Some(pause(600))] {
        let mut world = timer(|it| {
            it.handler.timing.idle = Some(seconds(20));
            it.handler.timing.interval = interval;
        });
        world.put(json!({}));
        world.see(EventType::Listed);
        let first = world.due().unwrap();
        assert!((21..=80).contains(&first), "{first}");
    }
}

#[test]
fn of_two_attributes_the_one_that_lets_the_object_through_says_the_interval() {
    let one = |interval: u32, is_labelled: bool| {
        declared(HandlerKind::Timer, "x", |it| {
            it.handler.timing.interval = Some(pause(interval));
            if is_labelled {
                labelled(it);
            }
        })
    };
    let mut world = World::new(vec![one(10, true), one(20, false)]);
    world.create(json!({})).ends("x", "ok");
    assert_eq!(world.due(), Some(20));
    world.update(label(ON)).wake().ends("x", "ok");
    assert_eq!(world.due(), Some(10));
    world.update(label("")).wake().ends("x", "ok");
    assert_eq!(world.due(), Some(20));
}

#[test]
fn a_limit_that_is_reached_between_two_calls_is_a_failure_and_an_end() {
    let mut world = daemon(|it| {
        it.handler.retry.timeout = Some(seconds(5));
    });
    world.create(json!({})).ends("x", "t4").sleep(10);
    let body = world.body();
    let plan = world.plan(None, &body);
    let told: Vec<_> = plan.told.iter().map(ToString::to_string).collect();
    let has_exited = |line: &String| line.contains("has exited on its own");
    assert!(told.iter().any(has_exited), "{told:?}");
    let failed = plan.background.failed.iter().map(ToString::to_string);
    assert_eq!(failed.collect::<Vec<_>>(), ["Daemon 'x'"]);
}

#[test]
fn what_the_engine_sees_to_the_end_of_is_not_told_of_by_the_plan() {
    let mut world = daemon(|it| it.handler.timing.cancellation_timeout = Some(seconds(3)));
    world.create(json!({})).calls();
    let now = world.now;
    world.background.stop(StopReason::RESOURCE_UNWATCHED, now);
    world.lines();
    world.sleep(10).again();
    assert_eq!((world.calls(), world.lines()), (String::new(), vec![]));
    world.ends("x", "cut off");
    assert_eq!(world.calls(), "x#0", "it is watched again");
}

#[test]
fn what_could_not_be_called_is_called_later() {
    let mut world = World::of("daemon:d");
    world.create(json!({})).calls();
    world.running.clear();
    let at = world.now.checked_add(seconds(5)).unwrap();
    world.background.put_off(&world.handlers[0], at);
    assert_eq!(world.due(), Some(5));
    world.wake();
    assert_eq!(world.calls(), "d#0");
}

#[test]
fn what_has_ended_by_itself_is_known_after_a_stop() {
    let mut world = World::of("daemon:d timer:t");
    world.create(json!({})).ends("d", "ok").ends("t", "ok").calls();
    let now = world.now;
    world.background.stop(StopReason::RESOURCE_UNWATCHED, now);
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "t#0");
}

#[test]
fn the_last_plan_leaves_the_finalizer_of_a_living_object_alone() {
    for is_held in [false, true] {
        let mut world = World::of("daemon:d");
        world.put(json!({}));
        if is_held {
            world.edit(json!({"metadata": {"finalizers": [FINALIZER]}}));
        }
        world.ends_background = true;
        world.pass_once(EventType::Listed);
        assert_eq!((world.is_held(), world.writes()), (is_held, 0));
    }
}

/// A week of a timer with failures, without a clock: this takes a third of a second.
#[test]
fn a_week_of_a_timer_that_fails_now_and_then() {
    let mut world = timer(|it| it.handler.timing.interval = Some(pause(600)));
    let start: Timestamp = world.now;
    world.create(json!({}));
    let mut ticks = 0_u64;
    while world.now.duration_since(start).as_hours() < 7 * 24 {
        world.calls();
        let outcome = match ticks % 10 {
            3 => "t5",
            4 => "e",
            _ => "ok",
        };
        world.ends("x", outcome).wake();
        ticks += 1;
        world.lines();
    }
    // Eight of ten calls are followed by ten minutes, one by 5 s and one by about 2 s.
    assert!((1_250..1_270).contains(&ticks), "{ticks}");
    assert_eq!(world.writes(), 1, "the finalizer");
}

#[test]
fn handlers_that_nobody_declares_any_more_end() {
    let mut world = World::of("daemon:d create:c");
    world.create(json!({})).calls();
    let kept: Vec<Arc<Handler>> = world.handlers.drain(..).skip(1).collect();
    world.handlers = kept;
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.reason("d"), "FILTERS_MISMATCH");
    world.ends("d", "ok");
    assert!(!world.is_held());
}

#[test]
fn a_deletion_handler_that_fails_keeps_an_object_whose_daemon_has_ended() {
    let mut world = World::of("delete:gone daemon:d").script("gone", "t5 ok");
    world.create(json!({})).calls();
    world.delete().ends("d", "ok");
    assert!(world.is_held(), "the deletion handler is not done");
    world.wait();
    assert_eq!(world.calls(), "gone delete#0 gone delete#1");
    assert!(world.object.is_none());
}

#[test]
fn what_is_as_it_was_handled_last_is_looked_at_all_the_same() {
    let mut all: Vec<Handler> = vec![declared(HandlerKind::Timer, "x", |it| {
        labelled(it);
        it.handler.timing.interval = Some(pause(10));
    })];
    all.push(with(handler(HandlerKind::OnUpdate, "u"), |it| {
        it.filters.labels = vec![("on".into(), Criterion::Present)];
    }));
    let mut world = World::new(all);
    world.put(json!({}));
    world.edit(label(ON));
    world.see(EventType::Added).ends("x", "ok").calls();
    world.update(label(""));
    assert!(!world.is_held());
    world.update(label(ON));
    assert_eq!((world.calls(), world.is_held()), ("x#0".into(), true));
}
