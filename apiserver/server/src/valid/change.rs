//! Validates changes: checks that immutable fields stay the same.
//!
//! Errors match the real server, except for the diffs that it prints for Pods and claims. Independent of which client makes the change.

mod service;

use serde_json::Value;

use super::finder::{Finder, is_empty, is_true, items, map, maps};
use super::fixed;
use super::resource::{BESIDE_SOURCE, amount};
use crate::kind::{Kind, defaults};
use crate::object::{Body, at_path, map_mut, metadata, text};
use crate::status::{Cause, shown};

/// Immutable fields by kind.
const FIXED: [(&str, &[&str]); 11] = [
    ("Deployment", &["spec.selector"]),
    ("ReplicaSet", &["spec.selector"]),
    ("DaemonSet", &["spec.selector"]),
    ("Secret", &["type"]),
    (
        "Job",
        &[
            "spec.selector",
            "spec.completionMode",
            "spec.podFailurePolicy",
            "spec.backoffLimitPerIndex",
            "spec.managedBy",
            "spec.successPolicy",
        ],
    ),
    (
        "StorageClass",
        &[
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ],
    ),
    ("PriorityClass", &["preemptionPolicy"]),
    ("ControllerRevision", &["data"]),
    ("IngressClass", &["spec.controller"]),
    ("EndpointSlice", &["addressType"]),
    ("RuntimeClass", &["handler"]),
];

/// Validates a change of an object.
pub(crate) fn check_change(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    if !kind.traits.builtin {
        return Vec::new();
    }
    let mut finder = Finder::new(kind, new);
    let fixed = FIXED.iter().find(|(name, _)| *name == kind.kind);
    for path in fixed.map_or(&[][..], |(_, paths)| paths) {
        let (before, after) = (at_path(old, path), at_path(new, path));
        if before != after {
            finder.invalid_as(*path, &printed(after), "field is immutable");
        }
    }
    let check: fn(&mut Finder<'_>, &Body, &Body) = match kind.kind.as_str() {
        "ConfigMap" | "Secret" => frozen,
        "Job" => job,
        "PersistentVolumeClaim" => claim,
        "PersistentVolume" => volume,
        "Pod" => pod,
        "PriorityClass" => priority_class,
        "Service" => service::check,
        "StatefulSet" => stateful_set,
        "ResourceQuota" => quota,
        other => match fixed::of(other) {
            Some(check) => check,
            None => return finder.causes,
        },
    };
    check(&mut finder, old, new);
    finder.causes
}

/// Prints a value as Go does: for selectors, `matchLabels` comes first.
pub(super) fn printed(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "null".to_owned();
    };
    let parts = ["matchLabels", "matchExpressions"];
    if !parts.iter().any(|part| value.get(part).is_some()) {
        return shown(value);
    }
    let parts: Vec<String> = parts
        .iter()
        .filter_map(|part| Some(format!("{part:?}:{}", value.get(part)?)))
        .collect();
    format!("{{{}}}", parts.join(","))
}

fn frozen(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    if !is_true(old, "immutable") {
        return;
    }
    let message = "field is immutable when `immutable` is set";
    if !is_true(new, "immutable") {
        finder.forbidden("immutable", message);
    }
    for field in ["data", "binaryData"] {
        if old.get(field) != new.get(field) {
            finder.forbidden(field, message);
        }
    }
}

fn job(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let indexed = at_path(new, ".spec.completionMode").is_some_and(|mode| mode == "Indexed");
    let (before, after) = (
        at_path(old, ".spec.completions"),
        at_path(new, ".spec.completions"),
    );
    let together = after == at_path(new, ".spec.parallelism");
    if before != after && !(indexed && together) {
        let message = if indexed {
            "can only be modified in tandem with spec.parallelism"
        } else {
            "field is immutable"
        };
        finder.invalid_as("spec.completions", &printed(after), message);
    }
    let suspended = at_path(old, ".spec.suspend") == Some(&Value::Bool(true));
    let (before, after) = (
        at_path(old, ".spec.template"),
        at_path(new, ".spec.template"),
    );
    if before != after && !suspended {
        finder.invalid_as("spec.template", &printed(after), "field is immutable");
    }
    if suspended && settled(old) != settled(new) {
        let after = at_path(new, ".spec.template.spec");
        finder.invalid_as("spec.template.spec", &printed(after), "field is immutable");
    }
}

