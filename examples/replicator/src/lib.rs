//! Replicator: copies `Secrets` and `ConfigMaps` into other namespaces.
//!
//! ```sh
//! kopf-rs run examples/replicator --embedded --apply examples/replicator/example-secret.yaml
//! ```

use kopf_rs::Resource;
use kopf_rs::prelude::*;

/// The annotation of a source: names of namespaces, such as `team-*,prod`.
const TO: &str = "replicator.example.com/to";
/// The annotation of a copy: the namespace of its source.
const FROM: &str = "replicator.example.com/from";

/// The names of namespaces that can receive objects.
#[index("v1", "namespaces")]
fn namespaces(body: &Body, name: String) -> Option<((), String)> {
    body["metadata"]["deletionTimestamp"].is_null().then_some(((), name))
}

/// The namespaces and names of Secrets to copy.
#[index("v1", "secrets", annotations = {TO: PRESENT})]
fn secrets(namespace: String, name: String) -> ((), (String, String)) {
    ((), (namespace, name))
}

/// The namespaces and names of `ConfigMaps` to copy.
#[index("v1", "configmaps", annotations = {TO: PRESENT})]
fn config_maps(namespace: String, name: String) -> ((), (String, String)) {
    ((), (namespace, name))
}

/// Returns all entries of an index without keys.
fn all_of(cause: &Cause, index: &str) -> Vec<(String, String)> {
    let index = cause.index::<(), (String, String)>(index);
    index.map(|it| it.get(&()).iter().cloned().collect()).unwrap_or_default()
}

/// Keeps the copies equal to their source, also in namespaces that are created later.
///
/// # Errors
///
/// Fails if a namespace has another object of the same name.
#[reconcile("v1", "secrets", annotations = {TO: PRESENT}, owns = ["secrets"], watches = [("namespaces", |it| all_of(it, "secrets"))])]
#[reconcile("v1", "configmaps", annotations = {TO: PRESENT}, owns = ["configmaps"], watches = [("namespaces", |it| all_of(it, "config_maps"))])]
pub async fn replicate(
    body: &Body,
    resource: &Resource,
    name: &str,
    namespace: &str,
    #[from(namespaces)] all: Index<(), String>,
    children: Children,
) -> HandlerResult {
    let patterns = body["metadata"]["annotations"][TO].as_str().unwrap_or_default();
    let targets = all.get(&());
    let targets = targets.iter().filter(|it| *it != namespace && is_target(patterns, it));
    let copies: Vec<Value> =
        targets.map(|target| copy(body, &resource.kind, (namespace, name), target)).collect();
    children.unowned().set(copies).await?;
    Ok(())
}

/// Deletes the copies before their source: Kubernetes collects no objects in other namespaces than that of their owner.
///
/// # Errors
///
/// Fails if a deletion is refused.
#[finalize("v1", "secrets", id = "replicate", annotations = {TO: PRESENT})]
#[finalize("v1", "configmaps", id = "replicate", annotations = {TO: PRESENT})]
pub async fn remove(children: Children) -> HandlerResult {
    children.unowned().set(()).await?;
    Ok(())
}

/// Returns whether a list of names, some of which end with `*`, contains the namespace.
fn is_target(patterns: &str, namespace: &str) -> bool {
    patterns.split(',').map(str::trim).any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => namespace.starts_with(prefix),
        None => namespace == pattern,
    })
}

fn copy(body: &Body, kind: &str, (namespace, name): (&str, &str), target: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": target, "annotations": {FROM: namespace}},
        "type": body["type"],
        "data": body["data"],
        "binaryData": body["binaryData"],
    })
}

#[cfg(test)]
mod tests;
