//! Random definitions: the parts of a version beside its schema, and schemas that are almost valid.
//!
//! Must not know objects.

use serde_json::{Value, json};

use super::{Chance, schema};

/// Returns random fields of a version beside its schema.
pub(super) fn version(chance: &mut Chance, root: &Value) -> Value {
    let mut version = json!({});
    match chance.below(4) {
        0 => {}
        1 => version["subresources"] = json!({"status": {}}),
        _ => {
            version["subresources"] = json!({"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
            }});
        }
    }
    if chance.one_in(2) {
        version["additionalPrinterColumns"] = json!([
            {"name": "A", "type": "string", "jsonPath": ".spec.a"},
            {"name": "N", "type": "integer", "jsonPath": ".status.n", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]);
    }
    let selectable = |name: &&str| {
        let kind = root["properties"]["spec"]["properties"][*name]["type"].as_str();
        matches!(kind, Some("string" | "integer" | "boolean"))
    };
    let fields = ["a", "b", "c", "d", "replicas"]
        .into_iter()
        .filter(selectable);
    let fields: Vec<Value> = fields
        .map(|name| json!({"jsonPath": format!(".spec.{name}")}))
        .collect();
    if !fields.is_empty() && chance.one_in(2) {
        version["selectableFields"] = fields.into();
    }
    version
}

/// Returns a definition that differs from a valid one by one or two changes.
pub(super) fn nearly(chance: &mut Chance, root: &Value, version: &Value) -> Value {
    let mut root = root.clone();
    for _ in 0..=chance.below(2) {
        spoil(chance, &mut root, 4);
    }
    let mut changed = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root},
    });
    let parts = version.as_object().into_iter().flatten();
    // The real server crashes on selectable fields beside a schema that is not structural.
    for (name, value) in parts.filter(|(name, _)| *name != "selectableFields") {
        changed[name] = value.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "drafts.${group}"},
        "spec": {
            "group": "${group}", "scope": "Namespaced", "names": {"plural": "drafts", "kind": "Draft"},
            "versions": [changed],
        },
    })
}

/// Changes a keyword of a schema or of a nested schema.
fn spoil(chance: &mut Chance, schema: &mut Value, depth: usize) {
    let names: Vec<String> = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties.keys().cloned().collect(),
        None => Vec::new(),
    };
    if depth > 0 && !names.is_empty() && !chance.one_in(4) {
        let name = chance.pick(&names).clone();
        return spoil(chance, &mut schema["properties"][name], depth - 1);
    }
    if depth > 0 && schema.get("items").is_some() && chance.one_in(2) {
        return spoil(chance, &mut schema["items"], depth - 1);
    }
    if !schema.is_object() {
        return;
    }
    let (word, value) = chance.pick(&words()).clone();
    schema[word] = value;
    if chance.one_in(6) {
        schema["extra"] = schema::part(chance, 1);
    }
    if chance.one_in(8)
        && let Some(map) = schema.as_object_mut()
    {
        map.remove("type");
    }
}

fn words() -> Vec<(&'static str, Value)> {
    vec![
        ("type", json!("string")),
        ("type", json!("object")),
        ("type", json!("array")),
        ("type", json!("any")),
        ("default", json!("one")),
        ("default", json!(1)),
        ("default", json!({"a": 1})),
        ("default", json!([null])),
        ("nullable", json!(true)),
        ("items", json!({"type": "string"})),
        ("items", json!({})),
        ("additionalProperties", json!({"type": "string"})),
        ("additionalProperties", json!(true)),
        ("additionalProperties", json!(false)),
        ("required", json!(["a", "zz"])),
        ("enum", json!(["a", 1, null])),
        ("pattern", json!("(")),
        ("format", json!("odd")),
        ("maximum", json!(1.5)),
        ("maxLength", json!(-1)),
        ("uniqueItems", json!(true)),
        ("anyOf", json!([{"type": "string"}, {"minLength": 1}])),
        ("allOf", json!([{"properties": {"zz": {"maxLength": 1}}}])),
        ("not", json!({"items": {"nullable": true}})),
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(false)),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-type", json!("set")),
        ("x-kubernetes-list-map-keys", json!(["k"])),
        ("x-kubernetes-map-type", json!("atomic")),
        ("properties", json!({"metadata": {"type": "object"}})),
        ("$ref", json!("#/x")),
    ]
}
