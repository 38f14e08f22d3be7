//! Checks that a schema is structural: every value has exactly one place in the schema and one type.
//!
//! Changes nothing; errors are sorted by their text. The rules are those of "Specifying a structural schema" in the Kubernetes
//! documentation of custom resources, refined by the replies of version 1.36. Independent of values and of keywords that do not affect structure.

use serde_json::{Map, Value, json};

use crate::schema::{is, pattern};
use crate::status::Cause;

/// The position of a schema relative to its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that may not stand below `allOf`, `anyOf`, `oneOf` and `not`, with the error.
const NOT_NESTED: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Keywords that no structural schema has.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

/// Returns the reason why a schema cannot be read as a structural one at all.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return None;
    }
    let known = |(name, told): &(&str, &str)| {
        let found = schema.get(*name)?;
        let empty = found.as_object().is_some_and(Map::is_empty) && *name != "additionalItems";
        (!empty && found != "").then(|| format!("OpenAPIV3Schema '{told}' is not supported"))
    };
    if let Some(told) = UNSUPPORTED.iter().find_map(known) {
        return Some(told);
    }
    let keeps = "x-kubernetes-preserve-unknown-fields";
    if schema.get(keeps) == Some(&Value::Bool(false)) {
        return Some(format!(
            "internal error: '{keeps}' must be true or undefined"
        ));
    }
    if schema
        .get("items")
        .and_then(Value::as_array)
        .is_some_and(|items| !items.is_empty())
    {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    below(schema).find_map(unsupported)
}

/// Returns all direct sub-schemas.
pub(super) fn below(schema: &Value) -> impl Iterator<Item = &Value> {
    let one = ["not", "items", "additionalProperties"];
    let one = one.into_iter().filter_map(|name| schema.get(name));
    let all = ["allOf", "anyOf", "oneOf"];
    let all = all.into_iter().flat_map(|name| branches(schema, name));
    let named = parts(schema, "properties").map(|(_, part)| part);
    one.chain(all).chain(named)
}

/// Returns the errors that keep the schema at `field` from being structural.
pub(super) fn check(schema: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    invariants(schema, Level::Root, field, &mut causes);
    complete_value(schema, Some(schema), [field, field], &mut causes);
    causes.sort_by(|one, two| (&one.field, &one.message).cmp(&(&two.field, &two.message)));
    causes
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
    if text(schema, "type") == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(
            format!("{field}.items"),
            "must be specified",
        ));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        invariants(items, Level::Item, &format!("{field}.items"), causes);
    }
    for (name, part) in parts(schema, "properties") {
        let field = format!("{field}.properties[{name}]");
        invariants(part, Level::Field, &field, causes);
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
    own_type(schema, level, field, causes);
    extensions(schema, field, causes);
    if is(schema, "x-kubernetes-embedded-resource") || level == Level::Root {
        object_meta(schema, level, field, causes);
    }
    validation(schema, field, causes);
}

fn own_type(schema: &Value, level: Level, field: &str, causes: &mut Vec<Cause>) {
    let (kind, at) = (text(schema, "type"), format!("{field}.type"));
    let free = is(schema, "x-kubernetes-int-or-string")
        || is(schema, "x-kubernetes-preserve-unknown-fields");
    if is(schema, "x-kubernetes-embedded-resource") {
        let must = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "object" => {}
            "" => causes.push(Cause::required(&*at, must)),
            other => causes.push(Cause::invalid(&*at, &other.into(), must)),
        }
    } else if kind.is_empty() && !free {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        let message = format!("must not be empty {place}");
        causes.push(Cause::required(&*at, &message));
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        causes.push(Cause::invalid(
            at,
            &kind.into(),
            "must be object at the root",
        ));
    }
}

fn extensions(schema: &Value, field: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{field}.{name}");
    let embedded = is(schema, "x-kubernetes-embedded-resource");
    let keeps = is(schema, "x-kubernetes-preserve-unknown-fields");
    for (name, set) in [
        ("x-kubernetes-preserve-unknown-fields", keeps),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if set && is(schema, "x-kubernetes-int-or-string") {
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

/// Checks `kind`, `apiVersion` and `metadata` of whole objects.
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
            .any(|name| !matches!(name.as_str(), "type" | "properties" | "default"))
    });
    if !only_names || more {
        let message = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        let field = format!("{field}.properties[metadata]");
        causes.push(Cause::forbidden(field, message));
    }
}

