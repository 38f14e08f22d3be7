//! Objects as JSON maps: access to the common metadata, and the text in which they are stored.
//!
//! Reading never fails; missing or mistyped values are treated as absent. Must not depend on kinds or verbs.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};

use crate::managed::Kept;
use crate::schema::go;

/// The field of `metadata` with the managed fields.
pub(crate) const MANAGED: &str = "managedFields";

/// The maximum nesting depth of objects. Stored objects must be parseable again, and their managed fields are nested deeper than they are.
pub(crate) const DEEPEST: usize = 100;

/// A whole object, or any JSON map in one.
pub(crate) type Body = Map<String, Value>;

/// The properties of a stored object that the server needs without parsing it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slim {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: String,
    pub(crate) revision: u64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) owners: Vec<String>,
    pub(crate) terminating: bool,
}

/// A stored object: its text, and its most frequently used properties.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) slim: Slim,
    /// The JSON text; begins with `{"apiVersion":...,"kind":...,` in this order.
    pub(crate) json: Bytes,
    /// The managed fields, which are part of the text, but not of [`Self::body`].
    pub(crate) kept: Arc<Kept>,
    /// The length of the text's part with the type.
    head: usize,
    /// The range of the managed fields in the text.
    managed: Range<usize>,
}

// === impl Stored ===

impl Stored {
    /// Serializes the object; the type is not taken from `body`.
    pub(crate) fn new(
        body: &Body,
        kept: Arc<Kept>,
        (api_version, kind): (&str, &str),
        revision: u64,
    ) -> Self {
        let mut text = head(api_version, kind);
        let head = text.len();
        let mut managed = 0..0;
        let fields = body
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"));
        for (key, value) in fields {
            text.push(b',');
            write_json(&mut text, key);
            text.push(b':');
            match value {
                Value::Object(meta) if key == "metadata" => {
                    managed = write_metadata(&mut text, meta, &kept.text);
                }
                value => write_json(&mut text, value),
            }
        }
        text.push(b'}');
        // The text is kept for a long time.
        text.shrink_to_fit();
        Self {
            slim: slim(body, revision),
            json: text.into(),
            kept,
            head,
            managed,
        }
    }

    /// Returns the object as a map without its managed fields, which most rules do not need; this is cheaper.
    pub(crate) fn body(&self) -> Body {
        if self.managed.is_empty() {
            return self.whole_body();
        }
        let (before, after) = (
            &self.json[..self.managed.start],
            &self.json[self.managed.end..],
        );
        serde_json::from_slice(&[before, after].concat()).unwrap_or_default()
    }

    /// Returns the whole object as a map.
    pub(crate) fn whole_body(&self) -> Body {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Returns the stored `apiVersion`.
    pub(crate) fn api_version(&self) -> &str {
        let head = self.json.get(HEAD.len() + 1..self.head).unwrap_or_default();
        let end = head.iter().position(|byte| *byte == b'"');
        str::from_utf8(&head[..end.unwrap_or_default()]).unwrap_or_default()
    }

    /// Returns the object's text with another type.
    pub(crate) fn retyped(&self, api_version: &str, kind: &str) -> Bytes {
        let mut text = head(api_version, kind);
        text.extend_from_slice(&self.json[self.head..]);
        text.into()
    }

    /// Returns the object's text without its type, as lists of built-in kinds contain it.
    pub(crate) fn untyped(&self) -> Bytes {
        let rest = &self.json[self.head..];
        let mut text = Vec::with_capacity(rest.len() + 1);
        text.push(b'{');
        text.extend_from_slice(rest.strip_prefix(b",").unwrap_or(rest));
        text.into()
    }
}

/// Writes metadata with the managed fields first; returns their range.
fn write_metadata(text: &mut Vec<u8>, meta: &Body, managed: &[u8]) -> Range<usize> {
    text.push(b'{');
    let start = text.len();
    let mut fields = meta.iter().filter(|(key, _)| *key != MANAGED).peekable();
    if !managed.is_empty() {
        write_json(text, MANAGED);
        text.push(b':');
        text.extend_from_slice(managed);
        if fields.peek().is_some() {
            text.push(b',');
        }
    }
    let range = start..text.len();
    for (at, (key, value)) in fields.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_json(text, key);
        text.push(b':');
        write_json(text, value);
    }
    text.push(b'}');
    range
}

/// The beginning of an object's text, before the version.
const HEAD: &[u8] = b"{\"apiVersion\":";

