//! Tests whole lives of objects, and their costs in writes (scenarios 1, 2, 5 to 13, 25 to 29, 47 to 53).

use kopf_rs_schedule::HandlerKind;
use serde_json::json;

use super::world::{FINALIZER, LAST, World, handler, handlers, on_field, with};
use crate::handler::filter::Criterion;
use crate::object::event::EventType;

#[test]
fn a_creation_costs_one_write() {
    let mut world = World::of("create:c");
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0");
    assert_eq!(world.told, [r#"c: None -> {"spec":{"a":1}} by (('add', (), None, {'spec': {'a': 1}}),)"#]);
    let annotations = json!({LAST: r#"{"spec":{"a":1}}"#, "op.kopf.rs/kopf-managed": "yes"});
    assert_eq!(world.journal, [json!({"metadata": {"annotations": annotations}})]);
    assert_eq!(world.lines(), ["Handler 'c' succeeded.", "Creation is processed: 1 succeeded; 0 failed."]);
    assert_eq!((world.see(EventType::Modified).calls(), world.wake_at), (String::new(), None));
}

#[test]
fn what_is_handled_is_recognised_at_a_glance() {
    for (words, quiet) in [
        ("create:c", true),
        ("create:c delete:d", true),
        ("update:u optional:o event:e", true),
        ("field:f", true),
        ("create:c resume:r", false),
    ] {
        let mut world = World::of(words);
        world.create(json!({"f": 1})).wait();
        assert_eq!(world.quiet, 1, "{words}: the reply");
        world.update(json!({"status": {"x": 1}}));
        assert_eq!(world.quiet, 2, "{words}: somebody else's status");
        world.restart();
        assert_eq!(world.quiet, 2 + usize::from(quiet), "{words}: listed");
        world.update(json!({"spec": {"f": 2}}));
        assert_eq!(world.last_handled()["spec"], json!({"f": 2}), "{words}");
    }
}

#[test]
fn a_life_with_a_finalizer() {
    let mut world = World::of("create:c update:u delete:d");
    world.create(json!({"a": "v"}));
    assert_eq!(world.calls(), "c create#0");
    assert_eq!(
        world.journal[0],
        json!({"metadata": {"finalizers": [FINALIZER]}}),
        "the finalizer alone comes first"
    );
    assert_eq!(world.writes(), 2);
    world.update(json!({"spec": {"a": "w"}}));
    assert_eq!(world.calls(), "u update#0");
    assert_eq!(
        world.told[1],
        r#"u: {"spec":{"a":"v"}} -> {"spec":{"a":"w"}} by (('change', ('spec', 'a'), 'v', 'w'),)"#
    );
    assert_eq!(world.writes(), 1);
    world.update(json!({"status": {"x": 1}}));
    assert_eq!((world.calls(), world.writes()), (String::new(), 0));
    world.delete();
    assert_eq!(world.calls(), "d delete#0");
    assert_eq!(world.journal, [json!({"metadata": {"finalizers": null}})]);
    assert!(world.object.is_none());
}

#[test]
fn one_more_write_per_handler() {
    for (words, writes) in [
        ("create:a", 1),
        ("create:a create:b", 2),
        ("create:a create:b create:c", 3),
        ("update:u", 1),
        ("event:e", 0),
        ("resume:r", 1),
    ] {
        let mut world = World::of(words);
        world.create(json!({})).wait();
        assert_eq!(world.writes(), writes, "{words}");
        assert_eq!(world.records(), "", "{words}");
    }
    let mut world = World::of("create:a create:b create:c");
    world.policy.lifecycle = crate::handler::lifecycle::Lifecycle::AllAtOnce;
    world.create(json!({}));
    assert_eq!((world.calls(), world.writes()), ("a create#0 b create#0 c create#0".into(), 1));
}

#[test]
fn results_go_to_the_status() {
    let mut world = World::of("create:a create:b create:c")
        .script("a", r#"{"r1":1}"#)
        .script("b", r#""text""#)
        .script("c", "null");
    world.wants.insert("a".into(), json!({"status": {"a": {"r0": 0}, "extra": true}}));
    world.create(json!({}));
    assert_eq!(
        world.object.as_ref().unwrap()["status"],
        json!({"a": {"r0": 0, "r1": 1}, "b": "text", "extra": true})
    );
    assert_eq!(world.last_handled(), json!({"spec": {}}));
    assert_eq!(world.calls(), "a create#0 b create#0 c create#0");
}

#[test]
fn what_counts_as_a_change() {
    for (patch, told) in [
        (
            json!({"metadata": {"labels": {"l": "1"}}}),
            "(('add', ('metadata',), None, {'labels': {'l': '1'}}),)",
        ),
        (
            json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "mine": "1"}}}),
            "(('add', ('metadata',), None, {'annotations': {'mine': '1'}}),)",
        ),
        (
            json!({"metadata": {"annotations": {"x.example.com/kopf-managed": "yes", "x.example.com/zzz": "1"}}}),
            "",
        ),
        (
            json!({"metadata": {"annotations": {"other.kopf.rs/x": "1"}, "finalizers": ["f"], "generation": 7}}),
            "",
        ),
        (json!({"status": {"x": 1}}), ""),
        (json!({"data": {"x": 1}}), "(('add', ('data',), None, {'x': 1}),)"),
    ] {
        let mut world = World::of("update:u");
        world.create(json!({})).update(patch);
        let diff = world.told.first().and_then(|it| it.split_once(" by ")).map_or("", |it| it.1);
        assert_eq!(diff, told);
    }
}

#[test]
fn annotations_wiped_by_a_user_make_a_new_object() {
    let mut world = World::of("create:c update:u");
    world.create(json!({})).update(json!({"metadata": {"annotations": null}}));
    assert_eq!(world.calls(), "c create#0 c create#0");
}

#[test]
fn own_changes_are_changes_but_status_is_not() {
    let mut world = World::of("create:c update:u");
    world.wants.insert("c".into(), json!({"spec": {"b": 1}, "status": {"x": 1}}));
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 u update#0");
    assert!(world.told[1].ends_with("by (('add', ('spec', 'b'), None, 1),)"));
}

#[test]
fn resuming() {
    let mut world = World::of("resume:r1 create:c update:u resume:r2");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}}));
    assert_eq!(world.calls(), "c create#0 u update#0");
    world.writes();
    world.restart();
    assert_eq!((world.calls(), world.writes()), ("r1 resume#0 r2 resume#0".into(), 2));
    world.see(EventType::Listed).update(json!({"spec": {"a": 3}}));
    assert_eq!(world.calls(), "u update#0", "resumed once per process");
    world.edit(json!({"spec": {"a": 4}}));
    world.restart();
    assert_eq!(world.calls(), "r1 update#0 u update#0 r2 update#0", "changed during downtime");
    assert_eq!(world.lines().last().unwrap(), "Updating is processed: 3 succeeded; 0 failed.");
    let mut world = World::of("resume:r create:c");
    world.put(json!({}));
    world.restart().update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "c create#0", "created during downtime");
}

