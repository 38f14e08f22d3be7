//! Tests restarts in the middle of a cycle: handlers that have succeeded are not called again, and later changes become an update.

use kopf_rs_schedule::HandlerKind;
use serde_json::{Value, json};

use super::world::{World, handler, on_field, with};
use crate::handler::definition::Handler;
use crate::handler::filter::{ABSENT, PRESENT};
use crate::handler::lifecycle::Lifecycle;
use crate::object::event::EventType;
use crate::state::budget::LIMIT;
use crate::state::diffbase::tests::noise;

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
    assert_eq!(world.calls(), "p create#0 p/one create#0 p create#0 p/two create#0");
    world.restart().wait();
    assert_eq!(world.calls(), "p create#0 p/two create#1 u update#0");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn what_changed_while_the_operator_was_away_is_an_update_of_what_was_handled() {
    let mut world = World::of("create:c create:d update:u").script("d", "t5 ok");
    world.create(json!({"a": 1})).edit(json!({"spec": {"a": 2}}));
    world.restart().wait();
    assert_eq!(world.calls(), "c create#0 d create#0 d create#1 u update#0");
    assert!(world.told[3].starts_with(r#"u: {"spec":{"a":1}} -> {"spec":{"a":2}}"#), "{}", world.told[3]);
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
    // No handler is to be called any more: the remains of a cycle are stale.
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
    world.create(json!({"a": 1})).edit(json!({"spec": {"a": 2}}));
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
    // The first write after the object has left the target stores the complete target.
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

#[test]
fn a_change_that_waits_during_a_restart_calls_only_those_whose_filters_accept_it() {
    let color = |id: &str, options: fn(&mut Handler)| with(on_field(id, "spec.color"), options);
    let handlers = vec![
        handler(HandlerKind::OnUpdate, "done"),
        handler(HandlerKind::OnUpdate, "late"),
        color("any", |_| {}),
        color("green", |it| it.filters.old = Some("green".into())),
        color("absent", |it| it.filters.old = Some(ABSENT)),
        color("present", |it| it.filters.old = Some(PRESENT)),
        on_field("n", "spec.n"),
    ];
    let mut world = World::new(handlers).script("late", "t5 t5 ok");
    world.create(json!({"n": 1, "color": "red"}));
    world.update(json!({"spec": {"n": 2}})).sleep(1);
    // No write happens while the change to 3 waits.
    world.update(json!({"spec": {"n": 3}}));
    world.calls();
    world.told.clear();
    world.restart().wait();
    assert_eq!(world.calls(), "late update#1 late update#2 done update#0 n update#0");
    let n = world.told.iter().filter(|it| it.starts_with("n: "));
    assert_eq!(n.cloned().collect::<Vec<_>>(), ["n: 2 -> 3 by (('change', (), 2, 3),)"]);
}

#[test]
fn of_a_state_that_is_too_large_to_store_only_those_who_had_handled_it_get_no_former_state() {
    let handlers = vec![
        handler(HandlerKind::OnUpdate, "done"),
        handler(HandlerKind::OnUpdate, "late"),
        with(on_field("n", "spec.n"), |it| {
            it.filters.old = Some(1.into());
        }),
        on_field("color", "spec.color"),
    ];
    let mut world = World::new(handlers).script("late", "t5 ok");
    let large = noise(100_000);
    world.create(json!({"n": 1, "color": "red", "large": large}));
    let filler = "x".repeat(LIMIT - 150_000);
    world.edit(json!({"metadata": {"annotations": {"other.kopf.rs/x": filler}}}));
    world.update(json!({"spec": {"n": 2}}));
    world.edit(json!({"spec": {"n": 3}}));
    world.calls();
    world.told.clear();
    world.lines();
    world.restart().wait();
    assert_eq!(world.calls(), "late update#1 done update#0");
    assert!(world.told[0].starts_with("late: {"), "{:.60}", world.told[0]);
    assert!(world.told[1].starts_with("done: None -> {"), "{:.60}", world.told[1]);
    let lines = world.lines();
    let said = "Handler 'done' gets no old state: ";
    assert!(lines.iter().any(|line| line.starts_with(said)), "{lines:.300?}");
}

#[test]
fn who_failed_on_a_state_that_is_none_any_more_is_told_of_it_after_a_restart() {
    let handlers = vec![handler(HandlerKind::OnUpdate, "u"), on_field("b", "spec.b")];
    let mut world = World::new(handlers).script("u", "t5 ok t5 t5 ok");
    world.create(json!({"a": 1, "b": 1}));
    world.update(json!({"spec": {"a": 2, "b": 2}})).sleep(5);
    // While `u` handles 3, the object returns to the state that is stored as handled. There `u` fails, and on 3 once more.
    world.edit(json!({"spec": {"a": 3}}));
    let back = |object: &mut Value| object["spec"]["a"] = json!(2);
    world.during.insert("u".into(), Box::new(back));
    world.pass_once(EventType::Modified);
    world.pass_once(EventType::Modified);
    world.edit(json!({"spec": {"a": 3}}));
    world.sleep(5).pass_once(EventType::Modified);
    world.edit(json!({"spec": {"a": 2}}));
    world.restart().wait();
    let told: Vec<_> = world.told.iter().map(|it| it.split(" by ").next()).collect();
    let [two, three] = [2, 3].map(|a| format!(r#"{{"spec":{{"a":{a},"b":2}}}}"#));
    let expected = [(&three, &two), (&two, &three), (&three, &two)];
    let expected = expected.map(|(old, new)| format!("u: {old} -> {new}"));
    let last: Vec<_> = told[told.len() - 3..].iter().copied().flatten().collect();
    assert_eq!(last, expected);
}
