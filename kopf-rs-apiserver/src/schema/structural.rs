//! Whether a schema is structural: what a definition's own schema may say.
//!
//! Promise: every complaint carries the field it is about, worded as the real server words it; nothing is changed. The rules
//! are those of "Specifying a structural schema" in Kubernetes' documentation of custom resources, and what 1.36 was seen
//! to answer. Must not know definitions beyond their schema, nor values.

use serde_json::{Map, Value};

use crate::status::Cause;

/// Where in a schema something stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Words that may not stand below `allOf`, `anyOf`, `oneOf` and `not`, and what is said of them.
const NOT_NESTED: [(&str, &str); 10] = [
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("title", "must be empty to be structural"),
    ("type", "must be empty to be structural"),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
];

/// What is wrong with the schema at that field.
pub(crate) fn check(schema: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is(schema, "nullable") {
        let message = "nullable cannot be true at the root";
        causes.push(Cause::forbidden(format!("{field}.nullable"), message));
    }
    let mut found = Vec::new();
    invariants(schema, Level::Root, field, &mut found);
    found.sort_by(|one, two| (&one.field, &one.message).cmp(&(&two.field, &two.message)));
    causes.extend(found);
    forbidden(schema, field, &mut causes);
    causes
}

fn is(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn parts<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}

fn branches<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn invariants(schema: &Value, level: Level, field: &str, causes: &mut Vec<Cause>) {
    let kind = text(schema, "type");
    if kind == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(
            format!("{field}.items"),
            "must be specified",
        ));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        invariants(items, Level::Item, &format!("{field}.items"), causes);
    }
    for (name, part) in parts(schema, "properties") {
        // Metadata at the root has rules of its own.
        if level != Level::Root || name != "metadata" {
            let field = format!("{field}.properties[{name}]");
            invariants(part, Level::Field, &field, causes);
        }
    }
    if let Some(extra) = schema.get("additionalProperties") {
        let field = format!("{field}.additionalProperties");
        if level == Level::Root {
            causes.push(Cause::forbidden(&*field, "must not be used at the root"));
        }
        if extra.is_object() {
            invariants(extra, Level::Field, &field, causes);
        }
    }
    own(schema, kind, level, field, causes);
    let embedded = is(schema, "x-kubernetes-embedded-resource");
    if embedded || level == Level::Root {
        object_meta(schema, level, field, causes);
    }
    validation(schema, field, causes);
}

/// The type, and what goes together with which extension.
fn own(schema: &Value, kind: &str, level: Level, field: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{field}.{name}");
    let embedded = is(schema, "x-kubernetes-embedded-resource");
    let either = is(schema, "x-kubernetes-int-or-string");
    let keeps = is(schema, "x-kubernetes-preserve-unknown-fields");
    let must = "must be object if x-kubernetes-embedded-resource is true";
    if embedded && kind.is_empty() {
        causes.push(Cause::required(at("type"), must));
    } else if embedded && kind != "object" {
        causes.push(Cause::invalid(at("type"), &kind.into(), must));
    } else if kind.is_empty() && !either && !keeps {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        causes.push(Cause::required(
            at("type"),
            &format!("must not be empty {place}"),
        ));
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        let message = "must be object at the root";
        causes.push(Cause::invalid(at("type"), &kind.into(), message));
    }
    for (name, set) in [
        ("x-kubernetes-preserve-unknown-fields", keeps),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if either && set {
            let message = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(at(name), &true.into(), message));
        }
    }
    if embedded && schema.get("additionalProperties").is_some() {
        let message = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(at("additionalProperties"), message));
    }
    if embedded && !keeps && parts(schema, "properties").next().is_none() {
        let message = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(at("properties"), message));
    }
}

