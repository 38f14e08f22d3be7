//! Validates quotas, and the ratio between limits and requests.
//!
//! Ratios are printed as in the real server. Independent of other resource names.

use std::collections::HashSet;

use serde_json::Value;

use super::finder::{Finder, child, items, map, maps};
use super::resource::amount;
use super::rule::Named;
use crate::object::{Body, text};

pub(super) const NAMED: Named = &[("limits", limits)];

const SCOPES: [&str; 7] = [
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

/// Returns true if a quota with this scope can limit the resource; non-standard resources always pass.
fn fits(scope: &str, resource: &str) -> bool {
    let is_standard = OF_PODS.contains(&resource)
        || matches!(
            resource,
            "ephemeral-storage"
                | "requests.ephemeral-storage"
                | "limits.ephemeral-storage"
                | "requests.storage"
                | "persistentvolumeclaims"
                | "resourcequotas"
                | "services"
                | "replicationcontrollers"
                | "secrets"
                | "configmaps"
                | "services.nodeports"
                | "services.loadbalancers"
        );
    !is_standard
        || match scope {
            "BestEffort" => resource == "pods",
            "VolumeAttributesClass" => {
                matches!(resource, "persistentvolumeclaims" | "requests.storage")
            }
            scope if SCOPES.contains(&scope) => OF_PODS.contains(&resource),
            _ => true,
        }
}

/// Checks the scopes of a quota.
pub(super) fn scopes(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let scopes = items(spec, "scopes");
    let hard = || {
        map(spec, "hard")
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
    };
    let at_scopes = child(at, "scopes");
    let mut messages = Vec::new();
    for scope in scopes {
        let scope = scope.as_str().unwrap_or_default();
        if !SCOPES.contains(&scope) {
            messages.push("unsupported scope");
        }
        let unfit = hard().filter(|name| !fits(scope, name)).count();
        messages.extend(std::iter::repeat_n(
            "unsupported scope applied to resource",
            unfit,
        ));
    }
    for [one, two] in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if scopes.contains(&one.into()) && scopes.contains(&two.into()) {
            messages.push("conflicting scopes");
        }
    }
    for message in messages {
        finder.invalid(at_scopes.as_str(), &scopes.into(), message);
    }
    if let Some(selector) = map(spec, "scopeSelector") {
        let at = format!("{at}.scopeSelector.matchExpressions");
        for (_, requirement) in maps(selector, "matchExpressions", "") {
            a_scope(finder, requirement, &at);
        }
    }
}

/// Checks a scope requirement; errors name the list instead of the item.
fn a_scope(finder: &mut Finder<'_>, requirement: &Body, at: &str) {
    let (scope, operator) = (
        text(requirement, "scopeName"),
        text(requirement, "operator"),
    );
    if !SCOPES.contains(&scope) {
        finder.invalid(child(at, "scopeName"), &scope.into(), "unsupported scope");
    }
    let has_values = ["PriorityClass", "VolumeAttributesClass"].contains(&scope);
    let at_operator = child(at, "operator");
    if SCOPES.contains(&scope) && !has_values && operator != "Exists" {
        let message = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        finder.invalid(at_operator.as_str(), &operator.into(), message);
    }
    let values = items(requirement, "values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let message =
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            finder.required(child(at, "values"), message);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let message =
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            finder.invalid(child(at, "values"), &values.into(), message);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => finder.invalid(at_operator, &other.into(), "not a valid selector operator"),
    }
}

/// Checks that each type of limit occurs once.
fn limits(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let mut seen = HashSet::new();
    for (at, limit) in maps(spec, "limits", at) {
        let of = text(limit, "type");
        if !seen.insert(of) {
            finder.duplicate(child(&at, "type"), &of.into());
        }
    }
}

/// Checks the highest ratio between limit and request.
#[expect(
    clippy::cast_precision_loss,
    reason = "as the real server compares them"
)]
pub(super) fn ratios(finder: &mut Finder<'_>, item: &Body, at: &str) {
    let of = |list: &str, name: &str| map(item, list)?.get(name).and_then(amount);
    for (name, ratio) in map(item, "maxLimitRequestRatio").into_iter().flatten() {
        let at = format!("{at}.maxLimitRequestRatio[{name}]");
        let Some(value) = amount(ratio) else {
            continue;
        };
        let shown = ratio.as_str().unwrap_or_default();
        if value < 1_000_000_000 {
            let message = format!("ratio {shown} is less than 1");
            finder.invalid(at.as_str(), ratio, &message);
        }
        if let (Some(least), Some(most)) = (of("min", name), of("max", name)) {
            let limit = most as f64 / least as f64;
            if value as f64 / 1e9 > limit {
                let message = format!("ratio {shown} is greater than max/min = {limit:.6}");
                finder.invalid(at, &Value::from(shown), &message);
            }
        }
    }
}
