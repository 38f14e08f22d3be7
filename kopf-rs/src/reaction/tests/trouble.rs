//! Tests refused writes, damaged annotations, and objects that are too large (rows 3 and 16; scenarios 61, 71).

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{LAST, World};
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::reaction::memory::ObjectMemory;
use crate::reaction::settle::settle;
use crate::state::budget::LIMIT;
use crate::state::diffbase::tests::noise;
use crate::state::progress::shortened;

fn annotation(world: &World, name: &str) -> String {
    world.object.as_ref().unwrap()["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_refused_write_repeats_the_write_and_not_the_handler() {
    for (refuse, words, calls) in [
        (1, "create:c", "c create#0"),
        (5, "create:c", "c create#0"),
        (2, "create:c create:d delete:x", "c create#0 d create#0"),
    ] {
        let mut world = World::of(words).script("c", r#"{"r":1}"#);
        world.wants.insert("c".into(), json!({"spec": {"own": 1}}));
        world.refuse = refuse;
        world.create(json!({"a": 1}));
        assert_eq!(world.calls(), calls, "{words}");
        assert_eq!(world.object.as_ref().unwrap()["status"], json!({"c": {"r": 1}}));
        assert_eq!(world.object.as_ref().unwrap()["spec"], json!({"a": 1, "own": 1}));
        let summaries = world.lines().iter().filter(|it| it.starts_with("Creation is processed")).count();
        assert_eq!((world.records(), summaries), (String::new(), 1));
    }
}

#[test]
fn a_change_that_causes_the_refusal_is_handled_next() {
    let mut world = World::of("create:c update:u");
    world.refuse = 1;
    world.during.insert("c".into(), Box::new(|it| it["spec"]["a"] = json!(2)));
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 u update#0");
    assert_eq!(
        world.told[1],
        r#"u: {"spec":{"a":1}} -> {"spec":{"a":2}} by (('change', ('spec', 'a'), 1, 2),)"#
    );
}

#[test]
fn a_refused_retry_is_counted_once() {
    let mut world = World::of("create:c").script("c", "t5 t5 ok");
    world.refuse = 1;
    world.create(json!({}));
    assert_eq!((world.calls(), world.record("c")["retries"].clone()), ("c create#0".into(), json!(1)));
    world.refuse = 1;
    world.wait();
    assert_eq!(world.calls(), "c create#1 c create#2");
}

#[test]
fn refused_content_can_be_given_up() {
    let mut world = World::of("create:c");
    world.wants.insert("c".into(), json!({"spec": {"bad": 1}}));
    world.put(json!({}));
    world.refuse = 1;
    world.pass_once(EventType::Added);
    world.seen = world.seen.take().map(ObjectMemory::without_patch);
    world.again();
    assert_eq!((world.calls(), world.last_handled()), ("c create#0".into(), json!({"spec": {}})));
    assert_eq!(world.object.as_ref().unwrap()["spec"], json!({}));
}

#[test]
fn a_refused_deletion_does_not_run_again() {
    let mut world = World::of("delete:d");
    world.create(json!({}));
    world.refuse = 3;
    world.delete();
    assert_eq!((world.calls(), world.object.is_none()), ("d delete#0".into(), true));
}

#[test]
fn damaged_annotations_are_said_and_repaired() {
    for damage in ["", "{", "null", "7", "gz:AAAA", "[]"] {
        let mut world = World::of("create:c update:u");
        world
            .create(json!({"a": 1}))
            .update(json!({"metadata": {"annotations": {LAST: damage, "op.kopf.rs/c": damage}}}));
        assert_eq!(world.calls(), "c create#0 c create#0", "{damage:?}");
        let said = world.lines().iter().filter(|it| it.contains("cannot be read")).count();
        assert_eq!(
            (said, world.last_handled(), world.records()),
            (2, json!({"spec": {"a": 1}}), String::new())
        );
    }
    let mut world = World::of("create:c update:u");
    world.create(json!({"a": 1})).writes();
    world.update(json!({"metadata": {"annotations": {"op.kopf.rs/u": "rubbish"}}}));
    assert_eq!((world.calls(), world.writes(), world.records()), ("c create#0".into(), 1, String::new()));
}

#[test]
fn progress_that_is_damaged_within_a_cycle_is_told_as_lost() {
    let mut world = World::of("create:c create:d").script("d", "t5 ok");
    world
        .create(json!({"a": 1}))
        .update(json!({"metadata": {"annotations": {"op.kopf.rs/c": "rubbish"}}}))
        .wait();
    assert_eq!(world.calls(), "c create#0 d create#0 c create#0 d create#1");
    let lines = world.lines();
    let told = |line: &&String| {
        line.ends_with("the progress of handler 'c' is lost, and it starts from the beginning.")
    };
    assert_eq!(lines.iter().filter(told).count(), 1, "{lines:?}");
}

#[test]
fn odd_objects_do_not_panic() {
    for object in [
        json!({}),
        json!({"metadata": 7}),
        json!({"metadata": {"annotations": [], "labels": 1, "finalizers": "x"}}),
        json!({"spec": null, "metadata": {"annotations": {LAST: 7}}}),
    ] {
        let mut world = World::of("create:c update:u delete:d field:f event:e");
        world.put(json!({}));
        let plan = world.plan(Some(EventType::Added), &Arc::new(Body::new(object)));
        settle(plan, Vec::new(), Patch::new(), world.now);
    }
}

#[test]
fn large_objects_are_compressed_and_very_large_ones_digested() {
    let mut world = World::of("create:c update:u field:f");
    world.create(json!({"text": "x".repeat(100_000)}));
    assert!(annotation(&world, LAST).starts_with("gz:"));
    world.update(json!({"spec": {"text": noise(400_000), "f": 1}}));
    assert!(annotation(&world, LAST).starts_with("digest:"));
    assert!(world.lines().iter().any(|it| it.contains("only its digest is kept")));
    world.calls();
    world.update(json!({"status": {"x": 1}}));
    assert_eq!(
        (world.calls(), world.wake_at),
        (String::new(), None),
        "a digest tells that nothing has changed"
    );
    world.update(json!({"spec": {"f": null, "text": "short"}}));
    assert_eq!(world.calls(), "u update#0 f update#0", "who may be concerned is called");
    assert!(world.told.last().unwrap().starts_with("f: None -> None"));
    assert_eq!(world.last_handled(), json!({"spec": {"text": "short"}}));
    world.restart();
    assert_eq!(world.calls(), "");
}

#[test]
fn crowded_annotations_degrade_what_is_kept() {
    for (left, kept, said) in [
        (60_000, "{", ""),
        (9_000, "digest:", "in short"),
        (300, "digest:", "in short"),
        (20, "", "in memory only"),
    ] {
        let mut world = World::of("create:a create:b update:u delete:d").script("b", "t5 ok");
        world.put(json!({"text": "x".repeat(10_000)}));
        let filler = "x".repeat(LIMIT - "other.kopf.rs/x".len() - left);
        world.edit(json!({"metadata": {"annotations": {"other.kopf.rs/x": filler}}}));
        world.see(EventType::Added).wait();
        let size: usize = world.object.as_ref().unwrap()["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| key.len() + value.as_str().unwrap().len())
            .sum();
        assert!(size <= LIMIT, "{left}: {size}");
        assert!(annotation(&world, LAST).starts_with(kept), "{left}: {}", annotation(&world, LAST));
        assert!(world.lines().iter().any(|it| it.contains(said)), "{left}");
        world.again();
        assert_eq!(
            (world.calls(), world.records()),
            ("a create#0 b create#0 b create#1".into(), String::new()),
            "{left}"
        );
        world.update(json!({"spec": {"y": 1}})).again();
        assert_eq!(world.calls(), "u update#0", "{left}");
        world.delete();
        assert_eq!((world.calls(), world.object.is_none()), ("d delete#0".into(), true), "{left}");
    }
}

#[test]
fn long_messages_are_cut() {
    let long = "ä".repeat(5000);
    let short = shortened(&long, 100);
    assert!(short.len() <= 100 && short.contains("...") && short.starts_with('ä') && short.ends_with('ä'));
    assert_eq!(shortened("short", 100), "short");
    let _: Value = json!(shortened(&long, 3));
}

#[test]
fn secrets_are_not_copied() {
    let mut world = World::of("create:c update:u");
    world.put(json!({}));
    world.edit(json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "aHVudGVyMg=="}}));
    world.see(EventType::Added);
    assert!(!annotation(&world, LAST).contains("aHVudGVyMg"));
    world.update(json!({"data": {"password": "b3RoZXI="}}));
    assert_eq!(world.calls(), "c create#0 u update#0");
    assert!(world.told[1].contains("('change', ('data', 'password'), 'digest:"));
}

#[test]
fn a_target_without_a_record_of_its_cycle_is_not_believed() {
    let mut world = World::of("create:c update:u");
    world.create(json!({"a": 1}));
    let copied = json!({"op.kopf.rs/target-configuration": r#"{"spec":{"a":7}}"#});
    world.edit(json!({"metadata": {"annotations": copied}, "spec": {"a": 2}}));
    world.writes();
    world.restart();
    assert_eq!(world.writes(), 1, "no cycle is made of it");
    assert_eq!(world.last_handled(), json!({"spec": {"a": 2}}));
    assert_eq!(world.records(), "");
}
