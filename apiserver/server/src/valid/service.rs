//! Validates Services and Endpoints: fields that depend on each other.
//!
//! Server-assigned addresses are checked elsewhere. Never looks at the old object of an update.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::finder::{Finder, child, is_empty, items, map, maps, number};
use super::format;
use super::rule::Named;
use crate::object::{Body, metadata, text};
use crate::rules::names;

/// The annotation with the source ranges of a load balancer, which predates the field.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) const NAMED: Named = &[("service", service), ("subset", subset)];

fn service(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    let of = text(spec, "type");
    let headless = is_headless(spec);
    if items(spec, "ports").is_empty() && !headless && of != "ExternalName" {
        finder.required("spec.ports", "");
    }
    if headless && matches!(of, "LoadBalancer" | "NodePort") {
        let message = format!("may not be set to 'None' for {of} services");
        finder.invalid("spec.clusterIPs[0]", &"None".into(), &message);
    }
    if of == "ExternalName" {
        external_name(finder, spec);
    } else {
        addresses(finder, spec);
    }
    ports(finder, spec, of);
    external_addresses(finder, spec);
    source_ranges(finder, spec, of);
    traffic(finder, spec, of);
    let seconds = map(spec, "sessionAffinityConfig")
        .and_then(|config| map(config, "clientIP"))
        .and_then(|config| number(config, "timeoutSeconds"));
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0 || *seconds > 86_400) {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        finder.invalid(
            at,
            &seconds.into(),
            "must be greater than 0 and less than 86400",
        );
    }
}

/// Returns true if a Service is headless.
pub(super) fn is_headless(spec: &Body) -> bool {
    spec.get("clusterIPs") == Some(&json!(["None"]))
}

fn external_name(finder: &mut Finder<'_>, spec: &Body) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(spec.get(field)) {
            let message = "may not be set for ExternalName services";
            finder.forbidden(child("spec", field), message);
        }
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        finder.required("spec.externalName", "");
    } else {
        let messages = names::subdomain(name).into_iter().collect();
        finder.all("spec.externalName", &name.into(), messages);
    }
}

fn addresses(finder: &mut Finder<'_>, spec: &Body) {
    let all = items(spec, "clusterIPs");
    let shown = Value::Array(all.to_vec());
    match (text(spec, "clusterIP"), all) {
        ("", []) => {}
        ("", _) => finder.invalid(
            "spec.clusterIPs",
            &shown,
            "must be empty when `clusterIP` is not specified",
        ),
        (_, []) => finder.required("spec.clusterIPs", ""),
        (one, [first, ..]) if first != one => {
            finder.invalid(
                "spec.clusterIPs",
                &shown,
                "first value must match `clusterIP`",
            );
        }
        _ => {}
    }
    for (index, address) in all.iter().enumerate() {
        if address == "None" && index == 0 {
            continue;
        }
        let text = address.as_str().unwrap_or_default();
        if text.parse::<std::net::IpAddr>().is_err() {
            let message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            finder.invalid(format!("spec.clusterIPs[{index}]"), address, message);
        }
    }
    let mut seen = HashSet::new();
    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        if !seen.insert(family.as_str()) {
            finder.duplicate(format!("spec.ipFamilies[{index}]"), family);
        }
    }
}

fn ports(finder: &mut Finder<'_>, spec: &Body, of: &str) {
    let (mut names, mut numbers, mut nodes) = (HashSet::new(), HashSet::new(), HashSet::new());
    let ports = maps(spec, "ports", "spec");
    for (at, port) in &ports {
        let name = text(port, "name");
        if name.is_empty() && ports.len() > 1 {
            finder.required(child(at, "name"), "");
        } else if !name.is_empty() && !names.insert(name) {
            finder.duplicate(child(at, "name"), &name.into());
        }
        let protocol = text(port, "protocol");
        if !numbers.insert((protocol, number(port, "port"))) {
            // The real server prints all fields of a port here, most of them empty.
            let value = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                number(port, "port").unwrap_or_default()
            );
            let message = format!("Duplicate value: {value}");
            finder.causes.push(crate::status::Cause::new(
                "FieldValueDuplicate",
                at.as_str(),
                message,
            ));
        }
        let Some(node) = number(port, "nodePort").filter(|node| *node != 0) else {
            continue;
        };
        if of == "ClusterIP" {
            let message = "may not be used when `type` is 'ClusterIP'";
            finder.forbidden(child(at, "nodePort"), message);
        }
        if !nodes.insert((protocol, node)) {
            finder.duplicate(child(at, "nodePort"), &node.into());
        }
    }
}

