//! Tests sub-handlers within a cycle: those that have succeeded are not called again, even after changes.

use serde_json::json;

use super::world::{LAST, World, handlers, on_field, with};
use crate::handler::filter::Criterion;
use crate::handler::lifecycle::Lifecycle;

fn family(words: &str, subs: &[&'static str]) -> World {
    let mut world = World::of(words);
    world.subs.insert("p".into(), subs.to_vec());
    world
}

#[test]
fn sub_handlers_that_change_their_object_are_called_once_each_in_a_cycle() {
    let mut world = family("create:p", &["one", "two", "three"]);
    for (id, label) in [("p/one", "1"), ("p/two", "2"), ("p/three", "3")] {
        let wanted = json!({"metadata": {"labels": {label: "set"}}});
        world.wants.insert(id.into(), wanted);
    }
    world.create(json!({"a": 1})).wait();
    assert_eq!(
        world.calls(),
        "p create#0 p/one create#0 p create#0 p/two create#0 p create#0 p/three create#0"
    );
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn a_change_by_others_calls_no_sub_handler_that_has_succeeded_within_the_cycle() {
    let mut world = family("update:p update:u", &["one", "two"]).script("p/two", "t5 ok");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}}));
    world.calls();
    world.update(json!({"spec": {"a": 3}}));
    assert_eq!(world.calls(), "", "one has succeeded, two waits");
    world.told.clear();
    world.wait();
    assert_eq!(world.calls(), "p update#0 p/two update#1 p update#0 p/one update#0 u update#0");
    let change = r#"{"spec":{"a":2}} -> {"spec":{"a":3}}"#;
    assert!(world.told[3].contains(change), "{:#?} {:#?}", world.told, world.journal);
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn all_sub_handlers_see_a_field_again_that_was_absent_in_the_target() {
    let field = with(on_field("f", "spec.f"), |it| it.filters.new = Some(Criterion::Present));
    let mut all = vec![field];
    all.extend(handlers("update:a update:b"));
    let mut world = World::new(all).script("b", "t5 ok t5 ok").script("f/two", "ok t5 ok");
    world.subs.insert("f".into(), vec!["one", "two"]);
    world.create(json!({"f": 1, "x": 0}));
    world.calls();
    for spec in [json!({"x": 1}), json!({"f": 2}), json!({"f": 3})] {
        world.update(json!({"spec": spec}));
    }
    assert_eq!(world.calls(), "a update#0 b update#0 f update#0 f/one update#0 f update#0 f/two update#0");
    // `one` has seen 2, and `two` sees 3. Then the field disappears.
    world.during.insert("b".into(), Box::new(|it| drop(it["spec"].as_object_mut().unwrap().remove("f"))));
    world.sleep(5).again();
    assert_eq!(world.calls(), "f update#0 f/two update#1 b update#1 a update#0 b update#0");
    world.update(json!({"spec": {"f": 3}})).wait();
    assert_eq!(world.calls(), "f update#0 f/one update#0 f update#0 f/two update#0 b update#1 a update#0");
    assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"f": 3, "x": 1}}), String::new()));
}

#[test]
fn a_sub_handler_that_changes_its_object_each_time_lets_its_siblings_run() {
    let mut world = family("create:p update:p", &["one", "two"]);
    world.create(json!({"a": 1}));
    for n in 2..5 {
        world.calls();
        let wanted = json!({"spec": {"a": n}});
        world.during.insert(
            "p/one".into(),
            Box::new(move |object| object["spec"]["b"] = wanted["spec"]["a"].clone()),
        );
        world.update(json!({"spec": {"a": n}})).wait();
        assert_eq!(
            world.calls(),
            "p update#0 p/one update#0 p update#0 p/two update#0 p update#0 p/one update#0"
        );
    }
}

#[test]
fn a_deletion_calls_sub_handlers_that_have_seen_the_newest_state_before() {
    let mut world = family("update:p delete:p", &["one", "two"]).script("p/two", "t5 ok");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}}));
    world.update(json!({"spec": {"a": 3}})).calls();
    let mark = |object: &mut serde_json::Value| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    };
    world.during.insert("p/two".into(), Box::new(mark));
    world.wait();
    assert_eq!(
        world.calls(),
        "p update#0 p/two update#1 p delete#0 p/one delete#0 p delete#0 p/two delete#0"
    );
    assert!(world.object.is_none());
}

