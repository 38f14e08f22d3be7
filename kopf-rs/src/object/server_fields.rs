//! Protects the metadata fields that the server owns, such as the identity of an object: handlers cannot change them.
//!
//! This module guarantees that the remaining change can be sent. It must not depend on the origin of the change.

use serde_json::{Map, Value};

use crate::object::patch::Patch;

const TOP: [&str; 2] = ["apiVersion", "kind"];

const METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

/// Removes the server's fields from a merge patch, and returns the names of those that would have changed `found`.
pub(crate) fn strip(patch: &mut Patch, found: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    for key in TOP {
        let wanted = patch.get(&[key]).filter(|wanted| **wanted != found[key]);
        lost.extend(wanted.map(|_| key.to_owned()));
        patch.unset(&[key]);
    }
    let Some(metadata) = patch.get(&["metadata"]) else {
        return lost;
    };
    if !metadata.is_object() {
        patch.unset(&["metadata"]);
        lost.push("metadata".to_owned());
        return lost;
    }
    for key in METADATA {
        let place = ["metadata", key];
        let wanted = patch.get(&place);
        let wanted = wanted.filter(|wanted| **wanted != found["metadata"][key]);
        lost.extend(wanted.map(|_| format!("metadata.{key}")));
        patch.unset(&place);
    }
    lost
}

/// Removes invalid annotations such as `null` from a merge patch: it must not remove all annotations, because some are the operator's.
pub(crate) fn strip_annotations(patch: &mut Patch) -> Option<String> {
    const PLACE: [&str; 2] = ["metadata", "annotations"];
    let is_wrong = patch.get(&PLACE).is_some_and(|it| !it.is_object());
    is_wrong.then(|| {
        patch.unset(&PLACE);
        PLACE.join(".")
    })
}

/// Restores annotations from `before` if a change has replaced them by another type, such as text.
pub(crate) fn restore_annotations(before: &Value, changed: &mut Value) -> Option<String> {
    let metadata = changed.get_mut("metadata").and_then(Value::as_object_mut)?;
    let annotations = metadata.get("annotations");
    if annotations.is_none_or(|it| it.is_object() || it.is_null()) {
        return None;
    }
    put_back("annotations", &before["metadata"], metadata).then(|| "metadata.annotations".to_owned())
}

/// Restores the server's fields from `found`, and returns the names of those that had changed.
pub(crate) fn restore(found: &Value, changed: &mut Value) -> Vec<String> {
    let Some(object) = changed.as_object_mut() else {
        changed.clone_from(found);
        return vec!["the whole object".to_owned()];
    };
    let mut lost = Vec::new();
    for key in TOP {
        if put_back(key, found, object) {
            lost.push(key.to_owned());
        }
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        object.insert("metadata".to_owned(), found["metadata"].clone());
        lost.push("metadata".to_owned());
        return lost;
    };
    for key in METADATA {
        if put_back(key, &found["metadata"], metadata) {
            lost.push(format!("metadata.{key}"));
        }
    }
    lost
}

/// Restores one field, and returns true if it had changed.
fn put_back(key: &str, found: &Value, object: &mut Map<String, Value>) -> bool {
    let (found, changed) = (found.get(key), object.get(key));
    if found == changed {
        return false;
    }
    match found {
        Some(found) => object.insert(key.to_owned(), found.clone()),
        None => object.remove(key),
    };
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found() -> Value {
        json!({"kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}}, "spec": 1})
    }

    #[test]
    fn patches_lose_fields_of_the_server() {
        for (patch, left, lost) in [
            (json!({"kind": "K", "spec": 2}), json!({"spec": 2}), vec![]),
            (json!({"kind": "L"}), json!({}), vec!["kind"]),
            (json!({"metadata": "x", "spec": 2}), json!({"spec": 2}), vec!["metadata"]),
            (json!({"metadata": null}), json!({}), vec!["metadata"]),
            (
                json!({"metadata": {"uid": "v", "name": "a", "labels": {"l": "2"}}}),
                json!({"metadata": {"labels": {"l": "2"}}}),
                vec!["metadata.uid"],
            ),
        ] {
            let mut stripped = Patch::new();
            stripped.merge(patch.clone());
            assert_eq!(strip(&mut stripped, &found()), lost, "{patch}");
            assert_eq!(*stripped.as_value(), left, "{patch}");
        }
    }

    #[test]
    fn fields_of_the_server_are_restored() {
        for (change, wanted, lost) in [
            (json!({"spec": 2}), json!({"spec": 2}), vec![]),
            (json!({"kind": null}), json!({}), vec!["kind"]),
            (
                json!({"metadata": {"uid": "v", "generation": 3, "labels": {"l": "2"}}}),
                json!({"metadata": {"labels": {"l": "2"}}}),
                vec!["metadata.generation", "metadata.uid"],
            ),
            (json!({"metadata": null}), json!({}), vec!["metadata"]),
            (json!("x"), json!({}), vec!["the whole object"]),
        ] {
            let (mut changed, mut expected) = (found(), found());
            crate::object::patch::apply(&mut changed, &change);
            crate::object::patch::apply(&mut expected, &wanted);
            assert_eq!(restore(&found(), &mut changed), lost, "{change}");
            assert_eq!(changed, expected, "{change}");
        }
    }
}