fn external_addresses(finder: &mut Finder<'_>, spec: &Body) {
    for (index, address) in items(spec, "externalIPs").iter().enumerate() {
        let at = format!("spec.externalIPs[{index}]");
        let text = address.as_str().unwrap_or_default();
        match format::legacy_address(text) {
            Ok(found) => finder.all(&at, address, format::reachable(found, text)),
            Err(message) => finder.invalid(at, address, message),
        }
    }
}

/// Checks the source ranges of a load balancer, in the field or the older annotation.
fn source_ranges(finder: &mut Finder<'_>, spec: &Body, of: &str) {
    let ranges = items(spec, "loadBalancerSourceRanges");
    let annotations = metadata(finder.root).and_then(|meta| map(meta, "annotations"));
    let noted = annotations.and_then(|all| all.get(SOURCE_RANGES)?.as_str());
    if ranges.is_empty() && noted.is_none() {
        return;
    }
    if of != "LoadBalancer" {
        let only = "may only be used when `type` is 'LoadBalancer'";
        finder.forbidden("spec.LoadBalancerSourceRanges", only);
    }
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default().trim();
        if let Some(message) = format::legacy_block(text) {
            let at = format!("spec.LoadBalancerSourceRanges[{index}]");
            finder.invalid(at, &text.into(), message);
        }
    }
    let noted = noted.filter(|noted| ranges.is_empty() && !noted.trim().is_empty());
    for range in noted.into_iter().flat_map(|noted| noted.split(',')) {
        if let Some(message) = format::legacy_block(range.trim()) {
            let at = format!("metadata.annotations[{SOURCE_RANGES}]");
            finder.invalid(at, &range.trim().into(), message);
        }
    }
}

fn traffic(finder: &mut Finder<'_>, spec: &Body, of: &str) {
    let outside = matches!(of, "NodePort" | "LoadBalancer")
        || (of == "ClusterIP" && !items(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    if !outside && !policy.is_empty() {
        let message = "may only be set for externally-accessible services";
        finder.invalid("spec.externalTrafficPolicy", &policy.into(), message);
    } else if outside && !matches!(policy, "Cluster" | "Local") {
        finder.unsupported(
            "spec.externalTrafficPolicy",
            &policy.into(),
            &["Cluster", "Local"],
        );
    }
    if of == "LoadBalancer" {
        return;
    }
    let only = "may only be used when `type` is 'LoadBalancer'";
    for (field, at) in [
        (
            "allocateLoadBalancerNodePorts",
            "spec.allocateLoadBalancerNodePorts",
        ),
        ("loadBalancerClass", "spec.loadBalancerClass"),
    ] {
        if spec
            .get(field)
            .is_some_and(|value| !value.as_array().is_some_and(Vec::is_empty))
        {
            finder.forbidden(at, only);
        }
    }
    if let Some(port) = spec
        .get("healthCheckNodePort")
        .filter(|port| port.as_i64() != Some(0))
    {
        let message =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        finder.invalid("spec.healthCheckNodePort", port, message);
    }
}

fn subset(finder: &mut Finder<'_>, subset: &Body, at: &str) {
    if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
        finder.required(at, "must specify `addresses` or `notReadyAddresses`");
    }
    let ports = maps(subset, "ports", at);
    for (at, port) in &ports {
        if ports.len() > 1 && text(port, "name").is_empty() {
            finder.required(child(at, "name"), "");
        }
    }
}
