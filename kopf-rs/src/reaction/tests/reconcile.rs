//! Tests reconcilers: the times of their calls, and the preconditions (CH2, CH46, CH47, CH51, CH54).

use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;
use serde_json::json;

use super::world::{World, handler, own, reconciler, with};
use crate::handler::again::Again;
use crate::handler::filter::Criterion;
use crate::handler::options::Callback;
use crate::object::event::EventType;
use crate::object::resource::Resource;

const HOUR: i64 = 3600;

fn owning(options: &mut Callback) {
    own(options, "services");
}

fn world(options: impl FnOnce(&mut Callback)) -> World {
    World::new(vec![reconciler("r", options)])
}

impl World {
    /// Records a changed child of this kind.
    fn child(&mut self, plural: &str) -> &mut Self {
        let kind = Resource { plural: plural.to_owned(), ..Resource::default() };
        self.background.child_changed(&kind, self.now);
        if self.background.due(self.wall_ahead).is_some_and(|due| due <= self.now) {
            self.again();
        }
        self
    }

    /// Ends the call, which requests another one after this many seconds.
    fn ends_for(&mut self, id: &str, seconds: u64) -> &mut Self {
        let call = self.running.iter().find(|it| *it.handler.id == *id);
        call.unwrap().again(Again::after(seconds));
        self.ends(id, "ok")
    }

    fn due_at(&self) -> Timestamp {
        self.background.due(self.wall_ahead).unwrap()
    }
}

#[test]
fn it_is_called_for_what_is_there_and_for_changes_and_holds_nothing() {
    let mut world = World::of("reconcile:r");
    world.create(json!({})).ends("r", "ok");
    assert_eq!((world.calls(), world.is_held()), ("r#0".into(), false));
    assert_eq!(world.due(), Some(9 * HOUR), "the resync, with no luck");
    world.update(json!({"status": {"a": 1}}));
    world.update(json!({"metadata": {"annotations": {"op.kopf.rs/x": "1"}}}));
    assert_eq!(world.calls(), "", "neither the status nor what is the operator's");
    world.update(json!({"spec": {"a": 1}})).ends("r", "ok");
    assert_eq!(world.calls(), "r#0");
    world.wake().ends("r", "ok");
    assert_eq!(world.calls(), "r#0", "the resync");
    world.restart();
    assert_eq!(world.calls(), "r#0", "another process");
    assert_eq!(world.writes(), 0);
    world.delete();
    assert!(world.object.is_none());
}

#[test]
fn all_that_changes_during_a_call_is_one_more_call() {
    let mut world = world(owning);
    world.create(json!({}));
    for n in 0..100 {
        world.child("services").update(json!({"spec": {"n": n}}));
    }
    assert_eq!(world.calls(), "r#0");
    world.ends("r", "ok");
    assert_eq!(world.calls(), "r#0", "CH46: one more");
    world.ends("r", "ok").again();
    assert_eq!(world.calls(), "");
}

#[test]
fn only_children_of_its_kinds_call_it() {
    let mut world = world(owning);
    world.create(json!({})).ends("r", "ok").calls();
    world.child("configmaps");
    assert_eq!(world.calls(), "");
    world.child("services");
    assert_eq!(world.calls(), "r#0");
}

#[test]
fn the_newest_return_says_when_it_is_called_again() {
    let mut world = world(owning);
    world.create(json!({})).ends_for("r", 30);
    assert_eq!((world.calls(), world.due()), ("r#0".into(), Some(30)));
    world.sleep(10).child("services").ends("r", "ok");
    assert_eq!(world.calls(), "r#0");
    assert_eq!(world.due(), Some(9 * HOUR), "CH47: taken back");
    world.sleep(10).child("services").ends_for("r", 30);
    world.sleep(10).child("services").ends("r", "e");
    assert_eq!(world.due(), Some(1), "CH47: the delay of the error");
    // A resync comes first.
    world.wake().ends_for("r", 40 * 60 * 60);
    assert_eq!(world.due(), Some(9 * HOUR));
}

#[test]
fn errors_grow_and_children_wait_for_the_next_attempt_after_the_third() {
    let mut world = world(owning);
    world.create(json!({}));
    for retry in 1..=3 {
        world.ends("r", "e");
        assert_eq!(world.due(), Some(1 << (retry - 1)));
        let before = world.due_at();
        world.child("services");
        let calls = world.calls();
        if retry < 3 {
            assert_eq!(calls, format!("r#{} r#{retry}", retry - 1).replace("r#1 r#2", "r#2"));
        } else {
            assert_eq!(calls, "");
            assert_eq!(world.due_at(), before, "paced");
        }
    }
    // A change of the object is different.
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "r#0");
    world.ends("r", "t7");
    assert_eq!(world.due(), Some(7));
}

