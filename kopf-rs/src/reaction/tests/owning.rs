//! Tests change handlers that own children: a changed child calls them like a restart of the operator.

use kopf_rs_schedule::HandlerKind;
use serde_json::json;

use super::world::{World, declared, own};
use crate::handler::definition::Handler;
use crate::object::resource::Resource;

/// A handler that owns this kind.
fn owning(kind: HandlerKind, id: &str, owned: &str) -> Handler {
    declared(kind, id, |it| {
        own(it, owned);
    })
}

impl World {
    /// Records a changed child of the object.
    fn drifts(&mut self, plural: &str) -> &mut Self {
        let kind = Resource { plural: plural.to_owned(), ..Resource::default() };
        let handlers = self.handlers.clone();
        let seen = self.seen.as_mut().unwrap();
        if seen.child_changed(&kind, &handlers) {
            self.again();
        }
        self
    }
}

fn world() -> World {
    World::new(vec![
        owning(HandlerKind::OnCreate, "c", "services"),
        owning(HandlerKind::OnUpdate, "u", "configmaps"),
        super::world::handler(HandlerKind::OnResume, "r"),
    ])
}

#[test]
fn a_changed_child_resumes_the_handlers_that_own_its_kind() {
    let mut world = world();
    world.create(json!({}));
    assert_eq!(world.calls(), "c create#0");
    world.drifts("services").drifts("pods");
    assert_eq!(world.calls(), "c resume#0");
    world.drifts("configmaps");
    assert_eq!(world.calls(), "u resume#0");
    world.writes();
    world.drifts("services");
    assert_eq!((world.calls(), world.writes()), ("c resume#0".into(), 0));
    world.update(json!({"spec": {"a": 1}}));
    assert_eq!(world.calls(), "u update#0", "nothing is left of it");
    world.restart();
    let calls = world.calls();
    let mut calls: Vec<_> = calls.split(' ').collect();
    calls.sort_unstable();
    assert_eq!(calls.join(" "), "c r resume#0 resume#0 resume#0 u", "at the start");
}

#[test]
fn a_child_that_changes_during_the_cycle_is_for_the_next_one() {
    let mut world = world().script("c", "ok t5 ok");
    world.create(json!({})).calls();
    world.drifts("services");
    assert_eq!(world.calls(), "c resume#0");
    world.drifts("services").drifts("configmaps");
    assert_eq!(world.calls(), "");
    world.wait();
    assert_eq!(world.calls(), "c resume#1 c resume#0 u resume#0");
    world.again();
    assert_eq!(world.calls(), "");
}

#[test]
fn a_change_of_the_object_and_one_of_a_child_are_one_cycle() {
    let mut world = world();
    world.create(json!({})).calls();
    world.edit(json!({"spec": {"a": 1}}));
    world.drifts("services");
    assert_eq!(world.calls(), "c update#0 u update#0");
}
