//! Strategic merge patches: merges the lists of built-in types by key, and follows the directives that kubectl writes.
//!
//! Guarantees the rules of
//! <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>
//! and the real server's order of items. Must not depend on objects or requests.

use serde_json::{Map, Value};

use crate::schema::go::{type_of, value};
use crate::typed::{Field, Strategy, Struct, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder";
const ORDER: &str = "$setElementOrder/";

type Fields = Map<String, Value>;

/// The reason why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misguided {
    /// A directive is malformed.
    Malformed(&'static str),
    /// The patch merges lists of lists.
    Nested,
    /// The patch does not fit the type.
    Impossible(String),
}

const DELETED: Misguided = Misguided::Malformed("invalid patch format of primitive list");
const RETAINED: Misguided = Misguided::Malformed("invalid patch format of retainKeys");
const ORDERED: Misguided = Misguided::Malformed("invalid patch format of setElementOrder list");

/// The type information about a map.
#[derive(Clone, Copy)]
enum Known {
    Struct(&'static Struct),
    /// Arbitrary JSON in a Go struct of this name.
    Opaque(&'static str),
    /// A Go type without fields, by its name.
    Other(&'static str),
}

// === impl Known ===

impl Known {
    fn of(of: &'static Type) -> Self {
        match of {
            Type::Pointer(inner) => Self::of(inner),
            Type::Raw => Self::Opaque("RawExtension"),
            Type::SchemaOrBool => Self::Opaque("JSONSchemaPropsOrBool"),
            Type::SchemaOrSchemas => Self::Opaque("JSONSchemaPropsOrArray"),
            Type::SchemaOrStrings => Self::Opaque("JSONSchemaPropsOrStringArray"),
            Type::Map(_) => Self::Other("map"),
            Type::List(_) | Type::Wrapped(_) => Self::Other("slice"),
            other => other
                .as_struct()
                .map_or(Self::Other("string"), Self::Struct),
        }
    }

    /// Returns a field, or an error if the type does not declare it.
    fn field(self, name: &str) -> Result<&'static Field, Misguided> {
        let owner = match self {
            Self::Other(word) => {
                return impossible(format!(
                    "merging an object in json but data type is not struct, instead is: {word}"
                ));
            }
            Self::Opaque(owner) => owner,
            Self::Struct(of) => match of.field(name) {
                Some(field) => return Ok(field),
                None => of.short(),
            },
        };
        impossible(format!(
            "unable to find api field in struct {owner} for the json field {name:?}"
        ))
    }
}

fn impossible<T>(why: String) -> Result<T, Misguided> {
    Err(Misguided::Impossible(why))
}

/// Applies a patch to an object of a type. Changes `patch` to the form in which the real server prints it.
///
/// # Errors
///
/// If the patch cannot be applied.
pub(crate) fn merge(
    of: &'static Struct,
    original: Fields,
    patch: &mut Fields,
) -> Result<Fields, Misguided> {
    maps(Known::Struct(of), original, patch)
}

fn maps(known: Known, mut original: Fields, patch: &mut Fields) -> Result<Fields, Misguided> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain(&mut original, patch)?;
    order(known, &mut original, patch)?;
    for (name, value) in patch.iter_mut() {
        let (name, deletes) = match name.strip_prefix(DELETE) {
            Some(name) => (name, true),
            None if name.starts_with(DELETE_PREFIX) => return Err(DELETED),
            None => (name.as_str(), false),
        };
        if value.is_null() {
            original.remove(name);
            continue;
        }
        let merged = match (original.remove(name), value) {
            (Some(Value::Object(before)), Value::Object(patch)) => {
                let inner = Known::of(&known.field(name)?.of);
                Some(Value::Object(maps(inner, before, patch)?))
            }
            (Some(Value::Array(before)), Value::Array(patch)) => {
                Some(Value::Array(list(known, name, before, patch, deletes)?))
            }
            (before, _) if deletes => before,
            (_, patch) => taken(patch),
        };
        if let Some(merged) = merged {
            original.insert(name.to_owned(), merged);
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, map: &Fields) -> Misguided {
    let (word, map) = (as_text(directive), entries(map));
    Misguided::Impossible(format!("unknown patch type: {word} in map: {map}"))
}

/// If the patch has a `$retainKeys` directive, removes all fields that the directive does not name.
fn retain(original: &mut Fields, patch: &mut Fields) -> Result<(), Misguided> {
    let Some(keys) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or(RETAINED)?;
    let known = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let directive = |name: &str| name.starts_with(DELETE_PREFIX) || name.starts_with(ORDER_PREFIX);
    let mut parts = patch.iter();
    if parts.any(|(name, value)| !value.is_null() && !directive(name) && !known(name)) {
        return Err(RETAINED);
    }
    original.retain(|name, _| known(name));
    Ok(())
}

/// Merges and sorts the lists for which the patch has a `$setElementOrder` directive.
fn order(known: Known, original: &mut Fields, patch: &mut Fields) -> Result<(), Misguided> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ORDER_PREFIX))
        .cloned()
        .collect();
    for directive in directives {
        let wanted = patch.remove(&directive).unwrap_or_default();
        let wanted = expect_list(&wanted)?;
        let name = directive.strip_prefix(ORDER).ok_or(ORDERED)?;
        let before = original.get(name).map(expect_list).transpose()?;
        let before = before.map(<[Value]>::to_vec);
        let mut given = match patch.get(name) {
            Some(given) => Some(expect_list(given)?.to_vec()),
            None => None,
        };
        let key = item_of(known, name)?.1.key;
        check_order(given.as_deref().unwrap_or_default(), wanted, key)?;
        let merged = match (before.clone(), &mut given) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(given)) => given.iter_mut().filter_map(without_directives).collect(),
            (Some(before), Some(given)) => list(known, name, before, given, false)?,
        };
        let before = before.unwrap_or_default();
        check_kind(&before, given.as_deref().unwrap_or_default())?;
        let ordered = arrange(&merged, wanted, &before, key);
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

/// Checks that the items of a patch match its order directive.
fn check_order(
    given: &[Value],
    wanted: &[Value],
    key: Option<&'static str>,
) -> Result<(), Misguided> {
    let mut left = wanted.iter();
    for item in given {
        if key.is_some() && item.get(DIRECTIVE).is_some() {
            continue;
        }
        let same = |found: &Value| match key {
            Some(key) => Ok(keyed(expect_map(item)?, key)? == keyed(expect_map(found)?, key)?),
            None => Ok(item == found),
        };
        loop {
            match left.next() {
                Some(found) if same(found)? => break,
                Some(_) => {}
                None if wanted.is_empty() => return Ok(()),
                None => {
                    return impossible(format!(
                        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                        value(&given.into()),
                        value(&wanted.into())
                    ));
                }
            }
        }
    }
    Ok(())
}

fn expect_list(found: &Value) -> Result<&[Value], Misguided> {
    let wrong = || Misguided::Impossible(mistaken("[]interface {}", found));
    found.as_array().map(Vec::as_slice).ok_or_else(wrong)
}

fn expect_map(found: &Value) -> Result<&Fields, Misguided> {
    let wrong = || Misguided::Impossible(mistaken("map[string]interface {}", found));
    found.as_object().ok_or_else(wrong)
}

fn mistaken(wanted: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "%!s(<nil>)",
        found => type_of(found),
    };
    format!("expected a {wanted}, but received a {found}")
}

