//! What the scheduler and a kubelet do with a Pod.
//!
//! Promise: a Pod is scheduled at once and ready after the time that was asked for; an image whose name contains `missing`, or
//! is none, is never pulled; a container whose command is `false` fails; Pods of Jobs end by themselves. Nothing is run.
//! Must not know what made the Pod.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{after, key_of, node, options, tell};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, map_mut, metadata, owners, set_path, text};
use crate::store::Store;
use crate::store::agenda::Task;

/// What is wrong with an image.
enum Image {
    Fine,
    Missing,
    Invalid,
}

/// What a Pod is to look like now, and when to look again.
struct Outlook {
    phase: &'static str,
    containers: Vec<Value>,
    init: Vec<Value>,
    ready: bool,
    next: Option<Timestamp>,
}

pub(super) fn tend(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    let body = stored.body();
    if stored.slim.terminating {
        return end(store, kind, stored, &body);
    }
    if matches!(tell::word(&body, ".status.phase"), "Succeeded" | "Failed") {
        return;
    }
    if tell::word(&body, ".spec.nodeName").is_empty() {
        return schedule(store, kind, body);
    }
    run(store, kind, stored, &body);
}

fn schedule(store: &mut Store, kind: &Kind, mut body: Body) {
    let gates = at_path(&body, ".spec.schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return;
    }
    set_path(&mut body, ".spec.nodeName", node::NAME.into());
    // A binding goes around the rules for changes of Pods.
    let bound = store.put(kind.collection, body.clone());
    let now = store.clock.stamp();
    let status = map_mut(&mut body, "status");
    let mut conditions = Vec::new();
    tell::set_condition(
        &mut conditions,
        json!({"type": "PodScheduled", "status": "True"}),
        &now,
    );
    status.insert("conditions".to_owned(), conditions.into());
    let status = Value::Object(status.clone());
    tell::set_status(store, kind, &bound, status);
}

fn run(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, body: &Body) {
    let outlook = outlook(store, body);
    let now = store.clock.stamp();
    let mut status = at_path(body, ".status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    status.insert("phase".to_owned(), outlook.phase.into());
    status
        .entry("startTime")
        .or_insert_with(|| now.as_str().into());
    status.insert("hostIP".to_owned(), node::ADDRESS.into());
    status.insert("hostIPs".to_owned(), json!([{"ip": node::ADDRESS}]));
    if outlook.phase != "Pending" && !status.contains_key("podIP") {
        let host = at_path(body, ".spec.hostNetwork") == Some(&Value::Bool(true));
        let address = match store.workloads.as_mut() {
            Some(world) if !host => world.next_address(),
            _ => node::ADDRESS.to_owned(),
        };
        status.insert("podIPs".to_owned(), json!([{"ip": address}]));
        status.insert("podIP".to_owned(), address.into());
    }
    if !outlook.init.is_empty() {
        status.insert(
            "initContainerStatuses".to_owned(),
            outlook.init.clone().into(),
        );
    }
    status.insert(
        "containerStatuses".to_owned(),
        outlook.containers.clone().into(),
    );
    let conditions = conditions(body, &outlook, &now);
    status.insert("conditions".to_owned(), conditions.into());
    tell::set_status(store, kind, stored, Value::Object(status));
    if let Some(next) = outlook.next {
        store.plan(next, (kind.collection, &key_of(stored)), Task::Look);
    }
}

fn conditions(body: &Body, outlook: &Outlook, now: &str) -> Vec<Value> {
    let mut conditions = tell::conditions(body);
    let done = outlook.phase == "Succeeded";
    let started = outlook.phase != "Pending";
    let gated = at_path(body, ".spec.readinessGates").and_then(Value::as_array);
    let open = gated.into_iter().flatten().all(|gate| {
        tell::condition(body, gate["conditionType"].as_str().unwrap_or_default()) == "True"
    });
    let mut set = |of: &str, holds: bool, reason: &str, message: String| {
        let mut condition = json!({"type": of, "status": if holds { "True" } else { "False" }});
        if !holds {
            condition["reason"] = reason.into();
            if !message.is_empty() {
                condition["message"] = message.into();
            }
        }
        tell::set_condition(&mut conditions, condition, now);
    };
    let unready: Vec<&str> = outlook
        .containers
        .iter()
        .filter(|container| container["ready"] != true)
        .filter_map(|container| container["name"].as_str())
        .collect();
    let told = format!("containers with unready status: [{}]", unready.join(" "));
    let (reason, message) = if done {
        ("PodCompleted", String::new())
    } else {
        ("ContainersNotReady", told)
    };
    set(
        "PodReadyToStartContainers",
        started && !done,
        "",
        String::new(),
    );
    set(
        "Initialized",
        started || outlook.init.is_empty(),
        "ContainersNotInitialized",
        String::new(),
    );
    set("ContainersReady", outlook.ready, reason, message.clone());
    if outlook.ready && !open {
        let message = "the status of pod readiness gate is not \"True\"".to_owned();
        set("Ready", false, "ReadinessGatesNotReady", message);
    } else {
        set("Ready", outlook.ready, reason, message);
    }
    set("PodScheduled", true, "", String::new());
    conditions
}

fn list<'a>(body: &'a Body, path: &str) -> Vec<&'a Body> {
    let found = at_path(body, path).and_then(Value::as_array);
    found
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

