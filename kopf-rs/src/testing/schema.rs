//! Generates random objects of a structural schema, and applies a schema as an API server does.
//!
//! This module does not know how the objects are used.

use serde_json::{Map, Value, json};

use crate::testing::formats::formatted;
use crate::testing::random::Random;

const ANY: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Texts that reveal careless parsing.
const TEXTS: [&str; 9] =
    ["a", "b,c", " d", "e:1", "ä€", "\"", "0", "f\ng", "a longer text, with = and / in it"];

/// Returns the object with defaults filled in and unknown fields pruned.
pub(super) fn shaped(schema: &Value, mut object: Value) -> Value {
    shape(schema, &mut object, true);
    object
}

fn shape(schema: &Value, value: &mut Value, is_whole: bool) {
    match value {
        Value::Object(members) => {
            let properties = schema["properties"].as_object();
            let identity: &[&str] =
                if is_whole || schema[EMBEDDED] == true { &["apiVersion", "kind", "metadata"] } else { &[] };
            for (name, schema) in properties.into_iter().flatten() {
                let default = schema.get("default").filter(|it| !it.is_null());
                let is_missing = match members.get(name) {
                    None => true,
                    Some(found) => found.is_null() && schema["nullable"] != true,
                };
                if let (true, Some(default)) = (is_missing, default) {
                    members.insert(name.clone(), default.clone());
                }
            }
            let others = schema.get("additionalProperties").filter(|it| it.is_object());
            let takes_all = schema[ANY] == true || schema["additionalProperties"] == true;
            members.retain(|name, value| {
                let is_identity = identity.contains(&name.as_str());
                let known = properties.and_then(|it| it.get(name)).or(others);
                if let Some(schema) = known.filter(|_| !is_identity) {
                    shape(schema, value, false);
                }
                known.is_some() || takes_all || is_identity
            });
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            for item in items {
                shape(schema, item, false);
            }
        }
        _ => {}
    }
}

/// Generates a random value of a schema.
pub(super) fn random(schema: &Value, dice: &mut Random) -> Value {
    if let Some(all) = schema["enum"].as_array() {
        return dice.one_of(all).cloned().unwrap_or_default();
    }
    if schema["nullable"] == true && dice.chance(4) {
        return Value::Null;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if dice.chance(2) { json!(dice.below(100)) } else { json!("50%") };
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, dice),
        Some("array") => array(schema, dice),
        Some("string") => text(schema, dice),
        Some("integer") => integer(schema, dice).into(),
        Some("number") => {
            let whole = f64::from(u16::try_from(dice.below(1000)).unwrap_or_default());
            let part = f64::from(u16::try_from(dice.below(8)).unwrap_or_default()) / 8.0;
            within(schema, whole + part).into()
        }
        Some("boolean") => dice.chance(2).into(),
        _ => anything(dice, 0),
    }
}

fn object(schema: &Value, dice: &mut Random) -> Value {
    let mut members = Map::new();
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|it| it == name.as_str());
        let is_odd = schema.get("pattern").is_some() && known(schema).is_none();
        if is_required || !dice.chance(3) && !is_odd {
            members.insert(name.clone(), random(schema, dice));
        }
    }
    if let Some(others) = schema.get("additionalProperties").filter(|it| it.is_object()) {
        for number in 0..dice.below(4) {
            members.insert(format!("key{number}"), random(others, dice));
        }
    }
    if schema[ANY] == true && schema[EMBEDDED] != true {
        for number in 0..dice.below(3) {
            members.insert(format!("any{number}"), anything(dice, 0));
        }
    }
    if schema[EMBEDDED] == true {
        let identity =
            [("apiVersion", json!("v1")), ("kind", json!("Pod")), ("metadata", json!({"name": "x"}))];
        members.extend(identity.map(|(name, value)| (name.to_owned(), value)));
    }
    members.into()
}

fn array(schema: &Value, dice: &mut Random) -> Value {
    let least = size(&schema["minItems"]).unwrap_or_default();
    let most = size(&schema["maxItems"]).unwrap_or(usize::MAX);
    let count = (least + dice.below(4)).min(most);
    let mut items: Vec<_> = (0..count).map(|_| random(&schema["items"], dice)).collect();
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    for (number, item) in items.iter_mut().enumerate() {
        for key in keys.into_iter().flatten().filter_map(Value::as_str) {
            item[key] = match schema["items"]["properties"][key]["type"].as_str() {
                Some("integer") => number.into(),
                _ => format!("key{number}").into(),
            };
        }
    }
    if schema["x-kubernetes-list-type"] == "set" {
        let mut seen = Vec::new();
        items.retain(|it| {
            let is_news = !seen.contains(it);
            seen.push(it.clone());
            is_news
        });
    }
    items.into()
}

fn text(schema: &Value, dice: &mut Random) -> Value {
    if let Some(known) = known(schema).filter(|_| schema.get("pattern").is_some()) {
        return known.clone();
    }
    let format = schema["format"].as_str();
    if let Some(text) = format.and_then(|format| formatted(format, dice)) {
        return text.into();
    }
    let least = size(&schema["minLength"]).unwrap_or_default();
    let most = size(&schema["maxLength"]).unwrap_or(usize::MAX);
    let mut text = match dice.below(4) {
        0 if least == 0 => String::new(),
        1 => (*dice.one_of(&TEXTS).unwrap_or(&"a")).to_owned(),
        _ => format!("text{}", dice.below(1000)),
    };
    while text.chars().count() < least {
        text.push('x');
    }
    text.chars().take(most).collect::<String>().into()
}

/// Returns a text that the schema gives as its default or example.
fn known(schema: &Value) -> Option<&Value> {
    let named = schema.get("default").or_else(|| schema.get("example"));
    named.filter(|it| it.is_string())
}

fn integer(schema: &Value, dice: &mut Random) -> i64 {
    let small = schema["format"] == "int32";
    let found = match dice.below(6) {
        0 => 0,
        1 if !small => 9_007_199_254_740_993,
        2 => -1,
        _ => i64::try_from(dice.below(100_000)).unwrap_or_default(),
    };
    let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
    let most = schema["maximum"].as_i64().unwrap_or(i64::MAX);
    found.clamp(least, most.max(least))
}

fn within(schema: &Value, number: f64) -> f64 {
    let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
    let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
    number.clamp(least, most.max(least))
}

fn size(limit: &Value) -> Option<usize> {
    limit.as_u64().and_then(|it| it.try_into().ok())
}

fn anything(dice: &mut Random, depth: usize) -> Value {
    match dice.below(if depth < 2 { 6 } else { 4 }) {
        0 => Value::Null,
        1 => dice.chance(2).into(),
        2 => dice.below(100).into(),
        3 => (*dice.one_of(&TEXTS).unwrap_or(&"a")).into(),
        4 => (0..dice.below(3)).map(|_| anything(dice, depth + 1)).collect(),
        _ => {
            let members = (0..dice.below(3)).map(|it| (format!("m{it}"), anything(dice, depth + 1)));
            Value::Object(members.collect())
        }
    }
}
