//! Redacts objects for logs and other readers: values of Secrets are replaced by digests.
//!
//! Contains total functions over plain values. This module must not depend on the readers or the log level.

use std::sync::Arc;

use serde_json::Value;

use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::essence::{HIDDEN, conceal, is_secret};
use crate::object::patch::Patch;
use crate::object::path::FieldPath;

/// Annotations that contain a copy of the object.
const COPIES: [&str; 2] = ["last-applied-configuration", "last-handled-configuration"];

/// Returns the redacted object.
pub(crate) fn body(body: &Arc<Body>) -> Arc<Body> {
    if !is_secret(body) {
        return body.clone();
    }
    let mut told = Value::clone(body);
    hide(&mut told, body.uid());
    Arc::new(Body::new(told))
}

/// Returns the redacted differences of the object.
pub(crate) fn diff(diff: &Arc<Diff>, body: &Body) -> Arc<Diff> {
    if !is_secret(body) {
        return diff.clone();
    }
    let told = |field: &FieldPath, value: &Value| {
        // Redacts the difference as a part of the whole object.
        let parts = field.parts().iter().rev();
        let mut whole = parts
            .fold(value.clone(), |inner, key| Value::Object([(key.clone(), inner)].into_iter().collect()));
        hide(&mut whole, body.uid());
        field.resolve(&whole).cloned().unwrap_or_default()
    };
    Arc::new(diff.map_values(told))
}

/// Returns the redacted patch of a Secret with this uid.
pub(crate) fn patch_of_secret(patch: &Patch, uid: &str) -> Patch {
    let mut told = patch.clone();
    for stanza in HIDDEN.into_iter().chain(["metadata"]) {
        if let Some(value) = patch.get(&[stanza]) {
            let mut part = Value::Object([(stanza.to_owned(), value.clone())].into_iter().collect());
            hide(&mut part, uid);
            told.put(&[stanza], part[stanza].take());
        }
    }
    told
}

/// Replaces all values of a Secret by digests.
fn hide(secret: &mut Value, salt: &str) {
    for stanza in HIDDEN {
        if let Some(values) = secret.get_mut(stanza) {
            *values = conceal(values, salt);
        }
    }
    let annotations = secret.pointer_mut("/metadata/annotations");
    let annotations = annotations.and_then(Value::as_object_mut);
    for (key, value) in annotations.into_iter().flatten() {
        if COPIES.iter().any(|copy| key.ends_with(copy)) && !value.is_null() {
            *value = "(not shown)".into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> Arc<Body> {
        let copy = "kubectl.kubernetes.io/last-applied-configuration";
        Arc::new(Body::new(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"uid": "u", "annotations": {copy: "{\"data\":\"word\"}", "mine": "kept"}},
            "data": {"key": "word"}, "stringData": {"key": "word"}
        })))
    }

    #[test]
    fn a_secret_is_shown_as_digests() {
        let told = body(&secret());
        let text = Value::clone(&told).to_string();
        assert!(!text.contains("word"), "{text}");
        assert_eq!(told["metadata"]["annotations"]["mine"], "kept");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "word"}});
        let map = Arc::new(Body::new(map));
        assert_eq!(body(&map), map);
    }

    #[test]
    fn so_are_its_differences_and_patches() {
        let old = json!({"data": {"key": "old word", "gone": "word"}, "type": "Opaque"});
        let new = json!({"data": {"key": "word"}, "stringData": {"key": "word"}, "type": "mine"});
        let changes = Arc::new(Diff::between(Some(&old), Some(&new)));
        let told = diff(&changes, &secret()).to_string();
        assert!(!told.contains("word"), "{told}");
        assert!(told.contains("('change', ('type',), 'Opaque', 'mine')"), "{told}");
        assert!(told.contains("('remove', ('data', 'gone'), 'digest:"), "{told}");
        assert!(told.contains("('stringData',), None, {'key': 'digest:"), "{told}");
        let mut patch = Patch::new();
        patch["data"] = json!({"key": "word", "gone": null});
        patch["metadata"]["labels"]["a"] = "kept".into();
        let told = patch_of_secret(&patch, "u");
        let told = told.as_value();
        assert!(!told.to_string().contains("word"), "{told}");
        assert_eq!(told["data"]["gone"], json!(null));
        assert_eq!(told["metadata"]["labels"]["a"], "kept");
    }
}
