//! The body of an object: a JSON tree with Kubernetes' well-known stanzas.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::object::labels::Labels;
use crate::object::reference::Reference;

/// A whole Kubernetes object. Dereferences to its JSON; an absent stanza reads as `null` or empty.
#[derive(Clone, Debug)]
pub struct Body {
    value: Value,
    /// Made where they are asked for.
    labels: OnceLock<Labels>,
    annotations: OnceLock<Labels>,
}

impl Body {
    /// Wrap the JSON of an object.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self {
            value,
            labels: OnceLock::new(),
            annotations: OnceLock::new(),
        }
    }
    /// The stanza `spec`.
    #[must_use]
    pub fn spec(&self) -> &Value {
        &self.value["spec"]
    }
    /// The stanza `status`.
    #[must_use]
    pub fn status(&self) -> &Value {
        &self.value["status"]
    }
    /// The stanza `metadata`.
    #[must_use]
    pub fn metadata(&self) -> &Value {
        &self.value["metadata"]
    }
    /// `metadata.name`, empty where absent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata()["name"].as_str().unwrap_or_default()
    }
    /// `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.metadata()["namespace"].as_str()
    }
    /// `metadata.uid`, empty where absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata()["uid"].as_str().unwrap_or_default()
    }
    /// `metadata.resourceVersion`, empty where absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.metadata()["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }
    /// `metadata.labels`.
    pub fn labels(&self) -> &Labels {
        self.labels
            .get_or_init(|| Labels::of(&self.metadata()["labels"]))
    }
    /// `metadata.annotations`.
    pub fn annotations(&self) -> &Labels {
        self.annotations
            .get_or_init(|| Labels::of(&self.metadata()["annotations"]))
    }
    /// `metadata.labels` as they stand in the object.
    pub(crate) fn label_map(&self) -> &Map<String, Value> {
        map(&self.metadata()["labels"])
    }
    /// `metadata.annotations` as they stand in the object.
    pub(crate) fn annotation_map(&self) -> &Map<String, Value> {
        map(&self.metadata()["annotations"])
    }
    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        !self.metadata()["deletionTimestamp"].is_null()
    }
    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata()["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }
    /// What others need to name this object.
    #[must_use]
    pub fn reference(&self) -> Reference {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Reference {
            api_version: text(&self.value["apiVersion"]),
            kind: text(&self.value["kind"]),
            name: self.name().to_owned(),
            namespace: self.namespace().map(str::to_owned),
            uid: self.uid().to_owned(),
        }
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl Deref for Body {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.value
    }
}

fn map(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}
