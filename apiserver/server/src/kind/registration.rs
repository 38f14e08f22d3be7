//! The `APIService` objects for the groups that this server serves: built-in groups from the start, custom groups while they are served.
//!
//! Names, priorities and labels are those of kube-apiserver 1.36. Independent of requests.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Kind;
use crate::managed::outline::Outline;
use crate::managed::{self, Author, Kept, Managed, Single};
use crate::object::{Body, Stored, at_path};
use crate::store::Store;
use crate::typed;
use crate::write;

const API_VERSION: &str = "apiregistration.k8s.io/v1";
/// The label that names the manager of an object: `onstart` for built-in groups, `true` for groups that follow definitions.
const MANAGED_BY: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The priorities of the group and of the version for custom kinds.
const CUSTOM: (i64, i64) = (1000, 100);

/// `group/version`, the priority of the group, and that of the version.
const OWN: [(&str, i64, i64); 21] = [
    ("/v1", 18000, 1),
    ("admissionregistration.k8s.io/v1", 16700, 15),
    ("apiextensions.k8s.io/v1", 16700, 15),
    ("apps/v1", 17800, 15),
    ("authentication.k8s.io/v1", 17700, 15),
    ("authorization.k8s.io/v1", 17600, 15),
    ("autoscaling/v1", 17500, 15),
    ("autoscaling/v2", 17500, 30),
    ("batch/v1", 17400, 15),
    ("certificates.k8s.io/v1", 17300, 15),
    ("coordination.k8s.io/v1", 16500, 15),
    ("discovery.k8s.io/v1", 16200, 15),
    ("events.k8s.io/v1", 17750, 15),
    ("flowcontrol.apiserver.k8s.io/v1", 16100, 21),
    ("networking.k8s.io/v1", 17200, 15),
    ("node.k8s.io/v1", 16300, 15),
    ("policy/v1", 17100, 15),
    ("rbac.authorization.k8s.io/v1", 17000, 15),
    ("resource.k8s.io/v1", 16200, 21),
    ("scheduling.k8s.io/v1", 16600, 15),
    ("storage.k8s.io/v1", 16800, 15),
];

/// Creates the missing objects of built-in groups.
pub(crate) fn seed(store: &mut Store) {
    for (group_version, group_priority, version_priority) in OWN {
        let (group, version) = group_version.split_once('/').unwrap_or_default();
        register(
            store,
            (group, version),
            "onstart",
            (group_priority, version_priority),
        );
    }
}

/// Runs after the definitions of a group changed: keeps exactly one object for each served version.
pub(crate) fn settle(store: &mut Store, group: &str) {
    let Some(kind) = kind(store) else { return };
    let served = |store: &Store, version: &str| store.kinds.version(group, version).is_some();
    let objects = store.collection(kind.collection).map(|it| &it.objects);
    let of_group = |name: &str| name.split_once('.').is_some_and(|(_, of)| of == group);
    let is_ours = |found: &Stored| {
        let body = found.body();
        let labels = at_path(&body, ".metadata.labels");
        labels.is_some_and(|all| all.get(MANAGED_BY) == Some(&"true".into()))
    };
    let ours = objects
        .into_iter()
        .flatten()
        .filter(|(name, found)| of_group(name) && is_ours(found));
    let ours: Vec<String> = ours.map(|(name, _)| name.clone()).collect();
    for name in ours {
        if !served(store, name.split('.').next().unwrap_or_default()) {
            write::remove(store, &kind, &name);
        }
    }
    let versions = store.kinds.group(group).map(|found| &found.versions);
    let versions = versions.into_iter().flatten();
    let names: Vec<String> = versions.map(|version| version.name.clone()).collect();
    for version in names {
        register(store, (group, &version), "true", CUSTOM);
    }
}

fn kind(store: &Store) -> Option<Arc<Kind>> {
    let (group, version) = API_VERSION.split_once('/')?;
    store.kinds.kind(group, version, "apiservices").cloned()
}

fn register(store: &mut Store, (group, version): (&str, &str), by: &str, priorities: (i64, i64)) {
    let name = format!("{version}.{group}");
    let Some(kind) = kind(store).filter(|kind| store.get(kind.collection, &name).is_none()) else {
        return;
    };
    let now = store.clock.stamp();
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    let object = json!({"metadata": {"name": name, "labels": {MANAGED_BY: by}}, "spec": spec});
    let Value::Object(mut body) = object else {
        return;
    };
    let kept = managed_by_server(&now, &body);
    body["metadata"]["uid"] = Uuid::new_v4().to_string().into();
    body["metadata"]["creationTimestamp"] = now.as_str().into();
    let available = json!({
        "type": "Available", "status": "True", "lastTransitionTime": now,
        "reason": "Local", "message": "Local APIServices are always available",
    });
    body.insert("status".to_owned(), json!({"conditions": [available]}));
    store.put_kept(kind.collection, body, kept);
}

fn managed_by_server(now: &str, body: &Body) -> Arc<Kept> {
    let author = Author::server(API_VERSION, now.to_owned());
    let outline = typed::of_kind(API_VERSION, "APIService");
    let versions = &mut Single(outline.map_or(Outline::Free, Outline::Struct));
    // The server always sets a `spec`, even an empty one.
    let before = Body::from_iter([("spec".to_owned(), json!({}))]);
    let managed = managed::update(versions, &author, &Managed::default(), &before, body);
    Kept::new(managed.unwrap_or_default())
}
