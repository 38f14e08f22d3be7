//! Checks the keywords of schemas: unknown ones, wrong combinations, and CEL rules.
//!
//! Checks rules only if the schema around them has no other error. Independent of structure and defaults, and of how expressions are checked.

use serde_json::Value;

use super::path;
use super::ruled::{self, Sight};
use crate::schema::is;
use crate::status::Cause;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Keywords that definitions do not support.
const UNKNOWN: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// The reasons that a rule may give.
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// The errors so far.
#[derive(Debug, Default)]
struct Found {
    words: Vec<Cause>,
    rules: Vec<Cause>,
    /// The field and the cost of each rule.
    costs: Vec<(String, u64)>,
}

/// The location of a sub-schema in the whole schema.
#[derive(Clone, Debug)]
struct Place {
    field: String,
    /// The error for a default at this location, if defaults are forbidden.
    no_defaults: Option<String>,
    in_meta: bool,
    sight: Sight,
    /// True if rules are checked here.
    ruled: bool,
    root: bool,
}

/// Checks the keywords of the schema at `field`; `sound` means that it has no other error, `settled` that it was accepted before.
pub(super) fn check(schema: &Value, field: &str, sound: bool, settled: bool) -> Vec<Cause> {
    let sight = Sight {
        unfound: None,
        times: Some(1),
        settled,
    };
    let place = Place {
        field: field.to_owned(),
        no_defaults: None,
        in_meta: false,
        sight,
        ruled: sound,
        root: true,
    };
    let found = walk(schema, &place);
    let total = ruled::check_total(&found.costs, field);
    [found.words, found.rules, total].concat()
}

// === impl Found ===

impl Found {
    fn append(&mut self, mut other: Self) {
        self.words.append(&mut other.words);
        self.rules.append(&mut other.rules);
        self.costs.append(&mut other.costs);
    }
}

// === impl Place ===

impl Place {
    fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.field)
    }

    /// Returns the location of a sub-schema that does not define structure, so that its rules are not checked.
    fn aside(&self, tail: &str) -> Self {
        Self {
            field: self.at(tail),
            ruled: false,
            root: false,
            ..self.clone()
        }
    }

    fn part(&self, tail: &str) -> Self {
        Self {
            ruled: self.ruled,
            ..self.aside(tail)
        }
    }

    /// Returns the location of a sub-schema for the items or entries of a value.
    fn inside(&self, schema: &Value, tail: &str) -> Self {
        let mut inner = self.part(tail);
        let times = self.sight.times.zip(most_parts(schema));
        inner.sight.times = times.map(|(times, more)| times.saturating_mul(more));
        inner
    }

    fn unfound_here(&mut self, field: &str) {
        self.sight.unfound.get_or_insert_with(|| field.to_owned());
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn all<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    let found = schema.get(name).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

/// Returns the most items or entries that a value may have, if the schema limits them.
fn most_parts(schema: &Value) -> Option<u64> {
    let limit = |name: &str| {
        let found = schema.get(name).and_then(Value::as_i64);
        found.map(|most| u64::try_from(most).unwrap_or(0))
    };
    match text(schema, "type") {
        "object" if schema.get("additionalProperties").is_some() => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

fn walk(schema: &Value, place: &Place) -> Found {
    let mut found = Found::default();
    words(schema, place, &mut found.words);
    parts(schema, place, &mut found);
    collections(schema, place, &mut found.words);
    stanza(schema, place, &mut found.words);
    if place.ruled && found.words.is_empty() {
        let whole = place.root || is(schema, "x-kubernetes-embedded-resource");
        let ruled = ruled::check(schema, whole, &place.sight, &place.field);
        found.rules.extend(ruled.causes);
        found.costs.extend(ruled.costs);
    }
    found
}

fn words(schema: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let words = TYPES.map(|word| format!("{word:?}")).join(", ");
        let message = format!("Unsupported value: {kind:?}: supported values: {words}");
        causes.push(Cause::new(
            "FieldValueNotSupported",
            place.at("type"),
            message,
        ));
    }
    if let Some(why) = place
        .no_defaults
        .as_ref()
        .filter(|_| schema.get("default").is_some())
    {
        let message = format!("must not be set {why}");
        causes.push(Cause::forbidden(place.at("default"), &message));
    }
    for name in UNKNOWN {
        if schema.get(name).is_some() {
            let message = format!("{name} is not supported");
            causes.push(Cause::forbidden(place.at(name), &message));
        }
    }
    if kind == "null" {
        let message = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(place.at("type"), message));
    }
    if !all(schema, "items").is_empty() {
        let message = "items must be a schema object and not an array";
        causes.push(Cause::forbidden(place.at("items"), message));
    }
    if place.in_meta && is(schema, "x-kubernetes-embedded-resource") {
        let message = "must not be used inside of resource meta";
        let field = place.at("x-kubernetes-embedded-resource");
        causes.push(Cause::forbidden(field, message));
    }
    if is(schema, "uniqueItems") {
        let message =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(place.at("uniqueItems"), message));
    }
    let keeps = "x-kubernetes-preserve-unknown-fields";
    if schema.get(keeps) == Some(&Value::Bool(false)) {
        let message = "must be true or undefined";
        causes.push(Cause::invalid(place.at(keeps), &false.into(), message));
    }
}

