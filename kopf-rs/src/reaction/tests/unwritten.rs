//! Tests outcomes of handlers that could not be written to the object yet.

use serde_json::{Value, json};

use super::world::{World, handlers};
use crate::handler::filter::Criterion;
use crate::object::event::EventType;

/// A handler for objects with a label, which the object loses while the handler runs; its write is refused.
fn out_of_scope_before_it_is_written(words: &str) -> World {
    let mut all = handlers(words);
    for handler in &mut all {
        let filters = &mut handler.filters;
        filters.labels = vec![("wanted".into(), Criterion::Present)];
    }
    let mut world = World::new(all);
    world.put(json!({"a": 1}));
    world.edit(json!({"metadata": {"labels": {"wanted": "yes"}}}));
    let unlabel = |object: &mut Value| object["metadata"]["labels"] = json!({});
    world.during.insert("c".into(), Box::new(unlabel));
    if words.contains("delete:") {
        world.pass_once(EventType::Added);
    }
    world.refuse = 1;
    world.see(EventType::Added);
    world
}

#[test]
fn what_was_done_is_written_though_the_object_is_in_nobodys_scope_any_more() {
    let mut world = out_of_scope_before_it_is_written("create:c create:other");
    assert_eq!(world.calls(), "c create#0");
    assert_eq!(world.record("c")["success"], json!(true));
    world.restart();
    world.update(json!({"metadata": {"labels": {"wanted": "yes"}}}));
    assert_eq!(world.calls(), "other create#0");
}

#[test]
fn what_was_done_is_written_with_the_finalizer_that_goes() {
    let mut world = out_of_scope_before_it_is_written("create:c create:other delete:d");
    assert_eq!(world.calls(), "c create#0");
    assert_eq!(world.record("c")["success"], json!(true));
    let finalizers = &world.object.as_ref().unwrap()["metadata"]["finalizers"];
    assert!(finalizers.as_array().is_none_or(Vec::is_empty));
}

#[test]
fn the_end_of_a_cycle_is_told_whatever_other_cycle_was_told_before() {
    let mut world = World::of("update:u delete:d");
    world.create(json!({"a": 1})).lines();
    let mark = |object: &mut Value| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    };
    world.during.insert("u".into(), Box::new(mark));
    world.refuse = 1;
    world.update(json!({"spec": {"a": 2}}));
    let lines = world.lines();
    let ends = lines.iter().filter(|line| line.contains("is processed"));
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["Updating is processed: 1 succeeded; 0 failed.", "Deletion is processed: 1 succeeded; 0 failed."]
    );
}
