//! Custom storages of a user, with their own field names.
//!
//! They find exactly the state that they have stored. This module must not depend on the meaning of the state.

use kopf_rs::storage::{DiffBaseStorage, ProgressRecord, ProgressStorage, StorageError};
use kopf_rs::{Body, Patch};
use serde_json::{Value, json};

/// Stores progress and essence in the status, in a custom format.
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

    // As text, because a merge into the stored object would keep removed keys.
    fn store(&self, essence: &Value, _: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        patch["status"]["handled"] = json!(essence.to_string());
        Ok(())
    }
}
