//! Validates references of Pods to their own fields and resources, in environment variables and volumes.
//!
//! Errors are the same in both places. Independent of the surroundings of a reference.

use serde_json::Value;

use super::finder::{Finder, child};
use super::resource::amount;
use crate::object::{Body, text};
use crate::rules::names;

/// The fields that environment variables may reference.
pub(super) const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields that files may reference.
pub(super) const OF_FILES: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const UNITS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Checks a field reference.
pub(super) fn field(finder: &mut Finder<'_>, field: &Body, at: &str, allowed: &[&str]) {
    let path = text(field, "fieldPath");
    let at_path = child(at, "fieldPath");
    if path.is_empty() {
        return finder.required(at_path, "");
    }
    let subscript = |start: &str| path.strip_prefix(start)?.strip_suffix("']");
    if let Some(key) = subscript("metadata.labels['") {
        return finder.all(at, &key.into(), names::qualified(key));
    }
    if let Some(key) = subscript("metadata.annotations['") {
        let key = key.to_lowercase();
        return finder.all(at, &key.as_str().into(), names::qualified(&key));
    }
    let others = [
        "metadata.labels",
        "metadata.annotations",
        "status.phase",
        "spec.restartPolicy",
    ];
    if !FIELDS.contains(&path) && !others.contains(&path) {
        let message = format!("error converting fieldPath: field label not supported: {path}");
        finder.invalid(at_path, &path.into(), &message);
    } else if !allowed.contains(&path) {
        finder.unsupported(at_path, &path.into(), allowed);
    }
}

/// Checks a resource reference; in files, it must name the container.
pub(super) fn resource(finder: &mut Finder<'_>, body: &Body, at: &str, of_file: bool) {
    let name = text(body, "resource");
    let huge = ["requests.hugepages-", "limits.hugepages-"];
    let is_huge = huge.iter().any(|start| name.starts_with(start));
    if of_file && text(body, "containerName").is_empty() {
        finder.required(child(at, "containerName"), "");
    } else if name.is_empty() {
        finder.required(child(at, "resource"), "");
    } else if !RESOURCES.contains(&name) && !is_huge {
        finder.unsupported(child(at, "resource"), &name.into(), &RESOURCES);
    }
    let Some(divisor) = body.get("divisor").filter(|value| amount(value) != Some(0)) else {
        return;
    };
    let unit = divisor.as_str().unwrap_or_default();
    let of = name.rsplit('.').next().unwrap_or_default();
    let units = UNITS.join(", ");
    let message = match of {
        "cpu" if matches!(unit, "1m" | "1") => return,
        "cpu" => "only divisor's values 1m and 1 are supported with the cpu resource".to_owned(),
        _ if UNITS.contains(&unit) => return,
        "memory" => format!("only divisor's values {units} are supported with the memory resource"),
        "ephemeral-storage" => format!(
            "only divisor's values {units} are supported with the local ephemeral storage resource"
        ),
        _ if is_huge => {
            format!("only divisor's values {units} are supported with the hugepages resource")
        }
        _ => return,
    };
    finder.invalid(child(at, "divisor"), &Value::from(name), &message);
}