#[test]
fn resuming_one_handler_costs_nothing() {
    let mut world = World::of("resume:r create:c");
    world.create(json!({})).calls();
    world.writes();
    assert_eq!((world.restart().calls(), world.writes()), ("r resume#0".into(), 0));
}

#[test]
fn fields() {
    let mut world = World::new(vec![on_field("f", "spec.a"), handler(HandlerKind::OnCreate, "c")]);
    world.create(json!({"a": 1})).update(json!({"spec": {"b": 1}})).update(json!({"spec": {"a": null}}));
    assert_eq!(world.calls(), "f create#0 c create#0 f update#0");
    assert_eq!(world.told[0], "f: None -> 1 by (('add', (), None, 1),)");
    assert_eq!(world.told[2], "f: 1 -> None by (('remove', (), 1, None),)");
    assert_eq!(world.last_handled(), json!({"spec": {"b": 1}}));
}

#[test]
fn values_of_fields() {
    let update = || {
        with(on_field("u", "spec.x"), |it| {
            it.filters.value = Some(Criterion::Equals(json!("v")));
        })
    };
    let mut world = World::new(vec![update()]);
    world.create(json!({"y": 1}));
    for value in ["v", "w", "z"] {
        world.update(json!({"spec": {"x": value}}));
    }
    assert_eq!(world.told.len(), 2, "{:?}", world.told);
    let mut world = World::new(vec![
        handler(HandlerKind::OnCreate, "c"),
        with(handlers("update:u").remove(0), |it| {
            it.field = Some(crate::object::path::FieldPath::parse("spec.x"));
            it.filters.old = Some(Criterion::Absent);
            it.filters.new = Some(Criterion::Present);
        }),
    ]);
    world.create(json!({})).update(json!({"spec": {"x": 1}})).update(json!({"spec": {"x": 2}}));
    assert_eq!(world.calls(), "c create#0 u update#0");
}

