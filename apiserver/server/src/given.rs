//! Assigns values that depend on the state of the cluster to incoming objects: addresses and ports of Services, priorities of Pods.
//!
//! Each address and port belongs to only one Service. Independent of requests.

mod certificate;
mod pod;

use std::net::Ipv4Addr;

pub(crate) use pod::permit;
use serde_json::{Value, json};

use crate::admission::chance::Chance;
use crate::admission::writing;
use crate::kind::Kind;
use crate::object::{Body, at_path, map_mut, meta_text, text};
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::verb::Part;

/// The first Service address, and the number of addresses.
const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const ADDRESSES: u32 = 1 << 16;
/// The range of node ports.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Completes a new or changed object before validation.
pub(crate) fn complete(
    store: &Store,
    kind: &Kind,
    old: Option<&Body>,
    body: &mut Body,
    dry_run: bool,
) -> Result<(), Refusal> {
    if kind.is_core("services") {
        let causes = service(store, old, body, dry_run);
        if causes.is_empty() {
            return Ok(());
        }
        return Err(Refusal::invalid(
            kind.subject_by_kind(meta_text(body, "name")),
            &causes,
        ));
    }
    if kind.is_core("pods") && old.is_none() {
        return pod::complete(store, kind, body);
    }
    Ok(())
}

/// Completes the conditions of a certificate signing request.
pub(crate) fn stamp(store: &Store, kind: &Kind, part: Part, old: &Body, body: &mut Body) {
    if kind.plural == "certificatesigningrequests" && kind.traits.builtin {
        match part {
            Part::Approval => certificate::complete(old, body, false, &store.clock.stamp()),
            Part::Status => certificate::complete(old, body, true, &store.clock.stamp()),
            _ => {}
        }
    }
}

fn service(store: &Store, old: Option<&Body>, body: &mut Body, dry_run: bool) -> Vec<Cause> {
    let before = old.and_then(|old| old.get("spec")?.as_object());
    let spec = map_mut(body, "spec");
    if old.is_none() && !text(spec, "clusterIP").is_empty() && !spec.contains_key("clusterIPs") {
        let only = spec.get("clusterIP").cloned();
        spec.insert("clusterIPs".to_owned(), json!([only]));
    }
    if text(spec, "type") == "ExternalName" {
        return Vec::new();
    }
    let mut causes = families(spec);
    let mut chance = writing::chance(store);
    if causes.is_empty() {
        causes.extend(address(store, &mut chance, before, spec));
    }
    let refused = ports(store, &mut chance, before, spec);
    // A dry run allocates no port, and so does not detect a conflict.
    if !dry_run {
        causes.extend(refused);
    }
    causes
}

/// Checks and fills in the IP families: this cluster supports IPv4 only, as small clusters usually do.
fn families(spec: &mut Body) -> Vec<Cause> {
    let headless = text(spec, "clusterIP") == "None";
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|map| !map.is_empty());
    let policy = text(spec, "ipFamilyPolicy").to_owned();
    if headless && !selects {
        if policy.is_empty() {
            spec.insert("ipFamilyPolicy".to_owned(), "RequireDualStack".into());
        }
        let families = if policy == "SingleStack" {
            json!(["IPv4"])
        } else {
            json!(["IPv4", "IPv6"])
        };
        spec.entry("ipFamilies").or_insert(families);
        return Vec::new();
    }
    let mut causes = Vec::new();
    if policy == "RequireDualStack" {
        let message = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid(
            "spec.ipFamilyPolicy",
            &policy.as_str().into(),
            message,
        ));
    }
    let families = spec.get("ipFamilies").and_then(Value::as_array);
    for (index, family) in families.into_iter().flatten().enumerate() {
        if family == "IPv6" {
            let at = format!("spec.ipFamilies[{index}]");
            causes.push(Cause::invalid(at, family, "not configured on this cluster"));
        }
    }
    if causes.is_empty() {
        if policy.is_empty() {
            spec.insert("ipFamilyPolicy".to_owned(), "SingleStack".into());
        }
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    }
    causes
}

