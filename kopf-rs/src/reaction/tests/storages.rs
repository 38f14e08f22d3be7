//! Tests combinations of users' storages with ours: finished handlers are not called again after a restart.

use serde_json::{Value, json};

use super::world::World;
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::Persistence;
use crate::state::storage::{DiffBaseStorage, ProgressRecord, ProgressStorage, StorageError};

/// The storage from the documentation, also for the last-handled state.
struct InStatus;

impl ProgressStorage for InStatus {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        match &body.status()["progress"][id] {
            Value::Null => Ok(None),
            record => ProgressRecord::from_value(record).map(Some),
        }
    }
    fn store(
        &self,
        id: &str,
        record: &ProgressRecord,
        _: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        patch["status"]["progress"][id] = record.to_value();
        Ok(())
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        if !body.status()["progress"][id].is_null() {
            patch["status"]["progress"][id] = Value::Null;
        }
        Ok(())
    }
}

impl DiffBaseStorage for InStatus {
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        let text = body.status()["handled"].as_str();
        Ok(text.map(serde_json::from_str).transpose()?)
    }
    fn store(&self, essence: &Value, _: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        patch["status"]["handled"] = essence.to_string().into();
        Ok(())
    }
}

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
    let mut world = restarted_in_mid_cycle(Persistence::named("op").progress(InStatus));
    assert_eq!(world.calls(), "");
    world.wait();
    assert_eq!((world.calls().as_str(), world.wake_at), ("d create#1", None));
}

#[test]
fn with_the_handled_state_in_a_storage_of_a_user_a_change_before_a_restart_is_an_update() {
    let mut world = World::of("create:c create:d update:u").script("d", "t60 ok");
    world.persistence = Persistence::named("op").diff_base(InStatus);
    world.create(json!({"a": 1}));
    assert_eq!(world.calls(), "c create#0 d create#0");
    world.edit(json!({"spec": {"a": 2}}));
    world.restart().wait();
    assert_eq!((world.calls().as_str(), world.wake_at), ("d create#1 u update#0", None));
}
