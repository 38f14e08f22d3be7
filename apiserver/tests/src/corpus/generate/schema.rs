//! Random structural schemas.
//!
//! Every schema is valid in a definition. Must not know values or requests.

use serde_json::{Map, Value, json};

use super::Chance;

/// A field of every object; its default value identifies the schema in effect.
pub(super) const MARKER: &str = "marker";

/// The maximum depth of nested objects.
const DEPTH: usize = 3;

/// The string formats that a schema may use.
const FORMATS: [&str; 14] = [
    "date",
    "date-time",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uri",
    "email",
    "hostname",
    "byte",
    "duration",
    "hexcolor",
    "odd",
];

/// Returns a schema of whole objects.
pub(super) fn root(chance: &mut Chance, marker: u64) -> Value {
    let mut properties = json!({
        "spec": object(chance, DEPTH),
        "status": {"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 0},
            "replicas": {"type": "integer"},
            "selector": {"type": "string"},
            "s": {"type": "string", "enum": ["a", "b"]},
            "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        }},
        "data": {"type": "object", "additionalProperties": part(chance, 1)},
        MARKER: {"type": "integer", "default": marker},
    });
    properties["spec"]["properties"]["replicas"] = json!({"type": "integer", "maximum": 9});
    if chance.one_in(4) {
        properties["metadata"] =
            json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}}});
    }
    if chance.one_in(3) {
        ruled(chance, &mut properties["spec"]);
    }
    let mut root = json!({"type": "object", "properties": properties});
    if chance.one_in(8) {
        root["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    root
}

/// Returns the marker of a schema.
pub(super) fn marker(root: &Value) -> Value {
    root["properties"][MARKER]["default"].clone()
}

/// Returns the schema with one part replaced.
pub(super) fn changed(chance: &mut Chance, root: &Value, marker: u64) -> Value {
    let mut root = root.clone();
    let mut fresh = object(chance, DEPTH);
    fresh["properties"]["replicas"] = json!({"type": "integer"});
    let spec = &mut root["properties"]["spec"];
    if chance.one_in(3) {
        *spec = fresh;
    } else {
        let parts = fresh["properties"].as_object().into_iter().flatten();
        for (name, part) in parts {
            if chance.one_in(2) {
                spec["properties"][name] = part.clone();
            }
        }
        // Required fields must be fields that the random objects have, otherwise every write would be refused.
        spec["required"] = Value::Null;
    }
    if spec["required"].is_null()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("required");
    }
    root["properties"][MARKER]["default"] = marker.into();
    root
}

/// Adds validation rules on the replicas, which every object may have, and on the old value.
fn ruled(chance: &mut Chance, spec: &mut Value) {
    let all = [
        json!({"rule": "!has(self.replicas) || self.replicas != 3", "message": "not three"}),
        json!({"rule": "!has(self.replicas) || self.replicas < 7", "messageExpression": "'at most six'", "reason": "FieldValueForbidden"}),
        json!({"rule": "!has(self.replicas) || self.replicas > 0", "fieldPath": ".replicas"}),
        json!({"rule": "has(self.replicas) == has(oldSelf.replicas)", "message": "once there, always there"}),
        json!({"rule": "!has(oldSelf.replicas) || !has(self.replicas) || self.replicas >= oldSelf.replicas"}),
    ];
    let first = chance.below(all.len());
    let mut rules = vec![all[first].clone()];
    if chance.one_in(2) {
        rules.push(all[(first + 1 + chance.below(all.len() - 1)) % all.len()].clone());
    }
    spec["x-kubernetes-validations"] = rules.into();
}

