//! Converts schemas from `OpenAPI` v3 to v2.
//!
//! Omits everything that v2 cannot express, as the real server does. Independent of kinds.

use serde_json::{Map, Value};

use super::reference::REFERENCE;

pub(super) const DEFINITIONS: &str = "#/definitions/";

/// Converts the schema of a built-in type.
pub(super) fn builtin(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    schema.remove("default");
    if schema.remove("oneOf").is_some() {
        schema.insert("type".to_owned(), "string".into());
    }
    refer(schema);
    each_inner(schema, builtin);
}

/// Converts the schema of a custom kind; nullable values and values of any type lose their type.
pub(super) fn custom(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if is(schema, "x-kubernetes-preserve-unknown-fields") {
        schema.remove("properties");
        schema.remove("x-kubernetes-preserve-unknown-fields");
    }
    loose(schema);
    each_inner(schema, below);
}

fn below(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if is(schema, "nullable") || is(schema, "x-kubernetes-preserve-unknown-fields") {
        for field in [
            "type",
            "items",
            "properties",
            "additionalProperties",
            "required",
        ] {
            schema.remove(field);
        }
    }
    loose(schema);
    each_inner(schema, below);
}

fn loose(schema: &mut Map<String, Value>) {
    refer(schema);
    for field in ["default", "nullable", "allOf", "anyOf", "oneOf", "not"] {
        schema.remove(field);
    }
}

fn is(schema: &Map<String, Value>, marker: &str) -> bool {
    schema.get(marker) == Some(&Value::Bool(true))
}

/// Replaces a reference within a one-element `allOf` with the plain reference.
fn refer(schema: &mut Map<String, Value>) {
    let of_all = schema.get("allOf").and_then(|all| all.get(0)?.get("$ref"));
    let target = of_all
        .or_else(|| schema.get("$ref"))
        .and_then(Value::as_str);
    let Some(target) = target.map(|target| target.replace(REFERENCE, DEFINITIONS)) else {
        return;
    };
    schema.remove("allOf");
    schema.insert("$ref".to_owned(), target.into());
}

fn each_inner(schema: &mut Map<String, Value>, change: fn(&mut Value)) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten() {
        change(property);
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(field) {
            change(inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_stand_alone_and_defaults_go() {
        let mut schema = json!({"properties": {
            "a": {"allOf": [{"$ref": "#/components/schemas/x"}], "default": {}, "description": "d"},
            "b": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}], "default": 1}},
        }});
        builtin(&mut schema);
        let expected = json!({"properties": {
            "a": {"$ref": "#/definitions/x", "description": "d"},
            "b": {"type": "array", "items": {"type": "string"}},
        }});
        assert_eq!(schema, expected);
    }

    #[test]
    fn what_may_be_anything_has_no_type() {
        let mut schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b": {}}, "x-kubernetes-preserve-unknown-fields": true},
            "c": {"type": "string", "nullable": true, "anyOf": [{"minLength": 1}]},
        }});
        custom(&mut schema);
        let expected = json!({"type": "object", "properties": {
            "a": {"x-kubernetes-preserve-unknown-fields": true}, "c": {},
        }});
        assert_eq!(schema, expected);
    }
}
