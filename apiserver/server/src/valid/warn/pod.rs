//! Warnings about Pods and Pod templates.
//!
//! The order matches the real server. Independent of validation errors.

use std::collections::HashSet;

use serde_json::Value;

use super::{address, claim_spec, fraction, label, path};
use crate::object::{Body, at_path, text};
use crate::valid::finder::{child, map, maps, number};

/// Volume sources that no longer work.
pub(super) const GONE: [(&str, &str); 8] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
];

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const NULL: &str = "a null labelSelector results in matching no pod";

/// A container and its path.
type Placed<'a> = (String, &'a Body);

/// Returns the warnings for a Pod or a template at a path.
pub(super) fn warnings(pod: &Body, at: &str) -> Vec<String> {
    let empty = Body::new();
    let spec = map(pod, "spec").unwrap_or(&empty);
    let meta = map(pod, "metadata").unwrap_or(&empty);
    let annotations = map(meta, "annotations").unwrap_or(&empty);
    let at_notes = child(at, "metadata.annotations");
    let at_spec = child(at, "spec");
    let mut told = placement(spec, &at_spec);
    for (key, why) in ANNOTATIONS {
        if annotations.contains_key(key) {
            told.push(format!("{at_notes}[{key}]: {why}"));
        }
    }
    volumes(spec, &at_spec, &mut told);
    twice(spec, &at_spec, &mut told);
    for name in ["memory", "ephemeral-storage"] {
        told.extend(fraction(spec, "overhead", name, &at_spec));
    }
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if annotations.contains_key(key) && at_path(spec, ".securityContext.seccompProfile").is_none() {
        told.push(format!("{at_notes}[{key}]: {}", instead_of_seccomp()));
    }
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers: Vec<Placed<'_>> = lists
        .iter()
        .flat_map(|list| maps(spec, list, &at_spec))
        .collect();
    for (place, container) in &containers {
        notes(annotations, (container, spec), at, &at_notes, &mut told);
        a_container(container, place, &mut told);
    }
    ports(&containers, &mut told);
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        told.push(format!("{at_spec}.terminationGracePeriodSeconds: {why}"));
    }
    affinities(spec, &at_spec, &mut told);
    if let Some(config) = map(spec, "dnsConfig") {
        let at = format!("{at_spec}.dnsConfig");
        told.extend(address::of_list(config, "nameservers", &at));
    }
    for (at, alias) in maps(spec, "hostAliases", &at_spec) {
        told.extend(address::of_one(text(alias, "ip"), &format!("{at}.ip")));
    }
    told
}

fn instead_of_seccomp() -> &'static str {
    "non-functional in v1.27+; use the \"seccompProfile\" field instead"
}

/// Warns of scheduling constraints.
fn placement(spec: &Body, at: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (key, _) in map(spec, "nodeSelector").into_iter().flatten() {
        let message = label::instead(key);
        told.extend(message.map(|message| format!("{at}.nodeSelector[{key}]: {message}")));
    }
    let affinity = at_path(spec, ".affinity.nodeAffinity").and_then(Value::as_object);
    if let Some(affinity) = affinity {
        let at = format!("{at}.affinity.nodeAffinity");
        let field = "requiredDuringSchedulingIgnoredDuringExecution";
        if let Some(required) = map(affinity, field) {
            let at = format!("{at}.{field}");
            for (at, term) in maps(required, "nodeSelectorTerms", &at) {
                told.extend(label::of_term(term, false, &at));
            }
        }
        let field = "preferredDuringSchedulingIgnoredDuringExecution";
        for (at, term) in maps(affinity, field, &at) {
            if let Some(term) = map(term, "preference") {
                told.extend(label::of_term(term, true, &format!("{at}.preference")));
            }
        }
    }
    for (at, constraint) in maps(spec, "topologySpreadConstraints", at) {
        let key = text(constraint, "topologyKey");
        if let Some(message) = label::instead(key) {
            told.push(format!("{at}.topologyKey: {key} is {message}"));
        }
        if !constraint.contains_key("labelSelector") {
            told.push(format!("{at}.labelSelector: {NULL}"));
        }
    }
    told
}

fn volumes(spec: &Body, at: &str, told: &mut Vec<String>) {
    let volumes = maps(spec, "volumes", at);
    for (at, volume) in &volumes {
        if volume.contains_key("gitRepo") {
            let why = "deprecated in v1.11, and disabled by default in v1.33+";
            told.push(format!("{at}.gitRepo: {why}"));
        }
        for (name, why) in GONE {
            if volume.contains_key(name) {
                let name = if name == "storageos" {
                    "storageOS"
                } else {
                    name
                };
                told.push(format!("{at}.{name}: {why}"));
            }
        }
        let claim = map(volume, "ephemeral").and_then(|found| map(found, "volumeClaimTemplate"));
        if let Some(spec) = claim.and_then(|claim| map(claim, "spec")) {
            let at = format!("{at}.ephemeral.volumeClaimTemplate.spec");
            told.extend(claim_spec(spec, &at));
        }
    }
    told.extend(
        volumes
            .iter()
            .flat_map(|(_, volume)| path::warnings(volume)),
    );
}

