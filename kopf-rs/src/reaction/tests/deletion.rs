//! Tests deletion and finalizers (scenarios 17 to 24, 29, 60, 63; rows 9 and 11).

use std::time::Duration;

use kopf_rs_schedule::HandlerKind;
use serde_json::{Value, json};

use super::world::{FINALIZER, World, handler, handlers, with};
use crate::handler::filter::Criterion;
use crate::handler::lifecycle::Lifecycle;
use crate::object::event::EventType;

fn finalizers(world: &World) -> Value {
    world.object.as_ref().unwrap()["metadata"]["finalizers"].clone()
}

#[test]
fn deletion_supersedes_creation() {
    let mut world = World::of("create:ok create:c delete:d").script("c", "t10 ok");
    world.create(json!({})).calls();
    world.lines();
    world.delete();
    assert_eq!(world.calls(), "d delete#0");
    assert_eq!(
        world.lines()[0],
        "Creation is superseded by deletion: 1 succeeded; 0 failed; 1 left to the moment."
    );
    assert!(world.object.is_none());
}

#[test]
fn deletion_is_retried_and_given_up() {
    let mut world = World::of("create:c delete:d").script("d", "t5 ok");
    world.create(json!({})).writes();
    world.delete();
    assert_eq!((finalizers(&world), world.records()), (json!([FINALIZER]), "d".into()));
    world.restart().wait();
    assert_eq!(world.calls(), "c create#0 d delete#0 d delete#1");
    assert_eq!((world.object.is_none(), world.writes()), (true, 2));
    let mut world = World::of("delete:d").script("d", "p");
    world.create(json!({})).delete();
    assert!(world.object.is_none() && world.failed == ["d"]);
}

/// Stops serving the second deletion handler; those in `words` remain.
fn without_the_second(words: &str) -> World {
    let mut world = World::of(&format!("{words} delete:h"));
    world.create(json!({})).calls();
    world.withheld = vec![world.handlers.pop().unwrap()];
    world.restart();
    world
}

#[test]
fn a_deletion_waits_for_handlers_that_are_not_served() {
    for words in ["create:c", "create:c delete:d", "optional:o", "event:e", "event:e delete:d"] {
        let mut world = without_the_second(words);
        world.calls();
        assert_eq!(finalizers(&world), json!([FINALIZER]), "{words}: it lives");
        world.lines();
        world.delete();
        let called = world.calls();
        assert!(!called.contains("delete#"), "{words}: {called}");
        assert_eq!(finalizers(&world), json!([FINALIZER]), "{words}: it is deleted");
        let told = world.lines().join("\n");
        assert!(told.contains("not served now: 'h'."), "{words}: {told}");
        world.handlers.append(&mut world.withheld);
        world.see(EventType::Modified).wait();
        let called = world.calls();
        assert!(called.contains("h delete#0"), "{words}: {called}");
        assert!(world.object.is_none(), "{words}: it does not go");
    }
}

#[test]
fn what_the_filters_of_a_handler_that_is_not_served_leave_out_does_not_wait_for_it() {
    let mut world = World::of("create:c delete:d");
    world.create(json!({}));
    let labelled = with(handler(HandlerKind::OnDelete, "h"), |it| {
        it.filters.labels = vec![("kept".into(), Criterion::Present)];
    });
    world.withheld = vec![labelled.into()];
    world.delete();
    assert!(world.object.is_none());
}

#[test]
fn others_finalizers_stay_and_all_is_cleaned_up() {
    let mut world = World::of("create:c delete:d").script("d", "t5 ok");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": ["a", "b"]}}));
    world.see(EventType::Added);
    assert_eq!(finalizers(&world), json!(["a", "b", FINALIZER]));
    world.delete().wait();
    assert_eq!((finalizers(&world), world.records()), (json!(["a", "b"]), String::new()));
    assert_eq!(world.calls(), "c create#0 d delete#0 d delete#1");
    world.see(EventType::Modified).again();
    assert_eq!(world.calls(), "", "it is not ours any more");
}

#[test]
fn a_finalizer_nobody_needs_comes_off_first() {
    let mut world = World::of("create:c");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": ["a", FINALIZER]}}));
    world.see(EventType::Added);
    assert_eq!(world.journal[0], json!({"metadata": {"finalizers": ["a"]}}));
    assert_eq!((world.writes(), world.calls()), (2, "c create#0".into()));
    let mut world = World::of("event:e");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": [FINALIZER]}}));
    assert_eq!(world.see(EventType::Added).writes(), 1);
}

#[test]
fn a_finalizer_comes_off_when_filters_stop_matching() {
    let filtered = with(handler(HandlerKind::OnDelete, "d"), |it| {
        it.filters.labels = vec![("on".into(), Criterion::Present)];
    });
    let mut world = World::new(vec![handler(HandlerKind::OnCreate, "c"), filtered]);
    world.put(json!({}));
    world.edit(json!({"metadata": {"labels": {"on": "1"}}}));
    world.see(EventType::Added);
    assert_eq!(finalizers(&world), json!([FINALIZER]));
    world.update(json!({"metadata": {"labels": {"on": null}}})).calls();
    assert_eq!(finalizers(&world), Value::Null);
    world.delete();
    assert_eq!((world.calls(), world.object.is_none()), (String::new(), true));
}

