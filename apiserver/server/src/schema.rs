//! Structural schemas of custom resources: prunes unknown fields, fills in defaults and validates the rest.
//!
//! Error messages and field names match the real server. Independent of requests and of the store.

mod check;
pub(crate) mod definition;
mod embedded;
pub(crate) mod format;
pub(crate) mod go;
mod lists;
pub(crate) mod pattern;
mod ratchet;
pub(crate) mod rules;
pub(crate) mod scale;
mod walk;

use serde_json::{Map, Value};

use crate::object::Body;
use crate::status::Cause;
use pattern::Pattern;
use ratchet::Node;

/// Validates a new object, except for its CEL rules.
pub(crate) fn check(schema: &Value, body: &Body) -> Vec<Cause> {
    let whole = Value::Object(body.clone());
    let mut causes = check::check(schema, &whole, "", None);
    causes.extend(check_parts(schema, body));
    causes
}

/// Validates embedded objects, and the uniqueness of items in sets and keyed lists.
pub(crate) fn check_parts(schema: &Value, body: &Body) -> Vec<Cause> {
    let whole = Value::Object(body.clone());
    let mut causes = embedded::check(schema, &whole, "");
    causes.extend(lists::check(schema, &whole, ""));
    causes
}

/// Validates a changed object, except for its CEL rules. Ratcheting: errors of unchanged values are ignored.
pub(crate) fn check_change(schema: &Value, old: &Body, new: &Body) -> Vec<Cause> {
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    let mut causes = check::check(schema, &new, "", Some(Node::new(schema, &old, &new)));
    causes.extend(embedded::check(schema, &new, ""));
    if lists::check(schema, &old, "").is_empty() {
        causes.extend(lists::check(schema, &new, ""));
    }
    causes
}

/// Validates only the status of a changed object.
pub(crate) fn check_status(schema: &Value, old: &Body, new: &Body) -> Vec<Cause> {
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    let mut causes = Vec::new();
    let part = schema
        .get("properties")
        .and_then(|found| found.get("status"));
    if let (Some(part), Some(status)) = (part, new.get("status")) {
        let node = Node::new(schema, &old, &new).child("status");
        causes.extend(check::check(part, status, "status", node));
    }
    let twice = lists::check(schema, &new, "");
    if !twice.is_empty() && lists::check(schema, &old, "").is_empty() {
        causes.extend(twice);
    }
    causes
}

/// Prunes unknown fields, fills in defaults, and returns the paths of the pruned fields.
///
/// # Errors
///
/// Returns an error if the metadata of an embedded object has a wrong type.
pub(crate) fn shape(schema: &Value, body: &mut Body) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    // The schema does not apply to the metadata, which has rules of its own.
    let metadata = body.remove("metadata");
    let mut value = Value::Object(std::mem::take(body));
    prune(schema, &mut value, "", true, &mut unknown);
    unknown.sort();
    drop_nulls(schema, &mut value);
    let tidied = embedded::tidy(schema, &mut value, "", &mut unknown);
    fill(schema, &mut value);
    if let Value::Object(map) = value {
        *body = map;
    }
    if let Some(metadata) = metadata {
        body.insert("metadata".to_owned(), metadata);
    }
    tidied.map(|()| unknown)
}

/// Converts an object to the version of this schema: prunes unknown fields, but does not fill in defaults.
pub(crate) fn convert(schema: &Value, body: &mut Body) {
    let metadata = body.remove("metadata");
    let mut value = Value::Object(std::mem::take(body));
    prune(schema, &mut value, "", true, &mut Vec::new());
    drop_nulls(schema, &mut value);
    if let Value::Object(map) = value {
        *body = map;
    }
    body.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
}

/// Like [`convert`], and fills in the defaults of that version, as a later read would do.
pub(crate) fn store(schema: &Value, body: &mut Body) {
    convert(schema, body);
    complete(schema, body);
}

/// Fills in defaults and changes nothing else.
pub(crate) fn complete(schema: &Value, body: &mut Body) {
    let metadata = body.remove("metadata");
    let mut value = Value::Object(std::mem::take(body));
    fill(schema, &mut value);
    if let Value::Object(map) = value {
        *body = map;
    }
    body.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
}

/// Normalizes numbers for storage: `2.0` becomes `2`, regardless of the schema.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *number = go::reread(number),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn is(schema: &Value, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Returns the schema of a map entry, and the path of the entry.
fn part<'a>(schema: &'a Value, name: &str, path: &str) -> Option<(&'a Value, String)> {
    if let Some(known) = schema.get("properties").and_then(|found| found.get(name)) {
        return Some((known, join(path, name)));
    }
    let extra = schema
        .get("additionalProperties")
        .filter(|extra| extra.is_object())?;
    Some((extra, format!("{path}[{name}]")))
}

