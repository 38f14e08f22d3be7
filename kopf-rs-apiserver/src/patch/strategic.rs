//! Strategic merge patches: lists of built-in types merged by key, with the directives kubectl writes.
//!
//! Promise: the rules of
//! <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>,
//! with the order of items as the real server leaves it. Must not know objects or requests.

use serde_json::{Map, Value};

use crate::typed::{Strategy, Struct, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

type Fields = Map<String, Value>;

/// What is known of a map.
#[derive(Clone, Copy)]
enum Known {
    Struct(&'static Struct),
    Map(&'static Type),
    Nothing,
}

// === impl Known ===

impl Known {
    fn of(of: &'static Type) -> Self {
        match (of.as_struct(), of.element()) {
            (Some(of), _) => Self::Struct(of),
            (None, Some(element)) => Self::Map(element),
            (None, None) => Self::Nothing,
        }
    }

    /// What is known of a field, and how it is patched.
    fn field(self, name: &str) -> (Option<&'static Type>, Strategy) {
        match self {
            Self::Struct(of) => of.field(name).map_or_else(Default::default, |field| {
                (Some(&field.of), field.strategy.clone())
            }),
            Self::Map(element) => (Some(element), Strategy::default()),
            Self::Nothing => Default::default(),
        }
    }

    fn child(self, name: &str) -> Self {
        self.field(name).0.map_or(Self::Nothing, Self::of)
    }
}

/// Apply a patch to an object of that type.
///
/// # Errors
///
/// If the patch cannot be followed.
pub(crate) fn merge(
    of: Option<&'static Struct>,
    original: Fields,
    patch: Fields,
) -> Result<Fields, String> {
    maps(of.map_or(Known::Nothing, Known::Struct), original, patch)
}

fn maps(known: Known, mut original: Fields, mut patch: Fields) -> Result<Fields, String> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Fields::new()),
            Some("merge") => maps(known, original, patch),
            _ => {
                let word = go(&directive);
                patch.insert(DIRECTIVE.to_owned(), directive);
                let whole = go(&Value::Object(patch));
                Err(format!("unknown patch type: {word} in map: {whole}"))
            }
        };
    }
    retain(&mut original, &mut patch)?;
    order(known, &mut original, &mut patch)?;
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix(DELETE) {
            if let Some(Value::Array(items)) = original.get_mut(name) {
                let gone = list(&value)?;
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let merged = match original.remove(&name) {
            None | Some(Value::Null) => plain(value),
            Some(before) => values(known, &name, before, value)?,
        };
        original.insert(name, merged);
    }
    Ok(original)
}

/// Keep only the fields that a patch names, where it says so.
fn retain(original: &mut Fields, patch: &mut Fields) -> Result<(), String> {
    let Some(keys) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let keys = list(&keys)?;
    let known = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let forgotten = patch
        .iter()
        .any(|(name, value)| !value.is_null() && !name.starts_with('$') && !known(name));
    if forgotten {
        return Err("the keys of the patch should be in the retainKeys list".to_owned());
    }
    original.retain(|name, _| known(name));
    Ok(())
}

/// Merge the lists whose order the patch says, and order them so.
fn order(known: Known, original: &mut Fields, patch: &mut Fields) -> Result<(), String> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let wanted = patch.remove(&directive).unwrap_or_default();
        let wanted = list(&wanted)?;
        let name = &directive[ORDER.len()..];
        let given = patch.remove(name);
        let gone = patch.remove(&format!("{DELETE}{name}"));
        let (_, strategy) = known.field(name);
        let before = original.get(name).and_then(Value::as_array).cloned();
        let mut merged = match (before.clone(), given) {
            (_, Some(Value::Null)) => {
                original.remove(name);
                continue;
            }
            (Some(before), Some(given)) => values(known, name, Value::Array(before), given)?,
            (None, Some(given)) => plain(given),
            (Some(before), None) => Value::Array(before),
            (None, None) => continue,
        };
        if let (Value::Array(items), Some(gone)) = (&mut merged, &gone) {
            let gone = list(gone)?;
            items.retain(|item| !gone.contains(item));
        }
        let merged = list(&merged)?;
        let key = strategy.key;
        let ordered = arrange(merged, wanted, before.as_deref().unwrap_or_default(), key);
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

fn list(value: &Value) -> Result<&[Value], String> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| "expected a list, but received a value of another type".to_owned())
}

fn values(known: Known, name: &str, before: Value, patch: Value) -> Result<Value, String> {
    let (of, strategy) = known.field(name);
    match (before, patch) {
        (Value::Object(before), Value::Object(patch)) => {
            maps(known.child(name), before, patch).map(Value::Object)
        }
        (Value::Array(before), Value::Array(patch)) if strategy.merge => {
            let item = of.and_then(Type::element).map_or(Known::Nothing, Known::of);
            lists(item, strategy.key, &before, patch).map(Value::Array)
        }
        (_, patch) => Ok(plain(patch)),
    }
}

