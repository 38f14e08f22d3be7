//! Whole objects inside of objects: `x-kubernetes-embedded-resource`.
//!
//! Promise: such an object has a type, and its metadata is treated as that of any object. Must not know how schemas are
//! walked otherwise.

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::rules;
use crate::status::Cause;

/// Drop what the metadata of an embedded object cannot hold, and name it.
pub(super) fn tidy(map: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) {
    if !map.get("metadata").is_some_and(Value::is_object) {
        return;
    }
    let dropped = rules::tidy(map);
    unknown.extend(dropped.iter().map(|name| super::join(path, name)));
}

/// What is wrong with an embedded object as an object.
pub(super) fn check(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let field = super::join(path, name);
        match map.get(name) {
            None => causes.push(Cause::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(field, &"".into(), "must not be empty"));
            }
            Some(Value::String(_)) => {}
            Some(other) => causes.push(Cause::invalid(field, other, "must be a string")),
        }
    }
    let found = rules::check(&Kind::anonymous(), map);
    // Names of embedded objects may be anything that fits into a path.
    let inner = found.into_iter().filter(|cause| {
        !matches!(
            cause.field.as_str(),
            "metadata.name" | "metadata.generateName"
        )
    });
    causes.extend(inner.map(|cause| Cause {
        field: super::join(path, &cause.field),
        ..cause
    }));
}
