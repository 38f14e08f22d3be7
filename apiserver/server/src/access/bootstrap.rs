//! The initial roles and bindings of a cluster, as far as users need them.
//!
//! Guarantees the roles that kube-apiserver 1.36 creates at its start, except those of its components (see FIDELITY.md).
//! Must not depend on how roles are used.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{GROUP, aggregate};
use crate::object::{Body, meta_text};
use crate::store::Store;

/// `role NAME [into AGGREGATES]`, followed by its rules: `VERBS GROUPS RESOURCES`, `VERBS PAGES`, or `gather AGGREGATE`;
/// `bind ROLE GROUPS`. The core group is `-`.
const TABLE: &str = include_str!("../../tables/roles.txt");

/// Creates the initial roles and bindings.
pub(crate) fn seed(store: &mut Store) {
    let mut lines = TABLE.lines().peekable();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["role", name, rest @ ..] => {
                let mut rules = Vec::new();
                while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
                    rules.push(line.trim());
                }
                put(store, "clusterroles", role(name, rest, &rules));
            }
            ["bind", name, groups] => {
                put(store, "clusterrolebindings", binding(name, groups));
            }
            _ => {}
        }
    }
    aggregate::settle(store);
}

fn put(store: &mut Store, plural: &str, body: Value) {
    let (kind, stamp) = (store.kinds.kind(GROUP, "v1", plural), store.clock.stamp());
    let (Some(kind), Value::Object(mut body)) = (kind.cloned(), body) else {
        return;
    };
    // Objects from an earlier run stay unchanged.
    let name = meta_text(&body, "name");
    if store.get(kind.collection, name).is_some() {
        return;
    }
    body["metadata"]["creationTimestamp"] = stamp.into();
    body["metadata"]["uid"] = Uuid::new_v4().to_string().into();
    store.put(kind.collection, body);
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role(name: &str, rest: &[&str], lines: &[&str]) -> Value {
    let mut body = Body::new();
    let mut meta = metadata(name);
    if let ["into", into] = rest {
        for aggregate in into.split(',') {
            meta["labels"][aggregate_label(aggregate)] = "true".into();
        }
    }
    body.insert("metadata".to_owned(), meta);
    let mut rules = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["gather", aggregate] => {
                let mut labels = Map::new();
                labels.insert(aggregate_label(aggregate), "true".into());
                let selectors = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
                body.insert("aggregationRule".to_owned(), selectors);
            }
            [verbs, pages] => {
                rules.push(json!({"verbs": list(verbs), "nonResourceURLs": list(pages)}));
            }
            [verbs, groups, resources] => rules.push(json!({
                "verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources),
            })),
            _ => {}
        }
    }
    body.insert("rules".to_owned(), rules.into());
    body.into()
}

fn aggregate_label(aggregate: &str) -> String {
    format!("{GROUP}/aggregate-to-{aggregate}")
}

fn list(words: &str) -> Vec<&str> {
    let word = |word| if word == "-" { "" } else { word };
    words.split(',').map(word).collect()
}

fn binding(name: &str, groups: &str) -> Value {
    let subjects: Vec<Value> = groups
        .split(',')
        .map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group}))
        .collect();
    json!({
        "metadata": metadata(name),
        "subjects": subjects,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
    })
}
