//! The conditions of a terminating Namespace, which describe its remaining content.
//!
//! Guarantees the conditions and messages of the real namespace controller. Must not depend on how objects are removed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::{Body, at_path, finalizers, map_mut};
use crate::store::Store;

/// Returns whether the Namespace has finalizers besides that of the server.
pub(super) fn is_held(body: &Body) -> bool {
    let held = at_path(body, ".spec.finalizers").and_then(Value::as_array);
    held.into_iter().flatten().any(|name| name != "kubernetes")
}

/// Updates the conditions in the status of a terminating Namespace if they changed.
pub(super) fn tell_what_is_left(store: &mut Store, kind: &Kind, body: &Body, namespace: &str) {
    let (content, held) = left(store, namespace);
    let now = store.clock.stamp();
    let mut changed = body.clone();
    let status = map_mut(&mut changed, "status");
    let old = status.get("conditions").cloned().unwrap_or_default();
    let conditions: Vec<Value> = conditions(&content, &held)
        .into_iter()
        .map(|mut new| {
            let list = old.as_array();
            let before = list
                .into_iter()
                .flatten()
                .find(|old| old["type"] == new["type"]);
            let same = before.filter(|before| before["status"] == new["status"]);
            new["lastTransitionTime"] = same.map_or_else(
                || now.as_str().into(),
                |same| same["lastTransitionTime"].clone(),
            );
            new
        })
        .collect();
    status.insert("conditions".to_owned(), conditions.into());
    if changed != *body {
        store.put(kind.collection, changed);
    }
}

/// Counts the remaining objects of each resource, and those that each finalizer holds.
fn left(store: &Store, namespace: &str) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
    let (mut content, mut held) = (BTreeMap::new(), BTreeMap::new());
    for (id, key) in store.everything_in(namespace) {
        let (Some(kind), Some(stored)) = (store.kinds.of_collection(id), store.get(id, &key))
        else {
            continue;
        };
        *content
            .entry(format!("{}.{}", kind.plural, kind.group))
            .or_default() += 1;
        for finalizer in finalizers(&stored.body()) {
            *held.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    (content, held)
}

fn conditions(content: &BTreeMap<String, usize>, held: &BTreeMap<String, usize>) -> Vec<Value> {
    let told = |counts: &BTreeMap<String, usize>, words: &str| {
        let parts: Vec<String> = counts
            .iter()
            .map(|(name, count)| format!("{name} {words} {count} resource instances"))
            .collect();
        parts.join(", ")
    };
    let remaining = format!("Some resources are remaining: {}", told(content, "has"));
    let finalizers = format!(
        "Some content in the namespace has finalizers remaining: {}",
        told(held, "in")
    );
    let mut list = vec![
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            remaining,
        ),
    ];
    list.push(if held.is_empty() {
        (
            "NamespaceFinalizersRemaining",
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        )
    } else {
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            finalizers,
        )
    });
    list.into_iter()
        .map(|(of, status, reason, message)| json!({"type": of, "status": status, "reason": reason, "message": message}))
        .collect()
}
