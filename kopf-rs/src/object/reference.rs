//! References to objects, for log lines, events and owner references.

use std::fmt;

/// A reference to an object. Displays as `namespace/name`, or as `name` if cluster-scoped. [`Body::reference`](crate::Body::reference)
/// creates one from an object; by hand:
///
/// ```
/// use kopf_rs::Reference;
///
/// let mut pod = Reference::default();
/// pod.kind = "Pod".into();
/// pod.name = "one".into();
/// assert_eq!(pod.to_string(), "one");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Reference {
    /// `group/version`, or `v1` for the core group.
    pub api_version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`, if namespaced.
    pub namespace: Option<String>,
    /// `metadata.uid`.
    pub uid: String,
}

impl Reference {
    /// Returns the group of its kind; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        let parts = self.api_version.split_once('/');
        parts.map_or("", |(group, _)| group)
    }

    /// Returns its kind in the form that [`Selector`](crate::Selector) reads: `Kind.group`, or `Kind.v1` for the core group.
    pub(crate) fn kind_word(&self) -> String {
        match self.group() {
            "" => format!("{}.{}", self.kind, self.api_version),
            group => format!("{}.{group}", self.kind),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
