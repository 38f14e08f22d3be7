//! Tests combinations of users' storages with ours: finished handlers are not called again after a restart.

use serde_json::json;

use super::world::World;
use crate::state::Persistence;
use crate::state::kopf::status::{StatusDiffBaseStorage, StatusProgressStorage};

fn restarted_in_mid_cycle(persistence: Persistence) -> World {
    let mut world = World::of("create:c create:d").script("d", "t60 ok");
    world.persistence = persistence;
    let label = json!({"metadata": {"labels": {"made": "yes"}}});
    world.wants.insert("c".into(), label);
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 d create#0");
    world.restart();
    world
}

#[test]
fn with_progress_in_a_storage_of_a_user_what_has_finished_is_not_called_again_after_a_restart() {
    let mut world =
        restarted_in_mid_cycle(Persistence::named("op").progress(StatusProgressStorage::default()));
    assert_eq!(world.calls(), "");
    world.wait();
    assert_eq!((world.calls().as_str(), world.wake_at), ("d create#1", None));
}

#[test]
fn with_the_handled_state_in_a_storage_of_a_user_a_change_before_a_restart_is_an_update() {
    let mut world = World::of("create:c create:d update:u").script("d", "t60 ok");
    world.persistence = Persistence::named("op").diff_base(StatusDiffBaseStorage::default());
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 d create#0");
    world.edit(json!({"spec": {"a": 2}}));
    world.restart().wait();
    assert_eq!((world.calls().as_str(), world.wake_at), ("d create#1 u update#0", None));
}