/// Warns of duplicate names.
fn twice(spec: &Body, at: &str, told: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for (at, item) in maps(spec, list, at) {
            let word = text(item, field);
            if !seen.insert(word) {
                told.push(format!("{at}.{field}: duplicate {field} {word:?}"));
            }
        }
    }
    for (at, secret) in maps(spec, "imagePullSecrets", at) {
        if text(secret, "name").is_empty() {
            told.push(format!("{at}.name: invalid empty name \"\""));
        }
    }
}

/// Warns of annotations that became fields of containers.
fn notes(
    annotations: &Body,
    (container, spec): (&Body, &Body),
    at: &str,
    at_notes: &str,
    told: &mut Vec<String>,
) {
    let name = text(container, "name");
    let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
    let has =
        |body: &Body, field: &str| at_path(body, &format!(".securityContext.{field}")).is_some();
    if annotations.contains_key(&key) && !has(container, "seccompProfile") {
        told.push(format!("{at_notes}[{key}]: {}", instead_of_seccomp()));
    }
    let key = format!("container.apparmor.security.beta.kubernetes.io/{name}");
    // For a Pod itself, another function reports this.
    if !at.is_empty()
        && annotations.contains_key(&key)
        && !has(container, "appArmorProfile")
        && !has(spec, "appArmorProfile")
    {
        let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        told.push(format!("{at_notes}[{key}]: {why}"));
    }
}

fn a_container(container: &Body, at: &str, told: &mut Vec<String>) {
    if let Some(resources) = map(container, "resources") {
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                told.extend(fraction(resources, list, name, &format!("{at}.resources")));
            }
        }
    }
    let mut seen = HashSet::new();
    for (at, variable) in maps(container, "env", at) {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let uses = value != reference && value.contains(&reference);
        if variable.contains_key("valueFrom") || !uses {
            let why = "which may be dropped when using apply";
            told.push(format!(
                "{at}: hides previous definition of {name:?}, {why}"
            ));
        }
    }
}

fn ports(containers: &[Placed<'_>], told: &mut Vec<String>) {
    let all: Vec<Placed<'_>> = containers
        .iter()
        .flat_map(|(at, container)| maps(container, "ports", at))
        .collect();
    let host = |port: &Body| number(port, "hostPort").unwrap_or_default();
    for (index, (at, port)) in all.iter().enumerate() {
        let ip = text(port, "hostIP");
        if !ip.is_empty() && host(port) == 0 {
            let shown = format!(
                "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                text(port, "name"),
                number(port, "containerPort").unwrap_or_default(),
                text(port, "protocol")
            );
            told.push(format!("{at}: hostIP set without hostPort: {shown}"));
        }
        for (other_at, other) in &all[..index] {
            let same = |field: &str| port.get(field) == other.get(field);
            if !same("containerPort") || !same("protocol") {
                continue;
            }
            let other_ip = text(other, "hostIP");
            let word = if ip == other_ip && host(port) == host(other) {
                "duplicate"
            } else if host(port) == 0 || host(other) == 0 {
                "overlapping"
            } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            told.push(format!("{at}: {word} port definition with {other_at}"));
        }
    }
    let mut named: Vec<(&str, &str)> = Vec::new();
    for (at, port) in &all {
        let name = text(port, "name");
        match named.iter().find(|(known, _)| *known == name) {
            _ if name.is_empty() => {}
            Some((_, other)) => told.push(format!("{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}")),
            None => named.push((name, at)),
        }
    }
}

fn affinities(spec: &Body, at: &str, told: &mut Vec<String>) {
    for field in ["podAffinity", "podAntiAffinity"] {
        let affinity = map(spec, "affinity").and_then(|affinity| map(affinity, field));
        let Some(affinity) = affinity else {
            continue;
        };
        let at = format!("{at}.affinity.{field}");
        let list = "requiredDuringSchedulingIgnoredDuringExecution";
        for (at, term) in maps(affinity, list, &at) {
            if !term.contains_key("labelSelector") {
                told.push(format!("{at}.labelSelector: {NULL}"));
            }
        }
        let list = "preferredDuringSchedulingIgnoredDuringExecution";
        for (at, term) in maps(affinity, list, &at) {
            let inner = map(term, "podAffinityTerm");
            if inner.is_none_or(|term| !term.contains_key("labelSelector")) {
                told.push(format!("{at}.podAffinityTerm.labelSelector: {NULL}"));
            }
        }
    }
}
