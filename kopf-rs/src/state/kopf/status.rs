//! Kopf's storages in the status stanza.
//!
//! A schema that lacks the fields prunes them: the response of the server shows it, and the operator reports it. This
//! module must not depend on other places.

use serde_json::{Map, Value};

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::object::path::FieldPath;
use crate::state::kopf::annotations::drop_field;
use crate::state::kopf::dumps::dumps_essence;
use crate::state::progress::Record;
use crate::state::storage::{DiffBaseStorage, ProgressStorage, StorageError};

/// Stores progress in the status, in Kopf's format: an object per handler under `status.{name}.progress`.
///
/// The schema of the kind must have the field, or preserve unknown ones.
#[derive(Clone, Debug)]
pub struct StatusProgressStorage {
    field: FieldPath,
    touch_field: FieldPath,
    writes: bool,
}

/// Stores the last-handled state in the status, in Kopf's format: text in `status.{name}.last-handled-configuration`.
#[derive(Clone, Debug)]
pub struct StatusDiffBaseStorage {
    field: FieldPath,
    ignored: Vec<FieldPath>,
}

impl StatusProgressStorage {
    /// Creates a storage under `status.{name}`; Kopf's default is `kopf`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            field: FieldPath::from_parts(["status", name, "progress"]),
            touch_field: FieldPath::from_parts(["status", name, "dummy"]),
            writes: true,
        }
    }
    /// Uses another field than `status.{name}.progress`.
    #[must_use]
    pub fn field(mut self, field: &str) -> Self {
        self.field = FieldPath::parse(field);
        self
    }
    /// Reads and removes existing records, but stores none.
    pub(super) fn for_reading(mut self) -> Self {
        self.writes = false;
        self
    }
}

impl Default for StatusProgressStorage {
    fn default() -> Self {
        Self::new("kopf")
    }
}

impl ProgressStorage for StatusProgressStorage {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, StorageError> {
        let records = self.field.resolve(body).and_then(Value::as_object);
        let record = records.and_then(|records| records.get(id));
        let Some(record) = record.filter(|record| !record.is_null()) else {
            return Ok(None);
        };
        let record = Record::from_value(record).map(Some);
        record.map_err(|why| format!("{}.{id}: {why}", self.field).into())
    }
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        if !self.writes {
            return Ok(());
        }
        let fields = record.kopf_fields().into_iter();
        let fields: Map<_, _> = fields.map(|(key, value)| (key.to_owned(), value)).collect();
        remove(body, &parts(&self.touch_field), patch);
        patch.put(&within(&self.field, id), fields.into());
        Ok(())
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        if self.writes {
            remove(body, &parts(&self.touch_field), patch);
        }
        remove(body, &within(&self.field, id), patch);
        Ok(())
    }
    fn clear(&self, essence: &mut Value) {
        drop_field(essence, &self.field);
    }
}

impl StatusDiffBaseStorage {
    /// Creates a storage under `status.{name}`; Kopf's default is `kopf`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            field: FieldPath::from_parts(["status", name, "last-handled-configuration"]),
            ignored: Vec::new(),
        }
    }
    /// Uses another field than `status.{name}.last-handled-configuration`.
    #[must_use]
    pub fn field(mut self, field: &str) -> Self {
        self.field = FieldPath::parse(field);
        self
    }
    /// Ignores changes of a field, such as `spec.replicas`. May be called repeatedly.
    #[must_use]
    pub fn ignored_field(mut self, field: &str) -> Self {
        self.ignored.push(FieldPath::parse(field));
        self
    }
}

impl Default for StatusDiffBaseStorage {
    fn default() -> Self {
        Self::new("kopf")
    }
}

impl DiffBaseStorage for StatusDiffBaseStorage {
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        let Some(text) = self.field.resolve(body) else {
            return Ok(None);
        };
        let essence = serde_json::from_str(text.as_str().unwrap_or_default());
        essence.map_err(|error| format!("{}: {error}", self.field).into())
    }
    fn store(&self, essence: &Value, _: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        patch.put(&parts(&self.field), dumps_essence(essence).into());
        Ok(())
    }
    fn clear(&self, essence: &mut Value) {
        drop_field(essence, &self.field);
        for field in &self.ignored {
            drop_field(essence, field);
        }
    }
}

fn parts(field: &FieldPath) -> Vec<&str> {
    field.parts().iter().map(String::as_str).collect()
}

fn within<'a>(field: &'a FieldPath, key: &'a str) -> Vec<&'a str> {
    let mut parts = parts(field);
    parts.push(key);
    parts
}

fn remove(body: &Body, at: &[&str], patch: &mut Patch) {
    let field = FieldPath::from_parts(at.iter().copied());
    if field.resolve(body).is_some() {
        patch.put(at, Value::Null);
    } else {
        patch.unset(at);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_objects_with_nulls() {
        let storage = StatusProgressStorage::default();
        let text =
            r#"{"started":"2026-11-21T04:02:54.519710+00:00","retries":1,"success":false,"failure":false}"#;
        let record = Record::from_json(text).unwrap();
        let (body, mut patch) = (Body::new(json!({})), Patch::new());
        storage.store("f/spec.a", &record, &body, &mut patch).unwrap();
        assert_eq!(
            patch["status"],
            json!({"kopf": {"progress": {"f/spec.a": {
                "started": "2026-11-21T04:02:54.519710+00:00", "stopped": null, "delayed": null, "purpose": null, "retries": 1,
                "success": false, "failure": false, "message": null, "subrefs": null,
            }}}})
        );
        let body = Body::new(patch.as_value().clone());
        assert_eq!(storage.fetch("f/spec.a", &body), Ok(Some(record)));
        let mut patch = Patch::new();
        storage.purge("f/spec.a", &body, &mut patch).unwrap();
        assert_eq!(patch["status"], json!({"kopf": {"progress": {"f/spec.a": null}}}));
    }

    #[test]
    fn the_essence_is_text() {
        let storage = StatusDiffBaseStorage::new("op");
        let (essence, mut patch) = (json!({"spec": {"a": 1}}), Patch::new());
        let body = Body::new(json!({"status": {"op": 7}}));
        storage.store(&essence, &body, &mut patch).unwrap();
        assert_eq!(patch["status"]["op"]["last-handled-configuration"], json!(r#"{"spec":{"a":1}}"#));
        let stored = Body::new(patch.as_value().clone());
        assert_eq!(storage.fetch(&stored), Ok(Some(essence)));
        assert_eq!(storage.fetch(&body), Ok(None));
        let mut essence = patch.as_value().clone();
        storage.clear(&mut essence);
        assert_eq!(essence, json!({}));
    }
}
