//! Tests changes during a cycle, supersession, and stale records (scenarios 14 to 17, 30, 69, 70; rows 4 and 5).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs_schedule::HandlerKind;
use serde_json::{Value, json};

use super::world::{LAST, World, handler, handlers, with};
use crate::handler::cause::Cause;
use crate::handler::filter::Criterion;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::event::EventType;

#[test]
fn a_change_during_creation_is_an_update_afterwards() {
    let mut world = World::of("create:c1 create:c2 update:u").script("c2", "t5 ok");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}}));
    assert_eq!(world.calls(), "c1 create#0 c2 create#0");
    world.wait();
    assert_eq!(world.calls(), "c2 create#1 u update#0");
    assert_eq!(world.told[2], r#"c2: None -> {"spec":{"a":2}} by (('add', (), None, {'spec': {'a': 2}}),)"#);
    assert_eq!(
        world.told[3],
        r#"u: {"spec":{"a":1}} -> {"spec":{"a":2}} by (('change', ('spec', 'a'), 1, 2),)"#
    );
    assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"a": 2}}), String::new()));
}

#[test]
fn a_second_change_reaches_those_who_had_finished() {
    let mut world = World::of("update:u1 update:u2").script("u2", "t5 ok");
    world.create(json!({"a": 1})).update(json!({"spec": {"a": 2}})).update(json!({"spec": {"a": 3}})).wait();
    assert_eq!(world.calls(), "u1 update#0 u2 update#0 u2 update#1 u1 update#0");
    let comparison: Vec<_> = world.told.iter().map(|it| it.split_once(" by ").unwrap().0).collect();
    assert!(comparison[2].ends_with(r#"{"spec":{"a":1}} -> {"spec":{"a":3}}"#));
    assert!(comparison[3].ends_with(r#"{"spec":{"a":2}} -> {"spec":{"a":3}}"#));
    assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"a": 3}}), String::new()));
}

#[test]
fn a_reverted_change_is_seen_by_all_who_saw_it() {
    let mut world = World::of("update:a update:b").script("b", "t5 ok");
    world.create(json!({"x": 1})).update(json!({"spec": {"x": 2}})).update(json!({"spec": {"x": 1}})).wait();
    assert_eq!(world.calls(), "a update#0 b update#0 b update#1 a update#0");
    assert!(world.told[2].ends_with("by ()"), "nothing is left of it: {}", world.told[2]);
    assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"x": 1}}), String::new()));
    world.update(json!({"spec": {"x": 5}}));
    assert_eq!(world.calls(), "a update#0 b update#0", "nothing stale is left to skip them");
}

#[test]
fn a_retried_handler_is_told_of_the_object_as_it_is() {
    let change = |from, to| {
        format!(
            r#"u: {{"spec":{{"a":{from}}}}} -> {{"spec":{{"a":{to}}}}} by (('change', ('spec', 'a'), {from}, {to}),)"#
        )
    };
    let mut world = World::of("update:u").script("u", "t5 t5 t5 ok");
    world.create(json!({"a": 0}));
    for a in [1, 2, 3] {
        world.update(json!({"spec": {"a": a}})).sleep(5).again();
    }
    assert_eq!(world.calls(), "u update#0 u update#1 u update#2 u update#3");
    let told = [change(0, 1), change(0, 1), change(0, 2), change(0, 3)];
    assert_eq!(world.told, told);
    let handled = json!({"spec": {"a": 3}});
    assert_eq!((world.last_handled(), world.records()), (handled, String::new()));
    // The same holds for a handler with a field.
    let mut world = World::of("field:f").script("f", "ok t5 ok");
    world.create(json!({"f": 0})).update(json!({"spec": {"f": 1}}));
    world.update(json!({"spec": {"f": 2}})).wait();
    assert_eq!(world.told[2], "f: 0 -> 2 by (('change', (), 0, 2),)");
    assert_eq!(world.calls(), "f create#0 f update#0 f update#1");
}

#[test]
fn who_has_seen_the_newest_is_not_called_for_it_again_not_even_by_another_process() {
    let before_the_last_attempt = || {
        let mut world = World::of("update:a update:b").script("b", "t5 ok").script("a", "ok t5 ok");
        world.create(json!({"x": 1})).update(json!({"spec": {"x": 2}})).update(json!({"spec": {"x": 3}}));
        world.sleep(5).again();
        assert_eq!(world.calls(), "a update#0 b update#0 b update#1 a update#0");
        world
    };
    let mut world = before_the_last_attempt();
    world.wait();
    assert_eq!(world.calls(), "a update#1");
    let mut world = before_the_last_attempt();
    world.restart().wait();
    assert_eq!((world.calls(), world.records()), ("a update#1".to_owned(), String::new()));
    // But its result is outdated as soon as the object changes.
    let mut world = before_the_last_attempt();
    world.update(json!({"spec": {"x": 2}})).wait();
    assert_eq!((world.calls(), world.records()), ("a update#1 b update#0".to_owned(), String::new()));
}

