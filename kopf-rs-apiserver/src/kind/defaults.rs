//! What the server itself adds to objects of built-in kinds.
//!
//! Promise: the defaults people see on Pods, Services, workloads, Jobs, Namespaces, Secrets and Events; others are not there
//! (see FIDELITY.md); filling in twice changes nothing. Must not know the store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Kind;
use crate::object::{Body, map_mut, metadata_mut};

/// Complete a new object.
pub(crate) fn fill_new(kind: &Kind, body: &mut Body) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => namespace(body),
        ("", "pods") => new_pod(body),
        ("", "persistentvolumeclaims") => {
            body.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
        ("" | "events.k8s.io", "events") => event(body),
        ("apps", "replicasets") => {
            body.insert("status".to_owned(), json!({"replicas": 0}));
        }
        _ => {}
    }
    fill(kind, body);
}

/// Complete an object that is about to be stored, as often as it is.
pub(crate) fn fill(kind: &Kind, body: &mut Body) {
    let fill_spec: fn(&mut Body) = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "secrets") => {
            absent(body, "type", "Opaque".into());
            fold_string_data(body);
            return;
        }
        ("", "namespaces") => return label(body),
        ("", "pods") => pod,
        ("", "services") => service,
        ("apps", "deployments") => deployment,
        ("apps", "replicasets") => replica_set,
        ("apps", "statefulsets") => stateful_set,
        ("apps", "daemonsets") => daemon_set,
        ("batch", "jobs") => job,
        ("batch", "cronjobs") => cron_job,
        _ => return,
    };
    fill_spec(map_mut(body, "spec"));
}

/// Set a field that has no value.
fn absent(body: &mut Body, field: &str, value: Value) {
    let slot = body.entry(field).or_insert(Value::Null);
    let empty = match slot {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if empty {
        *slot = value;
    }
}

/// A namespace is labelled with its name.
fn label(body: &mut Body) {
    let meta = metadata_mut(body);
    let name = meta.get("name").cloned().unwrap_or(Value::Null);
    map_mut(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
}

fn namespace(body: &mut Body) {
    map_mut(body, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
    body.insert("status".to_owned(), json!({"phase": "Active"}));
}

fn new_pod(body: &mut Body) {
    let quality = quality(body);
    body.insert(
        "status".to_owned(),
        json!({"phase": "Pending", "qosClass": quality}),
    );
    let spec = map_mut(body, "spec");
    absent(spec, "preemptionPolicy", "PreemptLowerPriority".into());
    absent(spec, "priority", 0.into());
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let usual = json!([
        toleration("node.kubernetes.io/not-ready"),
        toleration("node.kubernetes.io/unreachable"),
    ]);
    absent(spec, "tolerations", usual);
}

fn pod(spec: &mut Body) {
    pod_spec(spec);
    absent(spec, "enableServiceLinks", true.into());
}

fn service(spec: &mut Body) {
    absent(spec, "sessionAffinity", "None".into());
    absent(spec, "type", "ClusterIP".into());
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        absent(spec, "internalTrafficPolicy", "Cluster".into());
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        absent(port, "protocol", "TCP".into());
        let target = port.get("targetPort");
        let unset = target.is_none_or(|found| matches!(found.as_i64(), Some(0)) || found == "");
        if let Some(number) = port.get("port").cloned().filter(|_| unset) {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

/// The quality of service, by the containers' requests and limits.
fn quality(body: &Body) -> &'static str {
    let containers = crate::object::at_path(body, ".spec.containers").and_then(Value::as_array);
    let resources: Vec<&Value> = containers
        .into_iter()
        .flatten()
        .map(|container| &container["resources"])
        .collect();
    let set = |resources: &&Value, part: &str| {
        resources[part]
            .as_object()
            .is_some_and(|found| !found.is_empty())
    };
    let guaranteed = |resources: &&Value| {
        let (limits, requests) = (&resources["limits"], &resources["requests"]);
        ["cpu", "memory"].iter().all(|name| {
            let limit = &limits[*name];
            !limit.is_null() && (requests[*name].is_null() || requests[*name] == *limit)
        })
    };
    if !resources
        .iter()
        .any(|r| set(r, "limits") || set(r, "requests"))
    {
        "BestEffort"
    } else if resources.iter().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn pod_spec(spec: &mut Body) {
    // The old name of the field goes along with the new one.
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), account);
    }
    absent(spec, "dnsPolicy", "ClusterFirst".into());
    absent(spec, "restartPolicy", "Always".into());
    absent(spec, "schedulerName", "default-scheduler".into());
    absent(spec, "securityContext", json!({}));
    absent(spec, "terminationGracePeriodSeconds", 30.into());
    for list in ["containers", "initContainers"] {
        let found = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            fill_container(container);
        }
    }
}

fn fill_container(container: &mut Body) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let newest = !last.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if newest { "Always" } else { "IfNotPresent" };
    absent(container, "imagePullPolicy", policy.into());
    absent(container, "resources", json!({}));
    absent(
        container,
        "terminationMessagePath",
        "/dev/termination-log".into(),
    );
    absent(container, "terminationMessagePolicy", "File".into());
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        absent(port, "protocol", "TCP".into());
    }
}

