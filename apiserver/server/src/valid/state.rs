//! Validates status updates.
//!
//! Rejects only what the real server rejects. Independent of the rest of the object.

mod claim;
mod job;
mod request;

use std::net::IpAddr;

use serde_json::Value;

use super::finder::{Finder, child, is_empty, items, map, maps, number};
use super::format::ADDRESS;
use crate::kind::Kind;
use crate::object::{Body, meta_text, text};
use crate::rules::names;
use crate::status::Cause;

const LEAST: &str = "must be greater than or equal to 0";

/// Fields that must not be negative, by kind.
const COUNTS: [(&str, &[&str]); 8] = [
    (
        "Job",
        &["active", "succeeded", "failed", "ready", "terminating"],
    ),
    (
        "HorizontalPodAutoscaler",
        &["currentReplicas", "desiredReplicas"],
    ),
    (
        "PodDisruptionBudget",
        &[
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ],
    ),
    (
        "StatefulSet",
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
    ),
    (
        "DaemonSet",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    ),
    (
        "Deployment",
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    ),
    ("ReplicaSet", REPLICAS),
    ("ReplicationController", REPLICAS),
];

const REPLICAS: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
];

/// Fields that must not exceed `replicas`, by kind.
const PARTS: [(&str, &[&str]); 4] = [
    (
        "StatefulSet",
        &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
    ),
    (
        "Deployment",
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ),
    ("ReplicaSet", PARTS_OF_SET),
    ("ReplicationController", PARTS_OF_SET),
];

const PARTS_OF_SET: &[&str] = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/// Validates a status update.
pub(crate) fn check_state(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    let mut finder = Finder::new(kind, new);
    let Some(status) = map(new, "status").filter(|_| kind.traits.builtin) else {
        return Vec::new();
    };
    let counts = COUNTS.iter().find(|(name, _)| *name == kind.kind);
    for field in counts.map_or(&[][..], |(_, fields)| fields) {
        if let Some(count) = number(status, field).filter(|count| *count < 0) {
            finder.invalid(format!("status.{field}"), &count.into(), LEAST);
        }
    }
    parts(&mut finder, status);
    match kind.kind.as_str() {
        "Ingress" => balancer(&mut finder, status, false),
        "Service" => service(&mut finder, new, status),
        "ResourceQuota" => super::resource::quota_status(&mut finder, status),
        "PersistentVolumeClaim" => claim::check(&mut finder, status),
        "PodDisruptionBudget" => conditions(&mut finder, status),
        "VolumeAttachment" => attachment(&mut finder, status),
        "CertificateSigningRequest" => {
            let empty = Body::new();
            let old = map(old, "status").unwrap_or(&empty);
            request::check(&mut finder, old, status, false);
        }
        "Job" => job::check(&mut finder, old, status),
        "Node" => node(&mut finder, status),
        "Namespace" => namespace(&mut finder, new, status),
        "Pod" => {
            let empty = Body::new();
            pod(&mut finder, map(old, "status").unwrap_or(&empty), status);
        }
        _ => {}
    }
    finder.causes
}

/// Validates an approval of a certificate signing request.
pub(crate) fn check_approval(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    let mut finder = Finder::new(kind, new);
    let empty = Body::new();
    let [old, new] = [old, new].map(|body| map(body, "status").unwrap_or(&empty));
    request::check(&mut finder, old, new, true);
    finder.causes
}

/// Checks that no more Pods are ready than exist, and no more are available than ready.
fn parts(finder: &mut Finder<'_>, status: &Body) {
    let kind = finder.kind.kind.as_str();
    let Some((_, fields)) = PARTS.iter().find(|(name, _)| *name == kind) else {
        return;
    };
    let count = |field: &str| number(status, field).unwrap_or_default();
    for field in *fields {
        if count(field) > count("replicas") {
            let message = "cannot be greater than status.replicas";
            finder.invalid(format!("status.{field}"), &count(field).into(), message);
        }
    }
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let message = match kind {
            "StatefulSet" => "cannot be greater than status.readyReplicas",
            _ => "cannot be greater than readyReplicas",
        };
        finder.invalid("status.availableReplicas", &available.into(), message);
    }
}

fn service(finder: &mut Finder<'_>, body: &Body, status: &Body) {
    let balanced = map(body, "spec").is_some_and(|spec| text(spec, "type") == "LoadBalancer");
    let found = map(status, "loadBalancer").map_or(&[][..], |found| items(found, "ingress"));
    if !balanced && !found.is_empty() {
        let message = "may only be used when `spec.type` is 'LoadBalancer'";
        return finder.forbidden("status.loadBalancer.ingress", message);
    }
    balancer(finder, status, true);
}