#[test]
fn sub_handlers_of_a_resuming_parent_are_called_once_though_the_object_changes() {
    let mut world = World::of("create:c resume:p update:u").script("p/two", "t5 ok");
    world.create(json!({"a": 1})).calls();
    world.subs.insert("p".into(), vec!["one", "two"]);
    world.restart();
    assert_eq!(world.calls(), "p resume#0 p/one resume#0 p resume#0 p/two resume#0");
    world.update(json!({"spec": {"a": 2}})).wait();
    assert_eq!(world.calls(), "u update#0 p update#0 p/two update#1");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn a_sub_handler_that_waits_is_told_that_its_field_is_what_it_was() {
    let mut world = family("update:p", &["one@spec.a", "two@spec.b"]).script("p/one", "t5 ok");
    world.create(json!({"a": 1, "b": 1})).update(json!({"spec": {"a": 2}}));
    world.update(json!({"spec": {"a": 1}})).calls();
    world.told.clear();
    world.wait();
    assert_eq!(world.calls(), "p update#0 p/one update#1");
    assert_eq!(world.told[1], "p/one: 1 -> 1 by ()");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn sub_handlers_of_fields_are_called_for_a_target_that_their_parent_has_not_seen() {
    let mut world = family("update:u update:p", &["one@spec.a", "two@spec.b"]);
    world.create(json!({"a": 1, "b": 1}));
    let meanwhile = |spec: serde_json::Value| {
        Box::new(move |object: &mut serde_json::Value| object["spec"] = spec.clone())
    };
    world.during.insert("u".into(), meanwhile(json!({"a": 1, "b": 2})));
    world.during.insert("p/two".into(), meanwhile(json!({"a": 2, "b": 1})));
    world.update(json!({"spec": {"a": 2}})).wait();
    assert_eq!(
        world.calls(),
        "u update#0 p update#0 p/one update#0 p update#0 p/two update#0 p update#0 p/one update#0 p update#0 p/two update#0"
    );
    let last: Vec<_> =
        ["p/one: 1 -> 2 by (('change', (), 1, 2),)", "p/two: 2 -> 1 by (('change', (), 2, 1),)"].into();
    assert_eq!([&*world.told[6], &*world.told[8]], *last);
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

/// The object has changed in `b` and back before the parent could be called; meanwhile it has changed in `a`.
#[test]
fn sub_handlers_of_fields_are_called_for_a_target_that_is_gone_when_their_parent_is_called() {
    let mut world = family("update:u update:p", &["two@spec.b"]);
    world.create(json!({"a": 1, "b": 1}));
    let meanwhile = |object: &mut serde_json::Value| object["spec"] = json!({"a": 2, "b": 1});
    world.during.insert("u".into(), Box::new(meanwhile));
    world.update(json!({"spec": {"b": 2}})).wait();
    assert_eq!(world.calls(), "u update#0 p update#0 p/two update#0 u update#0");
    assert_eq!(world.told[2], "p/two: 1 -> 1 by ()");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

/// In `b`, the object equals its state at the beginning of the cycle, but the first sub-handler was called for an intermediate state.
#[test]
fn a_parent_is_called_again_where_only_a_sub_handler_has_not_seen_the_newest_state() {
    let mut all = handlers("update:u update:v");
    all.push(on_field("p", "spec.b"));
    let mut world = World::new(all);
    world.subs.insert("p".into(), vec!["one", "two"]);
    world.create(json!({"a": 1, "b": 1}));
    world.told.clear();
    for (id, b) in [("u", 2), ("p/one", 1)] {
        let meanwhile = move |object: &mut serde_json::Value| object["spec"]["b"] = b.into();
        world.during.insert(id.into(), Box::new(meanwhile));
    }
    world.update(json!({"spec": {"a": 2}})).wait();
    let told = world.told.iter().filter(|it| it.starts_with("p/one"));
    let told: Vec<_> = told.collect();
    assert!(told.len() == 2, "{:?}", world.told);
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn sub_handlers_of_fields_are_called_where_only_a_digest_is_left_of_what_was_handled() {
    let mut world = family("update:p", &["one@spec.a", "two@spec.b"]);
    world.create(json!({"a": 1, "b": 1}));
    let digest = "digest:AAAAAAAAAAAAAAAA";
    world.edit(json!({"metadata": {"annotations": {LAST: digest}}, "spec": {"a": null}}));
    world.restart();
    assert_eq!(world.calls(), "p update#0 p/one update#0 p update#0 p/two update#0");
}

#[test]
fn sub_handlers_of_fields_are_called_for_deletions_and_resumptions() {
    let mut world = family("create:c resume:p delete:p", &["one@spec.a", "two@spec.c"]);
    world.create(json!({"a": 1})).calls();
    world.restart();
    assert_eq!(world.calls(), "p resume#0 p/one resume#0");
    world.delete();
    assert_eq!(world.calls(), "p delete#0 p/one delete#0");
    assert!(world.object.is_none());
}

#[test]
fn what_is_left_below_a_sub_handler_that_has_failed_wakes_nobody() {
    let mut world = family("create:p", &["one", "two"])
        .script("p/one", "late")
        .script("p/one/leaf", "t10")
        .script("p/two", "t50 ok");
    world.subs.insert("p/one".into(), vec!["leaf"]);
    world.policy.lifecycle = Lifecycle::AllAtOnce;
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "p create#0 p/one create#0 p/one/leaf create#0 p/two create#0");
    let left = world.wake_at.unwrap().duration_since(world.now).as_secs();
    assert_eq!(left, 50);
    world.wait();
    assert_eq!(world.calls(), "p create#0 p/two create#1");
}
