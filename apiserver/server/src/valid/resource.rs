//! Validates names and quantities of resources, in containers, quotas, limits and claims.
//!
//! Quantities are compared as numbers. Independent of the users of resources.

use serde_json::Value;

use super::finder::{Finder, child, is_empty, items, map};
use super::rule::Named;
use crate::object::{Body, text};
use crate::rules::names;
use crate::typed::nanos;

pub(super) const NAMED: Named = &[
    ("quota", quota),
    ("limit", limit),
    ("claim", claim),
    ("volume_spec", volume_spec),
];

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const SUMMED: [&str; 9] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
    "cpu",
];
/// The fields of a volume spec other than the sources.
pub(super) const BESIDE_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeMode",
    "volumeAttributesClassName",
];
const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

fn is_standard(name: &str) -> bool {
    OF_CONTAINERS.contains(&name)
        || COUNTED.contains(&name)
        || SUMMED.contains(&name)
        || is_huge(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Parses a quantity.
pub(super) fn amount(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => nanos(text),
        Value::Number(number) => nanos(&number.to_string()),
        _ => None,
    }
}

/// Adds errors for an invalid resource name; returns true if there were any.
pub(super) fn check_name(finder: &mut Finder<'_>, name: &str, at: &str) -> bool {
    let messages = names::qualified(name);
    let mut wrong = !messages.is_empty();
    finder.all(at, &name.into(), messages);
    if !wrong && !name.contains('/') && !is_standard(name) {
        wrong = true;
        let message = "must be a standard resource type or fully qualified";
        finder.invalid(at, &name.into(), message);
    }
    wrong
}

pub(super) fn check_container_name(finder: &mut Finder<'_>, name: &str, at: &str) {
    check_name(finder, name, at);
    let fits = OF_CONTAINERS.contains(&name) || is_huge(name);
    if !name.contains('/') && !fits {
        finder.invalid(
            at,
            &name.into(),
            "must be a standard resource for containers",
        );
    } else if !is_native(name) && name.starts_with("requests.") {
        finder.invalid(
            at,
            &name.into(),
            "doesn't follow extended resource name standard",
        );
    }
}

pub(super) fn check_amount(finder: &mut Finder<'_>, name: &str, value: &Value, at: &str) {
    let Some(amount) = amount(value) else {
        return;
    };
    if amount < 0 {
        finder.invalid(at, value, "must be greater than or equal to 0");
    }
    let whole = COUNTED.contains(&name) || !is_native(name);
    if whole && amount % 1_000_000_000 != 0 {
        finder.invalid(at, value, "must be an integer");
    }
}

/// Checks requests and limits of a container.
pub(super) fn requirements(finder: &mut Finder<'_>, body: &Body, at: &str) {
    requirements_of(finder, body, at, check_container_name);
}

/// Checks requests and limits with another check of resource names.
pub(super) fn requirements_of(
    finder: &mut Finder<'_>,
    body: &Body,
    at: &str,
    check_name: fn(&mut Finder<'_>, &str, &str),
) {
    let empty = Body::new();
    let (limits, requests) = (
        map(body, "limits").unwrap_or(&empty),
        map(body, "requests").unwrap_or(&empty),
    );
    for (list, found) in [("limits", limits), ("requests", requests)] {
        for (name, value) in found {
            let at = format!("{at}.{list}[{name}]");
            check_name(finder, name, &at);
            check_amount(finder, name, value, &at);
            let page = name.strip_prefix("hugepages-").and_then(nanos);
            let rest = page.and_then(|page| amount(value)?.checked_rem(page));
            if rest.is_some_and(|rest| rest != 0) {
                let shown = value.as_str().unwrap_or_default();
                let message = format!("{shown} is not positive integer multiple of {name}");
                finder.invalid(at, value, &message);
            }
        }
    }
    for (name, request) in requests {
        let rigid = !is_native(name) || is_huge(name);
        let at_requests = child(at, "requests");
        match limits.get(name) {
            Some(limit) => {
                let limited = limit.as_str().unwrap_or_default();
                if rigid && amount(request) != amount(limit) {
                    let message = format!("must be equal to {name} limit of {limited}");
                    finder.invalid(at_requests, request, &message);
                } else if amount(request) > amount(limit) {
                    let message =
                        format!("must be less than or equal to {name} limit of {limited}");
                    finder.invalid(at_requests, request, &message);
                }
            }
            None if rigid => {
                let message = "Limit must be set for non overcommitable resources";
                finder.required(child(at, "limits"), message);
            }
            None => {}
        }
    }
    let names = || limits.keys().chain(requests.keys());
    let usual = names().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if names().any(|name| is_huge(name)) && !usual {
        finder.forbidden(at, "HugePages require cpu or memory");
    }
}

fn quota(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    hard(finder, spec, "hard", at);
    super::quota::scopes(finder, spec, at);
}

/// Checks the status of a quota.
pub(super) fn quota_status(finder: &mut Finder<'_>, status: &Body) {
    for list in ["hard", "used"] {
        hard(finder, status, list, "status");
    }
}

fn hard(finder: &mut Finder<'_>, spec: &Body, list: &str, at: &str) {
    for (name, value) in map(spec, list).into_iter().flatten() {
        let at = format!("{at}.{list}[{name}]");
        check_name(finder, name, &at);
        if !name.contains('/') && (!is_standard(name) || name == "storage") {
            finder.invalid(
                at.as_str(),
                &name.as_str().into(),
                "must be a standard resource for quota",
            );
        }
        check_amount(finder, name, value, &at);
    }
}

fn limit(finder: &mut Finder<'_>, item: &Body, at: &str) {
    let of = text(item, "type");
    let at_type = child(at, "type");
    let messages = names::qualified(of);
    let fine = messages.is_empty();
    finder.all(&at_type, &of.into(), messages);
    if fine && !of.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&of) {
        finder.invalid(
            at_type,
            &of.into(),
            "must be a standard limit type or fully qualified",
        );
    }
    for list in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        if of == "Pod" && list.starts_with("default") {
            continue;
        }
        for (name, _) in map(item, list).into_iter().flatten() {
            let at = format!("{at}.{list}[{name}]");
            if matches!(of, "Pod" | "Container") {
                check_container_name(finder, name, &at);
            } else {
                check_name(finder, name, &at);
            }
        }
    }
    super::quota::ratios(finder, item, at);
    let has = |list: &str| map(item, list).is_some_and(|found| found.contains_key("storage"));
    if of == "PersistentVolumeClaim" && !has("min") && !has("max") {
        let message =
            "either minimum or maximum storage value is required, but neither was provided";
        finder.required(child(at, "limits"), message);
    }
    for list in ["default", "defaultRequest"] {
        if of == "Pod" && !is_empty(item.get(list)) {
            finder.forbidden(child(at, list), "may not be specified when `type` is 'Pod'");
        }
    }
    for order in ORDERS {
        check_order(finder, item, at, order);
    }
}