fn head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(1024);
    text.extend_from_slice(HEAD);
    write_json(&mut text, &api_version);
    text.extend_from_slice(b",\"kind\":");
    write_json(&mut text, &kind);
    text
}

/// Writes the JSON of a value whose serialization cannot fail: strings, JSON values, maps.
pub(crate) fn write_json<T: Serialize + ?Sized>(into: &mut Vec<u8>, value: &T) {
    // Writing to a `Vec` cannot fail, and all parts of JSON values can be serialized.
    let _infallible = value.serialize(&mut Serializer::with_formatter(into, AsGo));
}

/// Formats JSON like Go, which differs from `serde_json` in floating-point numbers.
struct AsGo;

impl Formatter for AsGo {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go::json_float(value).as_bytes())
    }
}

fn slim(body: &Body, revision: u64) -> Slim {
    let Some(meta) = metadata(body) else {
        return Slim::default();
    };
    let labels = meta.get("labels").and_then(Value::as_object);
    Slim {
        name: text(meta, "name").to_owned(),
        namespace: Some(text(meta, "namespace").to_owned()).filter(|name| !name.is_empty()),
        uid: text(meta, "uid").to_owned(),
        revision,
        labels: labels.map(strings).unwrap_or_default(),
        owners: owners(meta)
            .iter()
            .map(|owner| text(owner, "uid").to_owned())
            .collect(),
        terminating: meta.contains_key("deletionTimestamp"),
    }
}

fn strings(map: &Body) -> BTreeMap<String, String> {
    map.iter()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Returns the owner references that are maps.
pub(crate) fn owners(meta: &Body) -> Vec<&Body> {
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

/// Returns whether a value is nested deeper than `levels`.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    let deeper = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(map) => map.values().any(deeper),
        _ => false,
    }
}

/// Returns `metadata` if it is a map.
pub(crate) fn metadata(body: &Body) -> Option<&Body> {
    body.get("metadata").and_then(Value::as_object)
}

/// Returns `metadata`; replaces it by a map if it is none.
pub(crate) fn metadata_mut(body: &mut Body) -> &mut Body {
    map_mut(body, "metadata")
}

/// Returns a field; replaces it by a map if it is none.
pub(crate) fn map_mut<'a>(body: &'a mut Body, field: &str) -> &'a mut Body {
    let slot = body.entry(field).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Body::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("the slot was made a map above"),
    }
}

/// Returns the string in a field, or an empty one.
pub(crate) fn text<'a>(map: &'a Body, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string in a field of `metadata`, or an empty one.
pub(crate) fn meta_text<'a>(body: &'a Body, field: &str) -> &'a str {
    metadata(body).map_or("", |meta| text(meta, field))
}

/// Returns the finalizers that are strings.
pub(crate) fn finalizers(body: &Body) -> Vec<&str> {
    let found = metadata(body).and_then(|meta| meta.get("finalizers"));
    found
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the value at a dotted path of plain names, such as `.spec.replicas`.
pub(crate) fn at_path<'a>(body: &'a Body, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    let mut value = body.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value)
}

/// Sets the value at a dotted path of plain names; creates missing maps.
pub(crate) fn set_path(body: &mut Body, path: &str, value: Value) {
    let names: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
    let Some((last, way)) = names.split_last() else {
        return;
    };
    let mut map = body;
    for name in way {
        map = map_mut(map, name);
    }
    map.insert((*last).to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_is_counted_in_levels() {
        let nested = json!({"a": [{"b": 1}]});
        assert!(is_deeper(&nested, 2) && !is_deeper(&nested, 3));
        assert!(!is_deeper(&json!(1), 0) && is_deeper(&json!([1]), 0));
    }

    #[test]
    fn a_stored_object_changes_its_type_without_being_parsed() {
        let body = json!({"data": {"a": "b"}, "kind": "X", "metadata": {"name": "n", "labels": {"l": "1"}}});
        let stored = Stored::new(
            body.as_object().unwrap(),
            Arc::default(),
            ("v1", "ConfigMap"),
            7,
        );
        assert_eq!(stored.slim.name, "n");
        assert_eq!(stored.body()["kind"], "ConfigMap");
        assert_eq!(stored.api_version(), "v1");
        let other: Value = serde_json::from_slice(&stored.retyped("v2", "Y")).unwrap();
        assert_eq!(other["apiVersion"], "v2");
        assert_eq!(other["data"]["a"], "b");
        let bare: Value = serde_json::from_slice(&stored.untyped()).unwrap();
        assert_eq!(bare.as_object().unwrap().len(), 2);
    }
}
