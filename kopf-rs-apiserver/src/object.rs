//! Objects as JSON maps: access to the metadata all kinds share, and the text they are stored as.
//!
//! Promise: reading never fails, it finds or it does not. Must not know kinds or verbs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::managed::Kept;

/// Where metadata says who manages what.
pub(crate) const MANAGED: &str = "managedFields";

/// How deep objects may be nested: what is kept is read again, and its managed fields are nested deeper than itself.
pub(crate) const DEEPEST: usize = 100;

/// A whole object, or any JSON map in one.
pub(crate) type Body = Map<String, Value>;

/// What the server needs to know of a stored object without parsing it.
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

/// An object as it is kept: its text, and what is asked of it most.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) slim: Slim,
    /// `{"apiVersion":...,"kind":...,` and then the rest, in this order.
    pub(crate) json: Bytes,
    /// Who manages what; part of the text, not of [`Self::body`].
    pub(crate) kept: Arc<Kept>,
    /// Where the rest begins.
    head: usize,
    /// Where in the text the managed fields are.
    managed: Range<usize>,
}

// === impl Stored ===

impl Stored {
    /// Write the object down; `body` says its metadata, the caller its type.
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
        // It is kept for long.
        text.shrink_to_fit();
        Self {
            slim: slim(body, revision),
            json: text.into(),
            kept,
            head,
            managed,
        }
    }

    /// The object as a map, without its managed fields: cheaper, and what most rules are about.
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

    /// The object as a map.
    pub(crate) fn whole_body(&self) -> Body {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The `apiVersion` it is written down in.
    pub(crate) fn api_version(&self) -> &str {
        let head = self.json.get(HEAD.len() + 1..self.head).unwrap_or_default();
        let end = head.iter().position(|byte| *byte == b'"');
        str::from_utf8(&head[..end.unwrap_or_default()]).unwrap_or_default()
    }

    /// The object's text with another type in front.
    pub(crate) fn retyped(&self, api_version: &str, kind: &str) -> Bytes {
        let mut text = head(api_version, kind);
        text.extend_from_slice(&self.json[self.head..]);
        text.into()
    }

    /// The object's text without its type, as built-in kinds appear in lists.
    pub(crate) fn untyped(&self) -> Bytes {
        let rest = &self.json[self.head..];
        let mut text = Vec::with_capacity(rest.len() + 1);
        text.push(b'{');
        text.extend_from_slice(rest.strip_prefix(b",").unwrap_or(rest));
        text.into()
    }
}

/// Write metadata with the managed fields first; where those are.
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

/// How the text of an object begins; its version follows.
const HEAD: &[u8] = b"{\"apiVersion\":";

fn head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(1024);
    text.extend_from_slice(HEAD);
    write_json(&mut text, &api_version);
    text.extend_from_slice(b",\"kind\":");
    write_json(&mut text, &kind);
    text
}

/// JSON of anything that cannot fail to serialise: strings, values, maps.
pub(crate) fn write_json<T: serde::Serialize + ?Sized>(into: &mut Vec<u8>, value: &T) {
    // Writing to a Vec cannot fail, and JSON values have no unserialisable part.
    let _infallible = serde_json::to_writer(into, value);
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

/// The owner references that are maps.
pub(crate) fn owners(meta: &Body) -> Vec<&Body> {
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

/// Whether a value is nested deeper than so many levels.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    let deeper = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(map) => map.values().any(deeper),
        _ => false,
    }
}

/// `metadata`, if it is a map.
pub(crate) fn metadata(body: &Body) -> Option<&Body> {
    body.get("metadata").and_then(Value::as_object)
}

/// `metadata`, made a map if it is none.
pub(crate) fn metadata_mut(body: &mut Body) -> &mut Body {
    map_mut(body, "metadata")
}

/// A field, made a map if it is none.
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

/// A field's text, empty if it has none.
pub(crate) fn text<'a>(map: &'a Body, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a field of `metadata`, empty if it has none.
pub(crate) fn meta_text<'a>(body: &'a Body, field: &str) -> &'a str {
    metadata(body).map_or("", |meta| text(meta, field))
}

/// The finalizers that are strings.
pub(crate) fn finalizers(body: &Body) -> Vec<&str> {
    let found = metadata(body).and_then(|meta| meta.get("finalizers"));
    found
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The value at a dotted path of plain names, such as `.spec.replicas`.
pub(crate) fn at_path<'a>(body: &'a Body, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    let mut value = body.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value)
}

/// Put a value at a dotted path of plain names, making maps on the way.
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
