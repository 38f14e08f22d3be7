//! `CronJobs`: create a Job at each scheduled time.
//!
//! Guarantees that missed times are made up for by a single Job. Schedules are in UTC. Must not depend on Jobs' behaviour.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::job::is_finished;
use super::{key_of, tell};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path};
use crate::store::Store;
use crate::store::agenda::Task;
use crate::valid::Schedule;

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let body = stored.body();
    let (Ok(schedule), Some(jobs)) = (
        Schedule::parse(tell::word(&body, ".spec.schedule")),
        tell::kind(store, "batch", "jobs"),
    ) else {
        return;
    };
    if stored.slim.terminating || at_path(&body, ".spec.suspend") == Some(&Value::Bool(true)) {
        return;
    }
    let now = store.clock.now();
    let last = tell::time(at_path(&body, ".status.lastScheduleTime"));
    let mut due = schedule.next(last.or_else(|| tell::created(&body)).unwrap_or(now));
    let mut missed = None;
    while let Some(at) = due.filter(|at| *at <= now) {
        missed = Some(at);
        due = schedule.next(at);
    }
    let mut scheduled = last;
    if let Some(at) = missed {
        scheduled = Some(at);
        make(store, kind, stored, &jobs, &body, at);
    }
    tidy(store, &jobs, stored, &body);
    tell_status(store, kind, stored, &jobs, scheduled);
    if let Some(at) = due {
        store.plan(at, (kind.collection, &key_of(stored)), Task::Look);
    }
}

fn make(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
    jobs: &Kind,
    body: &Body,
    at: Timestamp,
) {
    let running: Vec<Arc<Stored>> = tell::controlled(store, jobs, stored)
        .into_iter()
        .filter(|job| !is_finished(&job.body()))
        .collect();
    match tell::word(body, ".spec.concurrencyPolicy") {
        "Forbid" if !running.is_empty() => return,
        "Replace" => {
            for job in &running {
                tell::delete(store, jobs, &key_of(job));
            }
        }
        _ => {}
    }
    let template = at_path(body, ".spec.jobTemplate")
        .cloned()
        .unwrap_or_default();
    let mut meta = json!({
        "name": format!("{}-{}", stored.slim.name, at.as_second() / 60),
        "namespace": stored.slim.namespace,
        "ownerReferences": tell::owned_by(kind, stored),
        "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": crate::clock::stamp(at)},
    });
    if let Some(labels) = template["metadata"].get("labels") {
        meta["labels"] = labels.clone();
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    tell::create(store, jobs, json!({"metadata": meta, "spec": spec}));
}

/// Deletes the oldest Jobs beyond the history limits.
fn tidy(store: &mut Store, jobs: &Kind, stored: &Stored, body: &Body) {
    for (of, field) in [
        ("Complete", ".spec.successfulJobsHistoryLimit"),
        ("Failed", ".spec.failedJobsHistoryLimit"),
    ] {
        let limit = usize::try_from(tell::number(body, field)).unwrap_or_default();
        let mut done = tell::controlled(store, jobs, stored);
        done.retain(|job| tell::condition(&job.body(), of) == "True");
        let surplus = done.len().saturating_sub(limit);
        for job in done.into_iter().take(surplus) {
            tell::delete(store, jobs, &key_of(&job));
        }
    }
}

fn tell_status(
    store: &mut Store,
    kind: &Kind,
    stored: &Stored,
    jobs: &Kind,
    scheduled: Option<Timestamp>,
) {
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    let all = tell::controlled(store, jobs, &stored);
    let active: Vec<Value> = all
        .iter()
        .filter(|job| !is_finished(&job.body()))
        .map(|job| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": job.slim.name, "namespace": job.slim.namespace,
                "resourceVersion": job.slim.revision.to_string(), "uid": job.slim.uid,
            })
        })
        .collect();
    let mut status = json!({});
    if !active.is_empty() {
        status["active"] = active.into();
    }
    if let Some(at) = scheduled {
        status["lastScheduleTime"] = crate::clock::stamp(at).into();
    }
    let ended = all.iter().filter_map(|job| {
        let body = job.body();
        at_path(&body, ".status.completionTime")
            .and_then(Value::as_str)
            .map(str::to_owned)
    });
    if let Some(last) = ended.max() {
        status["lastSuccessfulTime"] = last.into();
    }
    tell::set_status(store, kind, &stored, status);
}