/// Returns the part of a Job's Pod spec that is immutable even while the Job is suspended: all except scheduling and resources.
fn settled(job: &Body) -> Body {
    let spec = at_path(job, ".spec.template.spec").and_then(Value::as_object);
    let mut spec = without(spec, &["nodeSelector", "tolerations", "schedulingGates"]);
    if let Some(affinity) = map(&spec, "affinity") {
        let rest = without(Some(affinity), &["nodeAffinity"]);
        spec.insert("affinity".to_owned(), Value::Object(rest));
    }
    for list in ["containers", "initContainers"] {
        let found = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
    spec.retain(|_, value| !is_empty(Some(value)));
    spec
}

fn without(spec: Option<&Body>, fields: &[&str]) -> Body {
    let mut spec = spec.cloned().unwrap_or_default();
    spec.retain(|key, _| !fields.contains(&key.as_str()));
    spec
}

fn stateful_set(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let free = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    if without(map(old, "spec"), &free) != without(map(new, "spec"), &free) {
        let message = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        finder.forbidden("spec", message);
    }
}

fn claim(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let bound = at_path(new, ".status.phase").is_some_and(|phase| phase == "Bound");
    let comparable = |body: &Body| {
        let mut spec = without(map(body, "spec"), &[]);
        if bound {
            spec.remove("volumeAttributesClassName");
            map_mut(map_mut(&mut spec, "resources"), "requests").remove("storage");
        }
        if at_path(old, ".spec.volumeName").is_none() {
            spec.remove("volumeName");
        }
        spec
    };
    if comparable(old) != comparable(new) {
        let message = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        finder.forbidden("spec", message);
    }
    let size = |body: &Body| at_path(body, ".spec.resources.requests.storage").and_then(amount);
    let had = at_path(old, ".status.capacity.storage")
        .and_then(amount)
        .unwrap_or_default();
    if size(new) < size(old) && size(new).is_some_and(|size| size <= had) {
        let message = "field can not be less than status.capacity";
        finder.forbidden("spec.resources.requests.storage", message);
    }
    same_volume_mode(finder, old, new);
}

fn volume(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let source = |body| without(map(body, "spec"), &BESIDE_SOURCE);
    if source(old) != source(new) {
        let message = "spec.persistentvolumesource is immutable after creation";
        finder.forbidden("spec.persistentvolumesource", message);
    }
    same_volume_mode(finder, old, new);
}

fn same_volume_mode(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let mode = |body| at_path(body, ".spec.volumeMode");
    if mode(old) != mode(new) {
        finder.invalid_as("volumeMode", &printed(mode(new)), "field is immutable");
    }
}

fn pod(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let empty = Body::new();
    let (before, after) = (
        map(old, "spec").unwrap_or(&empty),
        map(new, "spec").unwrap_or(&empty),
    );
    for list in ["containers", "initContainers"] {
        if items(before, list).len() != items(after, list).len() {
            let message = "pod updates may not add or remove containers";
            return finder.forbidden(format!("spec.{list}"), message);
        }
    }
    for list in ["containers", "initContainers"] {
        let nameless = |(at, container): (String, &Body)| {
            text(container, "image")
                .is_empty()
                .then(|| format!("{at}.image"))
        };
        for at in maps(after, list, "spec").into_iter().filter_map(nameless) {
            finder.required(at, "");
        }
    }
    if !deadline(finder, before, after) {
        return;
    }
    kept_tolerations(finder, before, after);
    for (at, gate) in maps(after, "schedulingGates", "spec") {
        if !items(before, "schedulingGates").contains(&Value::Object(gate.clone())) {
            let name = text(gate, "name");
            let message =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            finder.forbidden(format!("{at}.name"), &message);
        }
    }
    if comparable(before) != comparable(after) {
        let message = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        finder.forbidden("spec", message);
    }
}

/// Checks `activeDeadlineSeconds`; returns false if this error suppresses the other checks.
fn deadline(finder: &mut Finder<'_>, before: &Body, after: &Body) -> bool {
    let field = "activeDeadlineSeconds";
    let value = |spec: &Body| spec.get(field).and_then(Value::as_i64);
    let at = format!("spec.{field}");
    match (value(before), value(after)) {
        (Some(old), Some(new)) if old < new => {
            let message = "must be less than or equal to previous value";
            finder.invalid(at, &new.into(), message);
            false
        }
        (Some(_), None) => {
            let message = "must not update from a positive integer to nil value";
            finder.invalid(at, &Value::Null, message);
            true
        }
        _ => true,
    }
}

fn kept_tolerations(finder: &mut Finder<'_>, before: &Body, after: &Body) {
    let bare = |item: &Value| without(item.as_object(), &["tolerationSeconds"]);
    let new: Vec<Body> = items(after, "tolerations").iter().map(bare).collect();
    let old = items(before, "tolerations").iter().map(bare);
    if old.into_iter().any(|old| !new.contains(&old)) {
        let message = "existing toleration can not be modified except its tolerationSeconds";
        finder.forbidden("spec.tolerations", message);
    }
}

/// Returns a Pod spec without its mutable fields.
fn comparable(spec: &Body) -> Body {
    let mut spec = without(
        Some(spec),
        &["activeDeadlineSeconds", "tolerations", "schedulingGates"],
    );
    for list in ["containers", "initContainers"] {
        let found = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in found.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("image");
        }
    }
    spec
}

fn priority_class(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    if old.get("value") != new.get("value") {
        finder.forbidden("value", "may not be changed in an update.");
    }
}

fn quota(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let scopes = |body: &Body| at_path(body, ".spec.scopes").cloned();
    if scopes(old) != scopes(new)
        && !(is_empty(scopes(old).as_ref()) && is_empty(scopes(new).as_ref()))
    {
        let value = scopes(new).unwrap_or_default();
        finder.invalid("spec.scopes", &value, "field is immutable");
    }
}

/// Restores server-assigned values that an update leaves out, such as Service addresses and ports, and counts template changes.
pub(crate) fn keep_given(kind: &Kind, old: &Body, new: &mut Body) {
    match kind.kind.as_str() {
        _ if !kind.traits.builtin => return,
        "Service" => service::keep(old, new),
        "DaemonSet" => count_template(old, new),
        _ => {}
    }
    defaults::tidy(kind, new);
}

fn count_template(old: &Body, new: &mut Body) {
    let key = defaults::GENERATION;
    let before = metadata(old)
        .and_then(|meta| map(meta, "annotations"))
        .map_or(0, |found| {
            text(found, key).parse::<i64>().unwrap_or_default()
        });
    let changed = at_path(old, ".spec.template") != at_path(new, ".spec.template");
    let count = before + i64::from(changed);
    let meta = crate::object::metadata_mut(new);
    map_mut(meta, "annotations").insert(key.to_owned(), count.to_string().into());
}
