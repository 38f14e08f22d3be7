//! The single node of the simulation, and its volumes.
//!
//! Guarantees that the node is always ready and that claims are bound at once. Must not depend on Pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tell;
use crate::kind::Kind;
use crate::object::{Stored, at_path, map_mut};
use crate::store::Store;
use crate::verb::Part;

/// The name of the node.
pub(super) const NAME: &str = "node-1";
/// The address of the node.
pub(super) const ADDRESS: &str = "10.244.0.1";

/// Creates the node if it does not exist.
pub(super) fn create(store: &mut Store) {
    let Some(kind) = tell::kind(store, "", "nodes") else {
        return;
    };
    if store.get(kind.collection, NAME).is_some() {
        return;
    }
    let now = store.clock.stamp();
    let room = json!({"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "1000"});
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux"}},
        "spec": {},
    });
    let Some(stored) = tell::create(store, &kind, node) else {
        return;
    };
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let status = json!({
        "capacity": room,
        "allocatable": room,
        "conditions": [ready],
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": NAME}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "none://0", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "", "operatingSystem": "linux",
            "osImage": "none", "systemUUID": "",
        },
    });
    tell::set_status(store, &kind, &stored, status);
    let Some(stored) = store.get(kind.collection, NAME) else {
        return;
    };
    // The API server adds a taint to every new node; a ready node does not have it.
    let mut body = stored.body();
    map_mut(&mut body, "spec").remove("taints");
    tell::update(store, &kind, &stored, Part::Main, body);
}

/// Returns a node's current state.
pub(super) fn find(store: &Store, name: &str) -> Option<Arc<Stored>> {
    let kind = tell::kind(store, "", "nodes")?;
    store.get(kind.collection, name)
}

/// Binds a claim to a new volume.
pub(super) fn bind_claim(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let body = stored.body();
    if stored.slim.terminating {
        return release_claim(store, kind, stored);
    }
    if tell::word(&body, ".status.phase") != "Pending" {
        return;
    }
    let mut bound = body.clone();
    let volume = format!("pvc-{}", stored.slim.uid);
    map_mut(&mut bound, "spec").insert("volumeName".to_owned(), volume.into());
    tell::update(store, kind, stored, Part::Main, bound);
    let key = super::key_of(stored);
    let Some(stored) = store.get(kind.collection, &key) else {
        return;
    };
    let capacity = at_path(&body, ".spec.resources.requests").cloned();
    let status = json!({
        "phase": "Bound",
        "accessModes": at_path(&body, ".spec.accessModes"),
        "capacity": capacity,
    });
    tell::set_status(store, kind, &stored, status);
}

/// Releases a claim that is being deleted, once no Pod uses it.
fn release_claim(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    let name = stored.slim.name.as_str();
    let in_use = tell::beside(store, &pods, stored).iter().any(|pod| {
        let body = pod.body();
        let volumes = at_path(&body, ".spec.volumes").and_then(Value::as_array);
        volumes
            .into_iter()
            .flatten()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == name)
    });
    let mut body = stored.body();
    let before = body.clone();
    if !in_use {
        crate::cascade::remove_finalizer(&mut body, "kubernetes.io/pvc-protection");
    }
    if body != before {
        tell::update(store, kind, stored, Part::Main, body);
    }
}
