//! The rules of `metadata` that hold for every kind: what is filled in, what is refused, what cannot change.
//!
//! Promise: messages are the real server's. Must not know the store or verbs.

pub(crate) mod names;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Body, finalizers, metadata, metadata_mut, owners, text};
use crate::status::{Cause, Refusal, shown};

/// All annotations of an object together, keys and values.
const ANNOTATION_LIMIT: usize = 256 * 1024;

/// The fields `metadata` may have; others are dropped as the real server drops them.
const FIELDS: [&str; 12] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
];

/// Drop what `metadata` does not carry: unknown fields, nulls, empty lists and maps.
pub(crate) fn tidy(body: &mut Body) {
    metadata_mut(body).retain(|key, value| {
        let known = FIELDS.contains(&key.as_str()) || key == "uid";
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        known && !empty
    });
}

/// Refuse metadata whose parts have the wrong JSON types, as decoding does.
pub(crate) fn check_types(body: &Body) -> Result<(), Refusal> {
    let wrong = |field: &str, wanted: &str, found: &Value| {
        let found = match found {
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Null => "null",
        };
        Refusal::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}"
        ))
    };
    let meta = match body.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(meta)) => meta,
        Some(other) => return Err(wrong("metadata", "v1.ObjectMeta", other)),
    };
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
    ] {
        if let Some(value) = meta.get(field).filter(|v| !v.is_string() && !v.is_null()) {
            return Err(wrong(&format!("metadata.{field}"), "string", value));
        }
    }
    for field in ["labels", "annotations"] {
        match meta.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                if let Some(value) = map.values().find(|v| !v.is_string() && !v.is_null()) {
                    return Err(wrong(&format!("metadata.{field}"), "string", value));
                }
            }
            Some(other) => {
                return Err(wrong(
                    &format!("metadata.{field}"),
                    "map[string]string",
                    other,
                ));
            }
        }
    }
    match meta.get("finalizers") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            if let Some(value) = items.iter().find(|v| !v.is_string()) {
                return Err(wrong("metadata.finalizers", "string", value));
            }
        }
        Some(other) => return Err(wrong("metadata.finalizers", "[]string", other)),
    }
    Ok(())
}

/// What is wrong with the metadata of a new or changed object.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let empty = Body::new();
    let meta = metadata(body).unwrap_or(&empty);
    let name = text(meta, "name");
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(message) = names::object_name(kind, name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &message));
    }
    check_labels(meta, &mut causes);
    check_annotations(meta, &mut causes);
    check_owners(meta, &mut causes);
    for finalizer in finalizers(body) {
        for message in names::qualified(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &finalizer.into(),
                &message,
            ));
        }
    }
    causes
}

fn check_labels(meta: &Body, causes: &mut Vec<Cause>) {
    let labels = meta.get("labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for message in names::qualified(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &key.as_str().into(),
                &message,
            ));
        }
        for message in names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &message));
        }
    }
}

fn check_annotations(meta: &Body, causes: &mut Vec<Cause>) {
    let annotations = meta.get("annotations").and_then(Value::as_object);
    let mut total = 0;
    for (key, value) in annotations.into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        for message in names::qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &message,
            ));
        }
    }
    if total > ANNOTATION_LIMIT {
        causes.push(Cause::new(
            "FieldValueTooLong",
            "metadata.annotations",
            format!("Too long: may not be more than {ANNOTATION_LIMIT} bytes"),
        ));
    }
}

fn check_owners(meta: &Body, causes: &mut Vec<Cause>) {
    let mut controllers = Vec::new();
    for (at, owner) in owners(meta).into_iter().enumerate() {
        let field = |name: &str| format!("metadata.ownerReferences[{at}].{name}");
        for (name, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, name).is_empty() {
                causes.push(Cause::invalid(field(name), &"".into(), message));
            }
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(text(owner, "name").to_owned());
        }
    }
    if controllers.len() > 1 {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "metadata.ownerReferences",
            format!(
                "Invalid value: {}: Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                Value::from(controllers.clone()),
                controllers[0],
                controllers[1]
            ),
        ));
    }
}

/// Warnings the real server sends along with an answer.
pub(crate) fn warnings(body: &Body) -> Vec<String> {
    finalizers(body)
        .into_iter()
        .filter(|finalizer| !finalizer.contains('/'))
        .filter(|finalizer| !matches!(*finalizer, "orphan" | "foregroundDeletion" | "kubernetes"))
        .map(|finalizer| {
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// Fill in what an update may leave out, and refuse what it must not change.
pub(crate) fn check_change(old: &Body, new: &mut Body) -> Vec<Cause> {
    let empty = Body::new();
    let before = metadata(old).unwrap_or(&empty);
    let meta = metadata_mut(new);
    let deleting = before.contains_key("deletionTimestamp");
    let keep = |meta: &mut Body, field: &str, always: bool| {
        if let Some(value) = before.get(field)
            && (always || !meta.contains_key(field))
        {
            meta.insert(field.to_owned(), value.clone());
        }
    };
    keep(meta, "uid", false);
    keep(meta, "creationTimestamp", false);
    keep(meta, "namespace", false);
    if deleting {
        keep(meta, "deletionTimestamp", false);
        keep(meta, "deletionGracePeriodSeconds", false);
    }
    let mut causes = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if meta.get(field) != before.get(field) {
            let value = meta.get(field).unwrap_or(&Value::Null);
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    if deleting {
        causes.extend(new_finalizers(old, new));
    }
    causes
}

fn new_finalizers(old: &Body, new: &Body) -> Option<Cause> {
    let known = finalizers(old);
    let found: Vec<String> = finalizers(new)
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| shown(&name.into()))
        .collect();
    (!found.is_empty()).then(|| {
        Cause::forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                found.join(", ")
            ),
        )
    })
}
