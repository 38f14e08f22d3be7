//! `StatefulSets`: run numbered Pods, one after the other.
//!
//! Guarantees, unless the set is configured otherwise, that a Pod is created only after its predecessors are ready, and deleted only
//! after its successors are gone. Must not depend on Pods' behaviour.

use std::sync::Arc;

use serde_json::{Value, json};

use super::replica_set::{is_over, readiness};
use super::{key_of, tell, template};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path};
use crate::store::Store;
use crate::store::agenda::Task;

const REVISION: &str = "controller-revision-hash";

/// A set and its Pods by number.
struct Crew {
    body: Body,
    revision: String,
    wanted: i64,
    pods: Vec<(i64, Arc<Stored>)>,
}

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    if !stored.slim.terminating {
        let crew = Crew::of(store, &pods, stored);
        step(store, kind, stored, &pods, &crew);
    }
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    let crew = Crew::of(store, &pods, &stored);
    tell_status(store, kind, &stored, &crew);
}

// === impl Crew ===

impl Crew {
    fn of(store: &Store, pods: &Kind, stored: &Arc<Stored>) -> Self {
        let body = stored.body();
        let found = tell::controlled(store, pods, stored);
        let number = |pod: &Arc<Stored>| pod.slim.name.rsplit_once('-')?.1.parse::<i64>().ok();
        let mut pods: Vec<(i64, Arc<Stored>)> = found
            .into_iter()
            .filter_map(|pod| Some((number(&pod)?, pod)))
            .collect();
        pods.sort_by_key(|(number, _)| *number);
        let word = template::word(&template::of(&body));
        Self {
            revision: format!("{}-{word}", stored.slim.name),
            wanted: tell::number(&body, ".spec.replicas"),
            body,
            pods,
        }
    }

    fn is_parallel(&self) -> bool {
        tell::word(&self.body, ".spec.podManagementPolicy") == "Parallel"
    }

    fn is_current(&self, pod: &Stored) -> bool {
        pod.slim.labels.get(REVISION) == Some(&self.revision)
    }

    /// Returns the Pods that are not terminating.
    fn steady(&self) -> impl Iterator<Item = &(i64, Arc<Stored>)> {
        self.pods.iter().filter(|(_, pod)| !pod.slim.terminating)
    }
}

fn is_ready(pod: &Stored) -> bool {
    !pod.slim.terminating && tell::condition(&pod.body(), "Ready") == "True"
}

fn step(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, pods: &Kind, crew: &Crew) {
    for number in 0..crew.wanted {
        let found = crew.pods.iter().find(|(at, _)| *at == number);
        match found {
            Some((_, pod)) if is_over(&pod.body()) && !pod.slim.terminating => {
                tell::delete(store, pods, &key_of(pod));
            }
            Some((_, pod)) if is_ready(pod) => continue,
            Some(_) => {}
            None => make(store, kind, stored, pods, crew, number),
        }
        if !crew.is_parallel() {
            return;
        }
    }
    let surplus = crew
        .pods
        .iter()
        .rev()
        .filter(|(number, _)| *number >= crew.wanted);
    for (_, pod) in surplus {
        if !pod.slim.terminating {
            tell::delete(store, pods, &key_of(pod));
        }
        if !crew.is_parallel() {
            return;
        }
    }
    renew(store, pods, crew);
}

/// Deletes the last Pod that has an outdated template.
fn renew(store: &mut Store, pods: &Kind, crew: &Crew) {
    if tell::word(&crew.body, ".spec.updateStrategy.type") == "OnDelete" {
        return;
    }
    let partition = tell::number(&crew.body, ".spec.updateStrategy.rollingUpdate.partition");
    for (number, pod) in crew.pods.iter().rev() {
        if *number < partition {
            return;
        }
        if !crew.is_current(pod) && !pod.slim.terminating {
            return tell::delete(store, pods, &key_of(pod));
        }
        if !is_ready(pod) {
            return;
        }
    }
}

fn make(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
    pods: &Kind,
    crew: &Crew,
    number: i64,
) {
    let name = format!("{}-{number}", stored.slim.name);
    let mut pod = template::pod(kind, stored, &template::of(&crew.body));
    pod["metadata"]["name"] = name.as_str().into();
    for (label, value) in [
        (REVISION, crew.revision.clone()),
        ("statefulset.kubernetes.io/pod-name", name.clone()),
        ("apps.kubernetes.io/pod-index", number.to_string()),
    ] {
        pod["metadata"]["labels"][label] = value.into();
    }
    pod["spec"]["hostname"] = name.as_str().into();
    pod["spec"]["subdomain"] = tell::word(&crew.body, ".spec.serviceName").into();
    let templates = at_path(&crew.body, ".spec.volumeClaimTemplates").and_then(Value::as_array);
    for template in templates.into_iter().flatten() {
        claim(store, stored, template, &name, &mut pod);
    }
    tell::create(store, pods, pod);
}

/// Creates a Pod's claim, which outlives the Pod, and mounts it.
fn claim(store: &mut Store, stored: &Stored, template: &Value, pod_name: &str, pod: &mut Value) {
    let Some(claims) = tell::kind(store, "", "persistentvolumeclaims") else {
        return;
    };
    let volume = template["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!("{volume}-{pod_name}");
    let mut made = json!({
        "metadata": {"name": name, "namespace": stored.slim.namespace},
        "spec": template["spec"],
    });
    for field in ["labels", "annotations"] {
        if let Some(found) = template["metadata"].get(field) {
            made["metadata"][field] = found.clone();
        }
    }
    // Fails if the claim exists already from an earlier Pod of the same number.
    let _made = tell::create(store, &claims, made);
    if let Some(spec) = pod["spec"].as_object_mut() {
        let slot = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = slot.as_array_mut() {
            volumes.retain(|found| found["name"] != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
}

fn tell_status(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, crew: &Crew) {
    let live: Vec<Arc<Stored>> = crew.steady().map(|(_, pod)| pod.clone()).collect();
    let (ready, available, next) = readiness(
        store,
        &live,
        tell::number(&crew.body, ".spec.minReadySeconds"),
    );
    if let Some(next) = next {
        store.plan(next, (kind.collection, &key_of(stored)), Task::Look);
    }
    let updated = live.iter().filter(|pod| crew.is_current(pod)).count();
    let before = tell::word(&crew.body, ".status.currentRevision");
    let wanted = usize::try_from(crew.wanted).unwrap_or_default();
    let done = updated == wanted && ready == wanted && live.len() == wanted;
    let current = if done || before.is_empty() {
        crew.revision.as_str()
    } else {
        before
    };
    let on_current = live
        .iter()
        .filter(|pod| {
            pod.slim
                .labels
                .get(REVISION)
                .is_some_and(|found| found == current)
        })
        .count();
    let mut status = json!({
        "observedGeneration": tell::number(&crew.body, ".metadata.generation"),
        "replicas": live.len(),
        "availableReplicas": available,
        "currentRevision": current,
        "updateRevision": crew.revision,
        "collisionCount": 0,
    });
    let counts = [
        ("readyReplicas", ready),
        ("currentReplicas", on_current),
        ("updatedReplicas", updated),
    ];
    tell::counts(&mut status, counts);
    tell::set_status(store, kind, stored, status);
}
