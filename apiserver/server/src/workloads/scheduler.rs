//! Chooses a node for a Pod, with the scheduler's messages if no node fits.
//!
//! Guarantees this order of checks: cordons, taints, selectors and affinity, resources. A Pod that does not fit waits with the
//! condition `PodScheduled` until something changes. Must not depend on what runs a Pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{lack, tell};
use crate::kind::Kind;
use crate::object::{Body, at_path, map_mut, set_path, text};
use crate::selector::choice::{chooses, has_all};
use crate::store::Store;
use crate::typed::quantity::nanos;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Binds a Pod to a node, or records why no node fits.
pub(super) fn tend(store: &mut Store, kind: &Kind, mut body: Body) {
    let gates = at_path(&body, ".spec.schedulingGates").and_then(Value::as_array);
    let scheduler = tell::word(&body, ".spec.schedulerName");
    if gates.is_some_and(|gates| !gates.is_empty()) || scheduler != "default-scheduler" {
        return;
    }
    let condition = match choose(store, &body) {
        Ok(node) => {
            set_path(&mut body, ".spec.nodeName", node.into());
            json!({"type": "PodScheduled", "status": "True"})
        }
        Err(message) => {
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message})
        }
    };
    let key = crate::store::key(
        Some(tell::word(&body, ".metadata.namespace")),
        tell::word(&body, ".metadata.name"),
    );
    let now = store.clock.stamp();
    let bound = condition["status"] == "True";
    if !bound {
        hold(store, &key);
    }
    let old = if bound {
        // A binding bypasses the rules for updates of Pods.
        Some(store.put(kind.collection, body.clone()))
    } else {
        store.get(kind.collection, &key)
    };
    let Some(old) = old else {
        return;
    };
    let mut conditions = tell::conditions(&body);
    tell::set_condition(&mut conditions, condition, &now);
    let status = map_mut(&mut body, "status");
    status.insert("conditions".to_owned(), conditions.into());
    let status = Value::Object(status.clone());
    tell::set_status(store, kind, &old, status);
}

/// Marks a Pod as waiting for a change of other objects.
pub(super) fn hold(store: &mut Store, key: &str) {
    if let Some(world) = store.workloads.as_mut() {
        world.hold(key);
    }
}

