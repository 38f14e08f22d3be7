//! Jobs: run Pods until enough of them have succeeded.
//!
//! Guarantees that a Job is complete after the desired number of successes, and failed after more failures than its back-off limit.
//! Must not depend on how Pods end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::{self, Verdict};
use super::{after, key_of, tell, template};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path};
use crate::store::Store;
use crate::store::agenda::Task;

/// The progress of a Job.
struct Progress {
    active: Vec<Arc<Stored>>,
    ready: usize,
    succeeded: usize,
    failed: usize,
    /// The reason why a failed Pod ends the Job, according to the failure policy.
    verdict: Option<String>,
    /// The end of the back-off before the next Pod.
    pause: Option<Timestamp>,
}

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let body = stored.body();
    if at_path(&body, ".spec.managedBy").is_some() || stored.slim.terminating {
        return;
    }
    if is_finished(&body) {
        return clean(store, kind, stored, &body);
    }
    let Some(pods) = tell::kind(store, "", "pods") else {
        return;
    };
    let suspended = at_path(&body, ".spec.suspend") == Some(&Value::Bool(true));
    let progress = progress(store, &pods, stored);
    let wanted = at_path(&body, ".spec.completions").and_then(Value::as_u64);
    let wanted = wanted.and_then(|count| usize::try_from(count).ok());
    let enough = match wanted {
        Some(wanted) => progress.succeeded >= wanted,
        None => progress.succeeded > 0 && progress.active.is_empty(),
    };
    let late = deadline(store, kind, stored, &body);
    let end = if enough {
        Some(End {
            first: "SuccessCriteriaMet",
            last: "Complete",
            reason: "CompletionsReached",
            message: "Reached expected number of succeeded pods".to_owned(),
        })
    } else {
        failing(&body, &progress, late)
    };
    if end.is_none() && !suspended {
        match progress.pause.filter(|end| *end > store.clock.now()) {
            Some(end) => store.plan(end, (kind.collection, &key_of(stored)), Task::Look),
            None => make(store, kind, stored, &pods, &progress, wanted),
        }
    } else if !enough {
        for pod in &progress.active {
            tell::delete(store, &pods, &key_of(pod));
        }
    }
    tell_status(store, kind, stored, &pods, end.as_ref(), suspended);
}

