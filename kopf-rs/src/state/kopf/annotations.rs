//! Kopf's storages in annotations: one per record, and one for the last-handled state.
//!
//! This module must not depend on other places.

use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::object::path::FieldPath;
use crate::state::kopf::PREFIX;
use crate::state::kopf::dumps::{dumps_essence, dumps_in_order};
use crate::state::kopf::keys::Keys;
use crate::state::naming::LAST_HANDLED;
use crate::state::progress::Record;
use crate::state::storage::{DiffBaseStorage, ProgressStorage, StorageError};

/// Stores progress in annotations, in Kopf's format: `{prefix}/{handler id}`.
///
/// ```
/// use kopf_rs::Persistence;
/// use kopf_rs::storage::{AnnotationsDiffBaseStorage, AnnotationsProgressStorage};
///
/// // As `settings.persistence` of a Kopf operator with a prefix of its own:
/// let persistence = Persistence::kopf()
///     .finalizer("my-op.example.com/finalizer")
///     .progress(AnnotationsProgressStorage::new("my-op.example.com"))
///     .diff_base(AnnotationsDiffBaseStorage::new("my-op.example.com"));
/// ```
#[derive(Clone, Debug)]
pub struct AnnotationsProgressStorage {
    keys: Keys,
    touch_key: String,
    verbose: bool,
}

/// Stores the last-handled state in an annotation, in Kopf's format: `{prefix}/last-handled-configuration`.
#[derive(Clone, Debug)]
pub struct AnnotationsDiffBaseStorage {
    keys: Keys,
    key: String,
    ignored: Vec<FieldPath>,
}

impl AnnotationsProgressStorage {
    /// Creates a storage under `prefix`; Kopf's default is `kopf.zalando.org`.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { keys: Keys::under(prefix), touch_key: "touch-dummy".to_owned(), verbose: false }
    }
    /// Sets whether names by the first version of Kopf's rule are used in addition to those by the second, where they differ. Default: true.
    #[must_use]
    pub fn v1(mut self, v1: bool) -> Self {
        self.keys.v1 = v1;
        self
    }
    /// Sets whether fields without a value are written as `null`. Default: false.
    #[must_use]
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.verbose = verbose;
        self
    }

    /// Removes the annotation by which Kopf wakes itself up, because this operator does not use it.
    fn untouch(&self, body: &Body, patch: &mut Patch) {
        self.keys.remove(&self.touch_key, body, patch);
    }
}

impl Default for AnnotationsProgressStorage {
    fn default() -> Self {
        Self::new(PREFIX)
    }
}

impl ProgressStorage for AnnotationsProgressStorage {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, StorageError> {
        let Some((name, value)) = self.keys.fetch(id, body) else {
            return Ok(None);
        };
        let record = Record::from_json(value.as_str().unwrap_or_default());
        record.map(Some).map_err(|why| in_annotation(&name, &why))
    }
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let fields = record.kopf_fields();
        let written = fields.iter().filter(|(_, value)| self.verbose || !value.is_null());
        let text = dumps_in_order(written.map(|(key, value)| (*key, value)));
        self.untouch(body, patch);
        self.keys.put(id, &text, body, patch);
        Ok(())
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        self.untouch(body, patch);
        self.keys.remove(id, body, patch);
        Ok(())
    }
    fn check(&self) -> Result<(), StorageError> {
        self.keys.check()
    }
    fn clear(&self, essence: &mut Value) {
        drop_prefix(essence, &self.keys.prefix);
    }
}

impl AnnotationsDiffBaseStorage {
    /// Creates a storage under `prefix`; Kopf's default is `kopf.zalando.org`.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { keys: Keys::under(prefix), key: LAST_HANDLED.to_owned(), ignored: Vec::new() }
    }
    /// Sets the name part of the annotation. Default: `last-handled-configuration`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }
    /// Sets whether the name by the first version of Kopf's rule is used in addition to that by the second, where they differ. Default: true.
    #[must_use]
    pub fn v1(mut self, v1: bool) -> Self {
        self.keys.v1 = v1;
        self
    }
    /// Ignores changes of a field, such as `spec.replicas`. May be called repeatedly.
    #[must_use]
    pub fn ignored_field(mut self, field: &str) -> Self {
        self.ignored.push(FieldPath::parse(field));
        self
    }
}

impl Default for AnnotationsDiffBaseStorage {
    fn default() -> Self {
        Self::new(PREFIX)
    }
}

impl DiffBaseStorage for AnnotationsDiffBaseStorage {
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        let Some((name, value)) = self.keys.fetch(&self.key, body) else {
            return Ok(None);
        };
        let essence = serde_json::from_str(value.as_str().unwrap_or_default());
        essence.map_err(|error| in_annotation(&name, &error.to_string()))
    }
    fn store(&self, essence: &Value, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let text = dumps_essence(essence) + "\n";
        self.keys.put(&self.key, &text, body, patch);
        Ok(())
    }
    fn check(&self) -> Result<(), StorageError> {
        self.keys.check()
    }
    fn clear(&self, essence: &mut Value) {
        drop_prefix(essence, &self.keys.prefix);
        for field in &self.ignored {
            drop_field(essence, field);
        }
    }
}

