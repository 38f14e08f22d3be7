//! Creates the objects that every cluster has from the start: its namespaces and the system priority classes.
//!
//! Guarantees that existing objects stay unchanged. Must not depend on roles.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create;
use crate::managed::Author;
use crate::managed::set::Set;
use crate::store::Store;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Names, values and descriptions of the priority classes.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Creates the initial objects.
pub(crate) fn seed(store: &mut Store) {
    for name in NAMESPACES {
        let body = json!({"metadata": {"name": name}});
        make(store, ["", "v1", "namespaces"], body);
    }
    for (name, value, description) in PRIORITIES {
        let body = json!({
            "metadata": {"name": name}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        });
        make(store, ["scheduling.k8s.io", "v1", "priorityclasses"], body);
    }
}

fn make(store: &mut Store, [group, version, plural]: [&str; 3], body: Value) {
    let kind = store.kinds.kind(group, version, plural).cloned();
    let (Some(kind), Value::Object(body)) = (kind, body) else {
        return;
    };
    let author = Author {
        closed: Arc::new(Set::of_fields(&[&["status"]])),
        ..Author::server(&kind.api_version(), store.clock.stamp())
    };
    let birth = create::Birth {
        kind: &kind,
        namespace: None,
        author: &author,
        managed: None,
        upserted: false,
        dry_run: false,
    };
    // These objects are valid, so creation fails only if they exist already.
    let _created = create::create_body(store, &birth, body);
}
