//! Merge patches (RFC 7386) and JSON patches (RFC 6902) on JSON values.
//!
//! Promise: a JSON patch applies as a whole or not at all. Must not know objects or requests.

pub(crate) mod strategic;

use serde_json::{Map, Value};

/// Why a JSON patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch itself is no JSON patch.
    #[error("{0}")]
    Malformed(String),
    /// It is one, but does not apply to this document.
    #[error("{0}")]
    Inapplicable(String),
}

/// Apply a merge patch: maps merge, null removes, anything else replaces.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(&key);
        } else {
            merge(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Apply a JSON patch.
pub(crate) fn apply(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().ok_or_else(|| {
        PatchError::Malformed(
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".to_owned(),
        )
    })?;
    let mut result = target.clone();
    for operation in operations {
        step(&mut result, operation)?;
    }
    Ok(result)
}

fn step(target: &mut Value, operation: &Value) -> Result<(), PatchError> {
    let word = |key: &str| operation.get(key).and_then(Value::as_str);
    let name = word("op").unwrap_or_default();
    let path = word("path")
        .ok_or_else(|| PatchError::Inapplicable(format!("{name} operation has no path")))?;
    let value = || {
        operation
            .get("value")
            .cloned()
            .ok_or_else(|| PatchError::Inapplicable(format!("{name} operation has no value")))
    };
    let from = || {
        word("from")
            .ok_or_else(|| PatchError::Inapplicable(format!("{name} operation has no from")))
    };
    match name {
        "add" => add(target, path, value()?),
        "remove" => take(target, path).map(drop),
        "replace" => replace(target, path, value()?),
        "move" => {
            let moved = take(target, from()?)?;
            add(target, path, moved)
        }
        "copy" => {
            let source = from()?;
            let copied = target.pointer(source).cloned();
            add(target, path, copied.ok_or_else(|| absent(name, source))?)
        }
        "test" => {
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            if target
                .pointer(path)
                .is_some_and(|found| equal(found, wanted))
            {
                Ok(())
            } else {
                Err(PatchError::Inapplicable(format!(
                    "testing value {path} failed"
                )))
            }
        }
        other => Err(PatchError::Inapplicable(format!(
            "unexpected kind: {other}"
        ))),
    }
}

fn absent(name: &str, path: &str) -> PatchError {
    PatchError::Inapplicable(format!(
        "{name} operation does not apply: doc is missing path: {path}"
    ))
}

/// The parent of a path and its last part, unescaped.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let (way, last) = path.rsplit_once('/').ok_or_else(|| absent("patch", path))?;
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = target
        .pointer_mut(way)
        .ok_or_else(|| absent("patch", path))?;
    Ok((parent, last))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match parent(target, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            let at: usize = key.parse().map_err(|_| absent("add", path))?;
            if at > items.len() {
                return Err(absent("add", path));
            }
            items.insert(at, value);
        }
        _ => return Err(absent("add", path)),
    }
    Ok(())
}

fn take(target: &mut Value, path: &str) -> Result<Value, PatchError> {
    match parent(target, path)? {
        (Value::Object(map), key) => map.remove(&key),
        (Value::Array(items), key) => place(items, &key).map(|at| items.remove(at)),
        _ => None,
    }
    .ok_or_else(|| absent("remove", path))
}

/// An index into a list; negative ones count from its end, as in the library the real server uses.
fn place(items: &[Value], key: &str) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    let length = i64::try_from(items.len()).ok()?;
    let at = if at < 0 { length + at } else { at };
    usize::try_from(at).ok().filter(|at| *at < items.len())
}

/// Replacing a key that is not there adds it, as the real server does.
fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match parent(target, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) => {
            let at = place(items, &key).ok_or_else(|| absent("replace", path))?;
            items[at] = value;
        }
        _ => return Err(absent("replace", path)),
    }
    Ok(())
}

/// Numbers are equal by value, so `1` equals `1.0`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patch_removes_nulls_and_replaces_lists() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        merge(
            &mut target,
            json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3]}),
        );
        assert_eq!(target, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3]}));
    }

    #[test]
    fn json_patches_by_table() {
        let target = json!({"a": [1, 2], "m~/n": 1});
        for (patch, expected) in [
            (
                json!([{"op": "add", "path": "/a/1", "value": 9}]),
                Some(json!({"a": [1, 9, 2], "m~/n": 1})),
            ),
            (
                json!([{"op": "add", "path": "/a/-", "value": 9}]),
                Some(json!({"a": [1, 2, 9], "m~/n": 1})),
            ),
            (
                json!([{"op": "remove", "path": "/m~0~1n"}]),
                Some(json!({"a": [1, 2]})),
            ),
            (json!([{"op": "remove", "path": "/x"}]), None),
            (json!([{"op": "replace", "path": "/a/7", "value": 1}]), None),
            (json!([{"op": "test", "path": "/a/0", "value": 2}]), None),
            (json!([{"op": "test", "path": "/x", "value": null}]), None),
            (
                json!([{"op": "move", "from": "/a/0", "path": "/b"}]),
                Some(json!({"a": [2], "b": 1, "m~/n": 1})),
            ),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
        ] {
            assert_eq!(apply(&target, &patch).ok(), expected, "{patch}");
        }
    }
}
