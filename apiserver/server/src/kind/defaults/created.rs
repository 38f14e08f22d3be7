//! Changes to new objects beyond the defaults: fields that the server sets, and fields that clients cannot set at creation.
//!
//! Runs once per object and needs only the object. Independent of the store.

use serde_json::{Value, json};

use super::absent;
use crate::kind::Kind;
use crate::object::{Body, at_path, map_mut, meta_text, metadata, metadata_mut};
use crate::typed;

/// Runs before the defaults are filled in.
pub(super) fn begin(kind: &Kind, body: &mut Body) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => {
            let slot = map_mut(body, "spec")
                .entry("finalizers")
                .or_insert_with(|| json!([]));
            if let Some(held) = slot
                .as_array_mut()
                .filter(|held| !held.contains(&"kubernetes".into()))
            {
                held.push("kubernetes".into());
            }
            body.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        ("", "persistentvolumes") => {
            let now = metadata(body)
                .and_then(|meta| meta.get("creationTimestamp"))
                .cloned();
            body.insert(
                "status".to_owned(),
                json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
            );
        }
        ("", "persistentvolumeclaims") => {
            body.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
        ("apps", "replicasets") | ("", "replicationcontrollers") => {
            body.insert("status".to_owned(), json!({"replicas": 0}));
        }
        _ => {}
    }
}

/// Runs after the defaults were filled in.
pub(super) fn finish(kind: &Kind, body: &mut Body) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pod(body),
        ("", "persistentvolumeclaims") => {
            join_sources(map_mut(body, "spec"));
            protect(body, "kubernetes.io/pvc-protection");
        }
        ("", "persistentvolumes") => protect(body, "kubernetes.io/pv-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => {
            protect(body, "kubernetes.io/vac-protection");
        }
        ("", "nodes") => {
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let slot = map_mut(body, "spec")
                .entry("taints")
                .or_insert_with(|| json!([]));
            if let Some(taints) = slot
                .as_array_mut()
                .filter(|taints| !taints.contains(&taint))
            {
                taints.push(taint);
            }
        }
        ("apps", "daemonsets") => {
            map_mut(metadata_mut(body), "annotations").insert(GENERATION.to_owned(), "1".into());
        }
        ("batch", "jobs") => select_by_uid(body),
        _ => {}
    }
    tidy(kind, body);
}

/// Drops fields without effect, after their field managers were recorded.
pub(crate) fn tidy(kind: &Kind, body: &mut Body) {
    // Definitions are stored in another form than their type.
    if let Some(of) = kind.stored_type().filter(|_| !kind.is_crd()) {
        typed::forget_empty(of, body);
    }
    if kind.traits.builtin {
        for path in [
            "spec",
            "spec.template.spec",
            "template.spec",
            "spec.jobTemplate.spec.template.spec",
        ] {
            if let Some(Value::Object(spec)) = object_at(body, path) {
                switched_off(spec);
            }
        }
    }
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => tolerate_trouble(map_mut(body, "spec")),
        ("coordination.k8s.io", "leases") => {
            let spec = map_mut(body, "spec");
            for field in ["strategy", "preferredHolder"] {
                spec.remove(field);
            }
        }
        ("", "nodes") => {
            map_mut(body, "spec").remove("configSource");
        }
        _ => {}
    }
}

fn object_at<'a>(body: &'a mut Body, path: &str) -> Option<&'a mut Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    rest.split('.')
        .filter(|name| !name.is_empty())
        .try_fold(body.get_mut(first)?, |found, name| found.get_mut(name))
}

/// Drops fields of features that are off by default.
fn switched_off(spec: &mut Body) {
    let is_pod = spec.contains_key("containers");
    if is_pod {
        spec.remove("schedulingGroup");
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let found = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            let hooks = container
                .get_mut("lifecycle")
                .and_then(Value::as_object_mut);
            let alone =
                hooks.is_some_and(|hooks| hooks.remove("stopSignal").is_some() && hooks.is_empty());
            if alone {
                container.remove("lifecycle");
            }
        }
    }
}

/// The annotation in which a `DaemonSet` counts the changes of its template.
pub(crate) const GENERATION: &str = "deprecated.daemonset.template.generation";

fn pod(body: &mut Body) {
    let quality = quality(body);
    body.insert(
        "status".to_owned(),
        json!({"phase": "Pending", "qosClass": quality}),
    );
    let spec = map_mut(body, "spec");
    absent(spec, "preemptionPolicy", "PreemptLowerPriority".into());
    absent(spec, "priority", 0.into());
    tolerate_trouble(spec);
}

