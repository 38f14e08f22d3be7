//! Simulates the scheduler and a kubelet for Pods. No container runs.
//!
//! Guarantees that a Pod becomes ready after the configured delay if all its dependencies exist, that an image is never pulled if its
//! name is invalid or contains `missing`, that a container with the command `false` fails, and that Pods of Jobs end by themselves.
//! Must not depend on the Pod's controller.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::container::{
    Image, crashing, ended, image, is_failing, is_sidecar, pulling, running, started_first,
    status_of,
};
use super::{after, key_of, lack, node, options, scheduler, tell};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, metadata, owners, text};
use crate::store::Store;
use crate::store::agenda::Task;

/// The status that a Pod gets now, and the time of the next check.
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
    let name = tell::word(&body, ".spec.nodeName");
    if name.is_empty() {
        return scheduler::tend(store, kind, body);
    }
    if node::find(store, name).is_some() || has_started(&body) {
        run(store, kind, stored, &body);
    } else {
        scheduler::hold(store, &key_of(stored));
    }
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
    if outlook.phase == "Pending" {
        scheduler::hold(store, &key_of(stored));
    }
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

/// Returns whether the Pod has started; missing dependencies no longer matter then.
fn has_started(body: &Body) -> bool {
    tell::word(body, ".status.phase") == "Running"
}

/// The reasons that keep containers from starting.
struct Hurdles<'a> {
    mounted: bool,
    late: bool,
    told: Vec<(&'a Body, String)>,
}

impl<'a> Hurdles<'a> {
    fn of(store: &Store, body: &'a Body, late: bool) -> Self {
        if has_started(body) {
            return Self {
                mounted: true,
                late,
                told: Vec::new(),
            };
        }
        let mut all = list(body, ".spec.initContainers");
        all.extend(list(body, ".spec.containers"));
        let told = |found: &'a Body| Some((found, lack::variable(store, body, found)?));
        Self {
            mounted: lack::has_volumes(store, body),
            late,
            told: all.into_iter().filter_map(told).collect(),
        }
    }

    fn lets(&self, container: &Body) -> bool {
        self.mounted
            && self.variable(container).is_none()
            && matches!(image(container), Image::Fine)
    }

    fn variable(&self, container: &Body) -> Option<&str> {
        let told = self
            .told
            .iter()
            .find(|(found, _)| std::ptr::eq(*found, container));
        told.map(|(_, told)| told.as_str())
    }

    fn waiting(&self, container: &Body) -> Value {
        let (reason, message) = match (image(container), self.variable(container)) {
            _ if !self.mounted => ("ContainerCreating", String::new()),
            (Image::Fine, Some(told)) if self.late => {
                ("CreateContainerConfigError", told.to_owned())
            }
            _ => pulling(container, self.late),
        };
        let mut state = json!({"waiting": {"reason": reason}});
        if !message.is_empty() {
            state["waiting"]["message"] = message.into();
        }
        status_of(container, false, false, &state)
    }
}

/// Returns the status of a Pod that cannot start completely yet.
fn pending(body: &Body, hurdles: &Hurdles<'_>, ready_at: Timestamp) -> Outlook {
    let init = list(body, ".spec.initContainers");
    // Init containers may be done although another container cannot start.
    let initialized = hurdles.late && init.iter().all(|found| hurdles.lets(found));
    let before = |found: &&Body| {
        if initialized {
            started_first(found, ready_at)
        } else {
            hurdles.waiting(found)
        }
    };
    let containers = list(body, ".spec.containers");
    Outlook {
        phase: "Pending",
        containers: containers
            .iter()
            .map(|found| hurdles.waiting(found))
            .collect(),
        init: init.iter().map(before).collect(),
        ready: false,
        next: (!hurdles.late).then_some(ready_at),
    }
}

fn outlook(store: &Store, body: &Body) -> Outlook {
    let options = options(store);
    let now = store.clock.now();
    // The delay begins when the kubelet sees the Pod, which may be long after its creation.
    let seen = tell::time(at_path(body, ".status.startTime"));
    let start = seen.or_else(|| store.clock.stamp().parse().ok());
    let ready_at = after(start.unwrap_or(now), options.ready_after);
    let containers = list(body, ".spec.containers");
    let init = list(body, ".spec.initContainers");
    let hurdles = Hurdles::of(store, body, now >= ready_at);
    let mut all = init.iter().chain(&containers);
    if !hurdles.late || !all.all(|found| hurdles.lets(found)) {
        return pending(body, &hurdles, ready_at);
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

/// Returns whether the Pod ends by itself.
fn ends(body: &Body, fails: bool) -> bool {
    let is_job = |owner: &Body| text(owner, "kind") == "Job";
    let owners = metadata(body).map(owners).unwrap_or_default();
    match tell::word(body, ".spec.restartPolicy") {
        "Never" => fails || owners.iter().any(|owner| is_job(owner)),
        "OnFailure" => !fails && owners.iter().any(|owner| is_job(owner)),
        _ => false,
    }
}

/// Ends a Pod that is being deleted, within its grace period.
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
