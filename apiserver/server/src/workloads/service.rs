//! Services: publish their Pods as Endpoints and `EndpointSlices`.
//!
//! Guarantees that ready Pods are listed as ready addresses and others as not ready, and that a Service without selector is left alone.
//! Must not depend on Pods' behaviour.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tell;
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path};
use crate::selector::choice::has_all;
use crate::store::Store;
use crate::verb::Part;

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let body = stored.body();
    let selector = at_path(&body, ".spec.selector").and_then(Value::as_object);
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
        return;
    };
    if stored.slim.terminating || tell::word(&body, ".spec.type") == "ExternalName" {
        return;
    }
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    let chosen: Vec<Body> = tell::beside(store, &pods, stored)
        .iter()
        .map(|pod| pod.body())
        .filter(|pod| {
            let labels = at_path(pod, ".metadata.labels")
                .and_then(Value::as_object)
                .cloned();
            has_all(Some(selector), &labels.unwrap_or_default())
                && !tell::word(pod, ".status.podIP").is_empty()
                && at_path(pod, ".metadata.deletionTimestamp").is_none()
                && !super::replica_set::is_over(pod)
        })
        .collect();
    endpoints(store, stored, &body, &chosen);
    slice(store, kind, stored, &body, &chosen);
}

fn is_ready(pod: &Body) -> bool {
    tell::condition(pod, "Ready") == "True"
}

fn target(pod: &Body) -> Value {
    json!({
        "kind": "Pod",
        "name": tell::word(pod, ".metadata.name"),
        "namespace": tell::word(pod, ".metadata.namespace"),
        "uid": tell::word(pod, ".metadata.uid"),
    })
}

/// Resolves the ports of a Service for these Pods.
fn ports(service: &Body, pods: &[Body]) -> Vec<Value> {
    let list = at_path(service, ".spec.ports").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|port| {
            let number = match &port["targetPort"] {
                Value::String(name) => named_port(pods, name, &port["protocol"])?,
                number => number.as_i64()?,
            };
            let mut made = json!({"port": number, "protocol": port["protocol"]});
            for field in ["name", "appProtocol"] {
                if let Some(found) = port.get(field) {
                    made[field] = found.clone();
                }
            }
            Some(made)
        })
        .collect()
}

fn named_port(pods: &[Body], name: &str, protocol: &Value) -> Option<i64> {
    let containers = pods
        .iter()
        .filter_map(|pod| at_path(pod, ".spec.containers")?.as_array());
    let mut ports = containers
        .flatten()
        .filter_map(|found| found["ports"].as_array())
        .flatten();
    let fits = |port: &&Value| port["name"] == name && port["protocol"] == *protocol;
    ports.find(fits)?["containerPort"].as_i64()
}

/// Groups Pods by the ports that they share; drops Pods without any port.
fn groups(service: &Body, pods: &[Body]) -> Vec<(Vec<usize>, Vec<Value>)> {
    let wanted = at_path(service, ".spec.ports").and_then(Value::as_array);
    if wanted.is_none_or(Vec::is_empty) {
        let everyone: Vec<usize> = (0..pods.len()).collect();
        return Vec::from_iter((!pods.is_empty()).then_some((everyone, Vec::new())));
    }
    let mut having: Vec<(Value, Vec<usize>)> = Vec::new();
    for (at, pod) in pods.iter().enumerate() {
        for port in ports(service, std::slice::from_ref(pod)) {
            match having.iter_mut().find(|(found, _)| *found == port) {
                Some((_, pods)) => pods.push(at),
                None => having.push((port, vec![at])),
            }
        }
    }
    let mut groups: Vec<(Vec<usize>, Vec<Value>)> = Vec::new();
    for (port, pods) in having {
        match groups.iter_mut().find(|(found, _)| *found == pods) {
            Some((_, ports)) => ports.push(port),
            None => groups.push((pods, vec![port])),
        }
    }
    groups
}

fn subset(pods: &[&Body], ports: Vec<Value>) -> Value {
    let addresses = |ready: bool| -> Vec<Value> {
        let chosen = pods.iter().filter(|pod| is_ready(pod) == ready);
        chosen
            .map(|pod| json!({"ip": tell::word(pod, ".status.podIP"), "nodeName": tell::word(pod, ".spec.nodeName"), "targetRef": target(pod)}))
            .collect()
    };
    let mut subset = json!({});
    for (field, found) in [
        ("addresses", addresses(true)),
        ("notReadyAddresses", addresses(false)),
        ("ports", ports),
    ] {
        if !found.is_empty() {
            subset[field] = found.into();
        }
    }
    subset
}

fn endpoints(store: &mut Store, stored: &Stored, service: &Body, pods: &[Body]) {
    let Some(kind) = tell::kind(store, "", "endpoints") else {
        return;
    };
    let subsets: Vec<Value> = groups(service, pods)
        .into_iter()
        .map(|(at, ports)| {
            let chosen: Vec<&Body> = at.into_iter().filter_map(|at| pods.get(at)).collect();
            subset(&chosen, ports)
        })
        .collect();
    let mut labels = at_path(service, ".metadata.labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    labels["endpoints.kubernetes.io/managed-by"] = "endpoint-controller".into();
    let made = json!({
        "metadata": {"name": stored.slim.name, "namespace": stored.slim.namespace, "labels": labels},
        "subsets": subsets,
    });
    let services = tell::kind(store, "", "services");
    put(
        store,
        &kind,
        stored,
        services.as_deref(),
        made,
        &["subsets"],
    );
}

fn slice(store: &mut Store, kind: &Kind, stored: &Stored, service: &Body, pods: &[Body]) {
    let Some(slices) = tell::kind(store, "discovery.k8s.io", "endpointslices") else {
        return;
    };
    let endpoint = |pod: &Body| {
        let ready = is_ready(pod);
        json!({
            "addresses": [tell::word(pod, ".status.podIP")],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
            "nodeName": tell::word(pod, ".spec.nodeName"),
            "targetRef": target(pod),
        })
    };
    let mut labels = at_path(service, ".metadata.labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    labels["kubernetes.io/service-name"] = stored.slim.name.as_str().into();
    labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io".into();
    let made = json!({
        "metadata": {
            "name": format!("{}-{}", stored.slim.name, &stored.slim.uid[..5]),
            "namespace": stored.slim.namespace,
            "labels": labels,
            "ownerReferences": tell::owned_by(kind, stored),
        },
        "addressType": "IPv4",
        "endpoints": pods.iter().map(endpoint).collect::<Vec<Value>>(),
        "ports": ports(service, pods),
    });
    put(store, &slices, stored, None, made, &["endpoints", "ports"]);
}

/// Creates an object, or updates the given fields of an existing one.
fn put(
    store: &mut Store,
    kind: &Kind,
    service: &Stored,
    owner: Option<&Kind>,
    mut made: Value,
    fields: &[&str],
) {
    let name = made["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let key = crate::store::key(service.slim.namespace.as_deref(), &name);
    let Some(old) = store.get(kind.collection, &key) else {
        if let Some(owner) = owner {
            made["metadata"]["ownerReferences"] = tell::owned_by(owner, service);
        }
        tell::create(store, kind, made);
        return;
    };
    let mut body = old.body();
    let before = body.clone();
    for field in fields {
        match made
            .get(*field)
            .filter(|found| !found.as_array().is_some_and(Vec::is_empty))
        {
            Some(found) => body.insert((*field).to_owned(), found.clone()),
            None => body.remove(*field),
        };
    }
    if body != before {
        tell::update(store, kind, &old, Part::Main, body);
    }
}
