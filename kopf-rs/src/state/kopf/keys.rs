//! Kopf's names of annotations, in both versions of its rule.
//!
//! This module guarantees Kopf's names for all ids that Kopf can name. Ids for which Kopf creates names that no
//! server accepts are encoded instead. It must not depend on the values under the names.

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::naming::{Annotations, handler_name, is_valid_name, is_valid_prefix, own, suffix};
use crate::state::storage::StorageError;
use serde_json::Value;

/// The maximum length of an annotation's name part; in the first version of the rule, of the whole name.
const LONGEST: isize = 63;

/// The annotations under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) prefix: String,
    /// True if names by the first version of the rule are also written and read.
    pub(crate) v1: bool,
}

impl Keys {
    pub(crate) fn under(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), v1: true }
    }

    /// Checks that a server accepts the names.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        if is_valid_prefix(&self.prefix) {
            return Ok(());
        }
        let text = format!(
            "the prefix `{}` of annotations cannot be used: expected a DNS name in lower case, such as `my-operator.example.com`",
            self.prefix
        );
        Err(text.into())
    }

    /// Returns all names for `key`, that of the second version first.
    pub(crate) fn of(&self, key: &str, body: &Body) -> Vec<String> {
        let key = &*own(key, body);
        let mut keys = vec![self.name(key, LONGEST, key)];
        if self.v1 {
            // In the first version of the rule the prefix counts too, and the digest is that of the safe key.
            let room = LONGEST - self.prefix.len().cast_signed() - 1;
            let first = self.name(key, room, &safe(key));
            if first != keys[0] {
                keys.push(first);
            }
        }
        keys
    }

    /// Returns the first of these names that the object has, and its value.
    pub(crate) fn fetch<'a>(&self, key: &str, body: &'a Body) -> Option<(String, &'a Value)> {
        let annotations = body.annotation_map();
        self.of(key, body).into_iter().find_map(|name| {
            let value = annotations.get(&name).filter(|value| !value.is_null())?;
            Some((name, value))
        })
    }

    /// Writes an annotation under all its names, plus the marker if Kopf would not recognise the prefix.
    pub(crate) fn put(&self, key: &str, value: &str, body: &Body, patch: &mut Patch) {
        for name in self.of(key, body) {
            patch.put(&["metadata", "annotations", &name], value.into());
        }
        let marker = format!("{}/kopf-managed", self.prefix);
        if !self.prefix.starts_with("kopf.") && !body.annotation_map().contains_key(&marker) {
            patch.put(&["metadata", "annotations", &marker], "yes".into());
        }
    }

    /// Removes an annotation from the object or from the patch, under all its names.
    pub(crate) fn remove(&self, key: &str, body: &Body, patch: &mut Patch) {
        for name in self.of(key, body) {
            Annotations::remove(&name, body, patch);
        }
    }

    /// Returns the name for a key, which is shortened to `room` with a digest of `digested`, or encoded if no server would accept it.
    fn name(&self, key: &str, room: isize, digested: &str) -> String {
        let mut name = safe(key);
        if name.len().cast_signed() > room {
            let suffix = suffix(digested);
            let head = head(&name, room - suffix.len().cast_signed());
            name = format!("{head}{suffix}");
        }
        if !is_valid_name(&name) {
            name = handler_name(key);
        }
        format!("{}/{name}", self.prefix)
    }
}

fn safe(key: &str) -> String {
    key.replace('/', ".").replace(['<', '>'], "_")
}

/// Returns the first `length` bytes; a negative length removes that many bytes from the end, as in Python.
fn head(text: &str, length: isize) -> &str {
    let length = match usize::try_from(length) {
        Ok(length) => length.min(text.len()),
        Err(_) => text.len().saturating_sub(length.unsigned_abs()),
    };
    let boundary = (0..=length).rev().find(|at| text.is_char_boundary(*at));
    &text[..boundary.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_of_the_rule() {
        let keys = Keys::under("kopf.zalando.org");
        let body = Body::new(json!({}));
        let x = |count| "x".repeat(count);
        for (id, second, first) in [
            ("create_fn".to_owned(), "create_fn".to_owned(), None),
            (x(46), x(46), None),
            (x(47), x(47), Some(x(39) + "-xRCOAQ")),
            (x(64), x(56) + "-SItAqA", Some(x(39) + "-SItAqA")),
            (
                format!("parent/{}", "y".repeat(60)),
                format!("parent.{}-qhWf2w", "y".repeat(49)),
                Some(format!("parent.{}-Dt-lpw", "y".repeat(32))),
            ),
            ("a/".repeat(32), "a.".repeat(28) + "-KEa9pg", Some("a.".repeat(19) + "a-VDveXQ")),
        ] {
            let expected: Vec<_> = [Some(second), first].into_iter().flatten().collect();
            let expected: Vec<_> = expected.iter().map(|name| format!("kopf.zalando.org/{name}")).collect();
            assert_eq!(keys.of(&id, &body), expected);
        }
    }

    #[test]
    fn ids_that_kopf_cannot_name_get_valid_names() {
        let keys = Keys::under("kopf.zalando.org");
        for id in ["lambda:/x/y.py:12", "fn/spec.größe", "_private", "ß"] {
            for name in keys.of(id, &Body::new(json!({}))) {
                assert!(is_valid_name(&name["kopf.zalando.org/".len()..]), "{name}");
            }
        }
    }
}
