//! What is wrong with a value, by its schema.
//!
//! Promise: nothing is changed. Must not know where values come from.

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::object::Body;
use crate::status::{Cause, shown};

/// What is wrong with a whole object.
pub(crate) fn check(schema: &Value, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    // Metadata has rules of its own, whatever the schema says of it.
    let content: Body = body
        .iter()
        .filter(|(name, _)| *name != "metadata")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut schema = schema.clone();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "metadata");
    }
    let place = Place {
        field: String::new(),
        shown: String::new(),
    };
    value(&schema, &Value::Object(content), &place, &mut causes);
    causes
}

/// What is wrong with an object's status alone.
pub(crate) fn check_status(schema: &Value, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let schema = schema
        .get("properties")
        .and_then(|found| found.get("status"));
    if let (Some(schema), Some(status)) = (schema, body.get("status")) {
        let place = Place {
            field: "status".to_owned(),
            shown: String::new(),
        };
        value(schema, status, &place, &mut causes);
    }
    causes
}

/// Where a value is, as the cause's field and as the message calls it; these differ below `status`.
struct Place {
    field: String,
    shown: String,
}

// === impl Place ===

impl Place {
    fn child(&self, name: &str) -> Self {
        Self {
            field: super::join(&self.field, name),
            shown: super::join(&self.shown, name),
        }
    }

    fn item(&self, at: usize) -> Self {
        Self {
            field: format!("{}[{at}]", self.field),
            shown: format!("{}[{at}]", self.shown),
        }
    }

    fn invalid(&self, value: &Value, message: &str) -> Cause {
        Cause::invalid(
            self.field.as_str(),
            value,
            &format!("{} in body {message}", self.shown),
        )
    }

    fn wrong_type(&self, found: &str, wanted: &str) -> Cause {
        let message = format!(
            "Invalid value: {found:?}: {} in body must be of type {wanted}: {found:?}",
            self.shown
        );
        Cause::new("FieldValueTypeInvalid", self.field.as_str(), message)
    }
}

/// A complaint that the real server gives no field to.
fn nowhere(message: &str) -> Cause {
    Cause::invalid("<nil>", &"".into(), message)
}

fn value(schema: &Value, found: &Value, place: &Place, causes: &mut Vec<Cause>) {
    if found.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(cause) = wrong_type(schema, found, place) {
        causes.push(cause);
        if schema["type"] == "integer" && found.is_number() {
            causes.push(nowhere(&format!(
                "Checked value must be of type integer (default format) in {}",
                place.shown
            )));
        }
        choice(schema, found, place, causes);
        return;
    }
    match found {
        Value::String(text) => string(schema, text, place, causes),
        Value::Number(_) => number(schema, found, place, causes),
        Value::Array(items) => list(schema, items, place, causes),
        Value::Object(map) => object(schema, map, place, causes),
        _ => {}
    }
    choice(schema, found, place, causes);
    combined(schema, found, place, causes);
}

/// Whether the value is among those that are allowed.
fn choice(schema: &Value, found: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let allowed = schema.get("enum").and_then(Value::as_array);
    let Some(allowed) = allowed.filter(|allowed| !allowed.contains(found)) else {
        return;
    };
    // Quoted, whatever they are.
    let quoted = |value: &Value| match value {
        Value::String(text) => format!("{text:?}"),
        other => format!("\"{other}\""),
    };
    let words: Vec<String> = allowed.iter().map(quoted).collect();
    let message = format!(
        "Unsupported value: {}: supported values: {}",
        shown(found),
        words.join(", ")
    );
    causes.push(Cause::new(
        "FieldValueNotSupported",
        place.field.as_str(),
        message,
    ));
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Bool(_) => "boolean",
        other => crate::rules::go_type(other),
    }
}

fn wrong_type(schema: &Value, value: &Value, place: &Place) -> Option<Cause> {
    let found = type_of(value);
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        let fits = matches!(found, "integer" | "string");
        return (!fits).then(|| place.wrong_type(found, "integer,string"));
    }
    let wanted = schema.get("type").and_then(Value::as_str)?;
    let whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = match wanted {
        "number" => value.is_number(),
        "integer" => found == "integer" || (value.is_number() && whole()),
        wanted => found == wanted,
    };
    (!fits).then(|| place.wrong_type(found, wanted))
}

fn limit(schema: &Value, name: &str) -> Option<usize> {
    schema
        .get(name)
        .and_then(Value::as_u64)
        .and_then(|limit| usize::try_from(limit).ok())
}

