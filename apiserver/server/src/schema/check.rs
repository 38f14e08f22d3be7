//! Validates a value against its schema.
//!
//! Runs every check that applies to the JSON type of the value, even if the schema wants another type, as the real server does.
//! Errors of unchanged values are ignored. Independent of the origin of values and of checks beyond the schema.

mod combined;
mod number;

use serde_json::{Map, Value};

use super::ratchet::Node;
use super::{Pattern, go};
use crate::status::{Cause, shown};

/// The errors, and the number of passed checks: if all alternatives fail, the real server reports the one that passed most checks.
#[derive(Debug, Default)]
struct Verdict {
    causes: Vec<Cause>,
    matches: usize,
}

/// The location of a value. Error messages name it by its path below `base`.
#[derive(Clone)]
struct Place<'a> {
    base: &'a str,
    shown: String,
    /// True for a default, which passes more easily as an int-or-string.
    preset: bool,
}

/// Validates the value at the path `base` of an object.
pub(crate) fn check(
    schema: &Value,
    found: &Value,
    base: &str,
    node: Option<Node<'_>>,
) -> Vec<Cause> {
    let place = Place {
        base,
        shown: String::new(),
        preset: false,
    };
    judge(schema, found, &place, node).causes
}

/// Like [`check`], but for a default: there, the real server accepts any type as an int-or-string.
pub(super) fn check_default(schema: &Value, found: &Value, base: &str) -> Vec<Cause> {
    let place = Place {
        base,
        shown: String::new(),
        preset: true,
    };
    judge(schema, found, &place, None).causes
}

// === impl Verdict ===

impl Verdict {
    fn wrong(cause: Cause) -> Self {
        Self {
            causes: vec![cause],
            matches: 0,
        }
    }

    fn right() -> Self {
        Self {
            causes: Vec::new(),
            matches: 1,
        }
    }

    fn is_right(&self) -> bool {
        self.causes.is_empty()
    }

    /// Adds another verdict without duplicating errors.
    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        self.add_all(other.causes);
    }

    fn add_all(&mut self, causes: impl IntoIterator<Item = Cause>) {
        for cause in causes {
            self.add(cause);
        }
    }

    fn add(&mut self, cause: Cause) {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }
}

// === impl Place ===

impl Place<'_> {
    fn child(&self, name: &str) -> Self {
        Self {
            shown: super::join(&self.shown, name),
            ..*self
        }
    }

    /// Returns the location of a map entry; at the root, error messages name it with a leading dot.
    fn entry(&self, name: &str) -> Self {
        Self {
            shown: format!("{}.{name}", self.shown),
            ..*self
        }
    }

    fn item(&self, at: usize) -> Self {
        Self {
            shown: format!("{}[{at}]", self.shown),
            ..*self
        }
    }

    fn field(&self) -> String {
        match (self.base, self.shown.trim_start_matches('.')) {
            ("", "") => "<nil>".to_owned(),
            (base, "") => base.to_owned(),
            (base, tail) => super::join(base, tail),
        }
    }

    fn invalid(&self, value: &Value, message: &str) -> Cause {
        let message = format!("{} in body {message}", self.shown);
        Cause::invalid(self.field(), value, &message)
    }

    fn wrong_type(&self, found: &str, wanted: &str) -> Cause {
        let message = format!(
            "Invalid value: {found:?}: {} in body must be of type {wanted}: {found:?}",
            self.shown
        );
        Cause::new("FieldValueTypeInvalid", self.field(), message)
    }

    /// Returns an error that names the whole value as its field, as the real server does.
    fn nowhere(&self, message: &str) -> Cause {
        let field = if self.base.is_empty() {
            "<nil>"
        } else {
            self.base
        };
        Cause::invalid(field, &"".into(), message)
    }
}

fn judge(schema: &Value, found: &Value, place: &Place<'_>, node: Option<Node<'_>>) -> Verdict {
    let mut verdict = Verdict::default();
    let typed = of_type(schema, found, place);
    if found.is_null() {
        if let Some(part) = typed {
            verdict.merge(part);
        }
        verdict.merge(choice(schema, found, place));
    } else {
        let parts = [
            typed,
            Some(combined::judge(schema, found, place, node)),
            of_kind(schema, found, place, node),
            Some(choice(schema, found, place)),
        ];
        for part in parts.into_iter().flatten() {
            verdict.merge(part);
            verdict.matches += 1;
        }
        verdict.matches += 1;
    }
    if !verdict.is_right() && node.is_some_and(Node::is_same) {
        verdict.causes.clear();
    }
    verdict
}

