//! Kopf's combined storages, which migrate from one place to another; one of them is Kopf's default.
//!
//! This module must not depend on the combined storages.

use std::sync::Arc;

use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::kopf::annotations::AnnotationsProgressStorage;
use crate::state::kopf::status::StatusProgressStorage;
use crate::state::progress::Record;
use crate::state::storage::{DiffBaseStorage, ProgressStorage, StorageError};

/// Stores progress in several places: reads from the first that has a record, and writes to all.
///
/// ```
/// use kopf_rs::Persistence;
/// use kopf_rs::storage::{AnnotationsProgressStorage, MultiProgressStorage, StatusProgressStorage};
///
/// // Moving from the status to annotations:
/// let both = MultiProgressStorage::default()
///     .and(AnnotationsProgressStorage::default())
///     .and(StatusProgressStorage::default());
/// let persistence = Persistence::kopf().progress(both);
/// ```
#[derive(Clone, Default)]
pub struct MultiProgressStorage(Vec<Arc<dyn ProgressStorage>>);

/// Stores the last-handled state in several places: reads from the first that has it, and writes to all.
#[derive(Clone, Default)]
pub struct MultiDiffBaseStorage(Vec<Arc<dyn DiffBaseStorage>>);

/// Kopf's default: stores progress in annotations, and migrates records found in the status by reading and removing them.
#[derive(Clone)]
pub struct SmartProgressStorage(MultiProgressStorage);

impl MultiProgressStorage {
    /// Adds another place, after the existing ones.
    #[must_use]
    pub fn and(mut self, storage: impl ProgressStorage + 'static) -> Self {
        self.0.push(Arc::new(storage));
        self
    }
}

impl MultiDiffBaseStorage {
    /// Adds another place, after the existing ones.
    #[must_use]
    pub fn and(mut self, storage: impl DiffBaseStorage + 'static) -> Self {
        self.0.push(Arc::new(storage));
        self
    }
}

impl SmartProgressStorage {
    /// Uses annotations under `prefix`, and the status under `status.{name}`; Kopf's defaults are `kopf.zalando.org` and `kopf`.
    #[must_use]
    pub fn new(prefix: impl Into<String>, name: &str) -> Self {
        let multi = MultiProgressStorage::default()
            .and(AnnotationsProgressStorage::new(prefix))
            .and(StatusProgressStorage::new(name).for_reading());
        Self(multi)
    }
}

impl Default for SmartProgressStorage {
    fn default() -> Self {
        Self::new(super::PREFIX, "kopf")
    }
}

impl ProgressStorage for MultiProgressStorage {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, StorageError> {
        first(self.0.iter().map(|storage| storage.fetch(id, body)))
    }
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let mut all = self.0.iter();
        all.try_for_each(|storage| storage.store(id, record, body, patch))
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let mut all = self.0.iter();
        all.try_for_each(|storage| storage.purge(id, body, patch))
    }
    fn check(&self) -> Result<(), StorageError> {
        self.0.iter().try_for_each(|storage| storage.check())
    }
    fn clear(&self, essence: &mut Value) {
        self.0.iter().for_each(|storage| storage.clear(essence));
    }
}

impl DiffBaseStorage for MultiDiffBaseStorage {
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        first(self.0.iter().map(|storage| storage.fetch(body)))
    }
    fn store(&self, essence: &Value, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let mut all = self.0.iter();
        all.try_for_each(|storage| storage.store(essence, body, patch))
    }
    fn check(&self) -> Result<(), StorageError> {
        self.0.iter().try_for_each(|storage| storage.check())
    }
    fn clear(&self, essence: &mut Value) {
        self.0.iter().for_each(|storage| storage.clear(essence));
    }
}

impl ProgressStorage for SmartProgressStorage {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, StorageError> {
        self.0.fetch(id, body)
    }
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.0.store(id, record, body, patch)
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.0.purge(id, body, patch)
    }
    fn check(&self) -> Result<(), StorageError> {
        self.0.check()
    }
    fn clear(&self, essence: &mut Value) {
        self.0.clear(essence);
    }
}

type Fetched<T> = Result<Option<T>, StorageError>;

/// Returns the first result that is not empty, including a failure.
fn first<T: PartialEq>(mut fetched: impl Iterator<Item = Fetched<T>>) -> Fetched<T> {
    fetched.find(|it| *it != Ok(None)).unwrap_or(Ok(None))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::kopf::annotations::AnnotationsDiffBaseStorage;
    use crate::state::kopf::status::StatusDiffBaseStorage;

    const RECORD: &str =
        r#"{"started":"2026-11-21T04:02:54.519710+00:00","retries":1,"success":false,"failure":false}"#;

    #[test]
    fn the_smart_one_reads_the_status_and_writes_annotations() {
        let smart = SmartProgressStorage::default();
        let value: Value = serde_json::from_str(RECORD).unwrap();
        let body = Body::new(json!({"status": {"kopf": {"progress": {"f": value}}}}));
        let record = smart.fetch("f", &body).unwrap().unwrap();
        let mut patch = Patch::new();
        smart.store("f", &record, &body, &mut patch).unwrap();
        assert_eq!(*patch.as_value(), json!({"metadata": {"annotations": {"kopf.zalando.org/f": RECORD}}}));
        let mut patch = Patch::new();
        smart.purge("f", &body, &mut patch).unwrap();
        assert_eq!(*patch.as_value(), json!({"status": {"kopf": {"progress": {"f": null}}}}));
    }

    #[test]
    fn the_first_that_has_it_is_believed() {
        let both = MultiDiffBaseStorage::default()
            .and(AnnotationsDiffBaseStorage::default())
            .and(StatusDiffBaseStorage::default());
        let mut patch = Patch::new();
        let body = Body::new(json!({}));
        assert_eq!(both.fetch(&body), Ok(None));
        both.store(&json!({"spec": 1}), &body, &mut patch).unwrap();
        let mut stored = Body::new(patch.as_value().clone());
        assert_eq!(both.fetch(&stored), Ok(Some(json!({"spec": 1}))));
        patch["metadata"] = json!(null);
        stored = Body::new(patch.as_value().clone());
        assert_eq!(both.fetch(&stored), Ok(Some(json!({"spec": 1}))));
    }
}
