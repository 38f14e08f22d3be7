//! Structural schemas of custom kinds: unknown fields are pruned, defaults filled in, the rest is checked.
//!
//! Promise: complaints are worded, and their fields named, as the real server does. Must not know requests or the store.

mod check;
mod embedded;
#[cfg(feature = "cel")]
mod expression;
#[cfg(not(feature = "cel"))]
#[path = "schema/expression_absent.rs"]
mod expression;
mod format;
pub(crate) mod rules;
pub(crate) mod structural;

pub(crate) use check::{check, check_status};

use serde_json::{Map, Value};

/// Drop what the schema does not know and name it; fill in defaults.
pub(crate) fn shape(schema: &Value, body: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    // Metadata has rules of its own, whatever the schema says of it.
    let metadata = body.remove("metadata");
    let mut value = Value::Object(std::mem::take(body));
    whole_numbers(&mut value);
    prune(schema, &mut value, "", true, &mut unknown);
    fill(schema, &mut value);
    if let Value::Object(map) = value {
        *body = map;
    }
    if let Some(metadata) = metadata {
        body.insert("metadata".to_owned(), metadata);
    }
    unknown
}

/// `2.0` is `2` for the real server, whatever the schema says.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|found| number.is_f64() && found.fract() == 0.0 && found.abs() < 1e15);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn is(schema: &Value, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn prune(schema: &Value, value: &mut Value, path: &str, object: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let embedded = is(schema, "x-kubernetes-embedded-resource");
            if embedded {
                embedded::tidy(map, path, unknown);
            }
            let object = object || embedded;
            prune_map(schema, map, path, object, unknown);
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (at, item) in items.iter_mut().enumerate() {
                    prune(schema, item, &format!("{path}[{at}]"), false, unknown);
                }
            }
        }
        _ => {}
    }
}

fn prune_map(
    schema: &Value,
    map: &mut Map<String, Value>,
    path: &str,
    object: bool,
    unknown: &mut Vec<String>,
) {
    let extra = schema.get("additionalProperties");
    let keeps =
        is(schema, "x-kubernetes-preserve-unknown-fields") || extra == Some(&Value::Bool(true));
    map.retain(|name, value| {
        if object && name == "metadata" {
            return true;
        }
        let known = schema.get("properties").and_then(|found| found.get(name));
        if let Some(schema) = known.or(extra.filter(|extra| extra.is_object())) {
            prune(schema, value, &join(path, name), false, unknown);
            return true;
        }
        if keeps || (object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata")) {
            return true;
        }
        unknown.push(join(path, name));
        false
    });
}

/// Fill in defaults; a null where none may be is as good as absent.
fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                let null = map.get(name).is_some_and(Value::is_null) && !is(schema, "nullable");
                if null {
                    map.remove(name);
                }
                if let Some(default) = schema.get("default")
                    && !map.contains_key(name)
                {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(name) {
                    fill(schema, value);
                }
            }
            if let Some(extra) = schema.get("additionalProperties").filter(|e| e.is_object()) {
                for value in map.values_mut() {
                    fill(extra, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    fill(schema, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "color": {"type": "string", "default": "red"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}, "d": {"type": "integer", "default": 7}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
        }}}});
        let mut body = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "extra": 1,
            "spec": {"color": null, "list": [{"a": "x", "zz": 1}], "free": {"u": 1}, "map": {"m": {"k": "v", "q": 1}}},
        });
        let unknown = shape(&schema, body.as_object_mut().unwrap());
        assert_eq!(unknown, ["extra", "spec.list[0].zz", "spec.map.m.q"]);
        assert_eq!(
            body,
            json!({
                "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"},
                "spec": {"color": "red", "list": [{"a": "x", "d": 7}], "free": {"u": 1}, "map": {"m": {"k": "v"}}},
            })
        );
    }
}