fn string(schema: &Value, text: &str, place: &Place, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    if let Some(limit) = limit(schema, "maxLength").filter(|limit| length > *limit) {
        let message = format!("Too long: may not be more than {limit} bytes");
        causes.push(Cause::new(
            "FieldValueTooLong",
            place.field.as_str(),
            message,
        ));
    }
    if let Some(limit) = limit(schema, "minLength").filter(|limit| length < *limit) {
        let message = format!("should be at least {limit} chars long");
        causes.push(place.invalid(&text.into(), &message));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
    {
        causes.push(place.invalid(&text.into(), &format!("should match '{pattern}'")));
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && !super::format::fits(text, format)
    {
        let message = format!(
            "Invalid value: {text:?}: {} in body must be of type {format}: {text:?}",
            place.shown
        );
        causes.push(Cause::new(
            "FieldValueTypeInvalid",
            place.field.as_str(),
            message,
        ));
    }
}

fn number(schema: &Value, found: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let number = found.as_f64().unwrap_or_default();
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let exclusive = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let range = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => i32::try_from(found.as_i64().unwrap_or(i64::MAX)).is_ok(),
        _ => true,
    };
    if !range {
        causes.push(nowhere(&format!(
            "Checked value must be of type integer with format int32 in {}",
            place.shown
        )));
    }
    let factor = bound("multipleOf").filter(|factor| *factor > 0.0);
    if factor.is_some_and(|factor| factor < 1.0) && !found.is_f64() {
        // The real server takes the factor for a whole number here, and finds 0.
        let message = format!(
            "factor MultipleOf declared for {} must be positive: 0",
            place.shown
        );
        causes.push(Cause::invalid(place.field.as_str(), &0.into(), &message));
        return;
    }
    if let Some(factor) = factor
        && (number / factor).fract().abs() > f64::EPSILON
    {
        causes.push(place.invalid(found, &format!("should be a multiple of {factor}")));
    }
    if let Some(limit) = bound("maximum") {
        if exclusive("exclusiveMaximum") && number >= limit {
            causes.push(place.invalid(found, &format!("should be less than {limit}")));
        } else if number > limit {
            causes.push(place.invalid(found, &format!("should be less than or equal to {limit}")));
        }
    }
    if let Some(limit) = bound("minimum") {
        if exclusive("exclusiveMinimum") && number <= limit {
            causes.push(place.invalid(found, &format!("should be greater than {limit}")));
        } else if number < limit {
            causes.push(place.invalid(
                found,
                &format!("should be greater than or equal to {limit}"),
            ));
        }
    }
}

fn list(schema: &Value, items: &[Value], place: &Place, causes: &mut Vec<Cause>) {
    count(
        schema,
        ["minItems", "maxItems", "items"],
        items.len(),
        place,
        causes,
    );
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(item.clone()),
        Some("map") => {
            let of = |key: &&str| Some(((*key).to_owned(), item.get(*key)?.clone()));
            Some(Value::Object(keys.iter().filter_map(of).collect()))
        }
        _ => None,
    };
    let mut seen = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = place.item(at);
        if let Some(schema) = schema.get("items") {
            value(schema, item, &place, causes);
        }
        if schema["x-kubernetes-list-type"] == "map" && !item.is_object() {
            let message = "must be an object for an array of list-type map";
            causes.push(Cause::invalid(place.field.as_str(), item, message));
        }
        if let Some(identity) = identity(item) {
            if seen.contains(&identity) {
                let message = format!("Duplicate value: {}", shown(&identity));
                causes.push(Cause::new("FieldValueDuplicate", place.field, message));
            }
            seen.push(identity);
        }
    }
}

/// Check how many parts there are; the names are those of the lower limit, the upper one, and the parts.
fn count(schema: &Value, names: [&str; 3], found: usize, place: &Place, causes: &mut Vec<Cause>) {
    let [least, most, parts] = names;
    if let Some(limit) = limit(schema, least).filter(|limit| found < *limit) {
        let message = format!("should have at least {limit} {parts}");
        causes.push(place.invalid(&found.into(), &message));
    }
    if let Some(limit) = limit(schema, most).filter(|limit| found > *limit) {
        let message = format!("Too many: {found}: must have at most {limit} items");
        causes.push(Cause::new(
            "FieldValueTooMany",
            place.field.as_str(),
            message,
        ));
    }
}

fn object(schema: &Value, map: &Map<String, Value>, place: &Place, causes: &mut Vec<Cause>) {
    count(
        schema,
        ["minProperties", "maxProperties", "properties"],
        map.len(),
        place,
        causes,
    );
    if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        super::embedded::check(map, &place.field, causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let extra = schema
        .get("additionalProperties")
        .filter(|extra| extra.is_object());
    for (name, found) in map {
        let known = properties.and_then(|properties| properties.get(name));
        if let Some(schema) = known.or(extra) {
            value(schema, found, &place.child(name), causes);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            causes.push(Cause::required(place.child(name).field, ""));
        }
    }
}

fn combined(schema: &Value, found: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let told = |what: &str| nowhere(&format!("{:?} must {what}", place.shown));
    let results = |name: &str| -> Option<Vec<Vec<Cause>>> {
        let schemas = schema.get(name)?.as_array()?;
        let of = |schema: &Value| {
            let mut causes = Vec::new();
            value(schema, found, place, &mut causes);
            causes
        };
        Some(schemas.iter().map(of).collect())
    };
    if let Some(results) = results("anyOf")
        && !results.iter().any(Vec::is_empty)
    {
        causes.push(told("validate at least one schema (anyOf)"));
        causes.extend(results.into_iter().next().unwrap_or_default());
    }
    if let Some(results) = results("oneOf") {
        let one = "validate one and only one schema (oneOf). Found";
        match results.iter().filter(|causes| causes.is_empty()).count() {
            1 => {}
            0 => {
                causes.push(told(&format!("{one} none valid")));
                causes.extend(results.into_iter().next().unwrap_or_default());
            }
            many => causes.push(told(&format!("{one} {many} valid alternatives"))),
        }
    }
    if let Some(results) = results("allOf") {
        let failed: Vec<Cause> = results.into_iter().flatten().collect();
        if !failed.is_empty() {
            causes.extend(failed);
            causes.push(told("validate all the schemas (allOf)"));
        }
    }
    if let Some(schema) = schema.get("not") {
        let mut inner = Vec::new();
        value(schema, found, place, &mut inner);
        if inner.is_empty() {
            causes.push(told("not validate the schema (not)"));
        }
    }
}