/// Keeps `podIP` equal to the first entry of `podIPs`; `podIP` wins if they differ.
pub(crate) fn join_addresses(body: &mut Body) {
    let status = map_mut(body, "status");
    let first = status
        .get("podIPs")
        .and_then(|found| found[0]["ip"].as_str())
        .map(str::to_owned);
    match status
        .get("podIP")
        .and_then(Value::as_str)
        .map(str::to_owned)
    {
        Some(alone) if !alone.is_empty() => {
            if first.is_none_or(|first| first != alone) {
                status.insert("podIPs".to_owned(), json!([{"ip": alone}]));
            }
        }
        _ => {
            if let Some(first) = first {
                status.insert("podIP".to_owned(), first.into());
            }
        }
    }
}

/// Copies the data source of a claim between its two fields. Drops a reference to another namespace, and a source of an unusual kind.
fn join_sources(spec: &mut Body) {
    let word = |source: &Value, field: &str| {
        let found = source.get(field).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let usual = |source: &Value| {
        let (group, kind) = (word(source, "apiGroup"), word(source, "kind"));
        matches!(
            (group.as_str(), kind.as_str()),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if spec.get("dataSource").is_some_and(|source| !usual(source)) {
        spec.remove("dataSource");
    }
    if let Some(source) = spec.get("dataSourceRef")
        && !word(source, "namespace").is_empty()
    {
        spec.remove("dataSourceRef");
    }
    for (from, to) in [
        ("dataSource", "dataSourceRef"),
        ("dataSourceRef", "dataSource"),
    ] {
        if let Some(source) = spec.get(from).cloned() {
            spec.entry(to).or_insert(source);
        }
    }
}

pub(crate) fn tolerate_trouble(spec: &mut Body) {
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        tolerate(spec, key);
    }
}

/// Adds the toleration that keeps a Pod on a failing node for five minutes, unless the Pod has one.
fn tolerate(spec: &mut Body, key: &str) {
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(found) = list.as_array_mut() else {
        return;
    };
    let covers = |found: &Value| {
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        matches!(
            text("key"),
            "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
        ) && (text("key").is_empty() || text("key") == key)
            && matches!(text("effect"), "" | "NoExecute")
    };
    if !found.iter().any(covers) {
        found.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
    }
}

/// Returns the quality of service class, which follows from requests and limits.
pub(crate) fn quality(body: &Body) -> &'static str {
    let lists = [".spec.containers", ".spec.initContainers"];
    let whole = at_path(body, ".spec.resources").filter(|whole| {
        let usual =
            |name: &String| name == "cpu" || name == "memory" || name.starts_with("hugepages-");
        let mut lists = ["limits", "requests"]
            .iter()
            .filter_map(|list| whole[*list].as_object());
        lists.any(|list| list.keys().any(usual))
    });
    let of_containers = || {
        let found = lists
            .iter()
            .filter_map(|path| at_path(body, path)?.as_array());
        found.flatten().map(|container| &container["resources"])
    };
    // Resources at the level of the Pod override those of the containers.
    let resources: Vec<&Value> = match whole {
        Some(whole) => vec![whole],
        None => of_containers().collect(),
    };
    let set = |resources: &&Value, part: &str| {
        let usual = |found: &Value| {
            ["cpu", "memory"]
                .iter()
                .any(|name| found.get(name).is_some())
        };
        usual(&resources[part])
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

/// Adds a finalizer that protects volumes in use from deletion.
fn protect(body: &mut Body, finalizer: &str) {
    let slot = metadata_mut(body)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(found) = slot
        .as_array_mut()
        .filter(|found| !found.contains(&finalizer.into()))
    {
        found.push(finalizer.into());
    }
}

/// Makes a Job select its Pods by the uid of the Job.
fn select_by_uid(body: &mut Body) {
    let manual = at_path(body, ".spec.manualSelector") == Some(&Value::Bool(true));
    if manual {
        return;
    }
    let empty = Body::new();
    let uid = metadata(body).unwrap_or(&empty).get("uid").cloned();
    let (uid, name) = (uid.unwrap_or_default(), meta_text(body, "name").to_owned());
    let own = metadata(body).and_then(|meta| meta.get("labels"));
    // A Job without labels of its own takes those of its template.
    let shared = own.is_none() || own == at_path(body, ".spec.template.metadata.labels");
    let spec = map_mut(body, "spec");
    let labels = map_mut(map_mut(map_mut(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("job-name", Value::from(name.as_str())),
        ("batch.kubernetes.io/job-name", name.as_str().into()),
        ("controller-uid", uid.clone()),
        ("batch.kubernetes.io/controller-uid", uid.clone()),
    ] {
        labels.entry(key).or_insert(value);
    }
    let labels = labels.clone();
    let chosen = map_mut(map_mut(spec, "selector"), "matchLabels");
    chosen
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
    if shared {
        metadata_mut(body).insert("labels".to_owned(), labels.into());
    }
}
