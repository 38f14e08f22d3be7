//! Dotted field paths, such as `spec.template.metadata`.

use std::fmt;

use serde_json::Value;

use crate::object::str_eq::equals_text;

/// The path of a field in an object. An empty path is the whole object. Missing keys, lists and scalars on the path read as absent.
///
/// Created from dotted text, or from names if a name contains dots. Compares with dotted text:
///
/// ```
/// use kopf_rs::FieldPath;
///
/// assert!(FieldPath::from("spec.go") == "spec.go");
/// let label = FieldPath::from(["metadata", "labels", "example.com/app"]);
/// assert_eq!(label, "metadata.labels.example.com/app");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Splits `text` at dots, except within the name of a label or annotation, which may contain dots: `metadata.labels.example.com/app`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts: Vec<String> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let flat = matches!(parts.as_slice(), [.., metadata, last]
                if metadata == "metadata" && (last == "labels" || last == "annotations"));
            let (part, others) = match rest.split_once('.') {
                Some(split) if !flat => split,
                _ => (rest, ""),
            };
            if !part.is_empty() {
                parts.push(part.to_owned());
            }
            rest = others;
        }
        Self(parts)
    }
    /// Uses the parts as they are, for keys with dots.
    pub fn from_parts<S: Into<String>>(parts: impl IntoIterator<Item = S>) -> Self {
        Self(parts.into_iter().map(Into::into).collect())
    }
    /// Returns the keys from the root on.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.0
    }
    /// Returns the value at the path.
    #[must_use]
    pub fn resolve<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0
            .iter()
            .try_fold(root, |value, key| value.as_object()?.get(key))
            .filter(|value| !value.is_null())
    }
}

impl From<&str> for FieldPath {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<&String> for FieldPath {
    fn from(text: &String) -> Self {
        Self::parse(text)
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for FieldPath {
    fn from(names: [S; N]) -> Self {
        Self::from_parts(names)
    }
}

impl From<&Self> for FieldPath {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

equals_text!(FieldPath, |path, text| path.0.join(".") == text);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_separate_names_but_not_within_those_of_labels() {
        for (text, parts) in [
            ("", [].as_slice()),
            (".spec..size.", &["spec", "size"]),
            ("metadata.labels", &["metadata", "labels"]),
            ("metadata.labels.a.b/c.d", &["metadata", "labels", "a.b/c.d"]),
            (
                "spec.template.metadata.annotations.a.b",
                &["spec", "template", "metadata", "annotations", "a.b"],
            ),
            ("spec.labels.a.b", &["spec", "labels", "a", "b"]),
        ] {
            assert_eq!(FieldPath::parse(text).parts(), parts, "{text}");
        }
    }
}