/// Returns the type of a list's items, and the list's patch strategy.
fn item_of(known: Known, name: &str) -> Result<(Known, &'static Strategy), Misguided> {
    let field = known.field(name)?;
    match field.of.element() {
        Some(item) => Ok((Known::of(item), &field.strategy)),
        None => impossible("expected slice or array type, but got: struct".to_owned()),
    }
}

fn list(
    known: Known,
    name: &str,
    before: Vec<Value>,
    patch: &mut [Value],
    deletes: bool,
) -> Result<Vec<Value>, Misguided> {
    let (item, strategy) = item_of(known, name)?;
    if !strategy.merge && !deletes {
        return Ok(patch.to_owned());
    }
    if before.is_empty() && patch.is_empty() {
        return Ok(before);
    }
    if check_kind(&before, patch)? {
        return match strategy.key {
            Some(key) => keyed_lists(item, key, &before, patch),
            None => impossible("cannot merge lists without merge key for struct".to_owned()),
        };
    }
    let mut merged = before.clone();
    if deletes {
        merged.retain(|item| !patch.contains(item));
        return Ok(merged);
    }
    for item in patch.iter() {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    Ok(arrange(&merged, patch, &before, None))
}

/// Checks that all items have the same type; returns whether they are maps.
fn check_kind(before: &[Value], patch: &[Value]) -> Result<bool, Misguided> {
    let mut items = before.iter().chain(patch);
    let Some(first) = items.next() else {
        return impossible("no elements in any of the given slices".to_owned());
    };
    if first.is_array() {
        return Err(Misguided::Nested);
    }
    if items.any(|item| type_of(item) != type_of(first)) {
        let lists = value(&Value::from(vec![Value::from(before), Value::from(patch)]));
        return impossible(format!("list element types are not identical: {lists}"));
    }
    Ok(first.is_object())
}

fn keyed_lists(
    item: Known,
    key: &'static str,
    original: &[Value],
    patch: &mut [Value],
) -> Result<Vec<Value>, Misguided> {
    let mut merged = original.to_vec();
    let mut usual = Vec::new();
    let mut replace = false;
    for part in patch.iter_mut().filter_map(Value::as_object_mut) {
        match part.get(DIRECTIVE) {
            None => usual.push(part),
            Some(Value::String(word)) if word == "delete" => {
                let wanted = keyed(part, key)?;
                merged.retain(|found| found.get(key) != Some(wanted));
            }
            Some(Value::String(word)) if word == "replace" => replace = true,
            Some(Value::String(word)) if word == "merge" => {
                let why = "merging lists cannot yet be specified in the patch";
                return impossible(why.to_owned());
            }
            Some(other) => return Err(unknown_directive(other, part)),
        }
    }
    let wanted: Vec<Value> = usual
        .iter()
        .map(|part| Value::Object((**part).clone()))
        .collect();
    if replace {
        for part in &usual {
            keyed(part, key)?;
        }
        return Ok(wanted);
    }
    for part in usual {
        let found = keyed(part, key)?.clone();
        let at = merged.iter().position(|item| item.get(key) == Some(&found));
        match at.map(|at| (at, merged[at].clone())) {
            Some((at, Value::Object(before))) => {
                merged[at] = Value::Object(maps(item, before, part)?);
            }
            _ => merged.push(Value::Object(part.clone())),
        }
    }
    Ok(arrange(&merged, &wanted, original, Some(key)))
}

fn keyed<'a>(part: &'a Fields, key: &str) -> Result<&'a Value, Misguided> {
    part.get(key).ok_or_else(|| {
        let shown = entries(part);
        let why = format!("map: {shown} does not contain declared merge key: {key}");
        Misguided::Impossible(why)
    })
}

