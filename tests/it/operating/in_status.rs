//! Storages of users: all there is to remember, under names of their own.
//!
//! Promise: what is stored is what is found. Must not know what the state is about.

use kopf_rs::storage::{DiffBaseStorage, ProgressRecord, ProgressStorage, StorageError};
use kopf_rs::{Body, Patch};
use serde_json::{Value, json};

/// Progress and essence in the status, in a format of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InStatus;

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

    // As text: were it merged into what is there, removed keys would stay.
    fn store(&self, essence: &Value, _: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        patch["status"]["handled"] = json!(essence.to_string());
        Ok(())
    }
}
