//! Random values that mostly match a schema.
//!
//! Must not know requests.

use serde_json::{Map, Value, json};

use super::Chance;

/// Returns a value for a schema; about one in fourteen does not match.
pub(super) fn value(chance: &mut Chance, schema: &Value) -> Value {
    if chance.one_in(14) {
        return odd(chance);
    }
    if schema.get("enum").is_some() && !chance.one_in(4) {
        let all = schema["enum"].as_array().cloned().unwrap_or_default();
        return chance.pick(&all).clone();
    }
    match schema["type"].as_str() {
        Some("string") => text(chance, schema),
        Some("integer") => (*chance.pick(&[0, 1, 3, 5, 6, -1])).into(),
        Some("number") => chance
            .pick(&[json!(0.5), json!(1), json!(0.7), json!(2.0), json!(-1)])
            .clone(),
        Some("boolean") => chance.one_in(2).into(),
        Some("array") => list(chance, schema),
        Some("object") => object(chance, schema),
        _ if schema.get("x-kubernetes-int-or-string").is_some() => {
            chance.pick(&[json!(1), json!("1"), json!("50%")]).clone()
        }
        _ => chance
            .pick(&[
                json!({"x": [1, null, {"y": null}]}),
                json!([1, {"a": 2.0}]),
                json!("any"),
            ])
            .clone(),
    }
}

fn odd(chance: &mut Chance) -> Value {
    chance
        .pick(&[
            json!(null),
            json!(7),
            json!("text"),
            json!([]),
            json!({}),
            json!(true),
            json!(1.5),
            json!(3_000_000_000_u64),
            json!([null]),
            json!({"k": null}),
        ])
        .clone()
}

fn text(chance: &mut Chance, schema: &Value) -> Value {
    let fitting = match schema["format"].as_str() {
        Some("date") => "2020-02-02",
        Some("date-time") => "2020-02-02T02:02:02Z",
        Some("ipv4") => "10.0.0.1",
        Some("ipv6") => "fe80::1",
        Some("cidr") => "10.0.0.0/8",
        Some("mac") => "00:00:5e:00:53:01",
        Some("email") => "a@b.example",
        Some("hostname") => "a.example",
        Some("hexcolor") => "#aa00ff",
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
        Some("uri") => "https://a.example/b",
        Some("byte") => "YQ==",
        Some("duration") => "1h30m",
        _ => "one",
    };
    (*chance.pick(&[fitting, fitting, fitting, "two", "three", "", "äö", "Big"])).into()
}

fn list(chance: &mut Chance, schema: &Value) -> Value {
    let items = (0..chance.below(5)).map(|_| value(chance, &schema["items"]));
    let mut items: Vec<Value> = items.collect();
    if schema["x-kubernetes-list-type"] == "map" {
        let keys = ["x", "y", "z", "x"];
        for (at, item) in items
            .iter_mut()
            .enumerate()
            .filter(|(_, item)| item.is_object())
        {
            // Four keys make duplicates possible but rare.
            item["k"] = keys[at % 4].into();
        }
    }
    items.into()
}

/// Returns an object for a schema with declared properties or with free keys.
pub(super) fn object(chance: &mut Chance, schema: &Value) -> Value {
    let mut map = Map::new();
    if schema.get("x-kubernetes-embedded-resource").is_some() {
        return chance
            .pick(&[
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {}}),
                json!({"apiVersion": "v1", "kind": "Pod"}),
                json!({"kind": "Pod", "metadata": {"odd": 1, "creationTimestamp": null}}),
                json!({"apiVersion": "a/b/c", "kind": "no kind", "metadata": {"labels": {"a": "b c"}}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}),
            ])
            .clone();
    }
    if let Some(properties) = schema["properties"].as_object() {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, part) in properties {
            let wanted = required.contains(&name.as_str().into()) && !chance.one_in(6);
            if wanted || chance.one_in(2) {
                map.insert(name.clone(), value(chance, part));
            }
        }
        if chance.one_in(8) {
            map.insert("unknown".to_owned(), json!({"x": 1}));
        }
    } else if schema["additionalProperties"].is_object() {
        for name in ["k", "l", "m"] {
            if chance.one_in(2) {
                let entry = value(chance, &schema["additionalProperties"]);
                map.insert(name.to_owned(), entry);
            }
        }
    }
    map.into()
}
