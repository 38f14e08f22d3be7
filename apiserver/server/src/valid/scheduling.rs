//! Validates scheduling: affinity, topology spread, scheduling gates and DNS.
//!
//! Paths in errors match the real server, including unusual ones. Never looks at the old object of an update.

use std::net::IpAddr;

use serde_json::Value;

use super::finder::{Finder, child, items, map, maps, number};
use super::format::ADDRESS;
use super::rule::Named;
use crate::object::{Body, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[
    ("spread", spread),
    ("spreads", spreads),
    ("affinity_term", affinity_term),
    ("gates", gates),
    ("dns", dns),
];

fn spread(finder: &mut Finder<'_>, constraint: &Body, at: &str) {
    let when = text(constraint, "whenUnsatisfiable");
    if let Some(least) = number(constraint, "minDomains") {
        let at = child(at, "minDomains");
        if least <= 0 {
            finder.invalid(at.as_str(), &least.into(), "must be greater than zero");
        }
        if when != "DoNotSchedule" {
            let message =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
            finder.invalid(at, &least.into(), &message);
        }
    }
    label_keys(finder, constraint, at);
}

/// Checks label keys whose values come from the Pod itself.
fn label_keys(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let selector = map(body, "labelSelector");
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = items(body, list);
        let at = child(at, list);
        if !keys.is_empty() && selector.is_none() {
            let message = "must not be specified when labelSelector is not set";
            finder.forbidden(at, message);
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            let messages = names::qualified(key.as_str().unwrap_or_default());
            finder.all(&format!("{at}[{index}]"), key, messages);
        }
    }
    let others = items(body, "mismatchLabelKeys");
    for (index, key) in items(body, "matchLabelKeys").iter().enumerate() {
        if others.contains(key) {
            let message = "exists in both matchLabelKeys and mismatchLabelKeys";
            finder.invalid(format!("{at}.matchLabelKeys[{index}]"), key, message);
        }
    }
}

/// Checks that each pair of topology key and action occurs once.
fn spreads(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let constraints = maps(spec, "topologySpreadConstraints", at);
    let pair = |found: &Body| {
        let (key, when) = (text(found, "topologyKey"), text(found, "whenUnsatisfiable"));
        format!("{{{key}, {when}}}")
    };
    for (index, (at, constraint)) in constraints.iter().enumerate() {
        let mut later = constraints[index + 1..].iter();
        if later.any(|(_, other)| pair(other) == pair(constraint)) {
            let at = child(at, "{topologyKey, whenUnsatisfiable}");
            finder.duplicate(at, &pair(constraint).into());
        }
    }
}

fn affinity_term(finder: &mut Finder<'_>, term: &Body, at: &str) {
    for namespace in items(term, "namespaces") {
        let messages = names::label(namespace.as_str().unwrap_or_default());
        let messages = messages.into_iter().collect();
        finder.all(&child(at, "namespace"), namespace, messages);
    }
    label_keys(finder, term, at);
}

/// Checks scheduling gates.
fn gates(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut seen = Vec::new();
    for (at, gate) in maps(spec, "schedulingGates", at) {
        let name = text(gate, "name");
        finder.all(&at, &name.into(), names::qualified(name));
        if seen.contains(&name) {
            finder.duplicate(at, &name.into());
        }
        seen.push(name);
    }
    if !seen.is_empty() && !text(spec, "nodeName").is_empty() {
        let message = "cannot be set until all schedulingGates have been cleared";
        finder.forbidden(child(at, "nodeName"), message);
    }
    for (at, gate) in maps(spec, "readinessGates", at) {
        let of = text(gate, "conditionType");
        finder.all(
            &child(&at, "conditionType"),
            &of.into(),
            names::qualified(of),
        );
    }
}

fn dns(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let at = child(at, "dnsConfig");
    let own = text(spec, "dnsPolicy") == "None";
    let Some(config) = map(spec, "dnsConfig") else {
        if own {
            let message = "must provide `dnsConfig` when `dnsPolicy` is None";
            finder.required(at, message);
        }
        return;
    };
    let (servers, at_servers) = (items(config, "nameservers"), child(&at, "nameservers"));
    if own && servers.is_empty() {
        let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return finder.required(at_servers, message);
    }
    if servers.len() > 3 {
        let message = "must not have more than 3 nameservers";
        finder.invalid(at_servers.as_str(), &servers.into(), message);
    }
    for (index, server) in servers.iter().enumerate() {
        let text = server.as_str().unwrap_or_default();
        if text.parse::<IpAddr>().is_err() {
            finder.invalid(format!("{at_servers}[{index}]"), server, ADDRESS);
        }
    }
    searches(finder, items(config, "searches"), &child(&at, "searches"));
    for (at, option) in maps(config, "options", &at) {
        if text(option, "name").is_empty() {
            finder.required(at, "must not be empty");
        }
    }
}

fn searches(finder: &mut Finder<'_>, found: &[Value], at: &str) {
    if found.len() > 32 {
        let message = "must not have more than 32 search paths";
        finder.invalid(at, &found.into(), message);
    }
    for (index, search) in found.iter().enumerate() {
        let text = search.as_str().unwrap_or_default();
        let text = text.strip_suffix('.').unwrap_or(text);
        if search == "." || is_search(text) {
            continue;
        }
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
        finder.invalid(format!("{at}[{index}]"), &text.into(), message);
    }
}

/// Returns true for a valid DNS search domain, whose labels may contain underscores before their end.
fn is_search(text: &str) -> bool {
    let part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        !part.starts_with('_') && !part.ends_with('_') && !part.is_empty()
    };
    text.split('.').all(part) && names::subdomain(&text.replace('_', "a")).is_none()
}