/// Returns true if the branches are exactly the two types of an int-or-string.
fn is_either(branches: &[Value]) -> bool {
    *branches == [json!({"type": "integer"}), json!({"type": "string"})]
}

/// Checks that `allOf`, `anyOf`, `oneOf` and `not` only validate. The two branches of an int-or-string are exempt, here and in the first
/// branch of `allOf`.
fn validation(schema: &Value, field: &str, causes: &mut Vec<Cause>) {
    let first = branches(schema, "allOf").first();
    let skip_any = is_either(branches(schema, "anyOf"));
    let skip_first = first.is_some_and(|first| is_either(branches(first, "anyOf")));
    alternatives(schema, [skip_any, skip_first], field, causes);
}

/// Checks a schema within a branch; `skip` exempts the two branches of an int-or-string.
fn nested(schema: &Value, skip: bool, field: &str, causes: &mut Vec<Cause>) {
    alternatives(schema, [skip, false], field, causes);
    if let Some(items) = schema.get("items") {
        nested(items, false, &format!("{field}.items"), causes);
    }
    for (name, part) in parts(schema, "properties") {
        let field = format!("{field}.properties[{name}]");
        if name == "metadata" {
            let message = "must not be specified in a nested context";
            causes.push(Cause::forbidden(&*field, message));
        }
        nested(part, false, &field, causes);
    }
    for (name, message) in NOT_NESTED {
        if schema.get(name).is_some() {
            causes.push(Cause::forbidden(format!("{field}.{name}"), message));
        }
    }
    let extra = schema.get("additionalProperties");
    if extra.is_some_and(|extra| *extra != false) {
        let message = "must be undefined to be structural";
        let field = format!("{field}.additionalProperties");
        causes.push(Cause::forbidden(field, message));
    }
}

fn alternatives(schema: &Value, skip: [bool; 2], field: &str, causes: &mut Vec<Cause>) {
    let [skip_any, skip_first] = skip;
    for name in ["allOf", "anyOf", "oneOf"] {
        if name == "anyOf" && skip_any {
            continue;
        }
        for (at, branch) in branches(schema, name).iter().enumerate() {
            let skip = name == "allOf" && at == 0 && skip_first;
            nested(branch, skip, &format!("{field}.{name}[{at}]"), causes);
        }
    }
    if let Some(branch) = schema.get("not") {
        nested(branch, false, &format!("{field}.not"), causes);
    }
    let source = text(schema, "pattern");
    if let Some(why) = pattern::complaint(source) {
        let message = format!("must be a valid regular expression, but isn't: {why}");
        let field = format!("{field}.pattern");
        causes.push(Cause::invalid(field, &source.into(), &message));
    }
}

/// Checks that all fields named in branches also exist outside of them; the two paths are those of the schema and of the branch.
fn complete_value(
    said: &Value,
    schema: Option<&Value>,
    [place, at]: [&str; 2],
    causes: &mut Vec<Cause>,
) {
    if let Some(branch) = said.get("not") {
        complete(branch, schema, [place, &format!("{at}.not")], causes);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in branches(said, name).iter().enumerate() {
            let at = format!("{at}.{name}[{index}]");
            complete(branch, schema, [place, &at], causes);
        }
    }
}

fn complete(said: &Value, schema: Option<&Value>, places: [&str; 2], causes: &mut Vec<Cause>) {
    let [place, at] = places;
    let because = |at: &str| format!("because it is defined in {at}");
    let Some(found) = schema else {
        causes.push(Cause::required(place, &because(at)));
        return;
    };
    complete_value(said, schema, places, causes);
    if let Some(items) = said.get("items") {
        let places = [&*format!("{place}.items"), &*format!("{at}.items")];
        complete(items, found.get("items"), places, causes);
    }
    for (name, part) in parts(said, "properties") {
        let tail = format!(".properties[{name}]");
        let (place, at) = (format!("{place}{tail}"), format!("{at}{tail}"));
        match found.get("properties").and_then(|found| found.get(name)) {
            None => causes.push(Cause::required(place, &because(&at))),
            known => complete(part, known, [&place, &at], causes),
        }
    }
}