fn outlook(store: &Store, body: &Body) -> Outlook {
    let options = options(store);
    let now = store.clock.now();
    let start = tell::created(body).unwrap_or(now);
    let ready_at = after(start, options.ready_after);
    let containers = list(body, ".spec.containers");
    let init = list(body, ".spec.initContainers");
    let all_fine = |list: &[&Body]| list.iter().all(|found| matches!(image(found), Image::Fine));
    if now < ready_at || !all_fine(&containers) || !all_fine(&init) {
        let late = now >= ready_at;
        // What comes first may be over when something else cannot start.
        let initialized = late && all_fine(&init);
        let before = |found: &&Body| {
            if initialized {
                started_first(found, ready_at)
            } else {
                waiting(found, late)
            }
        };
        return Outlook {
            phase: "Pending",
            containers: containers
                .iter()
                .map(|found| waiting(found, late))
                .collect(),
            init: init.iter().map(before).collect(),
            ready: false,
            next: (!late).then_some(ready_at),
        };
    }
    let fails = containers.iter().any(|found| is_failing(found));
    let run_for = if fails {
        Duration::ZERO
    } else {
        options.job_time
    };
    let end_at = after(ready_at, run_for);
    let ends = ends(body, fails);
    let over = ends && now >= end_at;
    let first = |found: &&Body| {
        if over && is_sidecar(found) {
            ended(found, 0, ready_at, end_at)
        } else {
            started_first(found, ready_at)
        }
    };
    let state = |found: &&Body| match (over, is_failing(found)) {
        (true, _) => ended(found, i64::from(fails), ready_at, end_at),
        (false, true) => crashing(found, ready_at),
        (false, false) => running(found, ready_at),
    };
    Outlook {
        phase: match (over, fails) {
            (true, true) => "Failed",
            (true, false) => "Succeeded",
            (false, _) => "Running",
        },
        containers: containers.iter().map(state).collect(),
        init: init.iter().map(first).collect(),
        ready: !fails && !over,
        next: (ends && !over).then_some(end_at),
    }
}

/// Whether the Pod comes to an end by itself.
fn ends(body: &Body, fails: bool) -> bool {
    let is_job = |owner: &Body| text(owner, "kind") == "Job";
    let owners = metadata(body).map(owners).unwrap_or_default();
    match tell::word(body, ".spec.restartPolicy") {
        "Never" => fails || owners.iter().any(|owner| is_job(owner)),
        "OnFailure" => !fails && owners.iter().any(|owner| is_job(owner)),
        _ => false,
    }
}

