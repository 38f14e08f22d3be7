//! Deployments: create a `ReplicaSet` per template, and roll out from one to the next.
//!
//! Guarantees the limits `maxSurge` and `maxUnavailable`. Must not depend on Pods.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::replica_set::scale;
use super::{after, key_of, tell, template};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, metadata};
use crate::store::Store;
use crate::store::agenda::Task;
use crate::verb::Part;

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const HASH: &str = "pod-template-hash";

/// A Deployment and its `ReplicaSets`.
struct Rollout {
    body: Body,
    wanted: i64,
    surge: i64,
    unavailable: i64,
    new: Option<Arc<Stored>>,
    old: Vec<Arc<Stored>>,
}

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let Some(sets) = tell::kind(store, "apps", "replicasets") else {
        return;
    };
    if stored.slim.terminating {
        return;
    }
    let rollout = Rollout::of(store, &sets, stored);
    let paused = at_path(&rollout.body, ".spec.paused") == Some(&Value::Bool(true));
    if !paused {
        if rollout.new.is_none() {
            make(store, kind, stored, &sets, &rollout);
        } else {
            roll(store, &sets, &rollout);
        }
    }
    let rollout = Rollout::of(store, &sets, stored);
    revise(store, kind, stored, &sets, &rollout);
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    tell_status(store, kind, &stored, &rollout, paused);
    forget(store, &sets, &rollout);
}

fn spec_replicas(set: &Stored) -> i64 {
    tell::number(&set.body(), ".spec.replicas")
}

fn status_of(set: &Stored, field: &str) -> i64 {
    tell::number(&set.body(), &format!(".status.{field}"))
}

/// Returns a number that is given directly or as a percentage of another one.
fn part(value: Option<&Value>, of: i64, up: bool) -> i64 {
    match value {
        Some(Value::String(text)) => {
            let share: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let exact = share * of;
            if up { (exact + 99) / 100 } else { exact / 100 }
        }
        Some(value) => value.as_i64().unwrap_or_default(),
        None => 0,
    }
}

// === impl Rollout ===

impl Rollout {
    fn of(store: &Store, sets: &Kind, stored: &Arc<Stored>) -> Self {
        let newest = current(store, stored).unwrap_or_else(|| stored.clone());
        let body = newest.body();
        let word = template::word(&template::of(&body));
        let all = tell::controlled(store, sets, stored);
        let (new, old): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|set| set.slim.labels.get(HASH) == Some(&word));
        let wanted = tell::number(&body, ".spec.replicas");
        let rolling =
            |field: &str| at_path(&body, &format!(".spec.strategy.rollingUpdate.{field}")).cloned();
        let recreate = tell::word(&body, ".spec.strategy.type") == "Recreate";
        let surge = part(rolling("maxSurge").as_ref(), wanted, true);
        let mut unavailable = part(rolling("maxUnavailable").as_ref(), wanted, false);
        if surge == 0 && unavailable == 0 && !recreate {
            unavailable = 1;
        }
        Self {
            wanted,
            surge,
            unavailable: unavailable.min(wanted),
            new: new.into_iter().next(),
            old,
            body,
        }
    }

    fn is_recreating(&self) -> bool {
        tell::word(&self.body, ".spec.strategy.type") == "Recreate"
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.new.iter().chain(&self.old)
    }
}

fn current(store: &Store, stored: &Arc<Stored>) -> Option<Arc<Stored>> {
    let (id, key) = store.place_of(&stored.slim.uid)?.clone();
    store.get(id, &key)
}

/// Creates the `ReplicaSet` of the current template.
fn make(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, sets: &Kind, rollout: &Rollout) {
    let running: i64 = rollout.old.iter().map(|set| spec_replicas(set)).sum();
    let left: i64 = rollout
        .old
        .iter()
        .map(|set| status_of(set, "replicas"))
        .sum();
    if rollout.is_recreating() && running + left > 0 {
        for set in rollout.old.iter().filter(|set| spec_replicas(set) > 0) {
            scale(store, sets, set, 0);
        }
        return;
    }
    let replicas = (rollout.wanted + rollout.surge - running).clamp(0, rollout.wanted);
    let mut template = template::of(&rollout.body);
    let word = template::word(&template);
    template["metadata"]["labels"][HASH] = word.as_str().into();
    let mut selector = at_path(&rollout.body, ".spec.selector")
        .cloned()
        .unwrap_or_default();
    selector["matchLabels"][HASH] = word.as_str().into();
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{word}", stored.slim.name),
            "namespace": stored.slim.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations(rollout),
            "ownerReferences": tell::owned_by(kind, stored),
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": tell::number(&rollout.body, ".spec.minReadySeconds"),
            "selector": selector,
            "template": template,
        },
    });
    tell::create(store, sets, set);
}