fn template(spec: &mut Body) {
    if spec.get("template").is_some_and(Value::is_object) {
        pod_spec(map_mut(map_mut(spec, "template"), "spec"));
    }
}

fn replica_set(spec: &mut Body) {
    template(spec);
    absent(spec, "replicas", 1.into());
}

fn deployment(spec: &mut Body) {
    template(spec);
    absent(spec, "progressDeadlineSeconds", 600.into());
    absent(spec, "replicas", 1.into());
    absent(spec, "revisionHistoryLimit", 10.into());
    let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
    roll(map_mut(spec, "strategy"), &rolling);
}

/// Fill in how Pods are replaced.
fn roll(strategy: &mut Body, usual: &Value) {
    absent(strategy, "type", "RollingUpdate".into());
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = map_mut(strategy, "rollingUpdate");
        for (field, value) in usual.as_object().into_iter().flatten() {
            absent(rolling, field, value.clone());
        }
    }
}

fn stateful_set(spec: &mut Body) {
    template(spec);
    absent(spec, "podManagementPolicy", "OrderedReady".into());
    absent(spec, "replicas", 1.into());
    absent(spec, "revisionHistoryLimit", 10.into());
    roll(map_mut(spec, "updateStrategy"), &json!({"partition": 0}));
    let retention = map_mut(spec, "persistentVolumeClaimRetentionPolicy");
    absent(retention, "whenDeleted", "Retain".into());
    absent(retention, "whenScaled", "Retain".into());
}

fn daemon_set(spec: &mut Body) {
    template(spec);
    absent(spec, "revisionHistoryLimit", 10.into());
    let rolling = json!({"maxUnavailable": 1, "maxSurge": 0});
    roll(map_mut(spec, "updateStrategy"), &rolling);
}

fn job(spec: &mut Body) {
    template(spec);
    absent(spec, "backoffLimit", 6.into());
    absent(spec, "completionMode", "NonIndexed".into());
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    absent(spec, "manualSelector", false.into());
    absent(spec, "parallelism", 1.into());
    absent(spec, "podReplacementPolicy", "TerminatingOrFailed".into());
    absent(spec, "suspend", false.into());
}

fn cron_job(spec: &mut Body) {
    absent(spec, "concurrencyPolicy", "Allow".into());
    absent(spec, "failedJobsHistoryLimit", 1.into());
    absent(spec, "successfulJobsHistoryLimit", 3.into());
    absent(spec, "suspend", false.into());
    template(map_mut(map_mut(spec, "jobTemplate"), "spec"));
}

fn event(body: &mut Body) {
    for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        absent(body, time, Value::Null);
    }
    absent(body, "reportingComponent", "".into());
    absent(body, "reportingInstance", "".into());
    absent(body, "source", json!({}));
}

/// `stringData` of Secrets is write-only: it ends up encoded in `data`.
fn fold_string_data(body: &mut Body) {
    let Some(Value::Object(plain)) = body.remove("stringData") else {
        return;
    };
    let data = map_mut(body, "data");
    for (key, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}