/// `kind`, `apiVersion` and `metadata` of whole objects.
fn object_meta(schema: &Value, level: Level, field: &str, causes: &mut Vec<Cause>) {
    let properties = schema.get("properties").unwrap_or(&Value::Null);
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let Some(found) = properties.get(name) else {
            continue;
        };
        let kind = text(found, "type");
        if kind != wanted {
            let field = format!("{field}.properties[{name}].type");
            let message = format!("must be {wanted}");
            causes.push(Cause::invalid(field, &kind.into(), &message));
        }
    }
    let Some(metadata) = properties.get("metadata").filter(|_| level == Level::Root) else {
        return;
    };
    let only_names = parts(metadata, "properties")
        .all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let more = metadata.as_object().is_some_and(|found| {
        found
            .keys()
            .any(|name| !matches!(name.as_str(), "type" | "properties"))
    });
    if !only_names || more {
        let message = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        let field = format!("{field}.properties[metadata]");
        causes.push(Cause::forbidden(field, message));
    }
}

/// What stands in `allOf`, `anyOf`, `oneOf` and `not` may only validate.
fn validation(schema: &Value, field: &str, causes: &mut Vec<Cause>) {
    let either = is(schema, "x-kubernetes-int-or-string");
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, branch) in branches(schema, name).iter().enumerate() {
            let allowed = either && (name == "anyOf" || (name == "allOf" && at == 0));
            nested(branch, allowed, &format!("{field}.{name}[{at}]"), causes);
        }
    }
    if let Some(branch) = schema.get("not") {
        nested(branch, false, &format!("{field}.not"), causes);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = regex_lite::Regex::new(pattern) {
        let message = format!("must be a valid regular expression, but isn't: {error}");
        let field = format!("{field}.pattern");
        causes.push(Cause::invalid(field, &pattern.into(), &message));
    }
}

fn nested(schema: &Value, may_have_type: bool, field: &str, causes: &mut Vec<Cause>) {
    for (name, message) in NOT_NESTED {
        let set = schema.get(name).is_some_and(|found| *found != false);
        if set && !(may_have_type && name == "type") {
            causes.push(Cause::forbidden(format!("{field}.{name}"), message));
        }
    }
    for (name, part) in parts(schema, "properties") {
        let field = format!("{field}.properties[{name}]");
        if name == "metadata" {
            let message = "must not be specified in a nested context";
            causes.push(Cause::forbidden(&*field, message));
        }
        nested(part, false, &field, causes);
    }
    if let Some(items) = schema.get("items") {
        nested(items, false, &format!("{field}.items"), causes);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, branch) in branches(schema, name).iter().enumerate() {
            nested(
                branch,
                may_have_type,
                &format!("{field}.{name}[{at}]"),
                causes,
            );
        }
    }
}

