//! Validates nodes and runtime classes: taints, networks and overhead.
//!
//! Paths in errors match the real server, including unusual ones. Never looks at the old object of an update.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::finder::{Finder, child, items, map, maps};
use super::rule::Named;
use super::{format, resource};
use crate::object::{Body, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[("node", node), ("runtime_class", runtime_class)];

fn node(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    taints(finder, spec);
    let status = map(body, "status").unwrap_or(&empty);
    for list in ["capacity", "allocatable"] {
        for (name, value) in map(status, list).into_iter().flatten() {
            resource::check_amount(finder, name, value, &format!("status.{list}.{name}"));
        }
    }
    let networks = items(spec, "podCIDRs");
    for (index, network) in networks.iter().enumerate() {
        format::check(finder, "cidr", &format!("spec.podCIDRs[{index}]"), network);
    }
    if networks.len() > 1 && !format::are_of_both_families(networks) {
        let message = "may specify no more than one CIDR for each IP family";
        finder.invalid("spec.podCIDRs", &networks.into(), message);
    }
}

/// Checks taints; each pair of key and effect may occur once.
pub(super) fn taints(finder: &mut Finder<'_>, spec: &Body) {
    let mut seen = HashSet::new();
    for (at, taint) in maps(spec, "taints", "metadata") {
        let (key, value, effect) = (
            text(taint, "key"),
            text(taint, "value"),
            text(taint, "effect"),
        );
        finder.all(&child(&at, "key"), &key.into(), names::qualified(key));
        let messages = names::label_value(value);
        if !messages.is_empty() {
            finder.invalid(child(&at, "value"), &value.into(), &messages.join(";"));
        }
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            finder.required(child(&at, "effect"), "");
        } else if !known.contains(&effect) {
            finder.unsupported(child(&at, "effect"), &effect.into(), &known);
        }
        if !seen.insert((key, effect)) {
            let since = taint.get("timeAdded").cloned().unwrap_or_default();
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{since}}}: taints must be unique by key and effect pair",
                json!(key),
                json!(value),
                json!(effect)
            );
            finder.duplicate_as(at, &shown);
        }
    }
}

fn runtime_class(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let overhead = map(body, "overhead").and_then(|overhead| map(overhead, "podFixed"));
    if let Some(fixed) = overhead {
        let limits = json!({"limits": fixed});
        let limits = limits.as_object().cloned().unwrap_or_default();
        resource::requirements(finder, &limits, "overhead");
    }
    let Some(scheduling) = map(body, "scheduling") else {
        return;
    };
    let tolerations = items(scheduling, "tolerations");
    for (index, toleration) in tolerations.iter().enumerate() {
        let same = |other: &Value| {
            ["key", "operator", "value", "effect"]
                .iter()
                .all(|field| other.get(field) == toleration.get(field))
        };
        if tolerations[..index].iter().any(same) {
            let seconds = toleration.get("tolerationSeconds").unwrap_or(&Value::Null);
            let word = |field: &str| toleration.get(field).cloned().unwrap_or_else(|| "".into());
            let shown = format!(
                "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{seconds}}}",
                word("key"),
                word("operator"),
                word("value"),
                word("effect")
            );
            finder.duplicate_as(format!("scheduling.tolerations[{index}]"), &shown);
        }
    }
}
