//! Renders stored objects as the body of an answer, in the requested form.
//!
//! Guarantees that the most common form only copies the stored text. Must not depend on verbs.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::call::Form;
use crate::kind::{Kind, Shape, shape};
use crate::object::{Body, Stored, write_json};

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// Renders one object.
pub(crate) fn object(kind: &Kind, stored: &Stored, form: Form) -> Bytes {
    match form {
        Form::Partial(version) | Form::Partials(version) => to_bytes(&partial(stored, version)),
        _ => whole(kind, stored),
    }
}

/// Renders several objects as a list of their kind.
pub(crate) fn list<'a>(
    kind: &Kind,
    items: impl Iterator<Item = &'a Stored> + Clone,
    meta: &ListMeta,
    form: Form,
) -> Bytes {
    let (api_version, list_kind) = match form {
        Form::Partial(version) | Form::Partials(version) => {
            (version.to_owned(), "PartialObjectMetadataList".to_owned())
        }
        _ => (kind.api_version(), kind.list_kind.clone()),
    };
    let size: usize = items.clone().map(|stored| stored.json.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 512);
    text.extend_from_slice(b"{\"kind\":");
    write_json(&mut text, &list_kind);
    text.extend_from_slice(b",\"apiVersion\":");
    write_json(&mut text, &api_version);
    text.extend_from_slice(b",\"metadata\":");
    let mut metadata = list_meta(meta);
    if !kind.traits.builtin && form == Form::Whole {
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    write_json(&mut text, &metadata);
    if form != Form::Whole && items.clone().next().is_none() {
        // The real server answers null for an empty list of metadata.
        text.extend_from_slice(b",\"items\":null}");
        return text.into();
    }
    text.extend_from_slice(b",\"items\":[");
    for (at, stored) in items.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let item = match form {
            Form::Whole if kind.traits.builtin && kind.shape == Shape::Stored => stored.untyped(),
            form => object(kind, stored, form),
        };
        text.extend_from_slice(&item);
    }
    text.extend_from_slice(b"]}");
    text.into()
}

/// Returns the `metadata` of a list or table.
pub(crate) fn list_meta(meta: &ListMeta) -> Map<String, Value> {
    let mut map = Map::new();
    // The result of a dry run has no resource version.
    if meta.revision > 0 {
        let revision = meta.revision.to_string();
        map.insert("resourceVersion".to_owned(), revision.into());
    }
    if let Some(next) = &meta.next {
        map.insert("continue".to_owned(), next.as_str().into());
    }
    if let Some(remaining) = meta.remaining {
        map.insert("remainingItemCount".to_owned(), remaining.into());
    }
    map
}

/// Returns the metadata of an object as `PartialObjectMetadata`.
pub(crate) fn partial(stored: &Stored, version: &str) -> Value {
    let metadata = stored.whole_body().remove("metadata").unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata})
}

/// Returns the metadata of an object that is not stored in this form.
pub(crate) fn metadata_of(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": object["metadata"]})
}

/// Returns the real server's Go type for objects or lists of a kind, which some messages name.
pub(crate) fn go_type(kind: &Kind, list: bool) -> String {
    if !kind.traits.builtin {
        let word = if list { "List" } else { "" };
        return format!("unstructured.Unstructured{word}");
    }
    let package = match kind.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    let word = if list { &kind.list_kind } else { &kind.kind };
    format!("{package}.{word}")
}

/// Returns the object as a map in the version of `kind`.
pub(crate) fn body(kind: &Kind, stored: &Stored) -> Body {
    shape::from_stored(kind, stored.whole_body())
}

fn whole(kind: &Kind, stored: &Stored) -> Bytes {
    match kind.shape {
        Shape::NewEvent | Shape::FirstAutoscaler => to_bytes(&Value::Object(body(kind, stored))),
        Shape::Stored if kind.is_native() => stored.json.clone(),
        Shape::Stored if kind.stored_schema.is_some() => {
            to_bytes(&Value::Object(body(kind, stored)))
        }
        Shape::Stored => stored.retyped(&kind.api_version(), &kind.kind),
    }
}

/// Returns the JSON text of a value.
pub(crate) fn to_bytes(value: &Value) -> Bytes {
    let mut text = Vec::with_capacity(512);
    write_json(&mut text, value);
    text.into()
}
