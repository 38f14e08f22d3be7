//! Validates network policies and Ingresses.
//!
//! Paths in errors match the real server, including unusual ones. Never looks at the old object of an update.

use serde_json::Value;

use super::finder::{Finder, child, is_empty, items, map, number};
use super::format::block;
use super::rule::Named;
use crate::object::{Body, metadata, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[
    ("policy_port", policy_port),
    ("peer", peer),
    ("block", strict_subsets),
    ("ingress", ingress),
    ("ingress_path", ingress_path),
    ("backend", backend),
    ("ingress_class", ingress_class),
    ("policy_types", policy_types),
    ("class_parameters", class_parameters),
];

fn policy_port(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let (at_port, at_end) = (child(at, "port"), child(at, "endPort"));
    let end = body.get("endPort");
    match (body.get("port"), end) {
        (None, Some(end)) => {
            finder.invalid(
                at_end,
                end,
                "may not be specified when `port` is not specified",
            );
        }
        (Some(Value::String(_)), Some(end)) => {
            finder.invalid(
                at_end,
                end,
                "may not be specified when `port` is non-numeric",
            );
        }
        (Some(port), Some(end)) if end.as_i64() < port.as_i64() => {
            finder.invalid(at_end, port, "must be greater than or equal to `port`");
        }
        _ => {}
    }
    if let Some(port) = body.get("port") {
        super::format::check(finder, "portref", &at_port, port);
    }
}

fn peer(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let others = body.contains_key("podSelector") || body.contains_key("namespaceSelector");
    match (body.contains_key("ipBlock"), others) {
        (false, false) => finder.required(at, "must specify a peer"),
        (true, true) => finder.forbidden(at, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn strict_subsets(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let Some(whole) = block(text(body, "cidr")) else {
        return;
    };
    for (index, except) in items(body, "except").iter().enumerate() {
        let Some(part) = block(except.as_str().unwrap_or_default()) else {
            continue;
        };
        if !contains(whole, part) {
            let at = format!("{at}.except[{index}]");
            finder.invalid(at, except, "must be a strict subset of `cidr`");
        }
    }
}

fn contains(whole: (std::net::IpAddr, u8), part: (std::net::IpAddr, u8)) -> bool {
    use std::net::IpAddr;
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mask = u128::MAX
        .checked_shl(128 - u32::from(whole.1))
        .unwrap_or_default();
    whole.0.is_ipv4() == part.0.is_ipv4()
        && whole.1 < part.1
        && bits(whole.0) & mask == bits(part.0) & mask
}

/// Checks that the deprecated class annotation does not contradict the class field.
fn ingress_class(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let key = "kubernetes.io/ingress.class";
    let old = metadata(body)
        .and_then(|meta| map(meta, "annotations"))
        .and_then(|found| found.get(key));
    let class = map(body, "spec").and_then(|spec| spec.get("ingressClassName"));
    if let (Some(old), Some(class)) = (old, class)
        && old != class
    {
        let message = "must match `ingressClassName` when both are specified";
        finder.invalid(format!("annotations.{key}"), old, message);
    }
}

fn ingress(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    if is_empty(spec.get("rules")) && !spec.contains_key("defaultBackend") {
        let message = "either `defaultBackend` or `rules` must be specified";
        finder.invalid(at, &Value::Null, message);
    }
}

fn ingress_path(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let (of, path) = (text(body, "pathType"), text(body, "path"));
    let at = child(at, "path");
    let strict = matches!(of, "Exact" | "Prefix");
    let loose = of == "ImplementationSpecific" && !path.is_empty();
    if (strict || loose) && !path.starts_with('/') {
        finder.invalid(at.as_str(), &path.into(), "must be an absolute path");
    }
    if !strict || path.is_empty() {
        return;
    }
    for part in ["//", "/./", "/../", "%2f", "%2F"] {
        if path.contains(part) {
            finder.invalid(
                at.as_str(),
                &path.into(),
                &format!("must not contain '{part}'"),
            );
        }
    }
    for end in ["/..", "/."] {
        if path.ends_with(end) {
            finder.invalid(
                at.as_str(),
                &path.into(),
                &format!("cannot end with '{end}'"),
            );
        }
    }
}

fn backend(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let (service, resource) = (map(body, "service"), map(body, "resource"));
    match (service, resource) {
        (Some(_), Some(_)) => {
            finder.invalid(
                at,
                &"".into(),
                "cannot set both resource and service backends",
            );
        }
        (None, None) => {
            finder.invalid(at, &"".into(), "resource or service backend is required");
        }
        (Some(service), None) => backend_service(finder, service, at),
        (None, Some(resource)) => {
            for field in ["kind", "name"] {
                let (at, value) = (format!("{at}.resource.{field}"), text(resource, field));
                if value.is_empty() {
                    finder.required(at, "");
                } else {
                    super::format::check(finder, "segment", &at, &value.into());
                }
            }
            if let Some(group) = resource.get("apiGroup").filter(|group| group.is_string()) {
                let at = format!("{at}.resource.apiGroup");
                super::format::check(finder, "fullname", &at, group);
            }
        }
    }
}

fn backend_service(finder: &mut Finder<'_>, service: &Body, at: &str) {
    let name = text(service, "name");
    let at_name = child(at, "service.name");
    if name.is_empty() {
        finder.required(at_name, "");
    } else {
        let messages = names::service(name).into_iter().collect();
        finder.all(&at_name, &name.into(), messages);
    }
    let empty = Body::new();
    let port = map(service, "port").unwrap_or(&empty);
    let (named, numbered) = (
        text(port, "name"),
        number(port, "number").unwrap_or_default(),
    );
    match (named.is_empty(), numbered == 0) {
        (false, false) => finder.invalid(at, &"".into(), "cannot set both port name & port number"),
        (false, true) => {
            super::format::check(
                finder,
                "portname",
                &child(at, "service.port.name"),
                &named.into(),
            );
        }
        (true, false) => {
            super::format::check(
                finder,
                "port",
                &child(at, "service.port.number"),
                &numbered.into(),
            );
        }
        (true, true) => finder.required(at, "port name or number is required"),
    }
}

fn policy_types(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        let message = "may not specify more than two policyTypes";
        finder.invalid(child(at, "policyTypes"), &types.into(), message);
    }
}

fn class_parameters(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let at_namespace = child(at, "namespace");
    let namespace = body.get("namespace").and_then(Value::as_str);
    match (text(body, "scope"), namespace) {
        ("Namespace", None) => {
            finder.required(at_namespace, "`parameters.scope` is set to 'Namespace'");
        }
        ("Namespace", Some(name)) => {
            let messages = names::label(name).into_iter().collect();
            finder.all(&at_namespace, &name.into(), messages);
        }
        ("Cluster", Some(_)) => {
            finder.forbidden(at_namespace, "`parameters.scope` is set to 'Cluster'");
        }
        _ => {}
    }
}
