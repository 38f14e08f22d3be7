//! Validates horizontal autoscalers: target, metrics and behaviour.
//!
//! If a metric has several sources, validates only the first one. Never looks at the old object of an update.

use serde_json::Value;

use super::finder::{Finder, child, items, map, maps, number};
use super::format;
use super::resource::{amount, check_container_name};
use super::rule::Named;
use crate::object::{Body, text};

pub(super) const NAMED: Named = &[
    ("autoscaler", autoscaler),
    ("scaling", scaling),
    ("metric", metric),
];

/// The sources of a metric, in the order in which the real server checks them.
const SOURCES: [&str; 5] = [
    "object",
    "external",
    "pods",
    "resource",
    "containerResource",
];

const TYPES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

fn autoscaler(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas"));
    if let (Some(least), Some(most)) = (least, most)
        && most < least
    {
        let message = "must be greater than or equal to `minReplicas`";
        finder.invalid(child(at, "maxReplicas"), &most.into(), message);
    }
    let outside = |metric: &&Value| metric["type"] == "Object" || metric["type"] == "External";
    if least == Some(0) && !items(spec, "metrics").iter().any(|metric| outside(&metric)) {
        let message = "must specify at least one Object or External metric to support scaling to zero replicas";
        finder.forbidden(child(at, "metrics"), message);
    }
    let version = map(spec, "scaleTargetRef").map_or("", |target| text(target, "apiVersion"));
    let at = child(at, "scaleTargetRef.apiVersion");
    if version.matches('/').count() > 1 {
        let message = format!("unexpected GroupVersion string: {version}");
        finder.invalid(at, &version.into(), &message);
    } else if !version.contains('/') {
        finder.invalid(at, &version.into(), "apiVersion must specify API group");
    }
}

fn scaling(finder: &mut Finder<'_>, rules: &Body, at: &str) {
    if let Some(seconds) = number(rules, "stabilizationWindowSeconds") {
        let message = match seconds {
            ..0 => "must be greater than or equal to zero",
            0..=3600 => "",
            _ => "must be less than or equal to 3600",
        };
        if !message.is_empty() {
            let at = child(at, "stabilizationWindowSeconds");
            finder.invalid(at, &seconds.into(), message);
        }
    }
    if items(rules, "policies").is_empty() {
        let message = "must specify at least one Policy";
        finder.required(child(at, "policies"), message);
    }
    for (at, policy) in maps(rules, "policies", at) {
        if let Some(seconds) = number(policy, "periodSeconds").filter(|seconds| *seconds > 1800) {
            let message = "must be less than or equal to 1800";
            finder.invalid(child(&at, "periodSeconds"), &seconds.into(), message);
        }
    }
    let tolerance = rules.get("tolerance");
    if let Some(value) = tolerance.filter(|value| amount(value).is_some_and(|value| value < 0)) {
        let message = "must be greater than or equal to 0";
        finder.invalid(child(at, "tolerance"), value, message);
    }
}

/// Checks that a metric has exactly the source that its type names.
fn metric(finder: &mut Finder<'_>, metric: &Body, at: &str) {
    let of = text(metric, "type");
    let expected = TYPES.contains(&of).then(|| {
        let (first, rest) = of.split_at(1);
        first.to_lowercase() + rest
    });
    let found: Vec<&str> = SOURCES
        .into_iter()
        .filter(|name| metric.contains_key(*name))
        .collect();
    if let Some(first) = found.first()
        && let Some(of) = map(metric, first)
    {
        source(finder, first, of, &child(at, first));
    }
    match &expected {
        Some(name) if !metric.contains_key(name) => {
            let message = "must populate information for the given metric source";
            finder.required(child(at, name), message);
        }
        Some(_) => {}
        None => finder.unsupported(child(at, "type"), &of.into(), &TYPES),
    }
    if found.len() != 1 {
        for other in found
            .into_iter()
            .filter(|name| expected.as_deref() != Some(*name))
        {
            let message = "must populate the given metric source only";
            finder.forbidden(child(at, other), message);
        }
    }
}

fn source(finder: &mut Finder<'_>, of: &str, source: &Body, at: &str) {
    let empty = Body::new();
    match of {
        "object" | "external" | "pods" => {
            let name = map(source, "metric").map_or("", |metric| text(metric, "name"));
            let at = child(at, "metric.name");
            if name.is_empty() {
                finder.required(at, "must specify a metric name");
            } else {
                format::check(finder, "segment", &at, &name.into());
            }
        }
        _ => {
            let name = text(source, "name");
            if name.is_empty() {
                finder.required(child(at, "name"), "must specify a resource name");
            } else if of == "containerResource" {
                check_container_name(finder, name, &child(at, "name"));
            }
        }
    }
    if of == "containerResource" {
        let (name, at) = (text(source, "container"), child(at, "container"));
        if name.is_empty() {
            finder.required(at, "must specify a container");
        } else {
            format::check(finder, "label", &at, &name.into());
        }
    }
    let target = map(source, "target").unwrap_or(&empty);
    let at = child(at, "target");
    a_target(finder, target, &at);
    wanted(finder, of, target, &at);
}

fn a_target(finder: &mut Finder<'_>, target: &Body, at: &str) {
    let of = text(target, "type");
    if of.is_empty() {
        finder.required(child(at, "type"), "must specify a metric target type");
    }
    if !["AverageValue", "Utilization", "Value"].contains(&of) {
        let message = "must be either Utilization, Value, or AverageValue";
        finder.invalid(child(at, "type"), &of.into(), message);
    }
    for field in ["value", "averageValue"] {
        let value = target.get(field);
        if let Some(value) = value.filter(|value| amount(value).is_some_and(|value| value <= 0)) {
            finder.invalid(child(at, field), value, "must be positive");
        }
    }
    if let Some(share) = number(target, "averageUtilization").filter(|share| *share < 1) {
        let at = child(at, "averageUtilization");
        finder.invalid(at, &share.into(), "must be greater than 0");
    }
}

/// Checks which target values a source may combine.
fn wanted(finder: &mut Finder<'_>, of: &str, target: &Body, at: &str) {
    let has = |field: &str| target.contains_key(field);
    let (value, average, share) = (has("value"), has("averageValue"), has("averageUtilization"));
    let (missing, message) = match of {
        "object" => (
            !value && !average,
            "must set either a target value or averageValue",
        ),
        "external" => (
            !value && !average,
            "must set either a target value for metric or a per-pod target",
        ),
        "pods" => (!average, "must specify a positive target averageValue"),
        _ => (
            !share && !average,
            "must set either a target raw value or a target utilization",
        ),
    };
    if missing {
        let field = match of {
            "object" | "external" | "pods" => "averageValue",
            _ => "averageUtilization",
        };
        finder.required(child(at, field), message);
    }
    match of {
        "external" if value && average => {
            let message = "may not set both a target value for metric and a per-pod target";
            finder.forbidden(child(at, "value"), message);
        }
        "resource" | "containerResource" if share && average => {
            let message = "may not set both a target raw value and a target utilization";
            finder.forbidden(child(at, "averageValue"), message);
        }
        _ => {}
    }
}