/// Words that schemas of definitions do not know, and lists and maps that do not fit their types.
fn forbidden(schema: &Value, field: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{field}.{name}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let words = TYPES.map(|word| format!("{word:?}")).join(", ");
        let message = format!("Unsupported value: {kind:?}: supported values: {words}");
        causes.push(Cause::new("FieldValueNotSupported", at("type"), message));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.get(name).is_some() {
            causes.push(Cause::forbidden(
                at(name),
                &format!("{name} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let message = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(at("type"), message));
    }
    if is(schema, "uniqueItems") {
        let message =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(at("uniqueItems"), message));
    }
    let extra = schema.get("additionalProperties");
    if extra.is_some_and(|extra| *extra != true) && parts(schema, "properties").next().is_some() {
        let message = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(at("additionalProperties"), message));
    }
    let keeps = "x-kubernetes-preserve-unknown-fields";
    if schema.get(keeps) == Some(&Value::Bool(false)) {
        let message = "must be true or undefined";
        causes.push(Cause::invalid(at(keeps), &false.into(), message));
    }
    for (name, part) in parts(schema, "properties") {
        forbidden(part, &format!("{field}.properties[{name}]"), causes);
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(part) = schema.get(name).filter(|part| part.is_object()) {
            forbidden(part, &at(name), causes);
        }
    }
    collections(schema, kind, field, causes);
}

/// `x-kubernetes-list-type`, its keys, and `x-kubernetes-map-type`.
fn collections(schema: &Value, kind: &str, field: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{field}.{name}");
    for (name, wanted, known) in [
        (
            "x-kubernetes-map-type",
            "object",
            ["atomic", "granular", ""],
        ),
        ("x-kubernetes-list-type", "array", ["atomic", "set", "map"]),
    ] {
        let given = text(schema, name);
        if given.is_empty() {
            continue;
        }
        let message = format!("must be {wanted} if {name} is specified");
        if kind.is_empty() {
            causes.push(Cause::required(at("type"), &message));
        } else if kind != wanted {
            causes.push(Cause::invalid(at("type"), &kind.into(), &message));
        }
        if !known.contains(&given) {
            let words: Vec<String> = known
                .iter()
                .filter(|word| !word.is_empty())
                .map(|word| format!("{word:?}"))
                .collect();
            let words = words.join(", ");
            let message = format!("Unsupported value: {given:?}: supported values: {words}");
            causes.push(Cause::new("FieldValueNotSupported", at(name), message));
        }
    }
    list(
        schema,
        text(schema, "x-kubernetes-list-type"),
        field,
        causes,
    );
}

fn list(schema: &Value, list_type: &str, field: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{field}.{name}");
    let keys = branches(schema, "x-kubernetes-list-map-keys");
    let must = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        "" if !keys.is_empty() => causes.push(Cause::required(at("x-kubernetes-list-type"), must)),
        "" | "map" => {}
        other if !keys.is_empty() => {
            let field = at("x-kubernetes-list-type");
            causes.push(Cause::invalid(field, &other.into(), must));
        }
        _ => {}
    }
    let Some(items) = schema
        .get("items")
        .filter(|_| matches!(list_type, "set" | "map"))
    else {
        return;
    };
    if is(items, "nullable") {
        let message = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(at("items.nullable"), &message));
    }
    if list_type != "map" {
        return;
    }
    if keys.is_empty() {
        let message = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(at("x-kubernetes-list-map-keys"), message));
    }
    let kind = text(items, "type");
    if kind != "object" {
        let message = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(at("items.type"), &kind.into(), message));
        return;
    }
    map_keys(items, keys, field, causes);
}

fn map_keys(items: &Value, keys: &[Value], field: &str, causes: &mut Vec<Cause>) {
    let all = Value::from(keys);
    let required = branches(items, "required");
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let listed = format!("{field}.x-kubernetes-list-map-keys");
        let place = format!("{field}.items.properties[{name}]");
        let property = items.get("properties").and_then(|found| found.get(name));
        match property {
            None => {
                let message = "entries must all be names of item properties";
                causes.push(Cause::invalid(&*listed, &all, message));
            }
            Some(property) => {
                if matches!(text(property, "type"), "array" | "object") {
                    let message =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    causes.push(Cause::invalid(
                        format!("{place}.type"),
                        &"object".into(),
                        message,
                    ));
                }
                if !required.contains(key) && property.get("default").is_none() {
                    let message = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    causes.push(Cause::required(format!("{place}.default"), message));
                }
                if is(property, "nullable") {
                    let message =
                        "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    causes.push(Cause::forbidden(format!("{place}.nullable"), message));
                }
            }
        }
        if keys[..at].contains(key) {
            causes.push(Cause::invalid(
                &*listed,
                &all,
                "must not contain duplicate entries",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_by_table() {
        for (schema, expected) in [
            (json!({"type": "object"}), ""),
            (
                json!({}),
                "s.type: Required value: must not be empty at the root",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "s.properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
                "",
            ),
            (
                json!({"type": "object", "anyOf": [{"type": "object"}]}),
                "s.anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}}),
                "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ),
        ] {
            let told: Vec<String> = check(&schema, "s")
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(told.join("; "), expected, "{schema}");
        }
    }
}