#[test]
fn a_change_during_an_attempt_that_fails_is_not_paced() {
    let mut world = world(owning);
    world.create(json!({}));
    for _ in 0..3 {
        world.ends("r", "e").wake();
    }
    world.calls();
    world.child("services").ends("r", "e");
    assert_eq!((world.calls(), world.due()), (String::new(), Some(8)));
    world.wake();
    world.update(json!({"spec": {"a": 1}})).ends("r", "e");
    assert_eq!(world.calls(), "r#4 r#0");
}

#[test]
fn what_has_failed_for_good_waits_for_another_object_or_the_resync() {
    for limits in [None, Some(1)] {
        let mut world = world(|it| {
            owning(it);
            it.handler.timing.resync = Some(Duration::from_secs(100));
            it.handler.retry.retries = limits;
        });
        let outcome = if limits.is_some() { "e" } else { "p" };
        world.create(json!({})).ends("r", outcome);
        assert_eq!((world.calls(), world.due()), ("r#0".into(), Some(90)));
        world.child("services");
        assert_eq!(world.calls(), "");
        world.update(json!({"spec": {"a": 1}})).ends("r", outcome);
        assert_eq!(world.calls(), "r#0");
        world.wake();
        assert_eq!(world.calls(), "r#0", "the resync");
    }
}

#[test]
fn handlers_of_changes_go_first_and_their_retries_do_not_hold_it_up() {
    let mut world = World::of("create:c update:u reconcile:r").script("u", "t3600 ok");
    world.create(json!({}));
    assert_eq!(world.calls(), "c create#0 r#0");
    world.ends("r", "ok").update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "u update#0 r#0", "CH54");
    let object = world.object.clone().unwrap();
    let annotations = object["metadata"]["annotations"].to_string();
    assert!(annotations.contains("op.kopf.rs/u"), "progress was written first: {annotations}");
    world.ends("r", "ok").update(json!({"spec": {"a": 2}}));
    assert_eq!(world.calls(), "r#0");
}

#[test]
fn the_finalizer_comes_first_where_a_deletion_handler_asks_for_it() {
    let mut world = World::of("delete:d reconcile:r");
    world.put(json!({}));
    world.pass_once(EventType::Added);
    assert_eq!((world.calls(), world.is_held()), (String::new(), true));
    world.again();
    assert_eq!(world.calls(), "r#0");
    world.delete();
    assert_eq!(world.reason("r"), "RESOURCE_DELETED");
    assert_eq!((world.calls(), world.is_held()), ("d delete#0".into(), true));
    world.ends("r", "ok");
    assert!(world.object.is_none(), "the call was waited for");
    assert_eq!(world.calls(), "");
}

#[test]
fn filters_say_for_which_objects_it_is() {
    let mut world = world(|it| it.handler.filters.labels = vec![("on".into(), Criterion::Present)]);
    let on = |value| json!({"metadata": {"labels": {"on": value}}});
    world.create(json!({}));
    assert_eq!(world.calls(), "");
    world.update(on(Some("yes"))).ends("r", "ok");
    assert_eq!(world.calls(), "r#0");
    world.update(on(None)).update(json!({"spec": {"a": 1}}));
    assert_eq!((world.calls(), world.due()), (String::new(), None));
    world.update(on(Some("yes")));
    assert_eq!(world.calls(), "r#0");
}

