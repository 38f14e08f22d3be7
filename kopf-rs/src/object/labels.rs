//! Labels or annotations: text by name.

use std::ops::Index;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The labels or annotations of an object.
///
/// An absent one is `None`, or `null` if read by indexing, as in `spec`:
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples", when = |cause| cause.labels().get("tier") == Some("gold"))]
/// async fn create_fn(labels: &Labels, annotations: &Labels) {
///     if labels["app"] == "web" && annotations["example.com/owner"].is_null() {
///         info!("nobody owns this");
///     }
/// }
///
/// # async fn test() {
/// // In a unit test:
/// create_fn(&Labels::from([("app", "web")]), &Labels::new()).await;
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels(Map<String, Value>);

impl Labels {
    /// Creates an empty set of labels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns the value of the label called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
    /// Returns true if there is a label called `name`.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    /// Returns names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }
    /// Returns the number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Returns true if there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the labels as raw JSON.
    pub(crate) fn map(&self) -> &Map<String, Value> {
        &self.0
    }
    /// Reads a stanza of `metadata`; a value that is not a map yields no labels.
    pub(crate) fn of(stanza: &Value) -> Self {
        Self(stanza.as_object().cloned().unwrap_or_default())
    }
}

impl Index<&str> for Labels {
    type Output = Value;
    fn index(&self, name: &str) -> &Value {
        static ABSENT: Value = Value::Null;
        self.0.get(name).unwrap_or(&ABSENT)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let all = all.into_iter();
        Self(all.map(|(name, value)| (name.into(), Value::String(value.into()))).collect())
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Labels {
    fn from(all: [(K, V); N]) -> Self {
        all.into_iter().collect()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
