//! Validates the fields of a Pod that depend on each other.
//!
//! Other modules validate volumes and mounts. Never looks at the old object of an update.

use std::collections::HashSet;

use serde_json::Value;

use super::finder::{Finder, child, is_empty, is_true, items, map, maps, number};
use super::format::check_labels;
use super::rule::Named;
use super::volume;
use crate::object::{Body, text};
use crate::rules::names;

/// The longest host name on Linux.
const LONGEST_HOST_NAME: usize = 64;

pub(super) const NAMED: Named = &[
    ("pod", pod),
    ("template", template),
    ("pod_spec", pod_spec),
    ("toleration", toleration),
    ("node_requirement", node_requirement),
    ("requirement", requirement),
];

fn pod(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let Some(spec) = map(body, "spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for (at, container) in maps(spec, list, "spec") {
            let image = text(container, "image");
            if image.trim() != image {
                let message = "must not have leading or trailing whitespace";
                finder.invalid(child(&at, "image"), &image.into(), message);
            }
        }
    }
}

fn template(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let empty = Body::new();
    let meta = map(body, "metadata").unwrap_or(&empty);
    // The real server omits `metadata` from these paths.
    if let Some(labels) = map(meta, "labels") {
        check_labels(finder, &child(at, "labels"), labels);
    }
    for key in map(meta, "annotations")
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        let messages = names::qualified(&key.to_lowercase());
        finder.all(&child(at, "annotations"), &key.as_str().into(), messages);
    }
    let spec = map(body, "spec").unwrap_or(&empty);
    if !items(spec, "ephemeralContainers").is_empty() {
        let message = "ephemeral containers not allowed in pod template";
        finder.forbidden(format!("{at}.spec.ephemeralContainers"), message);
    }
}

fn pod_spec(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let containers = maps(spec, "containers", at);
    let mut seen = HashSet::new();
    for (at, container) in &containers {
        let name = text(container, "name");
        if !seen.insert(name) {
            finder.duplicate(child(at, "name"), &name.into());
        }
    }
    for (at, container) in maps(spec, "initContainers", at) {
        let name = text(container, "name");
        if !seen.insert(name) && !name.is_empty() {
            finder.duplicate(child(&at, "name"), &name.into());
        }
        init_container(finder, container, &at);
    }
    host_ports(finder, spec, at, &containers);
    host_name(finder, spec, at);
    volume::check(finder, spec, at);
}

/// Checks that the host name is set in only one way.
fn host_name(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let Some(name) = spec.get("hostnameOverride").and_then(Value::as_str) else {
        return;
    };
    let at = child(at, "hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if is_true(spec, field) {
            let message = format!("may not be specified when {field} is true");
            finder.forbidden(at.as_str(), &message);
        }
    }
    if name.len() > LONGEST_HOST_NAME {
        finder.too_long(at.as_str(), LONGEST_HOST_NAME);
    }
    let messages = names::subdomain(name).into_iter().collect();
    finder.all(&at, &name.into(), messages);
}

fn init_container(finder: &mut Finder<'_>, container: &Body, at: &str) {
    if text(container, "restartPolicy") == "Always" {
        return;
    }
    for field in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        if container.contains_key(field) {
            let message = "may not be set for init containers without restartPolicy=Always";
            finder.forbidden(child(at, field), message);
        }
    }
}

fn host_ports(finder: &mut Finder<'_>, spec: &Body, _: &str, containers: &[(String, &Body)]) {
    let mut taken = HashSet::new();
    let host = is_true(spec, "hostNetwork");
    for (at, container) in containers {
        for (at, port) in maps(container, "ports", at) {
            let Some(number) = number(port, "hostPort").filter(|number| *number != 0) else {
                continue;
            };
            let (address, protocol) = (text(port, "hostIP"), text(port, "protocol"));
            let place = format!("{protocol}/{address}/{number}");
            if !taken.insert(place.clone()) {
                finder.duplicate(child(&at, "hostPort"), &place.into());
            }
            if host && port.get("containerPort") != port.get("hostPort") {
                let message = "must match `containerPort` when `hostNetwork` is true";
                finder.invalid(child(&at, "hostPort"), &port["hostPort"], message);
            }
        }
    }
}