#[test]
fn what_it_wants_is_written_before_the_next_call_and_calls_nobody() {
    let mut world = world(owning);
    world.create(json!({}));
    world.child("services").ends("r", r#"{"seen": 1}"#);
    let object = world.object.clone().unwrap();
    assert_eq!(object["status"]["r"], json!({"seen": 1}));
    assert_eq!(world.calls(), "r#0 r#0");
    world.ends("r", r#"{"seen": 1}"#);
    assert_eq!((world.calls(), world.writes()), (String::new(), 1), "CH2");
}

#[test]
fn an_optional_deletion_handler_needs_no_finalizer_for_it() {
    let optional = with(handler(HandlerKind::OnDelete, "o"), |it| it.optional = true);
    let mut world = World::new(vec![optional, reconciler("r", |_| {})]);
    world.create(json!({}));
    assert_eq!((world.calls(), world.is_held()), ("r#0".into(), false));
    world.delete();
    assert_eq!(world.calls(), "o delete#0");
}

#[test]
fn finalizing_comes_after_deletion_handlers_and_after_all_that_runs() {
    let mut world = World::of("finalize:z delete:d daemon:x reconcile:r").script("d", "t5 ok");
    world.create(json!({}));
    assert_eq!((world.calls(), world.is_held()), ("x#0 r#0".into(), true));
    world.delete();
    assert_eq!(world.calls(), "d delete#0");
    assert_eq!(world.reason("r"), "RESOURCE_DELETED");
    world.ends("r", "ok").ends("x", "ok");
    assert_eq!(world.calls(), "", "CH55: the deletion handler is not done");
    world.wait();
    assert_eq!(world.calls(), "d delete#1 z delete#0", "CH55");
    assert!(world.object.is_none());
}

#[test]
fn finalizing_waits_for_a_call_that_runs() {
    let mut world = World::of("finalize:z delete:d reconcile:r").script("z", "t5 ok");
    world.create(json!({})).calls();
    world.delete().wait();
    assert_eq!(world.calls(), "d delete#0");
    assert_eq!(world.wake_at, None, "nothing to do until the call ends");
    world.ends("r", "ok");
    assert_eq!(world.calls(), "z delete#0");
    world.restart().wait();
    assert_eq!(world.calls(), "z delete#1", "not the deletion handler again");
    assert!(world.object.is_none());
}

#[test]
fn one_that_always_changes_its_object_is_told_and_slowed_down() {
    let mut world = World::of("reconcile:r");
    world.create(json!({}));
    let wants = |world: &mut World, n: u64| {
        let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
        world.wants.insert("r".to_owned(), labels);
    };
    let mut pauses = Vec::new();
    for n in 0..30 {
        wants(&mut world, n);
        // A failure waits for its delay, and is counted, too.
        world.ends("r", if n % 7 == 3 { "e" } else { "ok" });
        pauses.push(world.due());
        if world.running.is_empty() {
            world.wake();
        }
    }
    let of_failure = |n: usize| (n % 7 == 3).then_some(1);
    let expected: Vec<_> = (0..19).map(of_failure).collect();
    assert_eq!(pauses[..19], expected);
    assert_eq!(pauses[19..25], [0, 1, 2, 4, 8, 1].map(Some));
    assert_eq!(pauses[29], Some(60));
    let told = |it: &&String| it.contains("in 20 calls in a row, the last time at metadata.labels.n");
    assert_eq!(world.lines.iter().filter(told).count(), 1);
    world.calls();
    wants(&mut world, 30);
    world.ends("r", "ok").update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "r#0", "at once for others");
    // The object already has the requested state.
    world.ends("r", "ok");
    assert_eq!(world.due(), Some(9 * HOUR));
    wants(&mut world, 99);
    world.update(json!({"spec": {"a": 2}})).ends("r", "ok");
    assert_eq!(world.calls(), "r#0 r#0", "a single change of its own");
}

#[test]
fn the_reply_of_a_write_may_show_what_others_have_changed() {
    for outcome in ["p", "e"] {
        let mut world = World::of("reconcile:r");
        world.create(json!({}));
        let synced = json!({"status": {"reason": "Refused"}});
        world.wants.insert("r".to_owned(), synced);
        // The change is written before the status, and is seen with that response first.
        world.edit(json!({"spec": {"a": 1}}));
        world.ends("r", outcome);
        assert_eq!(world.calls(), "r#0 r#0", "{outcome}");
    }
}

#[test]
fn the_reply_of_a_change_of_its_own_may_show_those_of_others() {
    let wants = json!({"metadata": {"labels": {"refused": "true"}}});
    let mut world = World::of("reconcile:r");
    world.create(json!({}));
    world.wants.insert("r".to_owned(), wants);
    world.ends("r", "p");
    assert_eq!((world.calls(), world.due()), ("r#0".into(), Some(9 * HOUR)));
    world.update(json!({"metadata": {"labels": {"refused": null}}}));
    world.edit(json!({"spec": {"a": 1}}));
    world.ends("r", "p");
    assert_eq!((world.calls(), world.due()), ("r#0".into(), Some(0)));
    world.wake().ends("r", "p");
    assert_eq!((world.calls(), world.due()), ("r#0".into(), Some(9 * HOUR)));
}
