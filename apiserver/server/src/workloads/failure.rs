//! The consequences of a Pod failure for its Job: the Job's failure policy, and the back-off before the next Pod.
//!
//! Guarantees that the first matching rule counts, and that the back-off starts with ten seconds after the first failure since a
//! success, doubles with each failure, and is at most ten minutes. Must not depend on how Pods end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{after, tell};
use crate::object::{Body, Stored, at_path};

const FIRST_PAUSE: u64 = 10;
const LONGEST_PAUSE: u64 = 600;

/// The effect of a failed Pod on its Job.
pub(super) enum Verdict {
    Counts,
    Ignored,
    /// The Job fails with this message.
    Fails(String),
}

/// Applies a Job's failure policy to a failed Pod.
pub(super) fn judge(job: &Body, pod: &Body) -> Verdict {
    let rules = at_path(job, ".spec.podFailurePolicy.rules").and_then(Value::as_array);
    for (at, rule) in rules.into_iter().flatten().enumerate() {
        let Some(why) = by_exit_code(rule, pod).or_else(|| by_condition(rule, pod)) else {
            continue;
        };
        return match rule["action"].as_str() {
            Some("FailJob") => Verdict::Fails(format!("{why} matching FailJob rule at index {at}")),
            Some("Ignore") => Verdict::Ignored,
            _ => Verdict::Counts,
        };
    }
    Verdict::Counts
}

fn name(pod: &Body) -> String {
    let [namespace, name] = [".metadata.namespace", ".metadata.name"].map(|at| tell::word(pod, at));
    format!("{namespace}/{name}")
}

/// Returns the statuses of all containers of a Pod.
fn containers(pod: &Body) -> impl Iterator<Item = &Value> {
    let of = |path: &str| at_path(pod, path).and_then(Value::as_array);
    let all = [".status.containerStatuses", ".status.initContainerStatuses"].map(of);
    all.into_iter().flatten().flatten()
}

fn by_exit_code(rule: &Value, pod: &Body) -> Option<String> {
    let wanted = rule.get("onExitCodes")?;
    let values = wanted["values"].as_array()?;
    let is_in = wanted["operator"] == "In";
    let named = wanted["containerName"].as_str();
    containers(pod).find_map(|container| {
        let found = container["name"].as_str()?;
        let code = &container["state"]["terminated"]["exitCode"];
        let number = code.as_i64().filter(|code| *code != 0)?;
        let fits = named.is_none_or(|named| named == found) && values.contains(code) == is_in;
        let pod = name(pod);
        fits.then(|| format!("Container {found} for pod {pod} failed with exit code {number}"))
    })
}

fn by_condition(rule: &Value, pod: &Body) -> Option<String> {
    let wanted = rule["onPodConditions"].as_array()?;
    wanted.iter().find_map(|wanted| {
        let of = wanted["type"].as_str()?;
        let status = wanted["status"].as_str()?;
        let fits = tell::condition(pod, of) == status;
        fits.then(|| format!("Pod {} has condition {of}", name(pod)))
    })
}

/// Returns the time when a Pod ended.
fn ended(pod: &Body) -> Option<Timestamp> {
    let times = containers(pod)
        .filter_map(|found| tell::time(found["state"]["terminated"].get("finishedAt")));
    times.max().or_else(|| tell::created(pod))
}

/// Returns the end of the back-off after failed Pods.
pub(super) fn pause(pods: &[Arc<Stored>]) -> Option<Timestamp> {
    let of = |phase: &str| -> Vec<Timestamp> {
        let bodies = pods.iter().map(|pod| pod.body());
        let ended = bodies.filter(|pod| tell::word(pod, ".status.phase") == phase);
        ended.filter_map(|pod| self::ended(&pod)).collect()
    };
    let success = of("Succeeded").into_iter().max();
    let mut failures = of("Failed");
    failures.retain(|at| success.is_none_or(|success| *at > success));
    let last = failures.iter().max()?;
    let doubled = u32::try_from(failures.len() - 1).ok();
    let seconds = doubled.and_then(|times| FIRST_PAUSE.checked_mul(2_u64.checked_pow(times)?));
    let seconds = seconds.map_or(LONGEST_PAUSE, |seconds| seconds.min(LONGEST_PAUSE));
    Some(after(*last, Duration::from_secs(seconds)))
}