#[test]
fn a_status_field_counts_once_it_was_seen() {
    let mut world = World::new(vec![with(handler(HandlerKind::OnUpdate, "u"), |it| {
        it.field = Some(crate::object::path::FieldPath::parse("status"));
    })]);
    world.create(json!({}));
    assert_eq!(world.writes(), 0, "stealth");
    world.update(json!({"status": {"x": 1}}));
    assert_eq!(
        (world.calls(), world.last_handled()),
        (String::new(), json!({"spec": {}, "status": {"x": 1}}))
    );
    world.update(json!({"status": {"x": 2}}));
    assert_eq!(world.calls(), "u update#0");
}

#[test]
fn stealth() {
    let filtered = |kind, id| {
        with(handler(kind, id), |it| {
            it.filters.labels = vec![("on".into(), Criterion::Present)];
        })
    };
    let mut world = World::new(vec![
        filtered(HandlerKind::OnCreate, "c"),
        filtered(HandlerKind::OnUpdate, "u"),
        filtered(HandlerKind::OnDelete, "d"),
    ]);
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}}));
    assert_eq!((world.writes(), world.lines().len(), world.records()), (0, 0, String::new()));
    world.update(json!({"metadata": {"labels": {"on": "1"}}}));
    assert_eq!(world.calls(), "c create#0");
    world.update(json!({"metadata": {"labels": {"on": null}}})).update(json!({"spec": {"a": 3}}));
    assert_eq!(world.object.as_ref().unwrap()["metadata"]["finalizers"], json!(null));
    assert_eq!(world.calls(), "");
    world.update(json!({"metadata": {"labels": {"on": "1"}}}));
    assert_eq!(world.calls(), "u update#0");
    assert!(world.told[1].contains("('change', ('spec', 'a'), 2, 3)"), "{:?}", world.told);
}

#[test]
fn raw_events() {
    let mut world = World::of("event:e");
    world.put(json!({}));
    world.restart().update(json!({"spec": {"a": 1}})).delete();
    assert_eq!((world.calls(), world.writes()), ("e None e MODIFIED e DELETED".into(), 0));
    let mut world = World::of("event:e");
    world.wants.insert("e".into(), json!({"status": {"e": 1}}));
    world.create(json!({})).see(EventType::Modified);
    assert_eq!(
        (world.calls(), world.writes()),
        ("e ADDED e MODIFIED".into(), 1),
        "the same status is not written twice"
    );
    world.delete();
    assert_eq!(world.writes(), 0);
}

#[test]
fn stacked_attributes_run_once_per_cause() {
    let mut world = World::of("resume:f create:f update:f");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}})).restart();
    assert_eq!(world.calls(), "f create#0 f update#0 f resume#0");
}