/// Returns the name of a suitable node, or the message why there is none.
fn choose(store: &Store, pod: &Body) -> Result<String, String> {
    let nodes = tell::kind(store, "", "nodes");
    let nodes = nodes.map(|kind| store.under(kind.collection, ""));
    let nodes = nodes.unwrap_or_default();
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let available = format!("0/{} nodes are available", nodes.len());
    if let Some(claim) = lack::claim(store, pod) {
        return Err(format!("{available}: {claim}."));
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let against = objections(store, pod, &node.body());
        if against.is_empty() {
            return Ok(node.slim.name.clone());
        }
        for reason in against {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    reasons.sort();
    Err(format!("{available}: {}.", reasons.join(", ")))
}

/// Returns the objections to a node; only the first failed check counts.
fn objections(store: &Store, pod: &Body, node: &Body) -> Vec<String> {
    let cordoned = at_path(node, ".spec.unschedulable") == Some(&Value::Bool(true));
    let cordon = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
    if cordoned && !tolerates(pod, &cordon) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    let taints = at_path(node, ".spec.taints").and_then(Value::as_array);
    let mut taints = taints.into_iter().flatten();
    if taints.any(|taint| taint["effect"] != "PreferNoSchedule" && !tolerates(pod, taint)) {
        return vec!["node(s) had untolerated taint(s)".to_owned()];
    }
    let spec = at_path(pod, ".spec").cloned().unwrap_or_default();
    if !is_selected(&spec, node) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    shortage(store, pod, node)
}

fn tolerates(pod: &Body, taint: &Value) -> bool {
    let list = at_path(pod, ".spec.tolerations").and_then(Value::as_array);
    let word = |found: &Value, field: &str| found[field].as_str().unwrap_or_default().to_owned();
    list.into_iter().flatten().any(|found| {
        let same = |field: &str| word(found, field) == word(taint, field);
        let open = |field: &str| word(found, field).is_empty();
        let any_value = found["operator"] == "Exists";
        (open("effect") || same("effect"))
            && (same("key") || (open("key") && any_value))
            && (any_value || same("value"))
    })
}

/// Returns whether the `nodeSelector` and the affinity of a Pod's spec select a node.
pub(super) fn is_selected(spec: &Value, node: &Body) -> bool {
    let labels = at_path(node, ".metadata.labels").and_then(Value::as_object);
    let labels = labels.cloned().unwrap_or_default();
    let mut fields = Body::new();
    let name = tell::word(node, ".metadata.name");
    fields.insert("metadata.name".to_owned(), name.into());
    let affinity =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let holds = |term: &Body| {
        let mut of_fields = Body::new();
        if let Some(found) = term.get("matchFields") {
            of_fields.insert("matchExpressions".to_owned(), found.clone());
        }
        !term.is_empty() && chooses(term, &labels) && chooses(&of_fields, &fields)
    };
    let chosen = match affinity["nodeSelectorTerms"].as_array() {
        Some(terms) => terms.iter().filter_map(Value::as_object).any(holds),
        None => true,
    };
    chosen && has_all(spec["nodeSelector"].as_object(), &labels)
}

/// Returns the resources of which a node has too little left.
fn shortage(store: &Store, pod: &Body, node: &Body) -> Vec<String> {
    let wanted = requests(pod);
    if wanted.is_empty() {
        return Vec::new();
    }
    let name = tell::word(node, ".metadata.name");
    let pods = tell::kind(store, "", "pods");
    let pods = pods.map(|kind| store.under(kind.collection, ""));
    let mut taken: BTreeMap<String, i128> = BTreeMap::new();
    for other in pods.unwrap_or_default() {
        let other: Body = other.body();
        if tell::word(&other, ".spec.nodeName") == name && !super::replica_set::is_over(&other) {
            for (resource, amount) in requests(&other) {
                *taken.entry(resource).or_default() += amount;
            }
        }
    }
    let room = at_path(node, ".status.allocatable");
    let room = room.and_then(Value::as_object).cloned().unwrap_or_default();
    let lacks = |(resource, amount): (String, i128)| {
        let free = nanos(text(&room, &resource)).unwrap_or_default()
            - taken.get(&resource).copied().unwrap_or_default();
        (amount > free).then(|| format!("Insufficient {resource}"))
    };
    wanted.into_iter().filter_map(lacks).collect()
}

/// Returns the resource requests of a Pod's containers, without zeros.
fn requests(pod: &Body) -> BTreeMap<String, i128> {
    let of = |path: &str| at_path(pod, path).and_then(Value::as_array);
    let amounts = |container: &Value| -> Vec<(String, i128)> {
        let requests = container["resources"]["requests"].as_object();
        let amount = |value: &Value| nanos(value.as_str()?).filter(|nanos| *nanos > 0);
        let requests = requests.into_iter().flatten();
        requests
            .filter_map(|(key, value)| Some((key.clone(), amount(value)?)))
            .collect()
    };
    let mut sum: BTreeMap<String, i128> = BTreeMap::new();
    for (resource, amount) in of(".spec.containers")
        .into_iter()
        .flatten()
        .flat_map(amounts)
    {
        *sum.entry(resource).or_default() += amount;
    }
    let first = of(".spec.initContainers").into_iter().flatten();
    for (resource, amount) in first.flat_map(amounts) {
        let most = sum.entry(resource).or_default();
        *most = amount.max(*most);
    }
    sum
}

/// Queues the waiting Pods that a change may affect.
pub(super) fn wake(store: &mut Store, kind: &Kind, key: &str) {
    let of_namespace = || {
        key.split_once('/')
            .map_or("", |(namespace, _)| namespace)
            .to_owned()
            + "/"
    };
    let prefix = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "nodes") => String::new(),
        ("", "pods") if is_off(store, kind, key) => String::new(),
        ("", "configmaps" | "secrets" | "persistentvolumeclaims") => of_namespace(),
        _ => return,
    };
    if kind.plural == "nodes"
        && let Some(sets) = tell::kind(store, "apps", "daemonsets")
    {
        for set in store.under(sets.collection, "") {
            store.note(sets.collection, &super::key_of(&set));
        }
    }
    let world = store.workloads.as_mut();
    for key in world
        .map(|world| world.release(&prefix))
        .unwrap_or_default()
    {
        if let Some(pods) = tell::kind(store, "", "pods") {
            store.note(pods.collection, &key);
        }
    }
}

/// Returns whether a Pod no longer uses resources.
fn is_off(store: &Store, kind: &Kind, key: &str) -> bool {
    let found: Option<Arc<_>> = store.get(kind.collection, key);
    found.is_none_or(|pod| super::replica_set::is_over(&pod.body()))
}
