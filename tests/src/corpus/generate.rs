//! Random, plausible scripts: a schema, then requests to objects of it.
//!
//! Promise: the same seed makes the same script. Must not know servers, nor which answer is right.

use serde_json::{Map, Value, json};

use super::script::{Script, Step};

/// How many requests a script has.
const REQUESTS: usize = 40;

/// A generator of numbers that is good enough, and the same everywhere.
struct Chance(u64);

// === impl Chance ===

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or_default()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The script of a seed.
#[must_use]
pub fn generate(seed: u64) -> Script {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        chance.next();
    }
    let spec = object_schema(&mut chance, 3);
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}, "s": {"type": "string"}}},
    }});
    let version = if chance.one_in(2) {
        json!({"subresources": {"status": {}}})
    } else {
        Value::Null
    };
    let steps = (0..REQUESTS).map(|_| step(&mut chance, &spec)).collect();
    Script {
        name: format!("seed-{seed}"),
        about: String::new(),
        templates: Value::Null,
        schema,
        version,
        steps,
    }
}

fn object_schema(chance: &mut Chance, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in ["a", "b", "c", "d", "e"] {
        if !chance.one_in(4) {
            properties.insert(name.to_owned(), schema(chance, depth - 1));
        }
    }
    let mut schema = json!({"type": "object"});
    let required = properties.keys().next().filter(|_| chance.one_in(3));
    if let Some(name) = required {
        schema["required"] = json!([name]);
    }
    if chance.one_in(6) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema["properties"] = properties.into();
    schema
}

fn schema(chance: &mut Chance, depth: usize) -> Value {
    let kinds = if depth == 0 { 5 } else { 8 };
    let mut schema = match chance.below(kinds) {
        0 => json!({"type": "string", "maxLength": 3 + chance.below(4)}),
        1 => json!({"type": "string", "enum": ["one", "two"]}),
        2 => json!({"type": "integer", "minimum": chance.below(3), "maximum": 5}),
        3 => json!({"type": "boolean"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => json!({"type": "array", "items": schema(chance, depth - 1), "maxItems": 3}),
        6 => json!({"type": "object", "additionalProperties": schema(chance, 0)}),
        _ => object_schema(chance, depth),
    };
    if chance.one_in(5) {
        schema["nullable"] = true.into();
    }
    let default = match schema["type"].as_str() {
        Some("integer") => Some(json!(3)),
        Some("boolean") => Some(json!(true)),
        Some("string") => Some(json!("one")),
        _ => None,
    };
    if let Some(default) = default.filter(|_| chance.one_in(4)) {
        schema["default"] = default;
    }
    schema
}

/// A value that mostly fits a schema.
fn value(chance: &mut Chance, schema: &Value) -> Value {
    if chance.one_in(12) {
        return chance
            .pick(&[
                json!(null),
                json!(7),
                json!("text"),
                json!([]),
                json!({}),
                json!(true),
                json!(1.5),
            ])
            .clone();
    }
    match schema["type"].as_str() {
        Some("string") => (*chance.pick(&["one", "two", "three", "", "äö"])).into(),
        Some("integer") => chance.pick(&[0, 1, 3, 5, 6, -1]).to_owned().into(),
        Some("boolean") => chance.one_in(2).into(),
        Some("array") => (0..chance.below(5))
            .map(|_| value(chance, &schema["items"]))
            .collect(),
        Some("object") => object(chance, schema),
        _ => chance.pick(&[json!(1), json!("1"), json!("50%")]).clone(),
    }
}

fn object(chance: &mut Chance, schema: &Value) -> Value {
    let mut map = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, part) in properties {
            if !chance.one_in(3) {
                map.insert(name.clone(), value(chance, part));
            }
        }
        if chance.one_in(5) {
            map.insert("unknown".to_owned(), json!({"x": 1}));
        }
    } else if schema["additionalProperties"].is_object() {
        for name in ["k", "l"] {
            if chance.one_in(2) {
                map.insert(
                    name.to_owned(),
                    value(chance, &schema["additionalProperties"]),
                );
            }
        }
    }
    map.into()
}

fn step(chance: &mut Chance, spec: &Value) -> Step {
    let name = *chance.pick(&["x", "y", "z"]);
    let whole = |spec: Value| json!({"apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    let (request, body) = match chance.below(12) {
        0..4 => (
            "POST ${things}".to_owned(),
            Some(whole(value(chance, spec))),
        ),
        4 | 5 => (
            format!("PATCH ${{things}}/{name}"),
            Some(json!({"spec": value(chance, spec)})),
        ),
        6 => (
            format!("PATCH ${{things}}/{name}"),
            Some(json!({"metadata": {"labels": {"l": chance.pick(&["a", "b", "a b"])}}})),
        ),
        7 => (
            format!("PATCH ${{things}}/{name}/status"),
            Some(json!({"status": {"n": chance.pick(&[0, 1, -1])}})),
        ),
        8 => (
            format!("PUT ${{things}}/{name}"),
            Some(whole(value(chance, spec))),
        ),
        9 => (format!("DELETE ${{things}}/{name}"), None),
        10 => (format!("GET ${{things}}/{name}"), None),
        _ => ("GET ${things}".to_owned(), None),
    };
    let query = match chance.below(8) {
        0 if body.is_some() => "?dryRun=All",
        1 if body.is_some() => "?fieldValidation=Strict",
        _ => "",
    };
    Step {
        request: request + query,
        body,
        ..Step::default()
    }
}

/// Smaller scripts than one that shows a difference: without its tail, then without single steps.
#[must_use]
pub fn smaller(script: &Script, up_to: usize) -> Vec<Script> {
    let cut = Script {
        steps: script.steps[..up_to.min(script.steps.len())].to_vec(),
        ..script.clone()
    };
    let without = |at: usize| {
        let mut fewer = cut.clone();
        fewer.steps.remove(at);
        fewer
    };
    let last = cut.steps.len().saturating_sub(1);
    std::iter::once(cut.clone())
        .chain((0..last).map(without))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_script() {
        let text = |seed| serde_json::to_string(&generate(seed)).unwrap();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        assert_eq!(generate(7).steps.len(), REQUESTS);
    }
}
