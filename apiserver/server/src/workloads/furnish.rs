//! The objects that a cluster creates in namespaces by itself.
//!
//! Guarantees a `ServiceAccount` `default` and a `ConfigMap` `kube-root-ca.crt` in each namespace, and the Service `kubernetes`
//! in `default`. Must not depend on Pods.

use std::sync::Arc;

use serde_json::json;

use super::tell;
use crate::kind::Kind;
use crate::object::Stored;
use crate::store::Store;

pub(super) fn tend(store: &mut Store, _: &Kind, stored: &Arc<Stored>) {
    if stored.slim.terminating {
        return;
    }
    let namespace = stored.slim.name.as_str();
    let account = json!({"metadata": {"name": "default", "namespace": namespace}});
    put(store, "serviceaccounts", "default", namespace, account);
    let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
    let roots = json!({
        "metadata": {
            "name": "kube-root-ca.crt",
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": about},
        },
        "data": {"ca.crt": ""},
    });
    put(store, "configmaps", "kube-root-ca.crt", namespace, roots);
    if namespace == "default" {
        let service = json!({
            "metadata": {
                "name": "kubernetes",
                "namespace": namespace,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}],
            },
        });
        put(store, "services", "kubernetes", namespace, service);
    }
}

fn put(store: &mut Store, plural: &str, name: &str, namespace: &str, body: serde_json::Value) {
    let Some(kind) = tell::kind(store, "", plural) else {
        return;
    };
    let key = crate::store::key(Some(namespace), name);
    if store.get(kind.collection, &key).is_none() {
        tell::create(store, &kind, body);
    }
}