fn toleration(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let (key, operator) = (text(body, "key"), text(body, "operator"));
    let (value, effect) = (text(body, "value"), text(body, "effect"));
    let operator_at = child(at, "operator");
    if !key.is_empty() {
        finder.all(&child(at, "key"), &key.into(), names::qualified(key));
    }
    if key.is_empty() && operator != "Exists" {
        let message = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        finder.invalid(operator_at.as_str(), &operator.into(), message);
    }
    if body.contains_key("tolerationSeconds") && effect != "NoExecute" {
        let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        finder.invalid(child(at, "effect"), &effect.into(), message);
    }
    match operator {
        "" | "Equal" => {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                finder.invalid(operator_at, &value.into(), &messages.join(";"));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            let message = "value must be empty when `operator` is 'Exists'";
            finder.invalid(operator_at, &value.into(), message);
        }
        "Gt" | "Lt" => {
            finder.unsupported(
                operator_at,
                &operator.into(),
                &["Equal", "Exists", "Lt", "Gt"],
            );
        }
        _ => finder.unsupported(operator_at, &operator.into(), &["Equal", "Exists"]),
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        finder.unsupported(child(at, "effect"), &effect.into(), &effects);
    }
}

/// Checks a node selector by fields; the name is the only field.
fn field_requirement(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let (key, operator) = (text(body, "key"), text(body, "operator"));
    let values = items(body, "values");
    match operator {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let message =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            finder.required(child(at, "values"), message);
        }
        other => {
            let message = "not a valid selector operator";
            finder.invalid(child(at, "operator"), &other.into(), message);
        }
    }
    if key != "metadata.name" {
        let message = "not a valid field selector key";
        return finder.invalid(child(at, "key"), &key.into(), message);
    }
    for (index, value) in values.iter().enumerate() {
        let messages = names::subdomain(value.as_str().unwrap_or_default());
        let messages = messages.into_iter().collect();
        finder.all(&format!("{at}.values[{index}]"), value, messages);
    }
}

fn node_requirement(finder: &mut Finder<'_>, body: &Body, at: &str) {
    if at.contains(".matchFields[") {
        return field_requirement(finder, body, at);
    }
    if matches!(text(body, "operator"), "Gt" | "Lt") {
        if items(body, "values").len() != 1 {
            let message = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            finder.required(child(at, "values"), message);
        }
        let key = text(body, "key");
        return finder.all(&child(at, "key"), &key.into(), names::qualified(key));
    }
    // A preferred term may be unsatisfiable.
    if at.contains(".preferredDuring") {
        keyed(finder, body, at);
    } else {
        requirement(finder, body, at);
    }
}

fn requirement(finder: &mut Finder<'_>, body: &Body, at: &str) {
    keyed(finder, body, at);
    for (index, value) in items(body, "values").iter().enumerate() {
        let messages = names::label_value(value.as_str().unwrap_or_default());
        finder.all(&format!("{at}.values[{index}]"), value, messages);
    }
}

fn keyed(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let values = child(at, "values");
    let some = !is_empty(body.get("values"));
    match text(body, "operator") {
        "In" | "NotIn" if some => {}
        "In" | "NotIn" => {
            finder.required(
                values.as_str(),
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !some => {}
        "Exists" | "DoesNotExist" => {
            finder.forbidden(
                values.as_str(),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        other => {
            finder.invalid(
                child(at, "operator"),
                &other.into(),
                "not a valid selector operator",
            );
        }
    }
    let key = text(body, "key");
    finder.all(&child(at, "key"), &key.into(), names::qualified(key));
}