/// Runs the checks for strings, numbers, lists and maps.
fn of_kind(
    schema: &Value,
    found: &Value,
    place: &Place<'_>,
    node: Option<Node<'_>>,
) -> Option<Verdict> {
    Some(match found {
        Value::String(text) => string(schema, text, place),
        Value::Number(_) => number::judge(schema, found, place),
        Value::Array(items) => list(schema, items, place, node),
        Value::Object(map) => object(schema, map, place, node),
        Value::Null | Value::Bool(_) => return None,
    })
}

/// Returns the types that the schema allows.
fn wanted(schema: &Value) -> Vec<&str> {
    if super::is(schema, "x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    let given = schema.get("type").and_then(Value::as_str);
    given.into_iter().filter(|word| !word.is_empty()).collect()
}

/// The smallest float that exceeds a signed 64-bit integer.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns the type of a value, and the format that goes with it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Bool(_) => ("boolean", ""),
        other => (crate::rules::go_type(other), ""),
    }
}

fn of_type(schema: &Value, found: &Value, place: &Place<'_>) -> Option<Verdict> {
    let either = super::is(schema, "x-kubernetes-int-or-string");
    let wanted = if place.preset && either {
        Vec::new()
    } else {
        wanted(schema)
    };
    let format = super::format::of(schema);
    if wanted.is_empty() && format.is_empty() {
        return None;
    }
    if found.is_null() {
        let fits = wanted.is_empty() || super::is(schema, "nullable");
        let told = || Verdict::wrong(place.wrong_type("null", &wanted.join(",")));
        return Some(if fits { Verdict::right() } else { told() });
    }
    let (kind, of_kind) = type_of(found);
    let whole = found
        .as_f64()
        .is_some_and(|number| number.fract() == 0.0 && number.abs() < TOO_LARGE);
    let fits = wanted.contains(&kind)
        || (kind == "number" && whole && wanted.contains(&"integer"))
        || (kind == "integer" && wanted.contains(&"number"));
    let parts = matches!(kind, "string" | "array");
    if !format.is_empty() && !parts && !fits {
        return Some(Verdict::wrong(place.wrong_type(of_kind, format)));
    }
    // A schema with a format counts as one of strings until the format itself is checked.
    let numeric = wanted
        .iter()
        .any(|word| matches!(*word, "number" | "integer"));
    if fits || (!format.is_empty() && parts && !numeric) {
        return Some(Verdict::right());
    }
    Some(Verdict::wrong(place.wrong_type(kind, &wanted.join(","))))
}

/// Checks the value against `enum`.
fn choice(schema: &Value, found: &Value, place: &Place<'_>) -> Verdict {
    let allowed = schema.get("enum").and_then(Value::as_array);
    let Some(allowed) = allowed.filter(|allowed| !allowed.is_empty()) else {
        return Verdict::default();
    };
    if !found.is_null() && allowed.iter().any(|one| go::converts(found, one)) {
        return Verdict::default();
    }
    // The real server quotes allowed values of any type.
    let quoted = |value: &Value| match value {
        Value::String(text) => format!("{text:?}"),
        other => format!("{:?}", other.to_string()),
    };
    let words: Vec<String> = allowed.iter().map(quoted).collect();
    let message = format!(
        "Unsupported value: {}: supported values: {}",
        shown(found),
        words.join(", ")
    );
    Verdict::wrong(Cause::new("FieldValueNotSupported", place.field(), message))
}

fn limit(schema: &Value, name: &str) -> Option<i64> {
    schema.get(name).and_then(Value::as_i64)
}