/// Returns how a Job fails, if it does.
fn failing(body: &Body, progress: &Progress, late: bool) -> Option<End> {
    let bears = usize::try_from(tell::number(body, ".spec.backoffLimit")).unwrap_or_default();
    let (reason, message) = if let Some(why) = &progress.verdict {
        ("PodFailurePolicy", why.as_str())
    } else if progress.failed > bears {
        (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
    } else if late {
        (
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
    } else {
        return None;
    };
    Some(End {
        first: "FailureTarget",
        last: "Failed",
        reason,
        message: message.to_owned(),
    })
}

/// Returns whether a Job is complete or failed.
pub(super) fn is_finished(body: &Body) -> bool {
    ["Complete", "Failed"]
        .iter()
        .any(|of| tell::condition(body, of) == "True")
}

fn progress(store: &Store, pods: &Kind, stored: &Stored) -> Progress {
    let all = tell::controlled(store, pods, stored);
    let phase = |pod: &Arc<Stored>| tell::word(&pod.body(), ".status.phase").to_owned();
    let succeeded = all.iter().filter(|pod| phase(pod) == "Succeeded").count();
    let job = stored.body();
    let (mut failed, mut verdict) = (0, None);
    for pod in all.iter().filter(|pod| phase(pod) == "Failed") {
        match failure::judge(&job, &pod.body()) {
            Verdict::Ignored => {}
            Verdict::Counts => failed += 1,
            Verdict::Fails(why) => {
                failed += 1;
                verdict = verdict.or(Some(why));
            }
        }
    }
    let mut active = all.clone();
    active.retain(|pod| !pod.slim.terminating && !super::replica_set::is_over(&pod.body()));
    let ready = active
        .iter()
        .filter(|pod| tell::condition(&pod.body(), "Ready") == "True")
        .count();
    Progress {
        active,
        ready,
        succeeded,
        failed,
        verdict,
        pause: failure::pause(&all),
    }
}

/// Returns whether the Job has exceeded its active deadline; plans another check if not.
fn deadline(store: &mut Store, kind: &Kind, stored: &Stored, body: &Body) -> bool {
    let seconds = at_path(body, ".spec.activeDeadlineSeconds").and_then(Value::as_u64);
    let start = tell::time(at_path(body, ".status.startTime"));
    let (Some(seconds), Some(start)) = (seconds, start) else {
        return false;
    };
    let end = after(start, Duration::from_secs(seconds));
    if end > store.clock.now() {
        store.plan(end, (kind.collection, &key_of(stored)), Task::Look);
        return false;
    }
    true
}

fn make(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
    pods: &Kind,
    progress: &Progress,
    wanted: Option<usize>,
) {
    let body = stored.body();
    let parallel = usize::try_from(tell::number(&body, ".spec.parallelism")).unwrap_or_default();
    let left = match wanted {
        Some(wanted) => wanted.saturating_sub(progress.succeeded),
        None if progress.succeeded > 0 => 0,
        None => usize::MAX,
    };
    let most = parallel.min(left);
    let indexed = tell::word(&body, ".spec.completionMode") == "Indexed";
    let mut taken = indexes(store, pods, stored);
    for _ in progress.active.len()..most {
        let mut pod = template::pod(kind, stored, &template::of(&body));
        let mut stem = format!("{}-", stored.slim.name);
        if indexed {
            let index = (0..=taken.len())
                .find(|index| !taken.contains(index))
                .unwrap_or_default();
            taken.push(index);
            stem = format!("{}-{index}-", stored.slim.name);
            pod["metadata"]["annotations"][INDEX] = index.to_string().into();
            pod["metadata"]["labels"][INDEX] = index.to_string().into();
        }
        pod["metadata"]["generateName"] = stem.into();
        if tell::create(store, pods, pod).is_none() {
            break;
        }
    }
}

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Returns the completion indexes that have succeeded or are in progress.
fn indexes(store: &Store, pods: &Kind, stored: &Stored) -> Vec<usize> {
    let all = tell::controlled(store, pods, stored);
    let counts = |pod: &&Arc<Stored>| tell::word(&pod.body(), ".status.phase") != "Failed";
    let index = |pod: &Arc<Stored>| pod.slim.labels.get(INDEX)?.parse().ok();
    all.iter().filter(counts).filter_map(index).collect()
}

/// The end of a Job: the announcing condition, the final one, and their reason and message.
struct End {
    first: &'static str,
    last: &'static str,
    reason: &'static str,
    message: String,
}

fn tell_status(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
    pods: &Kind,
    end: Option<&End>,
    suspended: bool,
) {
    let Some(stored) = store.get(kind.collection, &key_of(stored)) else {
        return;
    };
    let body = stored.body();
    let progress = progress(store, pods, &stored);
    let now = store.clock.stamp();
    let mut conditions = tell::conditions(&body);
    let mut set = |of: &str, status: &str, reason: &str, message: &str| {
        let condition = json!({"type": of, "status": status, "reason": reason, "message": message, "lastProbeTime": now});
        tell::set_condition(&mut conditions, condition, &now);
    };
    if let Some(end) = end {
        set(end.first, "True", end.reason, &end.message);
        set(end.last, "True", end.reason, &end.message);
    } else if suspended {
        set("Suspended", "True", "JobSuspended", "Job suspended");
    } else if tell::condition(&body, "Suspended") == "True" {
        set("Suspended", "False", "JobResumed", "Job resumed");
    }
    let mut status =
        json!({"uncountedTerminatedPods": {}, "terminating": 0, "ready": progress.ready});
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    let started = at_path(&body, ".status.startTime").cloned();
    if !suspended {
        status["startTime"] = started.unwrap_or_else(|| now.as_str().into());
    }
    if end.is_some_and(|end| end.last == "Complete") {
        status["completionTime"] = now.into();
    }
    let active = if end.is_some() {
        0
    } else {
        progress.active.len()
    };
    let counts = [
        ("active", active),
        ("succeeded", progress.succeeded),
        ("failed", progress.failed),
    ];
    tell::counts(&mut status, counts);
    tell::set_status(store, kind, &stored, status);
}

/// Deletes a finished Job after its time to live, if it has one.
fn clean(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, body: &Body) {
    let Some(seconds) = at_path(body, ".spec.ttlSecondsAfterFinished").and_then(Value::as_u64)
    else {
        return;
    };
    let ended = tell::conditions(body)
        .iter()
        .filter(|found| found["type"] == "Complete" || found["type"] == "Failed")
        .find_map(|found| tell::time(found.get("lastTransitionTime")));
    let due = after(
        ended.unwrap_or_else(|| store.clock.now()),
        Duration::from_secs(seconds),
    );
    let key = key_of(stored);
    if due > store.clock.now() {
        store.plan(due, (kind.collection, &key), Task::Look);
    } else {
        tell::delete(store, kind, &key);
    }
}