#[test]
fn optional_handlers_do_not_hold_but_are_called() {
    let mut world = World::of("create:c optional:o");
    world.create(json!({}));
    assert_eq!(finalizers(&world), Value::Null);
    world.delete();
    assert_eq!(world.calls(), "c create#0 o delete#0", "at the last moment");
    // Blocked by another finalizer: called once at the deletion mark, with retries.
    let mut world = World::of("create:c optional:o").script("o", "t5 ok");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": ["a"]}}));
    world.see(EventType::Added).writes();
    world.delete().wait().see(EventType::Modified);
    world.edit(json!({"metadata": {"finalizers": null}}));
    assert_eq!((world.calls(), world.writes()), ("c create#0 o delete#0 o delete#1".into(), 0));
    // The object disappears before the retry: one more attempt.
    let mut world = World::of("optional:o").script("o", "t500 t500 t500");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": ["a"]}}));
    world.see(EventType::Added).delete();
    world.edit(json!({"metadata": {"finalizers": null}}));
    assert_eq!(world.calls(), "o delete#0 o delete#1");
}

#[test]
fn optional_and_mandatory_handlers_run_in_order() {
    let mut world = World::of("optional:o delete:d");
    world.create(json!({})).delete();
    assert_eq!((world.calls(), world.object.is_none()), ("o delete#0 d delete#0".into(), true));
    let mut world = World::of("create:c optional:o");
    world.create(json!({}));
    world.edit(json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    world.restart();
    assert_eq!(
        (world.calls(), world.object.is_none()),
        ("c create#0 o delete#0".into(), true),
        "a finalizer is left over"
    );
}

#[test]
fn resuming_into_a_deletion() {
    let mut all = handlers("resume:r resume:rd create:c delete:d");
    all[1].deleted = true;
    let mut world = World::new(all);
    world.create(json!({})).calls();
    world.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    world.restart();
    assert_eq!((world.calls(), world.object.is_none()), ("rd delete#0 d delete#0".into(), true));
}

#[test]
fn deleted_within_its_own_handler() {
    let mut world = World::of("create:c create:d");
    world.during.insert(
        "c".into(),
        Box::new(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
    );
    world.create(json!({}));
    assert_eq!((world.calls(), world.object.is_none(), world.writes()), ("c create#0".into(), true, 0));
}

#[test]
fn changes_while_deleting_do_not_repeat_what_is_done() {
    let mut world = World::of("create:c delete:d1 delete:d2").script("d2", "t5 t5 ok");
    world.create(json!({"x": 1})).delete().update(json!({"spec": {"x": 2}})).restart().wait();
    assert_eq!(world.calls(), "c create#0 d1 delete#0 d2 delete#0 d2 delete#1 d2 delete#2");
    assert!(world.object.is_none());
}

#[test]
fn never_guarded_when_already_going() {
    let mut world = World::of("create:c delete:d");
    world.put(json!({}));
    world.edit(json!({"metadata": {"finalizers": ["a"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    world.see(EventType::Added);
    assert_eq!((world.calls(), world.writes()), (String::new(), 0));
}

#[test]
fn a_deletion_waits_for_deletion_handlers_only() {
    for failure in ["t60 t60", "e e", "p"] {
        let mut world = World::of("field:f optional:o delete:d").script("f", failure);
        world = world.script("o", "t60 t60").script("d", "t5 ok");
        world.create(json!({"f": 1})).calls();
        world.update(json!({"spec": {"f": 2}})).calls();
        let before = world.now;
        world.delete().wait();
        let calls = world.calls();
        assert!(calls.contains("d delete#0") && calls.contains("d delete#1"));
        assert!(calls.contains("o delete#0"), "{calls}");
        assert!(world.object.is_none(), "{failure}: {:?}", world.object);
        let waited = world.now.duration_since(before).as_secs();
        assert_eq!(waited, 5, "{failure}: what d has asked for, and no more");
    }
    let mut world = World::of("field:f delete:d").script("f", "t60 t60");
    world.create(json!({"f": 1})).calls();
    world.delete();
    assert_eq!((world.calls().as_str(), world.object.is_none()), ("f delete#0 d delete#0", true));
    let told = "Handler 'f' is not tried again: a deletion waits for deletion handlers only.";
    assert!(world.lines().iter().any(|line| line == told));
}

#[test]
fn optional_handlers_are_tried_again_while_others_hold_the_object() {
    for (waits, called) in [(60, 3), (3, 2)] {
        let mut all = handlers("optional:o delete:d");
        let options = &mut all[0];
        options.retry.backoff = Some(Duration::from_secs(2));
        options.retry.retries = Some(3);
        let mut world = World::new(all).script("o", "e e e e").script("d", &format!("t{waits} ok"));
        world.create(json!({})).calls();
        world.lines();
        let before = world.now;
        world.delete().wait();
        let calls = world.calls();
        assert_eq!(calls.matches("o delete#").count(), called, "{calls}");
        assert!(world.object.is_none(), "{:?}", world.object);
        assert_eq!(world.now.duration_since(before).as_secs(), waits);
        let lines = world.lines();
        let is_left_undone = lines.iter().any(|it| it.contains("'o' is not tried again"));
        assert_eq!(is_left_undone, called < 3, "{lines:?}");
    }
}

#[test]
fn sub_handlers_of_others_do_not_hold_up_a_deletion() {
    let mut world = World::of("field:f delete:d").script("f/one", "t60 t60 t60");
    world.subs.insert("f".into(), vec!["one", "two"]);
    world.create(json!({"f": 1})).calls();
    world.delete();
    assert!(world.object.is_none(), "{:?}", world.object);
}

#[test]
fn all_sub_handlers_of_others_are_called_for_a_deletion() {
    let mut world = World::of("field:f delete:d");
    world.subs.insert("f".into(), vec!["one", "two"]);
    world.create(json!({"f": 1})).wait().calls();
    world.edit(json!({"spec": {"f": 2}}));
    world.delete().wait();
    assert!(world.object.is_none(), "{:?}", world.object);
    let calls = world.calls();
    for called in ["f/one delete#0", "f/two delete#0", "d delete#0"] {
        assert!(calls.contains(called), "{calls}");
    }
}

#[test]
fn a_deletion_handler_is_called_whatever_its_function_was_called_for_before() {
    let mut world = World::of("create:x delete:x create:c").script("c", "t60 ok");
    world.create(json!({}));
    assert_eq!(world.calls(), "x create#0 c create#0");
    world.delete();
    assert_eq!((world.calls().as_str(), world.object.is_none()), ("x delete#0", true));
}

#[test]
fn a_change_first_seen_at_the_deletion_is_told_from_what_the_handler_has_handled() {
    for restarts in [false, true] {
        let mut world = World::of("field:f delete:f create:c delete:d").script("c", "t60 t60");
        world = world.script("f", "ok t1 ok").script("d", "t5 ok");
        world.create(json!({"f": 1})).calls();
        if restarts {
            // The first write after a change of the object stores the target.
            world.edit(json!({"spec": {"x": 1}}));
            world.sleep(60).again();
        }
        world.told.clear();
        world.edit(json!({"spec": {"f": 2}}));
        world.edit(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        if restarts {
            world.restart();
        } else {
            world.see(EventType::Modified);
        }
        world.wait();
        let told: Vec<_> = world.told.iter().filter(|it| it.starts_with('f')).collect();
        let change = "f: 1 -> 2 by (('change', (), 1, 2),)";
        assert_eq!(told, [change, change], "the second attempt is told the same");
        assert!(world.object.is_none());
    }
}

#[test]
fn a_deletion_handler_is_called_though_its_function_was_called_for_resuming() {
    let mut all = handlers("resume:f delete:f resume:g");
    all[0].deleted = true;
    let mut world = World::new(all).script("g", "t60 ok");
    world.create(json!({})).restart();
    assert_eq!(world.calls(), "f resume#0 g resume#0");
    world.delete();
    assert_eq!((world.calls().as_str(), world.object.is_none()), ("f delete#0", true));
}

#[test]
fn handlers_that_a_deletion_does_not_wait_for_are_called_once() {
    let mut world = World::of("field:f delete:d").script("d", "t60 ok");
    world = world.script("f", &"t5 ".repeat(20));
    world.script.get_mut("f").unwrap().push_front("ok".into());
    world.create(json!({"f": 1})).calls();
    world.edit(json!({"spec": {"f": 2}}));
    world.delete().wait();
    assert_eq!(world.calls(), "f delete#0 d delete#0 d delete#1");
    assert!(world.object.is_none());
}

#[test]
fn a_handler_that_is_always_due_does_not_keep_a_deletion_handler_from_its_turn() {
    let mut world = World::of("field:f delete:d").script("f", "ok");
    world.policy.lifecycle = Lifecycle::OneByOne;
    world.create(json!({"f": 1})).calls();
    world.script.insert("f".into(), vec!["t0".to_owned(); 300].into());
    world.update(json!({"spec": {"f": null}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(world.calls(), "f delete#0 d delete#0");
    assert!(world.object.is_none());
    let mut world = World::of("optional:o delete:d").script("o", &"t0 ".repeat(300));
    world.policy.lifecycle = Lifecycle::OneByOne;
    world.create(json!({})).delete();
    assert_eq!(world.calls(), "o delete#0 d delete#0");
    assert!(world.object.is_none());
}
