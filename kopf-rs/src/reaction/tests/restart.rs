//! Restarts in the middle of a cycle: who has succeeded is not called again, and what changed meanwhile is an update afterwards.

use serde_json::{Value, json};

use super::world::{World, on_field};
use crate::handler::lifecycle::Lifecycle;
use crate::object::event::EventType;
use crate::state::budget::LIMIT;

#[test]
fn a_handler_that_has_succeeded_is_not_called_again_after_a_restart() {
    // Its own label is enough.
    let mut world = World::of("create:c create:d update:u").script("d", "t5 ok");
    let label = json!({"metadata": {"labels": {"made": "yes"}}});
    world.wants.insert("c".into(), label);
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 d create#0");
    world.restart().wait();
    assert_eq!(world.calls(), "d create#1 u update#0");
    let made = r#"u: {"spec":{"a":1}} -> {"metadata":{"labels":{"made":"yes"}},"spec":{"a":1}}"#;
    assert!(world.told[3].starts_with(made), "{}", world.told[3]);
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn sub_handlers_that_have_succeeded_are_not_called_again_after_a_restart() {
    let mut world = World::of("create:p update:u").script("p/two", "t5 ok");
    world.subs.insert("p".into(), vec!["one", "two"]);
    let label = json!({"metadata": {"labels": {"made": "yes"}}});
    world.wants.insert("p/one".into(), label);
    world.create(json!({"a": 1}));
    assert_eq!(
        world.calls(),
        "p create#0 p/one create#0 p create#0 p/two create#0"
    );
    world.restart().wait();
    assert_eq!(world.calls(), "p create#0 p/two create#1 u update#0");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn what_changed_while_the_operator_was_away_is_an_update_of_what_is_no_longer_known() {
    let mut world = World::of("create:c create:d update:u").script("d", "t5 ok");
    world
        .create(json!({"a": 1}))
        .edit(json!({"spec": {"a": 2}}));
    world.restart().wait();
    assert_eq!(world.calls(), "c create#0 d create#0 d create#1 u update#0");
    assert!(
        world.told[3].starts_with(r#"u: None -> {"spec":{"a":2}}"#),
        "{}",
        world.told[3]
    );
    let said = "only a digest of the handled configuration is left";
    assert!(world.lines().iter().any(|line| line.contains(said)));
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
    assert_eq!(world.last_handled(), json!({"spec": {"a": 2}}));
}

#[test]
fn what_the_cycle_is_for_is_taken_off_when_another_begins() {
    let mut world = World::of("create:c create:d delete:x").script("d", "t5 ok");
    world.create(json!({"a": 1}));
    assert!(world.records().contains("target-configuration"));
    let others = json!({"metadata": {"finalizers": ["op.kopf.rs/finalizer", "other.io/x"]}});
    world.edit(others);
    world.delete();
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
    // Nobody is to be called any more: what is left of a cycle is stale.
    let mut world = World::of("create:c update:u");
    world.create(json!({"a": 1})).update(json!({
        "metadata": {"annotations": {"op.kopf.rs/target-configuration": "{\"spec\":{\"a\":1}}"}}
    }));
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
    assert_eq!(world.calls(), "c create#0");
}

#[test]
fn what_a_handler_wants_in_its_first_write_is_known_as_a_change_after_a_restart() {
    let mut world = World::of("create:c create:d update:u").script("d", "t5 ok");
    world.policy.lifecycle = Lifecycle::AllAtOnce;
    let label = json!({"metadata": {"labels": {"made": "yes"}}});
    world.wants.insert("c".into(), label);
    world.create(json!({"a": 1})).restart().wait();
    assert_eq!(world.calls(), "c create#0 d create#0 d create#1 u update#0");
    let made = r#"u: {"spec":{"a":1}} -> "#;
    assert!(world.told[3].starts_with(made), "{}", world.told[3]);
}

#[test]
fn a_state_that_comes_back_is_known_again() {
    let mut world = World::of("create:c create:d update:u").script("d", "t5 t5 ok");
    world
        .create(json!({"a": 1}))
        .edit(json!({"spec": {"a": 2}}));
    world.sleep(5).restart();
    world.update(json!({"spec": {"a": 1}})).wait();
    assert_eq!(world.last_handled(), json!({"spec": {"a": 1}}));
}

#[test]
fn a_value_of_a_secret_that_has_not_changed_calls_nobody_after_a_restart() {
    let handlers = [("fa", "data.a"), ("f1", "data.b"), ("f2", "data.b")];
    let handlers = handlers.map(|(id, field)| on_field(id, field));
    let mut world = World::new(handlers.into()).script("f2", "ok t5 t5 ok");
    world.put(json!({}));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "MQ==", "b": "MQ=="}});
    world.edit(secret);
    world.see(EventType::Added).calls();
    world.update(json!({"data": {"b": "Mg=="}}));
    assert_eq!(world.calls(), "f1 update#0 f2 update#0");
    // The first write that finds another state than the target holds all of the target.
    world.edit(json!({"data": {"c": "MQ=="}}));
    world.sleep(5).again();
    assert_eq!(world.calls(), "f2 update#1");
    world.restart().wait();
    assert_eq!(world.calls(), "f2 update#2");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn what_the_cycle_is_for_stays_beside_its_records_where_there_is_no_room_for_more() {
    let mut world = World::of("create:a create:b").script("b", "t5 ok");
    world.put(json!({"n": 1}));
    world.pass_once(EventType::Added);
    let before = world.records();
    let annotations = world.object.as_ref().unwrap()["metadata"]["annotations"].clone();
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap().len();
    let taken: usize = annotations.as_object().unwrap().iter().map(size).sum();
    let filler = "x".repeat(LIMIT - taken - "other.kopf.rs/x".len());
    world.edit(json!({"metadata": {"annotations": {"other.kopf.rs/x": filler}}}));
    world.pass_once(EventType::Modified);
    assert_eq!(world.calls(), "a create#0 b create#0");
    assert_eq!(world.records(), before);
    world.edit(json!({"spec": {"n": 2}}));
    world.restart().wait();
    assert!(!world.calls().contains("a create"));
}
