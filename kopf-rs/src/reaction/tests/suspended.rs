//! Tests handlers that have crashed the process over the object, and are suspended for its current state.

use std::time::Duration;

use serde_json::json;

use super::world::{World, handlers, with};
use crate::object::event::EventType;
use crate::reaction::input::{Suspension, state_for};

/// Suspends the handler for the object's current state.
fn suspend(world: &mut World, id: &str) {
    let handler = world.handlers.iter().find(|it| *it.id == *id).unwrap();
    let state = state_for(&world.persistence, handler, &world.body());
    world.suspended.push(Suspension { handler: id.into(), state });
}

fn suspended(world: &mut World, event: EventType) -> Vec<String> {
    let body = world.body();
    let plan = world.plan(Some(event), &body);
    let suspended = plan.suspended.iter();
    suspended.map(|it| it.id.to_string()).collect()
}

#[test]
fn is_left_out_until_the_object_changes_and_keeps_nobody_waiting() {
    let mut world = World::of("create:bad create:good");
    world.put(json!({"a": 1}));
    suspend(&mut world, "bad");
    world.see(EventType::Listed);
    world.wait();
    assert_eq!(world.calls(), "good create#0");
    assert_eq!((world.wake_at, world.last_handled()), (None, json!(null)));
    assert_eq!(suspended(&mut world, EventType::Modified), ["bad"]);
    // A change outside of the essence does not count.
    world.update(json!({"status": {"seen": true}})).wait();
    assert_eq!(world.calls(), "");
    world.update(json!({"spec": {"a": 2}})).wait();
    assert_eq!(suspended(&mut world, EventType::Modified), [""; 0]);
    assert_eq!(world.calls(), "bad create#0");
}

#[test]
fn is_held_in_a_deletion_only_where_that_has_ended_the_process() {
    let mut world = World::of("create:c delete:bad");
    world.create(json!({"a": 1})).wait();
    suspend(&mut world, "bad");
    world.delete().wait();
    assert_eq!(world.calls(), "c create#0 bad delete#0");

    let mut world = World::of("create:c delete:bad");
    world.create(json!({"a": 1})).wait();
    world.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    suspend(&mut world, "bad");
    world.see(EventType::Modified).wait();
    assert_eq!(world.calls(), "c create#0");
    assert_eq!(suspended(&mut world, EventType::Modified), ["bad"]);
    assert!(world.object.is_some() && world.wake_at.is_none());
}

#[test]
fn raw_events_are_spared_as_well() {
    let mut world = World::of("event:bad event:good");
    world.put(json!({"a": 1}));
    suspend(&mut world, "bad");
    world.see(EventType::Listed);
    assert_eq!(world.calls(), "good None");
    assert_eq!(suspended(&mut world, EventType::Modified), ["bad"]);
}

#[test]
fn holds_up_no_deletion_that_does_not_wait_for_it() {
    let mut world = World::of("field:f delete:d");
    world.create(json!({"f": 1})).wait();
    world.edit(json!({"spec": {"f": 2}}));
    world.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    suspend(&mut world, "f");
    world.see(EventType::Modified).wait();
    assert!(world.object.is_none(), "{:?}", world.object);
}

#[test]
fn has_its_time_anew_once_the_object_changes() {
    let hour = Duration::from_secs(3600);
    let slow = with(handlers("create:slow").remove(0), |it| {
        it.retry.timeout = Some(hour);
    });
    let mut world = World::new(vec![slow]).script("slow", "t4 t4 t4 ok");
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "slow create#0");
    suspend(&mut world, "slow");
    world.sleep(24 * 3600).restart().wait();
    assert_eq!(world.calls(), "");
    world.update(json!({"spec": {"a": 2}}));
    assert_eq!(world.calls(), "slow create#1");
    // A handler that has returned is no longer suspended.
    world.suspended.clear();
    world.wait();
    assert_eq!(world.calls(), "slow create#2 slow create#3");
    assert_eq!(world.failed, [""; 0]);
}
