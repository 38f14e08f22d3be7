//! Validates endpoint slices, Service addresses and the networks they come from.
//!
//! Addresses are checked as strictly as in the real server. Never looks at the old object of an update.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::finder::{Finder, child, is_empty, items, map, maps};
use super::format;
use super::rule::Named;
use crate::object::{Body, meta_text, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[
    ("slice", slice),
    ("hints", hints),
    ("ip_address", ip_address),
    ("parent", parent),
    ("service_networks", service_networks),
];

fn slice(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let of = text(body, "addressType");
    for (at, endpoint) in maps(body, "endpoints", "") {
        let at = child(&at, "addresses");
        for (index, address) in items(endpoint, "addresses").iter().enumerate() {
            let text = address.as_str().unwrap_or_default();
            let at_item = format!("{at}[{index}]");
            match of {
                "IPv4" | "IPv6" => ip(finder, of, text, &at, &at_item),
                "FQDN" => domain(finder, text, &at_item),
                _ => {}
            }
        }
    }
    let mut seen = HashSet::new();
    for (at, port) in maps(body, "ports", "") {
        let name = text(port, "name");
        if !seen.insert(name) {
            finder.duplicate(child(&at, "name"), &name.into());
        }
    }
}

/// Checks an IP address; the error of a wrong family names the list instead of the item.
fn ip(finder: &mut Finder<'_>, of: &str, address: &str, at: &str, at_item: &str) {
    let value = Value::from(address);
    let Ok(ip) = address.parse::<IpAddr>() else {
        return finder.invalid(at_item, &value, format::ADDRESS);
    };
    if of == "IPv6" && ip.to_string() != address {
        let message = format!("must be in canonical form ({:?})", ip.to_string());
        return finder.invalid(at_item, &value, &message);
    }
    if ip.is_ipv4() != (of == "IPv4") {
        finder.invalid(at, &value, &format!("must be an {of} address"));
    }
    finder.all(at_item, &value, format::reachable(ip, address));
}

fn domain(finder: &mut Finder<'_>, name: &str, at: &str) {
    if name.is_empty() {
        return finder.required(at, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if let Some(message) = names::subdomain(name) {
        return finder.invalid(at, &name.into(), &message);
    }
    if !name.contains('.') {
        let message = "should be a domain with at least two segments separated by dots";
        return finder.invalid(at, &name.into(), message);
    }
    for part in name.split('.') {
        if let Some(message) = names::label(part) {
            return finder.invalid(at, &part.into(), &message);
        }
    }
}

fn hints(finder: &mut Finder<'_>, hints: &Body, at: &str) {
    for list in ["forZones", "forNodes"] {
        let mut seen = HashSet::new();
        for (at, hint) in maps(hints, list, at) {
            let (at, name) = (child(&at, "name"), text(hint, "name"));
            if !seen.insert(name) {
                finder.duplicate(at.as_str(), &name.into());
            }
            let messages = match list {
                "forZones" => names::label_value(name),
                _ => names::subdomain(name).into_iter().collect(),
            };
            finder.all(&at, &name.into(), messages);
        }
    }
}

fn ip_address(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let name = meta_text(body, "name");
    match name.parse::<IpAddr>() {
        Ok(ip) if ip.to_string() == name => {}
        Ok(ip) => {
            let message = format!("must be in canonical form ({:?})", ip.to_string());
            finder.invalid("metadata.name", &name.into(), &message);
        }
        Err(_) => finder.invalid("metadata.name", &name.into(), format::ADDRESS),
    }
    if !map(body, "spec").is_some_and(|spec| spec.contains_key("parentRef")) {
        finder.required("spec.parentRef", "");
    }
}

fn parent(finder: &mut Finder<'_>, parent: &Body, at: &str) {
    for field in ["resource", "name", "namespace"] {
        let (at, value) = (child(at, field), text(parent, field));
        match (value, field) {
            ("", "namespace") => {}
            ("", _) => finder.required(at, ""),
            (value, _) => {
                let messages = names::path_segment(value).into_iter().collect();
                finder.all(&at, &value.into(), messages);
            }
        }
    }
}

fn service_networks(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let at = "spec.cidrs";
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    let networks = items(spec, "cidrs");
    if is_empty(spec.get("cidrs")) {
        return finder.required(at, "at least one CIDR required");
    }
    if networks.len() > 2 {
        let value = json!({"CIDRs": networks});
        return finder.invalid(at, &value, "may only hold up to 2 values");
    }
    for (index, network) in networks.iter().enumerate() {
        format::check(finder, "cidr", &format!("{at}[{index}]"), network);
    }
    let known = networks
        .iter()
        .all(|found| format::block(found.as_str().unwrap_or_default()).is_some());
    if networks.len() == 2 && known && !format::are_of_both_families(networks) {
        let message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        finder.invalid(at, &networks.into(), message);
    }
}