fn is_failing(container: &Body) -> bool {
    let first = container.get("command").and_then(|command| command.get(0));
    first
        .and_then(Value::as_str)
        .is_some_and(|word| word == "false" || word.ends_with("/false"))
}

fn image(container: &Body) -> Image {
    let name = text(container, "image");
    let (path, _tag) = name.split_once('@').unwrap_or((name, ""));
    let repository =
        path.rsplit_once(':').map_or(
            path,
            |(start, tag)| if tag.contains('/') { path } else { start },
        );
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    let host_free = repository
        .split_once('/')
        .map_or(repository, |(_, rest)| rest);
    if repository.is_empty() || !host_free.chars().all(is_fine) {
        Image::Invalid
    } else if name.contains("missing") {
        Image::Missing
    } else {
        Image::Fine
    }
}

fn status_of(container: &Body, ready: bool, started: bool, state: &Value) -> Value {
    json!({
        "name": text(container, "name"),
        "image": text(container, "image"),
        "imageID": if started { text(container, "image") } else { "" },
        "ready": ready,
        "started": started && ready,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    })
}

fn waiting(container: &Body, tried: bool) -> Value {
    let name = text(container, "image");
    let (reason, message) = match (image(container), tried) {
        (Image::Invalid, _) => (
            "InvalidImageName",
            format!(
                "Failed to apply default image tag {name:?}: couldn't parse image name {name:?}: invalid reference format"
            ),
        ),
        (Image::Missing, true) => (
            "ImagePullBackOff",
            format!("Back-off pulling image {name:?}"),
        ),
        (Image::Missing, false) => (
            "ErrImagePull",
            format!("failed to pull and unpack image {name:?}: not found"),
        ),
        (Image::Fine, _) => ("ContainerCreating", String::new()),
    };
    let mut state = json!({"waiting": {"reason": reason}});
    if !message.is_empty() {
        state["waiting"]["message"] = message.into();
    }
    status_of(container, false, false, &state)
}

fn running(container: &Body, since: Timestamp) -> Value {
    let since = crate::clock::stamp(since);
    let state = json!({"running": {"startedAt": since}});
    status_of(container, true, true, &state)
}

fn terminated(code: i64, from: Timestamp, to: Timestamp) -> Value {
    json!({"terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": crate::clock::stamp(from),
        "finishedAt": crate::clock::stamp(to),
    }})
}

fn ended(container: &Body, code: i64, from: Timestamp, to: Timestamp) -> Value {
    status_of(container, false, true, &terminated(code, from, to))
}

/// An init container that goes on beside the others.
fn is_sidecar(container: &Body) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// An init container once the others may start.
fn started_first(container: &Body, at: Timestamp) -> Value {
    if is_sidecar(container) {
        return running(container, at);
    }
    let mut status = ended(container, 0, at, at);
    status["ready"] = true.into();
    status
}

fn crashing(container: &Body, since: Timestamp) -> Value {
    let name = text(container, "name");
    let message = format!("back-off 10s restarting failed container={name}");
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    let mut status = status_of(container, false, true, &state);
    status["restartCount"] = 1.into();
    status["lastState"] = terminated(1, since, since);
    status
}

/// A Pod that is to go ends within its grace period.
fn end(store: &mut Store, kind: &Kind, stored: &Arc<Stored>, body: &Body) {
    let grace = tell::number(body, ".metadata.deletionGracePeriodSeconds");
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    let deadline = tell::time(at_path(body, ".metadata.deletionTimestamp"));
    let asked = deadline.map(|deadline| {
        let grace = jiff::SignedDuration::try_from(grace).unwrap_or_default();
        deadline.saturating_sub(grace).unwrap_or(deadline)
    });
    let now = store.clock.now();
    let due = after(asked.unwrap_or(now), options(store).stop_after.min(grace));
    let key = key_of(stored);
    if now < due {
        return store.plan(due, (kind.collection, &key), Task::Look);
    }
    if grace > Duration::ZERO {
        tell::finish(store, kind, &key);
    }
}