/// Checks the sub-schemas of a schema.
fn parts(schema: &Value, place: &Place, found: &mut Found) {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(extra) = schema.get("additionalProperties") {
        if *extra != true && properties.is_some_and(|properties| !properties.is_empty()) {
            let message = "additionalProperties and properties are mutual exclusive";
            let field = place.at("additionalProperties");
            found.words.push(Cause::forbidden(field, message));
        }
        let mut inner = place.inside(schema, "additionalProperties");
        if place.in_meta {
            let why = "inside additionalProperties applying to object metadata";
            inner.no_defaults = Some(why.to_owned());
        }
        if extra.is_object() {
            found.append(walk(extra, &inner));
        }
    }
    let whole = place.root || is(schema, "x-kubernetes-embedded-resource");
    for (name, part) in properties.into_iter().flatten() {
        let mut inner = place.inside(schema, &format!("properties[{name}]"));
        if whole && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.in_meta = true;
            if place.root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        found.append(walk(part, &inner));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, part) in all(schema, name).iter().enumerate() {
            let inner = place.aside(&format!("{name}[{at}]"));
            found.append(walk(part, &inner));
        }
    }
    if let Some(part) = schema.get("not") {
        found.append(walk(part, &place.aside("not")));
    }
    for name in ["definitions", "dependencies"] {
        let named = schema.get(name).and_then(Value::as_object);
        for (key, part) in named
            .into_iter()
            .flatten()
            .filter(|(_, part)| part.is_object())
        {
            let inner = place.aside(&format!("{name}[{key}]"));
            found.append(walk(part, &inner));
        }
    }
    items(schema, place, found);
}

fn items(schema: &Value, place: &Place, found: &mut Found) {
    let mut inner = place.inside(schema, "items");
    if text(schema, "x-kubernetes-list-type") != "map" {
        inner.unfound_here(&place.field);
    }
    if let Some(part) = schema.get("items").filter(|items| items.is_object()) {
        found.append(walk(part, &inner));
    }
    for (at, part) in all(schema, "items").iter().enumerate() {
        let inner = Place {
            field: format!("{}[{at}]", inner.field),
            ..inner.clone()
        };
        found.append(walk(part, &inner));
    }
}

fn unsupported(field: String, given: &str, known: &[&str]) -> Cause {
    let words: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
    let words = words.join(", ");
    let message = format!("Unsupported value: {given:?}: supported values: {words}");
    Cause::new("FieldValueNotSupported", field, message)
}

/// Checks `x-kubernetes-list-type` with its keys, and `x-kubernetes-map-type`.
fn collections(schema: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let kind = text(schema, "type");
    for (name, wanted, known) in [
        (
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"][..],
        ),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
    ] {
        let Some(given) = schema.get(name).and_then(Value::as_str) else {
            continue;
        };
        let message = format!("must be {wanted} if {name} is specified");
        if kind.is_empty() {
            causes.push(Cause::required(place.at("type"), &message));
        } else if kind != wanted {
            causes.push(Cause::invalid(place.at("type"), &kind.into(), &message));
        }
        if !known.contains(&given) {
            causes.push(unsupported(place.at(name), given, known));
        }
    }
    let keys = all(schema, "x-kubernetes-list-map-keys");
    let list_type = schema.get("x-kubernetes-list-type");
    let field = place.at("x-kubernetes-list-type");
    let must = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if !keys.is_empty() => causes.push(Cause::required(field, must)),
        Some(other) if other != "map" && !keys.is_empty() => {
            causes.push(Cause::invalid(field, other, must));
        }
        _ => {}
    }
    match list_type.and_then(Value::as_str) {
        Some("set") if kind == "array" => set(schema, place, causes),
        Some("map") => map(schema, keys, place, causes),
        _ => {}
    }
    identified(schema, keys, place, causes);
}