#[test]
fn a_field_that_was_away_when_the_cycle_ended_is_seen_once_it_is_back() {
    let away_before_its_turn = || {
        let mut world = World::of("create:c field:f");
        world.put(json!({"f": 0}));
        world.pass_once(EventType::Added);
        world.edit(json!({"spec": {"f": null}}));
        world.pass_once(EventType::Modified);
        assert_eq!(world.calls(), "c create#0");
        assert_eq!(world.last_handled(), json!({"spec": {"f": 0}}));
        world
    };
    let mut world = away_before_its_turn();
    // The process dies, and the stored state becomes current again.
    world.edit(json!({"spec": {"f": 0}}));
    world.restart();
    assert_eq!((world.calls(), world.records()), ("f update#0".to_owned(), String::new()));
    // If the field stays absent, the handler sees that.
    let mut world = away_before_its_turn();
    world.again();
    assert_eq!(world.told[1], "f: 0 -> None by (('remove', (), 0, None),)");
    assert_eq!((world.calls(), world.records()), ("f update#0".to_owned(), String::new()));
}

#[test]
fn who_is_tried_again_is_not_called_for_what_its_filter_does_not_let_through() {
    let field = with(super::world::on_field("f", "spec.f"), |it| {
        it.filters.new = Some(Criterion::from(2));
    });
    let others = |id| handler(HandlerKind::OnCreate, id);
    let mut world =
        World::new(vec![others("c"), others("d"), field]).script("f", "t5 ok").script("d", "t9 ok");
    let (away, back) = (json!({"spec": {"f": 0}}), json!({"spec": {"f": 2}}));
    world.create(json!({"f": 2})).update(away).wait();
    let calls = "c create#0 d create#0 f create#0 d create#1";
    assert_eq!((world.calls().as_str(), world.records()), (calls, String::new()));
    world.update(back);
    assert_eq!(world.calls(), "f update#0");
}

#[test]
fn a_handler_sees_a_field_again_that_was_absent_in_the_target() {
    let absent = |others| {
        let mut all = handlers(others);
        all.push(with(super::world::on_field("f", "spec.f"), |it| {
            it.filters.new = Some(Criterion::from(2));
        }));
        let mut world = World::new(all).script("b", "t5 ok t5 ok");
        world
            .create(json!({"f": 1, "x": 0}))
            .update(json!({"spec": {"x": 1}}))
            .update(json!({"spec": {"f": 2}}));
        assert_eq!(world.calls(), "a update#0 b update#0 f update#0");
        // The cycle for `x` ends when `f` has seen 2. Before the next cycle begins, the field disappears.
        world.during.insert("b".into(), Box::new(|it| drop(it["spec"].as_object_mut().unwrap().remove("f"))));
        world.sleep(5).again();
        assert_eq!(world.calls(), "b update#1 a update#0 b update#0");
        assert_eq!(world.last_handled(), json!({"spec": {"f": 1, "x": 1}}));
        world
    };
    // The object without the field will be stored as handled, although the field is back.
    let mut world = absent("update:a update:b");
    world.update(json!({"spec": {"f": 2}})).wait();
    assert_eq!(world.calls(), "f update#0 b update#1 a update#0");
    assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"f": 2, "x": 1}}), String::new()));
    // The last chance is the deletion.
    let mut world = absent("update:a update:b delete:d");
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    world.update(json!({"spec": {"f": 2}, "metadata": deleted})).wait();
    assert_eq!(world.calls(), "d delete#0 f delete#0");
    assert!(world.object.is_none());
}

#[test]
fn a_handler_that_has_left_the_cycle_sees_a_field_again_that_was_absent_in_the_target() {
    let field = with(super::world::on_field("f", "spec.f"), |it| {
        it.filters.value = Some(Criterion::Absent);
        it.filters.labels = vec![("off".into(), Criterion::Absent)];
    });
    let mut all = vec![field];
    all.extend(handlers("update:a update:b"));
    let mut world = World::new(all).script("b", "t5 ok t5 ok").script("f", "t5 ok");
    world.create(json!({"x": 0})).update(json!({"spec": {"f": 1, "x": 1}})).update(json!({"spec": {"f": 2}}));
    assert_eq!(world.calls(), "f update#0 a update#0 b update#0");
    let leave = |it: &mut Value| {
        it["spec"].as_object_mut().unwrap().remove("f");
        it["metadata"]["labels"] = json!({"off": "1"});
    };
    world.during.insert("b".into(), Box::new(leave));
    world.sleep(5).again();
    assert_eq!(world.calls(), "f update#1 b update#1 a update#0 b update#0");
    assert_eq!(world.last_handled(), json!({"spec": {"f": 1, "x": 1}}));
    world.update(json!({"spec": {"f": 2}, "metadata": {"labels": {"off": null}}})).wait();
    assert_eq!((world.calls(), world.records()), ("b update#1 f update#0 a update#0".into(), String::new()));
}

