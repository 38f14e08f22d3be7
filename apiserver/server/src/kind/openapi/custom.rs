//! The published schemas of custom kinds.
//!
//! Each schema is that of the definition, extended with the type and metadata fields of every object. Independent of requests.

use serde_json::{Value, json};

use super::reference::{self, REFERENCE, add, meta};
use super::{Schemas, gvk};
use crate::kind::Kind;

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Adds the schemas of a kind and of its list.
pub(super) fn add_kind(kind: &Kind, into: &mut Schemas) {
    for name in ["ObjectMeta", "ListMeta"] {
        add(&meta(name), &mut into.texts);
    }
    for (word, made) in [(&kind.kind, object(kind)), (&kind.list_kind, list(kind))] {
        into.made.insert(name(kind, word), made);
    }
}

/// Returns the schema name: the reversed group, the version, and `word`.
pub(super) fn name(kind: &Kind, word: &str) -> String {
    let mut words: Vec<&str> = kind.group.split('.').collect();
    words.reverse();
    format!("{}.{}.{word}", words.join("."), kind.version)
}

fn object(kind: &Kind) -> Value {
    let given = kind.schema.as_deref().cloned();
    let mut schema = given.unwrap_or_else(|| json!({"type": "object"}));
    published(&mut schema);
    add_type(&mut schema);
    schema["properties"]["metadata"] =
        of_meta("ObjectMeta", "Standard object's metadata", "metadata");
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
    schema
}

fn list(kind: &Kind) -> Value {
    let items = json!({
        "type": "array",
        "description": format!("List of {}. More info: {CONVENTIONS}", kind.plural),
        "items": {"$ref": format!("{REFERENCE}{}", name(kind, &kind.kind))},
    });
    let mut schema = json!({
        "type": "object",
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "required": ["items"],
        "properties": {
            "items": items,
            "metadata": of_meta("ListMeta", "Standard list metadata", "types-kinds"),
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": kind.version, "kind": kind.list_kind}],
    });
    add_type(&mut schema);
    schema
}

fn of_meta(kind: &str, about: &str, section: &str) -> Value {
    json!({
        "allOf": [{"$ref": format!("{REFERENCE}{}", meta(kind))}],
        "description": format!("{about}. More info: {CONVENTIONS}#{section}"),
    })
}

/// Adds the `apiVersion` and `kind` properties with their standard descriptions.
fn add_type(schema: &mut Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let mut of_status = reference::schema(&meta("Status"));
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = of_status["properties"][field].take();
    }
}

/// Expands extension markers into the standard keywords that they imply, recursively.
fn published(schema: &mut Value) {
    let is = |schema: &Value, marker: &str| schema.get(marker) == Some(&Value::Bool(true));
    if is(schema, "x-kubernetes-int-or-string") && schema.get("anyOf").is_none() {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    let inner = ["properties", "patternProperties"];
    for field in inner {
        let found = schema.get_mut(field).and_then(Value::as_object_mut);
        found
            .into_iter()
            .flatten()
            .for_each(|(_, inner)| published(inner));
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(field).filter(|inner| inner.is_object()) {
            published(inner);
        }
    }
    if is(schema, "x-kubernetes-embedded-resource") {
        embed(schema);
    }
}

fn embed(schema: &mut Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |about: String| json!({"type": "string", "description": about});
    let properties = &mut schema["properties"];
    properties["apiVersion"] = text(format!(
        "apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources"
    ));
    properties["kind"] = text(format!(
        "kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds"
    ));
    properties["metadata"] = of_meta("ObjectMeta", "Standard object's metadata", "metadata");
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.cloned().unwrap_or_default();
    for field in ["kind", "apiVersion"] {
        if !required.contains(&field.into()) {
            required.push(field.into());
        }
    }
    schema["required"] = required.into();
}