/// Checks the status of a load balancer.
fn balancer(finder: &mut Finder<'_>, status: &Body, with_mode: bool) {
    let Some(found) = map(status, "loadBalancer") else {
        return;
    };
    for (at, ingress) in maps(found, "ingress", "status.loadBalancer") {
        let (ip, host) = (text(ingress, "ip"), text(ingress, "hostname"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            finder.invalid(child(&at, "ip"), &ip.into(), ADDRESS);
        }
        let mode = ingress.get("ipMode").filter(|_| with_mode);
        let at_mode = child(&at, "ipMode");
        let known = ["Proxy", "VIP"];
        match mode {
            Some(_) if ip.is_empty() => {
                let message = "may not be specified when `ip` is not set";
                finder.forbidden(at_mode, message);
            }
            Some(mode) if !known.iter().any(|known| mode == known) => {
                finder.unsupported(at_mode, mode, &known);
            }
            _ => {}
        }
        if host.is_empty() {
            continue;
        }
        let at = child(&at, "hostname");
        finder.all(
            &at,
            &host.into(),
            names::subdomain(host).into_iter().collect(),
        );
        if host.parse::<IpAddr>().is_ok() {
            finder.invalid(at, &host.into(), "must be a DNS name, not an IP address");
        }
    }
}

/// Checks the status of a node: quantities, and duplicate addresses.
fn node(finder: &mut Finder<'_>, status: &Body) {
    for list in ["capacity", "allocatable"] {
        for (name, value) in map(status, list).into_iter().flatten() {
            let at = format!("status.{list}.{name}");
            super::resource::check_amount(finder, name, value, &at);
        }
    }
    let mut seen = Vec::new();
    for (at, address) in maps(status, "addresses", "status") {
        let found = (text(address, "type"), text(address, "address"));
        if seen.contains(&found) {
            let shown = format!("{{\"Type\":{:?},\"Address\":{:?}}}", found.0, found.1);
            finder.duplicate_as(at, &shown);
        }
        seen.push(found);
    }
}

/// Checks that the phase of a namespace is `Terminating` exactly if it is being deleted.
fn namespace(finder: &mut Finder<'_>, new: &Body, status: &Body) {
    let going = !meta_text(new, "deletionTimestamp").is_empty();
    let (wanted, not) = if going {
        ("Terminating", "not ")
    } else {
        ("Active", "")
    };
    let phase = text(status, "phase");
    if phase != wanted {
        let message = format!("may only be '{wanted}' if `deletionTimestamp` is {not}empty");
        finder.invalid("status.Phase", &phase.into(), &message);
    }
}

/// Checks standard conditions.
fn conditions(finder: &mut Finder<'_>, status: &Body) {
    let mut seen = Vec::new();
    for (at, condition) in maps(status, "conditions", "status") {
        let of = text(condition, "type");
        if seen.contains(&of) {
            finder.duplicate(child(&at, "type"), &of.into());
        }
        seen.push(of);
        finder.all(&child(&at, "type"), &of.into(), names::qualified(of));
        let state = text(condition, "status");
        let known = ["False", "True", "Unknown"];
        if !known.contains(&state) {
            finder.unsupported(child(&at, "status"), &state.into(), &known);
        }
        if let Some(seen) = number(condition, "observedGeneration").filter(|seen| *seen < 0) {
            let message = "must be greater than or equal to zero";
            finder.invalid(child(&at, "observedGeneration"), &seen.into(), message);
        }
        for field in ["lastTransitionTime", "reason"] {
            if is_empty(condition.get(field)) {
                finder.required(child(&at, field), "");
            }
        }
        let reason = text(condition, "reason");
        if !reason.is_empty() && !is_reason(reason) {
            let message = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
            finder.invalid(child(&at, "reason"), &reason.into(), message);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(ends)
        && text.chars().all(fits)
}

fn pod(finder: &mut Finder<'_>, old: &Body, status: &Body) {
    let node = text(status, "nominatedNodeName");
    if !node.is_empty() && node != text(old, "nominatedNodeName") {
        let at = "status.nominatedNodeName";
        finder.all(
            at,
            &node.into(),
            names::subdomain(node).into_iter().collect(),
        );
    }
    let quality = text(status, "qosClass");
    if quality != text(old, "qosClass") {
        finder.invalid("status.qosClass", &quality.into(), "field is immutable");
    }
    for (list, first) in [("podIPs", "podIP"), ("hostIPs", "hostIP")] {
        addresses(finder, status, list, first);
    }
}

/// Checks addresses: one per family, and the first one equals the single-value field.
fn addresses(finder: &mut Finder<'_>, status: &Body, list: &str, first: &str) {
    let found = maps(status, list, "status");
    if let Some((at, address)) = found.first()
        && list == "hostIPs"
        && text(address, "ip") != text(status, first)
    {
        let message = format!("must be equal to `{first}`");
        finder.invalid(format!("{at}.ip"), &address["ip"], &message);
    }
    let mut families = Vec::new();
    for (at, address) in &found {
        match text(address, "ip").parse::<IpAddr>() {
            Ok(ip) => families.push(ip.is_ipv4()),
            Err(_) => finder.invalid(at.as_str(), &text(address, "ip").into(), ADDRESS),
        }
    }
    let unlike = families.len() == 2 && families[0] != families[1];
    if families.len() == found.len() && families.len() > 1 && !unlike {
        let shown: Vec<String> = found
            .iter()
            .map(|(_, address)| format!("{{\"IP\":{}}}", address["ip"]))
            .collect();
        let shown = format!("[{}]", shown.join(","));
        let message = "may specify no more than one IP for each IP family";
        finder.invalid_as(format!("status.{list}"), &shown, message);
    }
}

fn attachment(finder: &mut Finder<'_>, status: &Body) {
    for field in ["attachError", "detachError"] {
        let code = map(status, field).and_then(|error| error.get("errorCode"));
        if let Some(code) = code.filter(|code| code.as_i64().is_some_and(|code| code < 0)) {
            let at = format!("status.{field}.errorCode");
            let message = "must be between 0 and 2147483647, inclusive";
            finder.invalid(at, code, message);
        }
        let said = map(status, field).and_then(|error| error.get("message"));
        if said
            .and_then(Value::as_str)
            .is_some_and(|said| said.len() > 1024)
        {
            finder.too_long(format!("status.{field}.message"), 256 * 1024);
        }
    }
}