#[test]
fn a_change_taken_back_while_the_only_handler_waits_is_told_as_nothing() {
    let mut world = World::of("update:u").script("u", "t5 ok");
    world.create(json!({"x": 1})).update(json!({"spec": {"x": 2}})).update(json!({"spec": {"x": 1}})).wait();
    assert_eq!(world.calls(), "u update#0 u update#1");
    assert_eq!(world.told[1], r#"u: {"spec":{"x":1}} -> {"spec":{"x":1}} by ()"#);
    assert_eq!((world.records(), world.writes()), (String::new(), 3));
}

#[test]
fn a_handler_that_saw_more_than_the_target_runs_again() {
    let mut world = World::of("update:a update:b update:c").script("c", "t5 ok");
    // b runs on 3, c finishes on 2 again: no difference is left, but b has acted on 3.
    world.during.insert("a".into(), Box::new(|it| it["spec"]["x"] = json!(3)));
    world.during.insert("b".into(), Box::new(|it| it["spec"]["x"] = json!(2)));
    world.create(json!({"x": 1})).update(json!({"spec": {"x": 2}})).wait();
    assert_eq!(world.calls(), "a update#0 b update#0 c update#0 c update#1 b update#0");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
}

#[test]
fn after_a_restart_those_who_finished_on_another_state_run_again_in_the_next_cycle() {
    for (now, calls) in [(2, "b update#1"), (3, "b update#1 a update#0"), (1, "b update#1 a update#0")] {
        let mut world = World::of("update:a update:b").script("b", "t5 ok");
        world.create(json!({"x": 1})).update(json!({"spec": {"x": 2}}));
        assert_eq!(world.calls(), "a update#0 b update#0");
        if now != 2 {
            world.edit(json!({"spec": {"x": now}}));
        }
        world.restart().wait();
        assert_eq!(world.calls(), calls, "restarted on {now}");
        assert_eq!((world.last_handled(), world.records()), (json!({"spec": {"x": now}}), String::new()));
    }
}

#[test]
fn fields_that_came_and_went_are_followed() {
    let mut world = World::of("field:f create:c").script("c", "t5 ok");
    world.create(json!({"f": 1})).update(json!({"spec": {"f": null}})).wait();
    assert_eq!(world.calls(), "f create#0 c create#0 c create#1 f update#0");
    let mut world = World::of("field:f create:c").script("c", "t5 ok");
    world.create(json!({"f": 1})).edit(json!({"spec": {"f": null}}));
    world.restart().wait();
    assert_eq!(world.calls(), "f create#0 c create#0 c create#1 f update#0");
}

#[test]
fn what_is_not_in_its_field_is_nothing_to_a_handler() {
    // f runs after an earlier handler has changed other fields: its own field has not changed.
    let mut world = World::of("field:g field:f");
    world.wants.insert("g".into(), json!({"spec": {"other": 1}}));
    world.create(json!({"f": 1, "g": 1})).wait();
    assert_eq!(world.calls(), "g create#0 f create#0");
    assert_eq!((world.records(), world.wake_at), (String::new(), None));
    // The same holds after a restart in mid-cycle.
    let mut world = World::of("field:f create:c").script("c", "t5 ok");
    world.create(json!({"f": 1})).edit(json!({"spec": {"other": 1}}));
    world.restart().wait();
    assert_eq!(world.calls(), "f create#0 c create#0 c create#1");
}

#[test]
fn resuming_is_superseded_by_updating() {
    let mut world = World::of("create:c update:u resume:a resume:b").script("b", "t5 ok");
    world.create(json!({"x": 1})).restart().calls();
    world.lines();
    world.update(json!({"spec": {"x": 2}}));
    assert_eq!(
        world.lines()[0],
        "Resuming is superseded by updating: 1 succeeded; 0 failed; 1 left to the moment."
    );
    assert_eq!(world.calls(), "u update#0");
    assert_eq!(world.record("b")["purpose"], "update");
    world.wait();
    assert_eq!(world.calls(), "b update#1");
}

#[test]
fn stale_records_are_purged_when_nothing_is_to_do() {
    let stale = r#"{"started":"2026-01-01T00:00:00+00:00","purpose":"update","retries":0,"success":false,"failure":false}"#;
    let mut world = World::of("update:u");
    world.create(json!({})).writes();
    world.update(json!({"metadata": {"annotations": {"op.kopf.rs/u": stale, "op.kopf.rs/unknown": stale}}}));
    assert_eq!((world.calls(), world.writes(), world.records()), (String::new(), 1, "unknown".into()));
    world.again();
    assert_eq!(world.writes(), 0);
}

#[test]
fn who_falls_out_of_filters_is_not_waited_for() {
    let filtered = with(handler(HandlerKind::OnCreate, "c"), |it| {
        it.filters.labels = vec![("off".into(), Criterion::Absent)];
    });
    let mut world = World::new(vec![filtered, handler(HandlerKind::OnCreate, "d")])
        .script("c", "t5 ok")
        .script("d", "t9 ok");
    world.create(json!({})).update(json!({"metadata": {"labels": {"off": "1"}}})).wait();
    assert_eq!(world.calls(), "c create#0 d create#0 d create#1");
    assert_eq!(world.records(), "");
}

#[test]
fn who_falls_into_filters_joins() {
    let filtered = with(handler(HandlerKind::OnCreate, "c"), |it| {
        it.filters.labels = vec![("on".into(), Criterion::Present)];
    });
    let mut world = World::new(vec![filtered, handler(HandlerKind::OnCreate, "d")]).script("d", "t9 ok");
    world.create(json!({})).update(json!({"metadata": {"labels": {"on": "1"}}}));
    assert_eq!(world.calls(), "d create#0 c create#0");
    world.wait();
    assert_eq!(world.calls(), "d create#1");
}

#[test]
fn filters_are_evaluated_once_and_know_the_cause() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let picky = with(handler(HandlerKind::OnUpdate, "u"), |it| {
        it.filters.when = Some(Arc::new(move |cause| {
            counted.fetch_add(1, Ordering::Relaxed);
            cause.diff().to_string().contains("'x'")
        }));
    });
    let mut world = World::new(vec![picky, handler(HandlerKind::OnCreate, "c")]);
    world.create(json!({})).calls();
    count.store(0, Ordering::Relaxed);
    world.edit(json!({"spec": {"y": 1}}));
    world.pass_once(EventType::Modified);
    assert_eq!((count.swap(0, Ordering::Relaxed), world.calls()), (1, String::new()));
    world.edit(json!({"spec": {"x": 1}}));
    world.pass_once(EventType::Modified);
    assert_eq!((count.load(Ordering::Relaxed), world.calls()), (1, "u update#0".into()));
}