fn address(
    store: &Store,
    chance: &mut Chance,
    before: Option<&Body>,
    spec: &mut Body,
) -> Option<Cause> {
    let wanted = text(spec, "clusterIP").to_owned();
    let listed = spec.get("clusterIPs").and_then(Value::as_array);
    if wanted.is_empty() && listed.is_some_and(|listed| !listed.is_empty()) {
        // Invalid; the validation reports it later.
        return None;
    }
    if wanted == "None"
        || before.is_some_and(|spec| !wanted.is_empty() && text(spec, "clusterIP") == wanted)
    {
        return None;
    }
    if !wanted.is_empty() {
        let address = wanted.parse::<Ipv4Addr>().ok()?;
        let cause = |why: &str| {
            let message = format!("failed to allocate IP {wanted}: {why}");
            Some(Cause::invalid(
                "spec.clusterIPs",
                &json!([wanted]),
                &message,
            ))
        };
        if u32::from(address).wrapping_sub(FIRST) >= ADDRESSES {
            return cause(&format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is 10.0.0.0/16"
            ));
        }
        if store.is_taken(&wanted) {
            return cause("provided IP is already allocated");
        }
        return None;
    }
    let given = loop {
        // The first address is reserved for the server itself.
        let address = Ipv4Addr::from(FIRST + 2 + chance.next() % (ADDRESSES - 3)).to_string();
        if !store.is_taken(&address) {
            break address;
        }
    };
    spec.insert("clusterIPs".to_owned(), json!([given]));
    spec.insert("clusterIP".to_owned(), given.into());
    None
}

fn ports(store: &Store, chance: &mut Chance, before: Option<&Body>, spec: &mut Body) -> Vec<Cause> {
    let open = match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => {
            let given = spec.get("allocateLoadBalancerNodePorts");
            given != Some(&Value::Bool(false))
        }
        _ => false,
    };
    let had: Vec<i64> = before
        .and_then(|spec| spec.get("ports")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(|port| port["nodePort"].as_i64())
        .collect();
    let mut causes = Vec::new();
    let health = needs_health_port(spec).then(|| free_port(store, chance));
    let found = spec.get_mut("ports").and_then(Value::as_array_mut);
    for (index, port) in found.into_iter().flatten().enumerate().filter(|_| open) {
        let Some(port) = port.as_object_mut() else {
            continue;
        };
        let wanted = port
            .get("nodePort")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let why = if wanted == 0 {
            port.insert("nodePort".to_owned(), free_port(store, chance).into());
            continue;
        } else if had.contains(&wanted) {
            continue;
        } else if !PORTS.contains(&wanted) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if store.is_taken(&wanted.to_string()) {
            "provided port is already allocated"
        } else {
            continue;
        };
        causes.push(Cause::invalid(
            format!("spec.ports[{index}].nodePort"),
            &wanted.into(),
            why,
        ));
    }
    if let Some(port) = health {
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
    causes
}

fn needs_health_port(spec: &Body) -> bool {
    let given = spec.get("healthCheckNodePort").and_then(Value::as_i64);
    text(spec, "type") == "LoadBalancer"
        && text(spec, "externalTrafficPolicy") == "Local"
        && given.unwrap_or_default() == 0
}

fn free_port(store: &Store, chance: &mut Chance) -> i64 {
    let count = PORTS.end() - PORTS.start() + 1;
    // After many attempts, a port that is in use is better than none.
    (0..1000)
        .map(|_| PORTS.start() + i64::from(chance.next()) % count)
        .find(|port| !store.is_taken(&port.to_string()))
        .unwrap_or(*PORTS.start())
}

/// Returns the addresses and ports of a Service.
pub(crate) fn taken(service: &Body) -> Vec<String> {
    let list = |path: &str| at_path(service, path).and_then(Value::as_array);
    let addresses = list(".spec.clusterIPs").into_iter().flatten();
    let addresses = addresses
        .filter_map(Value::as_str)
        .filter(|text| *text != "None");
    let ports = list(".spec.ports").into_iter().flatten();
    let ports = ports.filter_map(|port| port["nodePort"].as_i64());
    let mut taken: Vec<String> = addresses.map(str::to_owned).collect();
    taken.extend(ports.map(|port| port.to_string()));
    taken
}