fn annotations(rollout: &Rollout) -> Value {
    let own = metadata(&rollout.body).and_then(|meta| meta.get("annotations"));
    let mut annotations = own.and_then(Value::as_object).cloned().unwrap_or_default();
    annotations.remove(APPLIED);
    annotations.insert(
        REVISION.to_owned(),
        next_revision(rollout).to_string().into(),
    );
    annotations.insert(DESIRED.to_owned(), rollout.wanted.to_string().into());
    let most = rollout.wanted + rollout.surge;
    annotations.insert(MOST.to_owned(), most.to_string().into());
    Value::Object(annotations)
}

fn revision_of(set: &Stored) -> i64 {
    let body = set.body();
    let annotations = metadata(&body).and_then(|meta| meta.get("annotations"));
    let found = annotations.and_then(|found| found.get(REVISION)?.as_str()?.parse().ok());
    found.unwrap_or_default()
}

fn next_revision(rollout: &Rollout) -> i64 {
    rollout
        .old
        .iter()
        .map(|set| revision_of(set))
        .max()
        .unwrap_or_default()
        + 1
}

/// Gives the newest `ReplicaSet` the highest revision, and copies it to the Deployment.
fn revise(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, sets: &Kind, rollout: &Rollout) {
    let Some(new) = &rollout.new else {
        return;
    };
    let wanted = next_revision(rollout).max(revision_of(new));
    let (desired, most) = (
        rollout.wanted.to_string(),
        (rollout.wanted + rollout.surge).to_string(),
    );
    let revision = wanted.to_string();
    for set in rollout.all() {
        let mut body = set.body();
        let mut notes = vec![(DESIRED, desired.as_str()), (MOST, most.as_str())];
        if set.slim.uid == new.slim.uid {
            notes.push((REVISION, revision.as_str()));
        }
        if tell::annotate(&mut body, &notes) {
            tell::update(store, sets, set, Part::Main, body);
        }
    }
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    let mut body = stored.body();
    if tell::annotate(&mut body, &[(REVISION, revision.as_str())]) {
        // The real controller writes this together with the status, so the generation must not increase.
        store.put(kind.collection, body);
    }
}

/// Takes one step of the rollout.
fn roll(store: &mut Store, sets: &Kind, rollout: &Rollout) {
    let Some(new) = &rollout.new else {
        return;
    };
    let at_new = spec_replicas(new);
    let at_old: i64 = rollout.old.iter().map(|set| spec_replicas(set)).sum();
    if at_new > rollout.wanted {
        return scale(store, sets, new, rollout.wanted);
    }
    if rollout.is_recreating() {
        let left: i64 = rollout
            .old
            .iter()
            .map(|set| status_of(set, "replicas"))
            .sum();
        for set in rollout.old.iter().filter(|set| spec_replicas(set) > 0) {
            scale(store, sets, set, 0);
        }
        if at_old + left == 0 && at_new < rollout.wanted {
            scale(store, sets, new, rollout.wanted);
        }
        return;
    }
    let room = rollout.wanted + rollout.surge - at_new - at_old;
    let more = room.min(rollout.wanted - at_new);
    if more > 0 {
        scale(store, sets, new, at_new + more);
    }
    shrink(store, sets, rollout, at_new + more.max(0), at_old);
}

/// Scales down old `ReplicaSets`, starting with unavailable Pods.
fn shrink(store: &mut Store, sets: &Kind, rollout: &Rollout, at_new: i64, at_old: i64) {
    let least = rollout.wanted - rollout.unavailable;
    let new_available = rollout
        .new
        .as_ref()
        .map_or(0, |set| status_of(set, "availableReplicas"));
    let mut room = at_new + at_old - least - (at_new - new_available);
    for set in &rollout.old {
        let (has, works) = (spec_replicas(set), status_of(set, "availableReplicas"));
        let broken = (has - works).clamp(0, room.max(0));
        if broken > 0 && status_of(set, "replicas") == has {
            scale(store, sets, set, has - broken);
            room -= broken;
        }
    }
    let available: i64 = new_available
        + rollout
            .old
            .iter()
            .map(|set| status_of(set, "availableReplicas"))
            .sum::<i64>();
    let mut room = room.min(available - least);
    for set in &rollout.old {
        let Some(set) = store.get(sets.collection, &key_of(set)) else {
            continue;
        };
        let has = spec_replicas(&set);
        let fewer = has.min(room.max(0));
        if fewer > 0 {
            scale(store, sets, &set, has - fewer);
            room -= fewer;
        }
    }
}