#[test]
fn filters_are_asked_about_the_reason_that_there_is() {
    let mut all = handlers("update:u resume:r create:c");
    all[0].filters.labels = vec![("wanted".into(), Criterion::Present)];
    let is_resuming = |cause: &Cause| cause.reason() == Some(Reason::Resume);
    all[1].filters.when = Some(Arc::new(is_resuming));
    let mut world = World::new(all);
    world.create(json!({"a": 1}));
    let mark = json!({"started": "2026-01-01T00:00:00+00:00", "target": "AAAAAAAAAAAAAAAA"});
    world.edit(json!({"metadata": {"annotations": {"op.kopf.rs/u": mark.to_string()}}}));
    world.calls();
    world.restart();
    assert_eq!(world.calls(), "r resume#0");
}

#[test]
fn no_difference_is_told_from_what_is_not_known() {
    let mut world = World::of("update:u");
    world.create(json!({"a": 1}));
    let digest = "digest:AAAAAAAAAAAAAAAA";
    world.edit(json!({"metadata": {"annotations": {LAST: digest}}}));
    let body = world.body();
    let plan = world.plan(Some(EventType::Modified), &body);
    let differs = |it: &Handling| matches!(it, Handling::Differs { .. });
    assert!(!plan.told.iter().any(differs), "{:?}", plan.told);
    assert_eq!(plan.changing.len(), 1);
}

#[test]
fn a_number_is_a_number_however_it_is_written() {
    let mut world = World::of("update:u update:v").script("v", "t5 ok");
    world.create(json!({"a": 1, "b": null})).update(json!({"spec": {"a": 2}}));
    world.calls();
    world.object.as_mut().unwrap()["spec"] = json!({"a": 2.0});
    world.update(json!({})).wait();
    assert_eq!(world.calls(), "v update#1");
}
