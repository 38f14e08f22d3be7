//! `OpenAPI` v3: the index and a document per group and version, as far as kubectl reads them.
//!
//! Promise: kubectl finds that the server validates fields, and the schemas of custom kinds. Schemas of built-in kinds
//! are not here (see FIDELITY.md). Must not know how the pages are asked for.

use serde_json::{Map, Value, json};

use super::{Kind, Kinds, Version, api_version};

/// `/openapi/v3`
pub(crate) fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for group in &kinds.groups {
        for version in &group.versions {
            let path = path(&group.name, &version.name);
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`
pub(crate) fn document(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let found = kinds.version(group, version)?;
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths(found),
        "components": {"schemas": schemas(found)},
    }))
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn paths(version: &Version) -> Map<String, Value> {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = [
        parameter("dryRun"),
        parameter("fieldManager"),
        parameter("fieldValidation"),
    ];
    let kinds = version.kinds.values().filter(|kind| !kind.traits.review);
    kinds
        .map(|kind| {
            let scope = if kind.namespaced {
                "namespaces/{namespace}/"
            } else {
                ""
            };
            let base = path(&kind.group, &kind.version);
            let operation = |action: &str| {
                json!({
                    "parameters": parameters,
                    "x-kubernetes-action": action,
                    "x-kubernetes-group-version-kind": gvk(kind),
                })
            };
            let path = format!("/{base}/{scope}{}/{{name}}", kind.plural);
            (
                path,
                json!({"put": operation("put"), "patch": operation("patch")}),
            )
        })
        .collect()
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn schemas(version: &Version) -> Map<String, Value> {
    version
        .kinds
        .values()
        .map(|kind| (schema_name(kind), schema(kind)))
        .collect()
}

fn schema_name(kind: &Kind) -> String {
    let mut words: Vec<&str> = kind
        .group
        .split('.')
        .filter(|word| !word.is_empty())
        .collect();
    if kind.traits.builtin {
        let group = words.first().copied().unwrap_or("core");
        return format!("io.k8s.api.{group}.{}.{}", kind.version, kind.kind);
    }
    words.reverse();
    format!("{}.{}.{}", words.join("."), kind.version, kind.kind)
}

fn schema(kind: &Kind) -> Value {
    let mut schema = kind
        .schema
        .as_ref()
        .map_or_else(|| json!({"type": "object"}), |schema| (**schema).clone());
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    for (name, kind) in [
        ("apiVersion", "string"),
        ("kind", "string"),
        ("metadata", "object"),
    ] {
        if properties.get(name).is_none() {
            properties[name] = json!({"type": kind});
        }
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
    schema["description"] = schema
        .get("description")
        .cloned()
        .unwrap_or_else(|| api_version(&kind.group, &kind.version).into());
    schema
}
