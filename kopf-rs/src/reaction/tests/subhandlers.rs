//! Sub-handlers within a cycle: who has succeeded is not called again, whatever changes meanwhile.

use serde_json::json;

use super::world::World;

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
    world
        .create(json!({"a": 1}))
        .update(json!({"spec": {"a": 2}}));
    world.calls();
    world.update(json!({"spec": {"a": 3}}));
    assert_eq!(world.calls(), "", "one has succeeded, two waits");
    world.told.clear();
    world.wait();
    assert_eq!(
        world.calls(),
        "p update#0 p/two update#1 p update#0 p/one update#0 u update#0"
    );
    let change = r#"{"spec":{"a":2}} -> {"spec":{"a":3}}"#;
    assert!(world.told[3].contains(change), "{:?}", world.told);
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
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
    world
        .create(json!({"a": 1}))
        .update(json!({"spec": {"a": 2}}));
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
    assert_eq!(
        world.calls(),
        "p resume#0 p/one resume#0 p resume#0 p/two resume#0"
    );
    world.update(json!({"spec": {"a": 2}})).wait();
    assert_eq!(world.calls(), "u update#0 p update#0 p/two update#1");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}