fn in_annotation(name: &str, why: &str) -> StorageError {
    format!("annotation {name}: {why}").into()
}

/// Removes all annotations under `prefix`, and stanzas that become empty.
fn drop_prefix(essence: &mut Value, prefix: &str) {
    let own = |key: &String| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let annotations = essence.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    annotations.retain(|key, _| !own(key));
    if annotations.is_empty() {
        drop_field(essence, &FieldPath::from_parts(["metadata", "annotations"]));
    }
}

/// Removes a field, and parents that become empty.
pub(super) fn drop_field(value: &mut Value, field: &FieldPath) {
    drop_parts(value, field.parts());
}

fn drop_parts(value: &mut Value, parts: &[String]) {
    let (Some((key, rest)), Value::Object(members)) = (parts.split_first(), value) else {
        return;
    };
    let Some(member) = members.get_mut(key) else {
        return;
    };
    if !rest.is_empty() {
        drop_parts(member, rest);
    }
    let emptied = member.as_object().is_some_and(serde_json::Map::is_empty);
    if rest.is_empty() || emptied {
        members.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RECORD: &str = r#"{"started":"2026-11-21T04:02:54.519710+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"nöt"}"#;

    fn annotated(key: &str, value: &str) -> Body {
        Body::new(json!({"metadata": {"annotations": {(key): value}}}))
    }

    #[test]
    fn records_come_and_go_under_both_names() {
        let storage = AnnotationsProgressStorage::default();
        let (body, mut patch) = (Body::new(json!({})), Patch::new());
        let id = "x".repeat(50);
        let record = Record::from_json(RECORD).unwrap();
        storage.store(&id, &record, &body, &mut patch).unwrap();
        let stored = patch["metadata"]["annotations"].clone();
        let written = stored.as_object().unwrap();
        assert_eq!(written.len(), 2);
        let expected = RECORD.replace('ö', "\\u00f6");
        assert!(written.values().all(|value| *value == json!(expected)));
        for name in written.keys() {
            let body = annotated(name, RECORD);
            assert_eq!(storage.fetch(&id, &body).unwrap().as_ref(), Some(&record));
            let mut patch = Patch::new();
            storage.purge(&id, &body, &mut patch).unwrap();
            assert_eq!(patch["metadata"]["annotations"], json!({(name): null}));
        }
        storage.purge(&id, &body, &mut patch).unwrap();
        assert!(patch.is_empty());
    }

    #[test]
    fn verbose_records_have_nulls_and_other_prefixes_a_marker() {
        let storage = AnnotationsProgressStorage::new("my-op.example.com").verbose(true);
        let mut patch = Patch::new();
        let record = Record::from_json(RECORD).unwrap();
        let body = annotated("my-op.example.com/touch-dummy", "2026");
        storage.store("f", &record, &body, &mut patch).unwrap();
        let annotations = &patch["metadata"]["annotations"];
        assert!(
            annotations["my-op.example.com/f"]
                .as_str()
                .unwrap()
                .contains(r#""stopped":null,"delayed":null,"purpose":"create""#)
        );
        assert_eq!(annotations["my-op.example.com/kopf-managed"], json!("yes"));
        assert_eq!(annotations["my-op.example.com/touch-dummy"], json!(null));
    }

    #[test]
    fn damage_names_the_annotation() {
        let storage = AnnotationsProgressStorage::default();
        let error = storage.fetch("f", &annotated("kopf.zalando.org/f", "{\"sta")).unwrap_err();
        assert!(error.to_string().starts_with("annotation kopf.zalando.org/f: "), "{error}");
        let storage = AnnotationsDiffBaseStorage::default();
        let body = annotated("kopf.zalando.org/last-handled-configuration", "");
        assert!(storage.fetch(&body).is_err());
        assert_eq!(storage.fetch(&Body::new(json!({}))), Ok(None));
    }

    #[test]
    fn the_essence_is_one_line() {
        let storage = AnnotationsDiffBaseStorage::default().ignored_field("spec.b");
        let mut essence =
            json!({"spec": {"b": {"c": 1}}, "metadata": {"annotations": {"kopf.zalando.org/f": "1"}}});
        storage.clear(&mut essence);
        assert_eq!(essence, json!({}));
        let mut patch = Patch::new();
        let essence = json!({"spec": {"field": "v"}});
        storage.store(&essence, &Body::new(json!({})), &mut patch).unwrap();
        let text = &patch["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"];
        assert_eq!(*text, json!("{\"spec\":{\"field\":\"v\"}}\n"));
        assert_eq!(storage.fetch(&Body::new(patch.as_value().clone())), Ok(Some(essence)));
    }
}
