//! The missing dependencies of a Pod: `ConfigMaps`, Secrets, claims.
//!
//! Guarantees that optional dependencies never count as missing. Must not depend on the consequences for the Pod.

use serde_json::Value;

use super::tell;
use crate::object::{Body, at_path};
use crate::store::Store;

fn find(store: &Store, plural: &str, namespace: &str, name: &str) -> Option<Body> {
    let kind = tell::kind(store, "", plural)?;
    let key = crate::store::key(Some(namespace), name);
    Some(store.get(kind.collection, &key)?.body())
}

fn volumes(pod: &Body) -> impl Iterator<Item = &Value> {
    let list = at_path(pod, ".spec.volumes").and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Returns the message about a missing claim.
pub(super) fn claim(store: &Store, pod: &Body) -> Option<String> {
    let namespace = tell::word(pod, ".metadata.namespace");
    let names =
        volumes(pod).filter_map(|found| found["persistentVolumeClaim"]["claimName"].as_str());
    names
        .filter(|name| find(store, "persistentvolumeclaims", namespace, name).is_none())
        .map(|name| format!("persistentvolumeclaim {name:?} not found"))
        .next()
}

/// Returns whether all volumes of a Pod can be mounted.
pub(super) fn has_volumes(store: &Store, pod: &Body) -> bool {
    let namespace = tell::word(pod, ".metadata.namespace");
    let is_there = |source: &Value, plural: &str, field: &str| {
        let optional = source["optional"] == true;
        let name = source[field].as_str();
        name.is_none_or(|name| optional || find(store, plural, namespace, name).is_some())
    };
    volumes(pod).all(|volume| {
        let sources = volume["projected"]["sources"].as_array();
        let mut sources = sources.into_iter().flatten();
        is_there(&volume["configMap"], "configmaps", "name")
            && is_there(&volume["secret"], "secrets", "secretName")
            && sources.all(|source| {
                is_there(&source["configMap"], "configmaps", "name")
                    && is_there(&source["secret"], "secrets", "name")
            })
    }) && claim(store, pod).is_none()
}

/// Returns the message about a missing source of a container's environment.
pub(super) fn variable(store: &Store, pod: &Body, container: &Body) -> Option<String> {
    let namespace = tell::word(pod, ".metadata.namespace");
    let list = |field: &str| container.get(field).and_then(Value::as_array);
    let whole = list("envFrom").into_iter().flatten().flat_map(|source| {
        [
            ("ConfigMap", &source["configMapRef"]),
            ("Secret", &source["secretRef"]),
        ]
    });
    let single = list("env").into_iter().flatten().flat_map(|variable| {
        let from = &variable["valueFrom"];
        [
            ("ConfigMap", &from["configMapKeyRef"]),
            ("Secret", &from["secretKeyRef"]),
        ]
    });
    let complaint = |(kind, source): (&str, &Value)| {
        let name = source["name"].as_str()?;
        if source["optional"] == true {
            return None;
        }
        let low = kind.to_lowercase();
        let Some(found) = find(store, &format!("{low}s"), namespace, name) else {
            return Some(format!("{low} {name:?} not found"));
        };
        let key = source["key"].as_str()?;
        let has = |field: &str| found.get(field).is_some_and(|data| data.get(key).is_some());
        let there = has("data") || (kind == "ConfigMap" && has("binaryData"));
        (!there).then(|| format!("couldn't find key {key} in {kind} {namespace}/{name}"))
    };
    whole.chain(single).find_map(complaint)
}