fn tell_status(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
    rollout: &Rollout,
    paused: bool,
) {
    let body = stored.body();
    let sum = |field: &str| -> i64 { rollout.all().map(|set| status_of(set, field)).sum() };
    let updated = rollout
        .new
        .as_ref()
        .map_or(0, |set| status_of(set, "replicas"));
    let (replicas, ready, available) = (
        sum("replicas"),
        sum("readyReplicas"),
        sum("availableReplicas"),
    );
    let asked: i64 = rollout.all().map(|set| spec_replicas(set)).sum();
    let mut status = json!({"observedGeneration": tell::number(&body, ".metadata.generation")});
    let counts = [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", (asked - available).max(0)),
    ];
    tell::counts(&mut status, counts);
    let done =
        updated == rollout.wanted && replicas == rollout.wanted && available == rollout.wanted;
    let conditions = conditions(store, &body, rollout, (available, done, paused));
    status["conditions"] = conditions.into();
    tell::set_status(store, kind, stored, status);
    if !done {
        let deadline = tell::number(&body, ".spec.progressDeadlineSeconds");
        let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or_default() + 1);
        let at = after(store.clock.now(), deadline);
        store.plan(at, (kind.collection, &key_of(stored)), Task::Look);
    }
}

/// Returns the conditions of a Deployment: `Available` and `Progressing`.
fn conditions(
    store: &Store,
    body: &Body,
    rollout: &Rollout,
    (available, done, paused): (i64, bool, bool),
) -> Vec<Value> {
    let now = store.clock.stamp();
    let mut conditions = tell::conditions(body);
    let words = if available >= rollout.wanted - rollout.unavailable {
        let message = "Deployment has minimum availability.";
        ("True", "MinimumReplicasAvailable", message.to_owned())
    } else {
        let message = "Deployment does not have minimum availability.";
        ("False", "MinimumReplicasUnavailable", message.to_owned())
    };
    let before = conditions
        .iter()
        .find(|found| found["type"] == "Progressing");
    let progress = progress(store, body, rollout, before, (done, paused));
    for (of, (status, reason, message)) in [("Available", words), ("Progressing", progress)] {
        let condition = json!({
            "type": of, "status": status, "reason": reason, "message": message, "lastUpdateTime": now,
        });
        tell::set_condition(&mut conditions, condition, &now);
    }
    conditions
}

type Words = (&'static str, &'static str, String);

fn progress(
    store: &Store,
    body: &Body,
    rollout: &Rollout,
    before: Option<&Value>,
    (done, paused): (bool, bool),
) -> Words {
    let name = rollout
        .new
        .as_ref()
        .map_or("", |set| set.slim.name.as_str());
    // Ignore a condition about another `ReplicaSet`.
    let before = before.filter(|before| {
        let message = before["message"].as_str().unwrap_or_default();
        message.contains(&format!("\"{name}\""))
    });
    let reason = before
        .and_then(|before| before["reason"].as_str())
        .unwrap_or_default();
    if done || reason == "NewReplicaSetAvailable" {
        let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
        return ("True", "NewReplicaSetAvailable", message);
    }
    if paused {
        return (
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused".to_owned(),
        );
    }
    if before.is_some_and(|before| is_late(store, body, before)) {
        let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
        return ("False", "ProgressDeadlineExceeded", message);
    }
    if before.is_none() {
        let message = format!("Created new replica set \"{name}\"");
        return ("True", "NewReplicaSetCreated", message);
    }
    let message = format!("ReplicaSet \"{name}\" is progressing.");
    ("True", "ReplicaSetUpdated", message)
}

/// Returns whether the progress deadline has passed.
fn is_late(store: &Store, body: &Body, condition: &Value) -> bool {
    if condition["reason"] == "ProgressDeadlineExceeded" {
        return true;
    }
    let since = tell::time(condition.get("lastUpdateTime"));
    let deadline = tell::number(body, ".spec.progressDeadlineSeconds");
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or_default());
    since.is_some_and(|since| after(since, deadline) < store.clock.now())
}

/// Deletes the oldest idle `ReplicaSets` beyond the history limit.
fn forget(store: &mut Store, sets: &Kind, rollout: &Rollout) {
    let limit = at_path(&rollout.body, ".spec.revisionHistoryLimit")
        .and_then(Value::as_u64)
        .unwrap_or(10);
    let mut idle: Vec<&Arc<Stored>> = rollout
        .old
        .iter()
        .filter(|set| {
            spec_replicas(set) == 0 && status_of(set, "replicas") == 0 && !set.slim.terminating
        })
        .collect();
    idle.sort_by_key(|set| revision_of(set));
    let surplus = idle
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    for set in idle.into_iter().take(surplus) {
        tell::delete(store, sets, &key_of(set));
    }
}
