//! `ReplicaSets`: keep the desired number of Pods.
//!
//! Scaling down deletes unready Pods first, and of equally ready ones the oldest. Must not depend on Deployments.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{after, key_of, tell, template};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, map_mut, metadata_mut};
use crate::selector::choice::chooses;
use crate::store::Store;
use crate::store::agenda::Task;
use crate::verb::Part;

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    let body = stored.body();
    if !stored.slim.terminating {
        adopt(store, kind, stored, &pods, &body);
        balance(store, kind, stored, &pods, &body);
    }
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    tell_status(store, kind, &stored, &pods);
}

/// Returns the Pods of a workload that are neither terminating nor finished.
pub(super) fn active(store: &Store, pods: &Kind, owner: &Stored) -> Vec<Arc<Stored>> {
    let mut found = tell::controlled(store, pods, owner);
    found.retain(|pod| !pod.slim.terminating && !is_over(&pod.body()));
    found
}

/// Returns whether a Pod has finished.
pub(super) fn is_over(body: &Body) -> bool {
    matches!(tell::word(body, ".status.phase"), "Succeeded" | "Failed")
}

/// Adopts matching Pods without an owner.
fn adopt(store: &mut Store, kind: &Kind, owner: &Stored, pods: &Kind, body: &Body) {
    let Some(selector) = at_path(body, ".spec.selector").and_then(Value::as_object) else {
        return;
    };
    for pod in tell::beside(store, pods, owner) {
        if !pod.slim.owners.is_empty() || pod.slim.terminating {
            continue;
        }
        let mut body = pod.body();
        let labels = at_path(&body, ".metadata.labels")
            .and_then(Value::as_object)
            .cloned();
        if is_over(&body) || !chooses(selector, &labels.unwrap_or_default()) {
            continue;
        }
        metadata_mut(&mut body).insert("ownerReferences".to_owned(), tell::owned_by(kind, owner));
        tell::update(store, pods, &pod, Part::Main, body);
    }
}

fn balance(store: &mut Store, kind: &Kind, owner: &Arc<Stored>, pods: &Kind, body: &Body) {
    let wanted = usize::try_from(tell::number(body, ".spec.replicas")).unwrap_or_default();
    let mut found = active(store, pods, owner);
    for _ in found.len()..wanted {
        let mut pod = template::pod(kind, owner, &template::of(body));
        pod["metadata"]["generateName"] = format!("{}-", owner.slim.name).into();
        if tell::create(store, pods, pod).is_none() {
            break;
        }
    }
    if found.len() > wanted {
        found.sort_by_key(|pod| tell::condition(&pod.body(), "Ready") == "True");
        let surplus = found.len() - wanted;
        for pod in found.into_iter().take(surplus) {
            tell::delete(store, pods, &key_of(&pod));
        }
    }
}

/// Returns the numbers of ready and of available Pods, and the time when the next one becomes available.
pub(super) fn readiness(
    store: &Store,
    pods: &[Arc<Stored>],
    least: i64,
) -> (usize, usize, Option<Timestamp>) {
    let now = store.clock.now();
    let least = std::time::Duration::from_secs(u64::try_from(least).unwrap_or_default());
    let (mut ready, mut available, mut next) = (0, 0, None);
    for pod in pods {
        let body = pod.body();
        if tell::condition(&body, "Ready") != "True" {
            continue;
        }
        ready += 1;
        let list = at_path(&body, ".status.conditions").and_then(Value::as_array);
        let since = list
            .into_iter()
            .flatten()
            .find(|found| found["type"] == "Ready")
            .and_then(|found| tell::time(found.get("lastTransitionTime")));
        let at = after(since.unwrap_or(now), least);
        if least.is_zero() || at <= now {
            available += 1;
        } else {
            next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
        }
    }
    (ready, available, next)
}

fn tell_status(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, pods: &Kind) {
    let body = stored.body();
    let found = active(store, pods, stored);
    let (ready, available, next) =
        readiness(store, &found, tell::number(&body, ".spec.minReadySeconds"));
    if let Some(next) = next {
        store.plan(next, (kind.collection, &key_of(stored)), Task::Look);
    }
    let empty = Body::new();
    let template = template::of(&body);
    let labels = template["metadata"]["labels"].as_object().unwrap_or(&empty);
    let labelled = |pod: &&Arc<Stored>| {
        let mut labels = labels.iter();
        labels.all(|(key, value)| pod.slim.labels.get(key).map(String::as_str) == value.as_str())
    };
    let mut status = json!({
        "replicas": found.len(),
        "observedGeneration": tell::number(&body, ".metadata.generation"),
    });
    let counts = [
        (
            "fullyLabeledReplicas",
            found.iter().filter(labelled).count(),
        ),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ];
    tell::counts(&mut status, counts);
    if let Some(conditions) = at_path(&body, ".status.conditions") {
        status["conditions"] = conditions.clone();
    }
    tell::set_status(store, kind, stored, status);
}

/// Sets the desired number of Pods.
pub(super) fn scale(store: &mut Store, kind: &Kind, stored: &Stored, replicas: i64) {
    let mut body = stored.body();
    map_mut(&mut body, "spec").insert("replicas".to_owned(), replicas.into());
    tell::update(store, kind, stored, Part::Main, body);
}