fn length(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// Checks the length, the pattern and the format; of length and pattern, reports only the first error.
fn string(schema: &Value, text: &str, place: &Place<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.causes.extend(misfit(schema, text, place));
    let format = super::format::of(schema);
    if super::format::is_of_text(format) {
        verdict.matches += 1;
        if !super::format::fits(text, format) {
            let message = format!(
                "Invalid value: {text:?}: {} in body must be of type {format}: {text:?}",
                place.shown
            );
            verdict.add(Cause::new("FieldValueTypeInvalid", place.field(), message));
        }
    }
    verdict
}

fn misfit(schema: &Value, text: &str, place: &Place<'_>) -> Option<Cause> {
    let letters = length(text.chars().count());
    if let Some(limit) = limit(schema, "maxLength").filter(|limit| letters > *limit) {
        let message = match limit {
            0.. => format!("Too long: may not be more than {limit} bytes"),
            _ => "Too long: value is too long".to_owned(),
        };
        return Some(Cause::new("FieldValueTooLong", place.field(), message));
    }
    if let Some(limit) = limit(schema, "minLength").filter(|limit| letters < *limit) {
        let message = format!("should be at least {limit} chars long");
        return Some(place.invalid(&text.into(), &message));
    }
    let pattern = schema.get("pattern").and_then(Value::as_str)?;
    let told = match Pattern::new(pattern) {
        Some(compiled) if compiled.is_match(text) => return None,
        Some(_) => format!("should match '{pattern}'"),
        // Fails closed: a value must not pass without a check of its pattern.
        None => format!(
            "should match '{pattern}', which this server cannot read, other than a real one"
        ),
    };
    Some(place.invalid(&text.into(), &told))
}

fn list(schema: &Value, items: &[Value], place: &Place<'_>, node: Option<Node<'_>>) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(schema) = schema.get("items") {
        for (at, item) in items.iter().enumerate() {
            let node = node.and_then(|node| node.item(at));
            verdict.merge(judge(schema, item, &place.item(at), node));
        }
    }
    let names = ["minItems", "maxItems", "items"];
    let miscounted = count(schema, names, length(items.len()), place);
    verdict.add_all(miscounted);
    verdict.matches += 1;
    verdict
}

/// Checks the number of parts; `names` has the keywords of the lower and the upper limit, and the word for the parts.
fn count(schema: &Value, names: [&str; 3], found: i64, place: &Place<'_>) -> Vec<Cause> {
    let [least, most, parts] = names;
    let mut causes = Vec::new();
    if let Some(limit) = limit(schema, least).filter(|limit| found < *limit) {
        let message = format!("should have at least {limit} {parts}");
        causes.push(place.invalid(&found.into(), &message));
    }
    if let Some(limit) = limit(schema, most).filter(|limit| found > *limit) {
        let items = if limit == 1 { "item" } else { "items" };
        let message = format!("Too many: {found}: must have at most {limit} {items}");
        causes.push(Cause::new("FieldValueTooMany", place.field(), message));
    }
    causes
}

fn object(
    schema: &Value,
    map: &Map<String, Value>,
    place: &Place<'_>,
    node: Option<Node<'_>>,
) -> Verdict {
    let mut verdict = Verdict::default();
    let names = ["minProperties", "maxProperties", "properties"];
    let miscounted = count(schema, names, length(map.len()), place);
    verdict.add_all(miscounted);
    let properties = schema.get("properties").and_then(Value::as_object);
    let extra = schema.get("additionalProperties");
    for (name, found) in map {
        let known = properties.and_then(|properties| properties.get(name));
        // The server sets `kind` and `apiVersion` itself, so they never count as unchanged.
        let is_type = place.shown.is_empty() && matches!(name.as_str(), "kind" | "apiVersion");
        let node = node.filter(|_| !is_type).and_then(|node| node.child(name));
        if let Some(schema) = known {
            verdict.merge(judge(schema, found, &place.child(name), node));
        } else if extra == Some(&Value::Bool(false)) {
            let message = format!(
                "Invalid value: {name:?}: {}.{name} in body is a forbidden property",
                place.shown
            );
            verdict.add(Cause::new("FieldValueInvalid", place.field(), message));
        } else if let Some(schema) = extra.filter(|extra| extra.is_object()) {
            verdict.merge(judge(schema, found, &place.entry(name), node));
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            verdict.add(Cause::required(place.entry(name).field(), ""));
        }
    }
    verdict
}
