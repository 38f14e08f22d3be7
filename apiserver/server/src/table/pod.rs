//! The cells of Pods.
//!
//! Readiness and status follow from the containers, as in kube-apiserver. Independent of tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::cells::{condition, items, text};
use super::find;
use crate::object::{Body, meta_text};

/// Returns the conditions of the row for a Pod that has ended.
pub(super) fn conditions(body: &Body) -> Option<Value> {
    let (reason, message) = match text(body, ".status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// Returns true for an init container that keeps running.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn sidecar<'a>(body: &'a Body, status: &Value) -> Option<&'a Value> {
    let all = items(find(body, ".spec.initContainers")).iter();
    let mut sidecars = all.filter(|container| is_sidecar(container));
    sidecars.find(|container| container["name"] == status["name"])
}

pub(super) fn ready(body: &Body) -> String {
    let all = items(find(body, ".spec.containers")).len();
    let first = items(find(body, ".spec.initContainers")).iter();
    let sidecars = first.filter(|container| is_sidecar(container)).count();
    let mut ready = 0;
    if initializing(body).is_none() {
        let statuses = items(find(body, ".status.containerStatuses")).iter();
        let runs = |it: &&Value| it["ready"] == true && it["state"]["running"].is_object();
        ready += statuses.filter(runs).count();
    }
    let statuses = items(find(body, ".status.initContainerStatuses")).iter();
    let runs =
        |it: &&Value| sidecar(body, it).is_some() && it["started"] == true && it["ready"] == true;
    ready += statuses.filter(runs).count();
    format!("{ready}/{}", all + sidecars)
}

pub(super) fn phase(body: &Body) -> String {
    let phase = text(body, ".status.phase");
    let reason = text(body, ".status.reason");
    let is_leaving = !meta_text(body, "deletionTimestamp").is_empty();
    if is_leaving && reason == "NodeLost" {
        return "Unknown".to_owned();
    }
    if is_leaving && !["Succeeded", "Failed"].contains(&phase) {
        return "Terminating".to_owned();
    }
    let scheduled = condition(body, "PodScheduled");
    let is_gated = scheduled.is_some_and(|it| it["reason"] == "SchedulingGated");
    let whole = match (is_gated, reason) {
        (true, _) => "SchedulingGated",
        (false, "") => phase,
        (false, reason) => reason,
    };
    initializing(body).unwrap_or_else(|| running(body, whole))
}

/// Returns the status while an init container is pending, or `None` if all of them are done.
fn initializing(body: &Body) -> Option<String> {
    if condition(body, "Initialized").is_some_and(|it| it["status"] == "True") {
        return None;
    }
    let all = items(find(body, ".spec.initContainers")).len();
    let statuses = items(find(body, ".status.initContainerStatuses"));
    for (at, status) in statuses.iter().enumerate() {
        let (ended, waits) = (
            &status["state"]["terminated"],
            &status["state"]["waiting"]["reason"],
        );
        if ended["exitCode"] == 0 || (sidecar(body, status).is_some() && status["started"] == true)
        {
            continue;
        }
        if ended.is_object() {
            return Some(format!("Init:{}", ending(ended)));
        }
        return Some(match waits.as_str() {
            Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                format!("Init:{reason}")
            }
            _ => format!("Init:{at}/{all}"),
        });
    }
    None
}

/// Returns the reason why a container ended.
fn ending(ended: &Value) -> String {
    let number = |name: &str| ended[name].as_i64().unwrap_or_default();
    match (
        ended["reason"].as_str().unwrap_or_default(),
        number("signal"),
    ) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Returns the status of a started Pod; reasons of containers override that of the Pod.
fn running(body: &Body, whole: &str) -> String {
    let mut shown = whole.to_owned();
    let (mut runs, mut failed) = (false, String::new());
    for status in items(find(body, ".status.containerStatuses")).iter().rev() {
        let state = &status["state"];
        let waits = state["waiting"]["reason"].as_str().unwrap_or_default();
        if !waits.is_empty() {
            waits.clone_into(&mut shown);
        } else if state["terminated"].is_object() {
            shown = ending(&state["terminated"]);
            if state["terminated"]["exitCode"] != 0 {
                failed.clone_from(&shown);
            }
        } else if status["ready"] == true && state["running"].is_object() {
            runs = true;
        }
    }
    if shown != "Completed" {
        return shown;
    }
    let is_ready = condition(body, "Ready").is_some_and(|it| it["status"] == "True");
    match (runs, is_ready, failed.is_empty()) {
        (true, true, _) => "Running".to_owned(),
        (_, _, false) => failed,
        (true, false, true) => "NotReady".to_owned(),
        (false, _, true) => shown,
    }
}

pub(super) fn restarts(body: &Body, now: Timestamp) -> String {
    let first = items(find(body, ".status.initContainerStatuses")).iter();
    let is_waiting = initializing(body).is_some();
    let first = first.filter(|status| is_waiting || sidecar(body, status).is_some());
    let others = items(find(body, ".status.containerStatuses")).iter();
    let others = others.take(if is_waiting { 0 } else { usize::MAX });
    let (mut count, mut last) = (0, "");
    for status in first.chain(others) {
        count += status["restartCount"].as_i64().unwrap_or_default();
        let ended = status["lastState"]["terminated"]["finishedAt"].as_str();
        last = last.max(ended.unwrap_or_default());
    }
    if count == 0 || last.is_empty() {
        return count.to_string();
    }
    format!("{count} ({} ago)", since(last, now))
}

pub(super) fn gates(body: &Body) -> String {
    let gates = items(find(body, ".spec.readinessGates"));
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_open = |gate: &&Value| {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        condition(body, kind).is_some_and(|it| it["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_by_table() {
        let pod = |status: Value| json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": status});
        let container = |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "state": state}]});
        for (pod, expected) in [
            (pod(json!({"phase": "Pending"})), "Pending 0/1"),
            (pod(container(json!({"running": {}}))), "Running 1/1"),
            (
                pod(container(
                    json!({"waiting": {"reason": "CrashLoopBackOff"}}),
                )),
                "CrashLoopBackOff 0/1",
            ),
            (
                pod(container(json!({"terminated": {"exitCode": 3}}))),
                "ExitCode:3 0/1",
            ),
            (
                pod(
                    json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {}}}]}),
                ),
                "Init:0/1 0/1",
            ),
            (
                pod(json!({"phase": "Failed", "reason": "Evicted"})),
                "Evicted 0/1",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}),
                "Terminating 0/0",
            ),
        ] {
            let body = pod.as_object().unwrap();
            assert_eq!(
                format!("{} {}", phase(body), ready(body)),
                expected,
                "{pod}"
            );
        }
    }
}
