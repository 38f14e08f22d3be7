//! Structural schemas of custom kinds: unknown fields are pruned, defaults filled in, the rest is checked.
//!
//! Promise: complaints are worded, and their fields named, as the real server does. Must not know requests or the store.

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

/// What is wrong with a new object, rules aside.
pub(crate) fn check(schema: &Value, body: &Body) -> Vec<Cause> {
    let whole = Value::Object(body.clone());
    let mut causes = check::check(schema, &whole, "", None);
    causes.extend(check_parts(schema, body));
    causes
}

/// What is wrong with objects inside of an object, and with lists whose items are told apart.
pub(crate) fn check_parts(schema: &Value, body: &Body) -> Vec<Cause> {
    let whole = Value::Object(body.clone());
    let mut causes = embedded::check(schema, &whole, "");
    causes.extend(lists::check(schema, &whole, ""));
    causes
}

/// What is wrong with a changed object, rules aside; what did not change is let pass.
pub(crate) fn check_change(schema: &Value, old: &Body, new: &Body) -> Vec<Cause> {
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    let mut causes = check::check(schema, &new, "", Some(Node::new(schema, &old, &new)));
    causes.extend(embedded::check(schema, &new, ""));
    if lists::check(schema, &old, "").is_empty() {
        causes.extend(lists::check(schema, &new, ""));
    }
    causes
}

/// What is wrong with an object's status alone.
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

/// Drop what the schema does not know and name it; fill in defaults.
///
/// # Errors
///
/// If the metadata of an embedded object cannot be read.
pub(crate) fn shape(schema: &Value, body: &mut Body) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    // Metadata has rules of its own, whatever the schema says of it.
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

/// Bring an object of another version into a version with this schema: what it does not know is gone, nothing is filled in.
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

/// The same, and the defaults of that version are filled in, as they are when it is read again.
pub(crate) fn store(schema: &Value, body: &mut Body) {
    convert(schema, body);
    complete(schema, body);
}

/// Fill in defaults, and leave the rest as it is.
pub(crate) fn complete(schema: &Value, body: &mut Body) {
    let metadata = body.remove("metadata");
    let mut value = Value::Object(std::mem::take(body));
    fill(schema, &mut value);
    if let Value::Object(map) = value {
        *body = map;
    }
    body.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
}

/// `2.0` is `2` where it is stored, whatever the schema says.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|found| number.is_f64() && found.fract() == 0.0 && found.abs() < 1e15);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
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

/// The schema of a part of a map, and the field it is at.
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
                // What is kept whole is kept whole below, too.
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

/// Prune an item of a list that keeps what it does not know.
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
            // Any entry is known then, but nothing in it.
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

/// Drop the nulls that may not be and that no default stands for.
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

/// Fill in defaults, also for nulls that may not be.
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