/// An order between two lists: the lower and the higher list, the list that the error names, the list whose value it shows, and their names.
type Order = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const ORDERS: [Order; 6] = [
    ("min", "max", "min", "min", "min", "max"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min",
        "default request",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request",
        "max",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request",
        "default limit",
    ),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
];

fn check_order(finder: &mut Finder<'_>, item: &Body, at: &str, order: Order) {
    let (low, high, blamed, shown, low_name, high_name) = order;
    let of = |list: &str, name: &str| map(item, list).and_then(|found| found.get(name)).cloned();
    for name in map(item, low).into_iter().flatten().map(|(name, _)| name) {
        let (Some(less), Some(more)) = (of(low, name), of(high, name)) else {
            continue;
        };
        if amount(&less) > amount(&more) {
            let told = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let message = format!(
                "{low_name} value {} is greater than {high_name} value {}",
                told(&less),
                told(&more)
            );
            let value = of(shown, name).unwrap_or_default();
            finder.invalid(format!("{at}.{blamed}[{name}]"), &value, &message);
        }
    }
}

fn check_modes(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let at = child(at, "accessModes");
    let modes = items(spec, "accessModes");
    for mode in modes {
        if !MODES.iter().any(|known| mode == known) {
            finder.unsupported(at.as_str(), mode, &MODES);
        }
    }
    let single = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let shared = modes
        .iter()
        .any(|mode| MODES[..3].iter().any(|known| mode == known));
    if single && shared {
        finder.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn claim(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    check_modes(finder, spec, at);
    let at_storage = format!("{at}.resources[storage]");
    let requests = map(spec, "resources").and_then(|found| map(found, "requests"));
    match requests.and_then(|found| found.get("storage")) {
        None => finder.required(at_storage, ""),
        Some(storage) if amount(storage).is_some_and(|amount| amount <= 0) => {
            finder.invalid(at_storage, storage, "must be greater than zero");
        }
        Some(_) => {}
    }
    for source in ["dataSource", "dataSourceRef"] {
        let Some(found) = map(spec, source) else {
            continue;
        };
        for field in ["name", "kind"] {
            if text(found, field).is_empty() {
                finder.required(format!("{at}.{source}.{field}"), "");
            }
        }
        if text(found, "apiGroup").is_empty()
            && !text(found, "kind").is_empty()
            && text(found, "kind") != "PersistentVolumeClaim"
        {
            let message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            finder.invalid(format!("{at}.{source}"), &found["kind"], message);
        }
    }
}

fn volume_spec(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    check_modes(finder, spec, at);
    if !at.ends_with("inlineVolumeSpec") {
        volume_capacity(finder, spec, at);
    }
    super::source::of_volume(finder, spec, at);
}

fn volume_capacity(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let empty = Body::new();
    let capacity = map(spec, "capacity").unwrap_or(&empty);
    let at_capacity = child(at, "capacity");
    if capacity.is_empty() {
        finder.required(at_capacity.as_str(), "");
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let value = if capacity.is_empty() {
            Value::Null
        } else {
            Value::Object(capacity.clone())
        };
        finder.unsupported(at_capacity.as_str(), &value, &["storage"]);
    }
    for (name, value) in capacity {
        if amount(value).is_some_and(|amount| amount <= 0) {
            finder.invalid(
                format!("{at_capacity}[{name}]"),
                value,
                "must be greater than zero",
            );
        }
    }
}
