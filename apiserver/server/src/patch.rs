//! Merge patches (RFC 7386) and JSON patches (RFC 6902) for JSON values.
//!
//! Guarantees that a JSON patch is applied completely or not at all. Must not depend on objects or requests.

pub(crate) mod strategic;

use serde_json::Value;

use crate::object::{DEEPEST, is_deeper};

/// The reason why a JSON patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch is not a valid JSON patch.
    #[error("{0}")]
    Malformed(String),
    /// The patch is valid, but does not apply to this document.
    #[error("{0}")]
    Inapplicable(String),
    /// The patch exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
}

/// The maximum number of operations, as in the real server.
const OPERATIONS: usize = 10_000;
/// The maximum number of bytes that copy operations may add, as in the real server.
const COPIED: usize = 3 << 20;

/// Applies a merge patch: maps merge, null removes, any other value replaces.
///
/// Like the library of the real server, removes nulls from a value that replaces a missing value or a value other than a map, and from
/// lists in it; a list that replaces a map keeps its nulls.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(map) = target else {
        *target = patch;
        prune(target);
        return;
    };
    let Value::Object(patch) = patch else {
        *target = patch;
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

/// Removes nulls from maps.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Applies a JSON patch.
pub(crate) fn apply(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().ok_or_else(|| {
        PatchError::Malformed(
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".to_owned(),
        )
    })?;
    let misfit = operations
        .iter()
        .find(|operation| !operation.is_object() && !operation.is_null());
    if let Some(misfit) = misfit {
        let found = crate::rules::go_type(misfit);
        return Err(PatchError::Malformed(format!(
            "json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
        )));
    }
    if operations.len() > OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut result = target.clone();
    let mut left = COPIED;
    for operation in operations {
        step(&mut result, operation, &mut left)?;
    }
    Ok(result)
}

/// Applies one operation; `left` is the number of bytes that copies may still add.
fn step(target: &mut Value, operation: &Value, left: &mut usize) -> Result<(), PatchError> {
    let word = |key: &str| operation.get(key).and_then(Value::as_str);
    let name = word("op").unwrap_or_default();
    let path = word("path")
        .ok_or_else(|| PatchError::Inapplicable(format!("{name} operation has no path")))?;
    let value = || operation.get("value").cloned().unwrap_or_default();
    let from = || {
        word("from")
            .ok_or_else(|| PatchError::Inapplicable(format!("{name} operation has no from")))
    };
    match name {
        "add" => add(target, path, value()),
        "remove" => take(target, path).map(drop),
        "replace" => replace(target, path, value()),
        "move" => {
            let moved = take(target, from()?)?;
            add(target, path, moved)
        }
        "copy" => {
            let copied = found(target, from()?)?;
            let size = copied.to_string().len();
            *left = left.checked_sub(size).ok_or_else(|| {
                PatchError::Inapplicable(format!("copies of more than {COPIED} bytes"))
            })?;
            add(target, path, copied)
        }
        "test" => test(target, path, operation.get("value").unwrap_or(&Value::Null)),
        other => Err(PatchError::Inapplicable(format!(
            "unexpected kind: {other}"
        ))),
    }
}

/// Returns the value at a path, or null if a map lacks the key.
fn found(target: &mut Value, path: &str) -> Result<Value, PatchError> {
    match parent(target, path)? {
        (Value::Object(map), key) => Ok(map.get(&key).cloned().unwrap_or_default()),
        (Value::Array(items), key) => {
            let at = place(items, &key).ok_or_else(|| absent("copy", path))?;
            Ok(items[at].clone())
        }
        _ => Err(absent("copy", path)),
    }
}

/// A missing field of an object equals null; clients use this test before they add the first finalizer.
fn test(target: &Value, path: &str, wanted: &Value) -> Result<(), PatchError> {
    let above = path.rsplit_once('/').map_or("", |(way, _)| way);
    let holds = match target.pointer(path) {
        // Compares numbers as texts: `1` is not `1.0`.
        Some(found) => found == wanted,
        None => wanted.is_null() && target.pointer(above).is_some_and(Value::is_object),
    };
    if holds {
        return Ok(());
    }
    let problem = format!("testing value {path} failed: test failed");
    Err(PatchError::Inapplicable(problem))
}

fn absent(name: &str, path: &str) -> PatchError {
    PatchError::Inapplicable(format!(
        "{name} operation does not apply: doc is missing path: {path}"
    ))
}

/// Returns the parent of a path, and the unescaped last part.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let (way, last) = path.rsplit_once('/').ok_or_else(|| absent("patch", path))?;
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = target
        .pointer_mut(way)
        .ok_or_else(|| absent("patch", path))?;
    Ok((parent, last))
}

fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    let above = path.matches('/').count();
    if above > DEEPEST || is_deeper(value, DEEPEST - above) {
        return Err(PatchError::Inapplicable(format!(
            "{path} would be nested deeper than {DEEPEST} levels"
        )));
    }
    Ok(())
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    match parent(target, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            let at = within(items.len() + 1, &key).ok_or_else(|| absent("add", path))?;
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

/// Returns a list index; negative ones count from the end, as in the library of the real server.
fn place(items: &[Value], key: &str) -> Option<usize> {
    within(items.len(), key)
}

fn within(length: usize, key: &str) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    let at = if at < 0 {
        i64::try_from(length).ok()? + at
    } else {
        at
    };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Replaces the value at a path; like the real server, adds a missing key.
fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patch_removes_nulls_and_replaces_lists() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        merge(
            &mut target,
            json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3, null, {"x": null}]}),
        );
        assert_eq!(
            target,
            json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3, null, {}]})
        );
        merge(&mut target, json!({"a": [{"x": null}]}));
        assert_eq!(target["a"], json!([{"x": null}]));
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
            (
                json!([{"op": "test", "path": "/x", "value": null}]),
                Some(target.clone()),
            ),
            (json!([{"op": "test", "path": "/x/y", "value": null}]), None),
            (json!([{"op": "test", "path": "/a/2", "value": null}]), None),
            (
                json!([{"op": "move", "from": "/a/0", "path": "/b"}]),
                Some(json!({"a": [2], "b": 1, "m~/n": 1})),
            ),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
            (
                json!([{"op": "copy", "from": "/x", "path": "/a/-1"}]),
                Some(json!({"a": [1, 2, null], "m~/n": 1})),
            ),
            (json!([{"op": "copy", "from": "/a/7", "path": "/b"}]), None),
            (json!([{"op": "test", "path": "/a/0", "value": 1.0}]), None),
        ] {
            assert_eq!(apply(&target, &patch).ok(), expected, "{patch}");
        }
    }

    #[test]
    fn what_grows_without_bounds_is_refused() {
        let doc = json!({"a": {"b": "x".repeat(100)}});
        let doubled: Value = (0..40)
            .map(|number| json!({"op": "copy", "from": "/a", "path": format!("/a/c{number}")}))
            .collect();
        assert!(matches!(
            apply(&doc, &doubled),
            Err(PatchError::Inapplicable(_))
        ));
        let many = Value::Array(vec![json!({"op": "test", "path": "/a"}); OPERATIONS + 1]);
        assert!(matches!(apply(&doc, &many), Err(PatchError::TooLarge(_))));
        let deeper: Vec<Value> = (1..200)
            .map(|depth| json!({"op": "add", "path": "/d".repeat(depth), "value": {}}))
            .collect();
        assert!(apply(&doc, &Value::Array(deeper[..90].to_vec())).is_ok());
        let refused = apply(&doc, &Value::Array(deeper));
        assert!(matches!(refused, Err(PatchError::Inapplicable(_))));
    }
}