/// Checks the items of a set, which are compared as a whole and so must be atomic.
fn set(schema: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        return;
    };
    let must = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (list, map) = ("x-kubernetes-list-type", "x-kubernetes-map-type");
    let shown = items.get(list).unwrap_or(&Value::Null);
    let wrong = match text(items, "type") {
        "array" if !matches!(text(items, list), "" | "atomic") => list,
        "object" if text(items, map) != "atomic" => map,
        _ => return,
    };
    let field = place.at(&format!("items.{wrong}"));
    // The real server prints a pointer here, which appears as JSON.
    let shown = if shown.is_null() {
        "null".to_owned()
    } else {
        shown.to_string()
    };
    let message = format!("Invalid value: {shown}: {must}");
    causes.push(Cause::new("FieldValueInvalid", field, message));
}

/// Checks the keys of a keyed list.
fn map(schema: &Value, keys: &[Value], place: &Place, causes: &mut Vec<Cause>) {
    let at_keys = place.at("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let message = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(&*at_keys, message));
    }
    let items = schema.get("items");
    let Some(items) = items else {
        let message = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(place.at("items"), message));
        return;
    };
    if !items.is_object() {
        return;
    }
    let kind = text(items, "type");
    if kind != "object" {
        let message = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(
            place.at("items.type"),
            &kind.into(),
            message,
        ));
        return;
    }
    let listed = Value::from(keys);
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items.get("properties").and_then(|found| found.get(name)) {
            None => {
                let message = "entries must all be names of item properties";
                causes.push(Cause::invalid(&*at_keys, &listed, message));
            }
            Some(part) if matches!(text(part, "type"), "array" | "object") => {
                let field = place.at(&format!("items.properties[{name}].type"));
                let message =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(Cause::invalid(field, &"object".into(), message));
            }
            Some(_) => {}
        }
        if keys[..at].contains(key) {
            let message = "must not contain duplicate entries";
            causes.push(Cause::invalid(&*at_keys, &listed, message));
        }
    }
}

/// Checks that items of sets and keyed lists are not nullable, and that keys are required or have a default.
fn identified(schema: &Value, keys: &[Value], place: &Place, causes: &mut Vec<Cause>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let items = schema.get("items").filter(|items| items.is_object());
    let Some(items) = items.filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    if is(items, "nullable") {
        let message = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(place.at("items.nullable"), &message));
    }
    if list_type != "map" {
        return;
    }
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let Some(part) = items.get("properties").and_then(|found| found.get(name)) else {
            continue;
        };
        let at = place.at(&format!("items.properties[{name}]"));
        if !all(items, "required").contains(key) && part.get("default").is_none() {
            let message = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(format!("{at}.default"), message));
        }
        if is(part, "nullable") {
            let message =
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(format!("{at}.nullable"), message));
        }
    }
}

/// Checks the fields of rules other than the expressions.
fn stanza(schema: &Value, place: &Place, causes: &mut Vec<Cause>) {
    for (at, rule) in all(schema, "x-kubernetes-validations").iter().enumerate() {
        let field = place.at(&format!("x-kubernetes-validations[{at}]"));
        messages(rule, &field, causes);
        let reason = rule.get("reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
            causes.push(unsupported(format!("{field}.reason"), reason, &REASONS));
        }
        let given = text(rule, "fieldPath");
        let mut complain = |message: &str| {
            let field = format!("{field}.fieldPath");
            causes.push(Cause::invalid(field, &given.into(), message));
        };
        if given.is_empty() {
            continue;
        }
        if given.trim().is_empty() {
            complain("must be non-empty if specified");
        }
        if given.contains(['\n', '\r']) {
            complain("must not contain line breaks");
        }
        if path::find(given, schema, true).is_err() {
            complain("must be a valid path");
        }
    }
}

fn messages(rule: &Value, field: &str, causes: &mut Vec<Cause>) {
    let (source, message) = (text(rule, "rule").trim(), text(rule, "message"));
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let at = format!("{field}.message");
    if source.is_empty() {
        let field = format!("{field}.rule");
        causes.push(Cause::required(field, "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        causes.push(Cause::invalid(at, &message.into(), why));
    } else if breaks(message.trim()) {
        let why = "must not contain line breaks";
        causes.push(Cause::invalid(at, &message.into(), why));
    } else if breaks(source) && message.trim().is_empty() {
        let why = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(at, why));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let field = format!("{field}.messageExpression");
        let why = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(field, why));
    }
}