fn lists(
    item: Known,
    key: Option<&'static str>,
    original: &[Value],
    patch: Vec<Value>,
) -> Result<Vec<Value>, String> {
    let Some(key) = key else {
        let mut merged = original.to_vec();
        for item in &patch {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(arrange(&merged, &patch, original, None));
    };
    let mut merged = original.to_vec();
    let mut usual = Vec::new();
    let mut replace = false;
    for part in patch {
        let Value::Object(mut part) = part else {
            return Err("expected a map in a list of maps".to_owned());
        };
        match part.remove(DIRECTIVE) {
            None => usual.push(part),
            Some(Value::String(word)) if word == "delete" => {
                let wanted = keyed(&part, key)?;
                merged.retain(|found| found.get(key) != Some(wanted));
            }
            Some(Value::String(word)) if word == "replace" => replace = true,
            Some(other) => return Err(format!("unknown patch type: {}", go(&other))),
        }
    }
    if replace {
        return Ok(usual
            .into_iter()
            .map(|part| plain(Value::Object(part)))
            .collect());
    }
    let wanted: Vec<Value> = usual.iter().cloned().map(Value::Object).collect();
    for part in usual {
        let found = keyed(&part, key)?.clone();
        let at = merged.iter().position(|item| item.get(key) == Some(&found));
        match at.map(|at| (at, merged[at].clone())) {
            Some((at, Value::Object(before))) => {
                merged[at] = Value::Object(maps(item, before, part)?);
            }
            _ => merged.push(plain(Value::Object(part))),
        }
    }
    Ok(arrange(&merged, &wanted, original, Some(key)))
}

fn keyed<'a>(part: &'a Fields, key: &str) -> Result<&'a Value, String> {
    part.get(key).ok_or_else(|| {
        let shown = go(&Value::Object(part.clone()));
        format!("map: {shown} does not contain declared merge key: {key}")
    })
}

/// Items in the wanted order; those that are not wanted stay where they were among the others.
fn arrange(merged: &[Value], wanted: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let same = |a: &Value, b: &Value| match key {
        Some(key) => a.get(key) == b.get(key),
        None => a == b,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|found| same(found, item));
    let (mut named, mut others): (Vec<&Value>, Vec<&Value>) = merged
        .iter()
        .partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    others.sort_by_key(|item| place(before, item));
    let mut ordered = Vec::with_capacity(merged.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(left), Some(right)) = (others.peek(), named.peek()) {
        let first = match (place(before, left), place(before, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        let next = if first { others.next() } else { named.next() };
        ordered.extend(next.cloned());
    }
    ordered.extend(named.chain(others).cloned());
    ordered
}

/// A patch as a value: without directives and nulls.
fn plain(patch: Value) -> Value {
    match patch {
        Value::Object(map) => map
            .into_iter()
            .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
            .map(|(name, value)| (name, plain(value)))
            .collect(),
        Value::Array(items) => items
            .into_iter()
            .filter(|item| item.get(DIRECTIVE).is_none())
            .map(plain)
            .collect(),
        other => other,
    }
}

/// A value as Go prints it.
pub(crate) fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go(v))).collect();
            format!("map[{}]", parts.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::of_kind;
    use serde_json::json;

    fn pod(containers: &Value) -> Value {
        json!({"spec": {"containers": containers}})
    }

    fn merged(original: Value, patch: Value) -> Result<Value, String> {
        match (original, patch) {
            (Value::Object(original), Value::Object(patch)) => {
                merge(of_kind("v1", "Pod"), original, patch).map(Value::Object)
            }
            _ => Err("no maps".to_owned()),
        }
    }

    #[test]
    fn patches_by_table() {
        let (a, b) = (json!({"name": "a", "image": "1"}), json!({"name": "b"}));
        for (original, patch, expected) in [
            (
                pod(&json!([a, b])),
                pod(&json!([{"name": "b", "image": "2"}, {"name": "c"}])),
                pod(&json!([a, {"name": "b", "image": "2"}, {"name": "c"}])),
            ),
            (
                pod(&json!([a, b])),
                pod(&json!([{"name": "a", "$patch": "delete"}])),
                pod(&json!([b])),
            ),
            (
                pod(&json!([a, b])),
                pod(&json!([{"name": "c"}, {"$patch": "replace"}])),
                pod(&json!([{"name": "c"}])),
            ),
            (
                pod(&json!([a, b])),
                json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
                pod(&json!([b, a])),
            ),
            (
                json!({"metadata": {"finalizers": ["x", "y"]}}),
                json!({"metadata": {"finalizers": ["z"], "$deleteFromPrimitiveList/finalizers": ["x"]}}),
                json!({"metadata": {"finalizers": ["z", "y"]}}),
            ),
            (
                json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}}),
                json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
                json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "args": ["1", "2"]}], "nodeSelector": {"a": "b"}}}),
                json!({"spec": {"containers": [{"name": "a", "args": ["3"]}], "nodeSelector": {"$patch": "replace", "c": "d"}}}),
                json!({"spec": {"containers": [{"name": "a", "args": ["3"]}], "nodeSelector": {"c": "d"}}}),
            ),
            (
                json!({"spec": {"hostNetwork": true}}),
                json!({"spec": {"hostNetwork": null, "hostPID": null}}),
                json!({"spec": {}}),
            ),
        ] {
            assert_eq!(merged(original, patch.clone()), Ok(expected), "{patch}");
        }
        let nameless = merged(pod(&json!([a])), pod(&json!([{"image": "x"}])));
        let expected = "map: map[image:x] does not contain declared merge key: name";
        assert_eq!(nameless, Err(expected.to_owned()));
    }
}
