//! Dotted field paths, such as `spec.template.metadata`.

use std::fmt;

use serde_json::Value;

/// Where a field is in an object. Empty = the whole object. Missing keys, lists and scalars on the way read as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Split `text` at dots.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(
            text.split('.')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
    /// Take the parts as they are: for keys with dots.
    pub fn from_parts<S: Into<String>>(parts: impl IntoIterator<Item = S>) -> Self {
        Self(parts.into_iter().map(Into::into).collect())
    }
    /// The keys from the root on.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.0
    }
    /// What stands there.
    #[must_use]
    pub fn resolve<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0
            .iter()
            .try_fold(root, |value, key| value.as_object()?.get(key))
            .filter(|value| !value.is_null())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}
