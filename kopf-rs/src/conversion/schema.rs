//! Validates an object against the structural schema of a version, as an API server does.
//!
//! CEL rules are not evaluated, because an API server does not evaluate them either when it stores an object that was
//! written in another version. This module must not depend on the origin of an object.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex_lite::Regex;
use serde_json::Value;

/// The schema of a version, with its patterns compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    root: Value,
    /// `None` for a pattern that cannot be compiled. Such a pattern accepts every text.
    patterns: HashMap<String, Option<Regex>>,
}

/// The state of a validation.
struct Check<'a> {
    schema: &'a Schema,
    at: String,
    faults: BTreeSet<String>,
    /// True if a pattern that cannot be compiled was accepted.
    is_doubtful: bool,
}

/// The members of an object that the API server validates by its own rules.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Compiles the schema at `openAPIV3Schema` of a definition.
    pub(crate) fn of(root: &Value) -> Self {
        let mut patterns = HashMap::new();
        compile(root, &mut patterns);
        Self { root: root.clone(), patterns }
    }

    /// Returns each violation as path and keyword: `spec.size: minimum`.
    pub(crate) fn faults(&self, object: &Value) -> BTreeSet<String> {
        let mut check =
            Check { schema: self, at: String::new(), faults: BTreeSet::new(), is_doubtful: false };
        let properties = self.root["properties"].as_object();
        for (name, value) in object.as_object().into_iter().flatten() {
            let schema = properties.and_then(|it| it.get(name));
            if let Some(schema) = schema.filter(|_| !IDENTITY.contains(&name.as_str())) {
                check.inside(name, schema, value);
            }
        }
        check.counts(&self.root, object);
        check.combinations(&self.root, object);
        check.faults
    }
}

fn compile(schema: &Value, patterns: &mut HashMap<String, Option<Regex>>) {
    match schema {
        Value::Object(members) => {
            if let Some(pattern) = schema["pattern"].as_str() {
                let compiled = || Regex::new(pattern).ok();
                patterns.entry(pattern.to_owned()).or_insert_with(compiled);
            }
            members.values().for_each(|it| compile(it, patterns));
        }
        Value::Array(items) => items.iter().for_each(|it| compile(it, patterns)),
        _ => {}
    }
}