/// Sorts items in the wanted order; the others keep their position relative to their neighbours.
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

/// Returns a patch as a new value: without nulls in maps, and without parts that contain directives.
fn taken(patch: &mut Value) -> Option<Value> {
    drop_nulls(patch);
    without_directives(patch)
}

fn drop_nulls(patch: &mut Value) {
    match patch {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Removes such parts from maps in the patch itself, too; lists are rebuilt.
fn without_directives(patch: &mut Value) -> Option<Value> {
    match patch {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                match map.get_mut(&name).and_then(without_directives) {
                    Some(value) => map.insert(name, value),
                    None => map.remove(&name),
                };
            }
            Some(Value::Object(map.clone()))
        }
        Value::Array(items) => {
            let items = items.iter_mut().filter_map(without_directives);
            Some(Value::Array(items.collect()))
        }
        other => Some(other.clone()),
    }
}

/// Formats a map as Go prints it.
pub(crate) fn entries(map: &Fields) -> String {
    let part = |(name, found): (&String, &Value)| format!("{name}:{}", value(found));
    let parts: Vec<String> = map.iter().map(part).collect();
    format!("map[{}]", parts.join(" "))
}

/// Formats a value as Go does for a string, even if it is of another type.
fn as_text(found: &Value) -> String {
    match found {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let part = |(name, found): (&String, &Value)| format!("{name}:{}", as_text(found));
            let parts: Vec<String> = map.iter().map(part).collect();
            format!("map[{}]", parts.join(" "))
        }
        other => format!("%!s({}={})", type_of(other), value(other)),
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

    fn merged(original: Value, patch: Value) -> Result<Value, Misguided> {
        match (original, patch) {
            (Value::Object(original), Value::Object(mut patch)) => {
                let of = of_kind("v1", "Pod").unwrap();
                merge(of, original, &mut patch).map(Value::Object)
            }
            _ => Err(Misguided::Nested),
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
        assert_eq!(nameless, impossible(expected.to_owned()));
    }
}
