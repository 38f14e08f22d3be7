//! `DaemonSets`: run a Pod on every node, of which there is one.
//!
//! A Pod of an outdated template is deleted first and replaced once it is gone. Must not depend on Pods' behaviour.

use std::sync::Arc;

use serde_json::json;

use super::replica_set::{is_over, readiness};
use super::scheduler::is_selected;
use super::{key_of, node, tell, template};
use crate::kind::Kind;
use crate::object::{Body, Stored};
use crate::store::Store;
use crate::store::agenda::Task;

const HASH: &str = "controller-revision-hash";

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    let word = template::word(&template::of(&stored.body()));
    if !stored.slim.terminating {
        renew(store, kind, stored, &pods, &word);
    }
    if let Some(stored) = store.get(kind.collection, &key_of(stored)) {
        tell_status(store, kind, &stored, &pods, &word);
    }
}

fn renew(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, pods: &Kind, word: &str) {
    let body = stored.body();
    let all = tell::controlled(store, pods, stored);
    let wanted = is_wanted(store, &body);
    if wanted && all.is_empty() {
        let mut pod = template::pod(kind, stored, &template::of(&body));
        pod["metadata"]["generateName"] = format!("{}-", stored.slim.name).into();
        pod["metadata"]["labels"][HASH] = word.into();
        pod["spec"]["nodeName"] = node::NAME.into();
        tell::create(store, pods, pod);
    }
    let rolls = tell::word(&body, ".spec.updateStrategy.type") != "OnDelete";
    for pod in all.iter().filter(|pod| !pod.slim.terminating) {
        let old = pod.slim.labels.get(HASH).map(String::as_str) != Some(word);
        if !wanted || is_over(&pod.body()) || (old && rolls) {
            tell::delete(store, pods, &key_of(pod));
        }
    }
}

/// Returns whether the node exists and is selected; a cordoned node counts, too.
fn is_wanted(store: &Store, body: &Body) -> bool {
    let spec = template::of(body)["spec"].clone();
    node::find(store, node::NAME).is_some_and(|node| is_selected(&spec, &node.body()))
}

fn tell_status(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, pods: &Kind, word: &str) {
    let body = stored.body();
    let mut live = tell::controlled(store, pods, stored);
    live.retain(|pod| !pod.slim.terminating);
    let least = tell::number(&body, ".spec.minReadySeconds");
    let (ready, available, next) = readiness(store, &live, least);
    if let Some(next) = next {
        store.plan(next, (kind.collection, &key_of(stored)), Task::Look);
    }
    let is_new = |pod: &&Arc<Stored>| pod.slim.labels.get(HASH).map(String::as_str) == Some(word);
    let updated = live.iter().filter(is_new).count();
    let wanted = usize::from(is_wanted(store, &body));
    let mut status = json!({
        "currentNumberScheduled": live.len(),
        "desiredNumberScheduled": wanted,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "observedGeneration": tell::number(&body, ".metadata.generation"),
    });
    let counts = [
        ("numberAvailable", available),
        ("numberUnavailable", wanted.saturating_sub(available)),
        ("updatedNumberScheduled", updated),
    ];
    tell::counts(&mut status, counts);
    tell::set_status(store, kind, stored, status);
}