fn prune(schema: &Value, value: &mut Value, path: &str, object: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let object = object || is(schema, "x-kubernetes-embedded-resource");
            prune_map(schema, map, path, object, unknown);
        }
        Value::Array(items) => {
            let keeps = is(schema, "x-kubernetes-preserve-unknown-fields");
            let part = schema.get("items").filter(|items| items.is_object());
            match part {
                // A list that preserves unknown fields also preserves those of its items.
                Some(part) if keeps => {
                    for (at, item) in items.iter_mut().enumerate() {
                        prune_kept(part, item, &format!("{path}[{at}]"), unknown);
                    }
                }
                None if keeps => {}
                part => {
                    for (at, item) in items.iter_mut().enumerate() {
                        let part = part.unwrap_or(&Value::Null);
                        prune(part, item, &format!("{path}[{at}]"), false, unknown);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Prunes an item of a list that preserves unknown fields.
fn prune_kept(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let embedded = is(schema, "x-kubernetes-embedded-resource");
            for (name, value) in map {
                let meta = embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                let known = schema.get("properties").and_then(|found| found.get(name));
                let extra = schema.get("additionalProperties").filter(|e| e.is_object());
                if let Some(schema) = known.or(extra).filter(|_| !meta) {
                    prune(schema, value, &join(path, name), false, unknown);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                let part = schema.get("items").unwrap_or(&Value::Null);
                prune_kept(part, item, &format!("{path}[{at}]"), unknown);
            }
        }
        _ => {}
    }
}

fn prune_map(
    schema: &Value,
    map: &mut Map<String, Value>,
    path: &str,
    object: bool,
    unknown: &mut Vec<String>,
) {
    let extra = schema.get("additionalProperties");
    let keeps = is(schema, "x-kubernetes-preserve-unknown-fields");
    map.retain(|name, value| {
        if object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let known = schema.get("properties").and_then(|found| found.get(name));
        if let Some(schema) = known.or(extra.filter(|extra| extra.is_object())) {
            prune(schema, value, &join(path, name), false, unknown);
            return true;
        }
        if extra.is_some() {
            // `additionalProperties: true` allows any entry, but preserves no fields within it.
            prune(&Value::Null, value, &join(path, name), false, unknown);
            return true;
        }
        if keeps {
            return true;
        }
        unknown.push(join(path, name));
        false
    });
}

/// Drops nulls that are neither nullable nor replaced by a default.
fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let known = schema.get("properties").and_then(|found| found.get(name));
            let extra = schema.get("additionalProperties").filter(|e| e.is_object());
            let part = known.or(extra);
            let stays = part.is_none_or(|part| {
                !value.is_null() || is(part, "nullable") || part.get("default").is_some()
            });
            drop_nulls(part.unwrap_or(&Value::Null), value);
            stays
        }),
        Value::Array(items) => {
            let part = schema.get("items").unwrap_or(&Value::Null);
            for item in items {
                drop_nulls(part, item);
            }
        }
        _ => {}
    }
}

/// Fills in defaults, including for nulls that are not nullable.
fn fill(schema: &Value, value: &mut Value) {
    let default = |schema: &Value| schema.get("default").cloned().unwrap_or_default();
    let stands_in = |schema: &Value, value: &Value| value.is_null() && !is(schema, "nullable");
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                let missing = map.get(name).is_none_or(|value| stands_in(schema, value));
                if missing && schema.get("default").is_some() {
                    map.insert(name.clone(), default(schema));
                }
            }
            let extra = schema.get("additionalProperties").filter(|e| e.is_object());
            for (name, value) in map {
                if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                    fill(schema, value);
                } else if let Some(schema) = extra {
                    if stands_in(schema, value) {
                        *value = default(schema);
                    }
                    fill(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    if stands_in(schema, item) {
                        *item = default(schema);
                    }
                    fill(schema, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "color": {"type": "string", "default": "red"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}, "d": {"type": "integer", "default": 7}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
        }}}});
        let mut body = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "extra": 1,
            "spec": {"color": null, "list": [{"a": "x", "zz": 1}], "free": {"u": 1}, "map": {"m": {"k": "v", "q": 1}}},
        });
        let unknown = shape(&schema, body.as_object_mut().unwrap()).unwrap();
        assert_eq!(unknown, ["extra", "spec.list[0].zz", "spec.map.m.q"]);
        assert_eq!(
            body,
            json!({
                "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"},
                "spec": {"color": "red", "list": [{"a": "x", "d": 7}], "free": {"u": 1}, "map": {"m": {"k": "v"}}},
            })
        );
    }
}
