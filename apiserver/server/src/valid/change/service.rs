//! Updates of Services: restores assigned values, drops fields that depend on the old type, and checks immutable fields.
//!
//! A client that does not know a field does not lose its value. Independent of which client makes the change.

use serde_json::Value;

use super::super::finder::{Finder, is_empty, items, map};
use super::super::service::is_headless;
use crate::object::{Body, map_mut, text};

/// Checks immutable fields.
pub(super) fn check(finder: &mut Finder<'_>, old: &Body, new: &Body) {
    let empty = Body::new();
    let (before, after) = (
        map(old, "spec").unwrap_or(&empty),
        map(new, "spec").unwrap_or(&empty),
    );
    let external = |spec: &Body| text(spec, "type") == "ExternalName";
    if external(before) || external(after) || (is_headless(before) && is_headless(after)) {
        return;
    }
    let shown = |field: &str| match items(after, field) {
        [] => Value::Null,
        found => Value::Array(found.to_vec()),
    };
    let (had, has) = (items(before, "clusterIPs"), items(after, "clusterIPs"));
    let message = "may not change once set";
    if has.is_empty() && !had.is_empty() {
        let message = "primary clusterIP can not be unset";
        finder.invalid("spec.clusterIPs[0]", &shown("clusterIPs"), message);
    }
    for (index, (one, two)) in had.iter().zip(has).enumerate() {
        if one != two {
            finder.invalid(
                format!("spec.clusterIPs[{index}]"),
                &shown("clusterIPs"),
                message,
            );
        }
    }
    if is_headless(before) == is_headless(after) {
        for (one, two) in items(before, "ipFamilies")
            .iter()
            .zip(items(after, "ipFamilies"))
        {
            if one != two {
                finder.invalid("spec.ipFamilies[0]", &shown("ipFamilies"), message);
            }
        }
    }
    let class = |spec: &Body| spec.get("loadBalancerClass").cloned();
    if is_balanced(before) && is_balanced(after) && class(before) != class(after) {
        let value = class(after).unwrap_or_default();
        finder.invalid("spec.loadBalancerClass", &value, message);
    } else if !is_balanced(after) && after.contains_key("loadBalancerClass") {
        let message = "may only be used when `type` is 'LoadBalancer'";
        finder.forbidden("spec.loadBalancerClass", message);
    }
}

/// Restores assigned values, and drops fields that depend on the old type.
pub(super) fn keep(old: &Body, new: &mut Body) {
    let empty = Body::new();
    let before = map(old, "spec").unwrap_or(&empty);
    let after = map_mut(new, "spec");
    let (had, has) = (
        text(before, "clusterIP"),
        text(after, "clusterIP").to_owned(),
    );
    let same = items(before, "clusterIPs") == items(after, "clusterIPs");
    if items(after, "clusterIPs").is_empty() && had == has {
        copy(before, after, "clusterIPs");
    } else if had != has && same {
        if has.is_empty() {
            after.remove("clusterIPs");
        } else {
            after.insert("clusterIPs".to_owned(), Value::Array(vec![has.into()]));
        }
    }
    let named = |spec: &Body| text(spec, "type") == "ExternalName";
    if !named(before) && !named(after) {
        if text(after, "clusterIP").is_empty() {
            copy(before, after, "clusterIP");
        }
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if is_empty(after.get(field)) {
                copy(before, after, field);
            }
        }
    }
    if named(after) && !named(before) && had == text(after, "clusterIP") {
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            after.remove(field);
        }
    }
    keep_node_ports(before, after);
    drop_balancing(before, after);
    if text(after, "type") != "LoadBalancer"
        && let Some(Value::Object(status)) = new.get_mut("status")
    {
        status.insert("loadBalancer".to_owned(), Value::Object(Body::new()));
    }
}

/// Drops fields of a removed load balancer, unless the update changes them.
fn drop_balancing(before: &Body, after: &mut Body) {
    let mut gone = Vec::new();
    if is_balanced(before) && !is_balanced(after) {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    let asked_for_health =
        |spec: &Body| is_balanced(spec) && text(spec, "externalTrafficPolicy") == "Local";
    if asked_for_health(before) && !asked_for_health(after) {
        gone.push("healthCheckNodePort");
    }
    for field in gone {
        if before.get(field) == after.get(field) {
            after.remove(field);
        }
    }
}

fn is_balanced(spec: &Body) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn keep_node_ports(before: &Body, after: &mut Body) {
    let open = |spec: &Body| matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    if open(before) && !open(after) {
        drop_node_ports(before, after);
    }
    if !open(before) || !open(after) {
        return;
    }
    let old = items(before, "ports").to_vec();
    let ports = after.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let known = old
            .iter()
            .find(|found| found.get("name") == port.get("name"));
        let number = known.and_then(|found| found.get("nodePort"));
        if let Some(number) = number.filter(|_| is_empty(port.get("nodePort"))) {
            port.insert("nodePort".to_owned(), number.clone());
        }
    }
}

/// Drops node ports if the type changes to one without them, unless the update changes them.
fn drop_node_ports(before: &Body, after: &mut Body) {
    let old = items(before, "ports").to_vec();
    let ports = after.get_mut("ports").and_then(Value::as_array_mut);
    for (port, old) in ports.into_iter().flatten().zip(old) {
        if let Some(port) = port
            .as_object_mut()
            .filter(|port| port.get("nodePort") == old.get("nodePort"))
        {
            port.remove("nodePort");
        }
    }
    if before.get("externalTrafficPolicy") == after.get("externalTrafficPolicy") {
        after.remove("externalTrafficPolicy");
    }
}

fn copy(from: &Body, to: &mut Body, field: &str) {
    if let Some(value) = from.get(field) {
        to.insert(field.to_owned(), value.clone());
    }
}