impl Check<'_> {
    fn require(&mut self, keyword: &str, is_satisfied: bool) {
        if !is_satisfied {
            self.faults.insert(format!("{}: {keyword}", self.at));
        }
    }

    fn inside(&mut self, step: &str, schema: &Value, value: &Value) {
        let length = self.at.len();
        self.at.push('.');
        self.at.push_str(step);
        self.value(schema, value);
        self.at.truncate(length);
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        if value.is_null() {
            self.require("nullable", schema["nullable"] == true);
            return;
        }
        self.require("type", is_of_type(schema, value));
        if let Some(all) = schema["enum"].as_array() {
            self.require("enum", all.contains(value));
        }
        match value {
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default()),
            Value::String(text) => self.text(schema, text),
            Value::Array(items) => self.items(schema, items),
            Value::Object(_) => self.members(schema, value),
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(schema, value);
    }

    fn number(&mut self, schema: &Value, number: f64) {
        if let Some(least) = schema["minimum"].as_f64() {
            let is_open = schema["exclusiveMinimum"] == true;
            self.require("minimum", number > least || !is_open && number >= least);
        }
        if let Some(most) = schema["maximum"].as_f64() {
            let is_open = schema["exclusiveMaximum"] == true;
            self.require("maximum", number < most || !is_open && number <= most);
        }
        if let Some(step) = schema["multipleOf"].as_f64().filter(|it| *it > 0.0) {
            // As the server: 0.3 is a multiple of 0.1.
            let times = if step < 1.0 { 1.0 / step * number } else { number / step };
            let is_whole = (times - times.round()).abs() <= 2e-9 * times.abs();
            self.require("multipleOf", is_whole);
        }
    }

    fn text(&mut self, schema: &Value, text: &str) {
        let length = text.chars().count();
        self.bounds(schema, ["minLength", "maxLength"], length);
        if let Some(pattern) = schema["pattern"].as_str() {
            // The server checks the value at the next write; hiding it would lose it.
            let compiled = self.schema.patterns.get(pattern).and_then(Option::as_ref);
            self.is_doubtful |= compiled.is_none();
            self.require("pattern", compiled.is_none_or(|it| it.is_match(text)));
        }
        if let Some(format) = schema["format"].as_str() {
            self.require("format", has_format(format, text));
        }
    }

    fn items(&mut self, schema: &Value, items: &[Value]) {
        self.bounds(schema, ["minItems", "maxItems"], items.len());
        let keys = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => items.iter().map(ToString::to_string).collect(),
            Some("map") => items.iter().map(|it| key_of(schema, it)).collect(),
            _ => BTreeSet::new(),
        };
        self.require("duplicate", keys.is_empty() || keys.len() == items.len());
        for (number, item) in items.iter().enumerate() {
            self.inside(&number.to_string(), &schema["items"], item);
        }
    }

    fn members(&mut self, schema: &Value, object: &Value) {
        self.counts(schema, object);
        let others = &schema["additionalProperties"];
        for (name, value) in object.as_object().into_iter().flatten() {
            let known = schema["properties"].get(name);
            // The API server prunes unknown fields.
            if let Some(schema) = known.or_else(|| Some(others).filter(|it| it.is_object())) {
                self.inside(name, schema, value);
            }
        }
    }

    /// Checks the number of members, and the required ones.
    fn counts(&mut self, schema: &Value, object: &Value) {
        let members = object.as_object().map_or(0, serde_json::Map::len);
        self.bounds(schema, ["minProperties", "maxProperties"], members);
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            self.require(&format!("required {name}"), object.get(name).is_some());
        }
    }

    fn combinations(&mut self, schema: &Value, value: &Value) {
        for schema in schema["allOf"].as_array().into_iter().flatten() {
            self.value(schema, value);
        }
        // The least and the greatest possible number of schemas that accept the value.
        let passing = |all: &Value| {
            let verdicts = all.as_array()?.iter().map(|it| self.passes(it, value));
            let verdicts: Vec<Option<bool>> = verdicts.collect();
            let count = |verdict| verdicts.iter().filter(|it| **it == verdict).count();
            Some((count(Some(true)), verdicts.len() - count(Some(false))))
        };
        let any = passing(&schema["anyOf"]);
        let one = passing(&schema["oneOf"]);
        let not = schema.get("not").filter(|it| it.is_object());
        let not = not.map(|it| self.passes(it, value));
        let depends = |it: Option<(usize, usize)>| it.is_some_and(|(least, most)| least < most);
        self.is_doubtful |= depends(any) || depends(one) || not == Some(None);
        self.require("anyOf", any.is_none_or(|(_, most)| most > 0));
        let may_be_one = |(least, most)| least <= 1 && most > 0;
        self.require("oneOf", one.is_none_or(may_be_one));
        self.require("not", not != Some(Some(true)));
    }

    /// Returns true if the schema accepts the value; `None` if that depends on a pattern that cannot be compiled.
    fn passes(&self, schema: &Value, value: &Value) -> Option<bool> {
        let mut check =
            Check { schema: self.schema, at: String::new(), faults: BTreeSet::new(), is_doubtful: false };
        check.value(schema, value);
        // A doubt never causes a fault, so a fault is certain.
        let is_accepted = check.faults.is_empty();
        (!is_accepted || !check.is_doubtful).then_some(is_accepted)
    }

    fn bounds(&mut self, schema: &Value, [least, most]: [&str; 2], found: usize) {
        let of = |limit: &str| schema[limit].as_u64().and_then(|it| usize::try_from(it).ok());
        self.require(least, of(least).is_none_or(|it| found >= it));
        self.require(most, of(most).is_none_or(|it| found <= it));
    }
}

/// Returns true if the value has the schema's type. A schema without a type, such as a part of `allOf`, accepts every value.
fn is_of_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || is_whole(value);
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") if schema["format"] == "int32" => {
            value.as_i64().is_some_and(|it| i32::try_from(it).is_ok())
        }
        Some("integer") => is_whole(value),
        _ => true,
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
}

fn key_of(schema: &Value, item: &Value) -> String {
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    let keys: Vec<_> = keys.map(|key| item[key].to_string()).collect();
    keys.join(",")
}

