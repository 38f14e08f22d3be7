//! The body of an object: a JSON tree with Kubernetes' well-known stanzas.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::object::labels::Labels;
use crate::object::reference::Reference;
use crate::object::skim::{find, members};

/// A complete Kubernetes object. Dereferences to its JSON; an absent stanza reads as `null` or empty.
#[derive(Clone, Debug)]
pub struct Body {
    tree: OnceLock<Value>,
    /// The text that the tree is parsed from on first use: thousands of daemons may hold an object and need only its name.
    text: Option<Arc<str>>,
    /// Parsed on first use.
    labels: OnceLock<Labels>,
    annotations: OnceLock<Labels>,
}

impl Body {
    /// Wraps the JSON of an object.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { tree: value.into(), text: None, labels: OnceLock::new(), annotations: OnceLock::new() }
    }
    /// Wraps text that is known to parse.
    pub(crate) fn of_text(text: Arc<str>) -> Self {
        Self {
            tree: OnceLock::new(),
            text: Some(text),
            labels: OnceLock::new(),
            annotations: OnceLock::new(),
        }
    }
    fn tree(&self) -> &Value {
        self.tree.get_or_init(|| {
            let text = self.text.as_deref().unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        })
    }
    /// Returns a string of the metadata without parsing the tree.
    fn metadata_text(&self, key: &str) -> Option<&str> {
        if self.tree.get().is_none()
            && let Some(text) = &self.text
            && let Some(levels) = members(text, &["metadata"])
            && let Some(metadata) = levels.get(1).filter(|it| !it.is_empty())
        {
            let found = find(metadata, key)?.value;
            let plain = found.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            if let Some(plain) = plain.filter(|it| !it.contains('\\')) {
                return Some(plain);
            }
        }
        self.metadata()[key].as_str()
    }
    /// Returns the stanza `spec`.
    #[must_use]
    pub fn spec(&self) -> &Value {
        &self.tree()["spec"]
    }
    /// Returns the stanza `status`.
    #[must_use]
    pub fn status(&self) -> &Value {
        &self.tree()["status"]
    }
    /// Returns the stanza `metadata`.
    #[must_use]
    pub fn metadata(&self) -> &Value {
        &self.tree()["metadata"]
    }
    /// Returns `metadata.name`, or an empty string if absent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata_text("name").unwrap_or_default()
    }
    /// Returns `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.metadata_text("namespace")
    }
    /// Returns `metadata.uid`, or an empty string if absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata_text("uid").unwrap_or_default()
    }
    /// Returns `metadata.resourceVersion`, or an empty string if absent.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.metadata_text("resourceVersion").unwrap_or_default()
    }
    /// Returns `metadata.labels`.
    pub fn labels(&self) -> &Labels {
        self.labels.get_or_init(|| Labels::of(&self.metadata()["labels"]))
    }
    /// Returns `metadata.annotations`.
    pub fn annotations(&self) -> &Labels {
        self.annotations.get_or_init(|| Labels::of(&self.metadata()["annotations"]))
    }
    /// Returns `metadata.labels` as raw JSON.
    pub(crate) fn label_map(&self) -> &Map<String, Value> {
        map(&self.metadata()["labels"])
    }
    /// Returns `metadata.annotations` as raw JSON.
    pub(crate) fn annotation_map(&self) -> &Map<String, Value> {
        map(&self.metadata()["annotations"])
    }
    /// Returns true if `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        !self.metadata()["deletionTimestamp"].is_null()
    }
    /// Returns `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata()["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }
    /// Returns a reference by which other objects can name this object.
    #[must_use]
    pub fn reference(&self) -> Reference {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Reference {
            api_version: text(&self.tree()["apiVersion"]),
            kind: text(&self.tree()["kind"]),
            name: self.name().to_owned(),
            namespace: self.namespace().map(str::to_owned),
            uid: self.uid().to_owned(),
        }
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.tree() == other.tree()
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tree().serialize(serializer)
    }
}

impl Deref for Body {
    type Target = Value;
    fn deref(&self) -> &Value {
        self.tree()
    }
}

fn map(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tree_is_made_for_a_name() {
        let text = r#"{"kind":"X","metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"b":"c"}},"spec":{"name":"no"}}"#;
        let body = Body::of_text(text.into());
        let names = [body.name(), body.uid(), body.resource_version()];
        assert_eq!((names, body.namespace()), (["a", "u", "7"], None));
        assert!(body.tree.get().is_none());
        assert_eq!(&body.labels()["b"], "c");
        assert_eq!((body.name(), body.spec()["name"].as_str()), ("a", Some("no")));
        assert_eq!(body, Body::new(serde_json::from_str(text).unwrap()));
    }

    #[test]
    fn escaped_and_invalid_names_read_as_in_the_tree() {
        let text = r#"{"metadata":{"name":"\u0061","namespace":7}}"#;
        let body = Body::of_text(text.into());
        assert_eq!((body.name(), body.namespace()), ("a", None));
        assert_eq!(Body::of_text("{}".into()).name(), "");
    }
}