fn object(chance: &mut Chance, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in ["a", "b", "c", "d", "e"] {
        if !chance.one_in(4) {
            properties.insert(name.to_owned(), part(chance, depth - 1));
        }
    }
    let mut schema = json!({"type": "object"});
    let names: Vec<&String> = properties.keys().collect();
    if !names.is_empty() && chance.one_in(3) {
        schema["required"] = json!([chance.pick(&names)]);
    }
    match chance.below(14) {
        0 => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
        1 => schema["maxProperties"] = json!(1 + chance.below(3)),
        2 => schema["minProperties"] = json!(1),
        3 => schema["x-kubernetes-map-type"] = json!("atomic"),
        4 if names.len() > 1 => {
            let word = *chance.pick(&["anyOf", "oneOf", "allOf"]);
            schema[word] = json!([{"required": [names[0]]}, {"required": [names[1]]}]);
        }
        5 if !names.is_empty() => schema["not"] = json!({"required": [names[0]]}),
        _ => {}
    }
    schema["properties"] = properties.into();
    schema
}

/// Returns a schema for a part of an object.
pub(super) fn part(chance: &mut Chance, depth: usize) -> Value {
    let kinds = if depth == 0 { 11 } else { 17 };
    let picked = chance.below(kinds + 3);
    let simple = picked.checked_sub(kinds).map(|more| more + 100);
    let mut schema = match simple.unwrap_or(picked) {
        0 => {
            json!({"type": "string", "maxLength": 3 + chance.below(4), "minLength": chance.below(3)})
        }
        1 => json!({"type": "string", "enum": ["one", "two"]}),
        2 => json!({"type": "integer", "minimum": chance.below(3), "maximum": 5}),
        3 => json!({"type": "boolean"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => json!({"type": "number", "multipleOf": 0.5, "exclusiveMinimum": true, "minimum": 0}),
        6 => json!({"type": "string", "pattern": "^[a-z]+$"}),
        7 => {
            let format = *chance.pick(&FORMATS);
            json!({"type": "string", "format": format})
        }
        8 => {
            json!({"type": "integer", "format": chance.pick(&["int32", "int64"]), "enum": [1, 3, 5]})
        }
        9 => {
            json!({"type": "string", "anyOf": [{"maxLength": 2}, {"pattern": "^t"}, {"enum": ["one"]}]})
        }
        10 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        11 => list(chance, depth),
        12 => {
            json!({"type": "object", "additionalProperties": part(chance, depth - 1), "maxProperties": 2})
        }
        13 => {
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        }
        100 => json!({"type": "number", "maximum": 2.5, "format": "double"}),
        101 => {
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"})
        }
        102 => {
            let rule =
                json!({"rule": "self != 'two' && self == oldSelf", "message": "stays as it is"});
            json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule]})
        }
        _ => object(chance, depth),
    };
    if chance.one_in(5) {
        schema["nullable"] = true.into();
    }
    if let Some(default) = default(&schema).filter(|_| chance.one_in(4)) {
        schema["default"] = default;
    }
    schema
}

fn list(chance: &mut Chance, depth: usize) -> Value {
    match chance.below(5) {
        0 => {
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 4}})
        }
        1 => json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": part(chance, depth - 1), "w": {"type": "integer", "default": 3},
            }},
        }),
        2 => json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": part(chance, depth - 1),
            }},
        }),
        _ => {
            json!({"type": "array", "items": part(chance, depth - 1), "maxItems": 3, "minItems": chance.below(2)})
        }
    }
}

/// Returns a valid default value for the schemas where that is simple.
fn default(schema: &Value) -> Option<Value> {
    let plain = |word: &str| schema.get(word).is_none();
    match schema["type"].as_str()? {
        "integer" => Some(json!(3)),
        "boolean" => Some(json!(true)),
        "number" => Some(json!(1.5)),
        "string" if plain("format") && plain("x-kubernetes-validations") => Some(json!("one")),
        "array" if plain("minItems") => Some(json!([])),
        "object" => {
            let free = ["required", "minProperties", "anyOf", "oneOf", "allOf"];
            let embedded = "x-kubernetes-embedded-resource";
            (free.into_iter().all(plain) && plain(embedded)).then(|| json!({}))
        }
        _ => None,
    }
}