/// Returns true if the text has the format. Unknown formats accept every text.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, bits)| {
            let most = match address.parse() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>().is_ok_and(|it| it <= most)
        }),
        "uuid" => {
            let parts: Vec<_> = text.split('-').map(str::len).collect();
            let is_hexadecimal = |it: char| it == '-' || it.is_ascii_hexdigit();
            matches!(parts[..], [8, 4, 4, 4, 12] | [32]) && text.chars().all(is_hexadecimal)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(schema: &Value, value: &Value) -> Vec<String> {
        let root = json!({"type": "object", "properties": {"a": schema}});
        let found = Schema::of(&root).faults(&json!({"kind": 7, "a": value}));
        found.into_iter().collect()
    }

    #[test]
    fn values_are_refused_as_the_api_server_refuses_them() {
        let string = json!({"type": "string"});
        for row in [
            (string.clone(), json!("x"), json!(7), "a: type"),
            (string.clone(), json!("x"), Value::Null, "a: nullable"),
            (json!({"type": "integer"}), json!(3.0), json!(3.5), "a: type"),
            (json!({"type": "integer", "format": "int32"}), json!(7), json!(1_i64 << 40), "a: type"),
            (json!({"x-kubernetes-int-or-string": true}), json!("50%"), json!(true), "a: type"),
            (json!({"type": "integer", "minimum": 1}), json!(1), json!(0), "a: minimum"),
            (
                json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
                json!(0.5),
                json!(1),
                "a: maximum",
            ),
            (json!({"type": "number", "multipleOf": 0.5}), json!(1.5), json!(1.6), "a: multipleOf"),
            (json!({"type": "string", "enum": ["x", "y"]}), json!("y"), json!("z"), "a: enum"),
            (json!({"type": "string", "minLength": 2}), json!("äö"), json!("ä"), "a: minLength"),
            (json!({"type": "string", "pattern": "^[a-z]+$"}), json!("x"), json!("X"), "a: pattern"),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("2026-01-02T03:04:05Z"),
                json!("now"),
                "a: format",
            ),
            (
                json!({"type": "string", "format": "cidr"}),
                json!("10.0.0.0/8"),
                json!("10.0.0.0/33"),
                "a: format",
            ),
        ] {
            check(row);
        }
    }

    #[test]
    fn collections_are_refused_as_the_api_server_refuses_them() {
        let string = json!({"type": "string"});
        for row in [
            (
                json!({"type": "array", "maxItems": 1, "items": string}),
                json!(["x"]),
                json!(["x", "y"]),
                "a: maxItems",
            ),
            (json!({"type": "array", "items": string}), json!(["x"]), json!([["x"]]), "a.0: type"),
            (
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": string}),
                json!(["x", "y"]),
                json!(["x", "x"]),
                "a: duplicate",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}}),
                json!([{"k": 1, "v": 1}, {"k": 2, "v": 1}]),
                json!([{"k": 1, "v": 1}, {"k": 1, "v": 2}]),
                "a: duplicate",
            ),
            (json!({"type": "object", "required": ["b"]}), json!({"b": 1}), json!({"c": 1}), "a: required b"),
            (
                json!({"type": "object", "maxProperties": 1}),
                json!({"b": 1}),
                json!({"b": 1, "c": 2}),
                "a: maxProperties",
            ),
            (
                json!({"type": "object", "additionalProperties": string}),
                json!({"b": "x"}),
                json!({"b": 1}),
                "a.b: type",
            ),
            (
                json!({"type": "object", "properties": {"b": string}}),
                json!({"c": 1}),
                json!({"b": 1}),
                "a.b: type",
            ),
            (json!({"allOf": [{"minimum": 1}]}), json!(1), json!(0), "a: minimum"),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), json!(1), json!(true), "a: anyOf"),
            (json!({"oneOf": [{"minimum": 1}, {"minimum": 5}]}), json!(2), json!(7), "a: oneOf"),
            (json!({"not": {"enum": [1]}}), json!(2), json!(1), "a: not"),
        ] {
            check(row);
        }
    }

    fn check((schema, good, bad, keyword): (Value, Value, Value, &str)) {
        assert_eq!(faults(&schema, &good), [""; 0], "{schema}");
        assert_eq!(faults(&schema, &bad), [format!(".{keyword}")], "{schema}");
    }

    #[test]
    fn values_for_an_unusable_pattern_are_accepted() {
        let schema = json!({"type": "string", "pattern": "^\\p{Greek}$"});
        assert_eq!(faults(&schema, &json!("α")), [""; 0]);
        let other = json!({"type": "string", "pattern": "^\\p{Latin}$"});
        for schema in [
            json!({"not": other}),
            json!({"oneOf": [schema, other]}),
            json!({"not": {"anyOf": [{"not": other}]}}),
        ] {
            assert_eq!(faults(&schema, &json!("α")), [""; 0], "{schema}");
        }
    }

    #[test]
    fn multiples_are_those_of_the_server() {
        for (number, step, expected) in [
            (json!(0.3), 0.1, 0),
            (json!(0.35), 0.1, 1),
            // The server's tolerance is relative to the sum of both numbers.
            (json!(300_000_000.5), 1.0, 0),
            (json!(9), 3.0, 0),
            (json!(10), 3.0, 1),
            (json!(1e300), 1e-300, 1),
        ] {
            let schema = json!({"type": "number", "multipleOf": step});
            assert_eq!(faults(&schema, &number).len(), expected, "{number} of {step}");
        }
    }
}
