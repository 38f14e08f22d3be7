//! Warnings about deprecated node labels.
//!
//! The text is the same for all ways to select nodes. Independent of the selecting object.

use crate::object::{Body, text};
use crate::rules::names;
use crate::valid::finder::{items, map, maps};

const OLD: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// Returns the replacement of a deprecated label.
pub(super) fn instead(label: &str) -> Option<&'static str> {
    let found = OLD.iter().find(|(old, _)| *old == label);
    found.map(|(_, message)| *message)
}

/// Returns the warnings for a node selector term; `values` also checks the label values, for terms that are not validated.
pub(super) fn of_term(term: &Body, values: bool, at: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (at, expression) in maps(term, "matchExpressions", at) {
        let key = text(expression, "key");
        if let Some(message) = instead(key) {
            told.push(format!("{at}.key: {key} is {message}"));
        }
        if !values {
            continue;
        }
        for (index, value) in items(expression, "values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for why in names::label_value(value) {
                told.push(format!("{at}.values[{index}]: {value} is invalid, {why}"));
            }
        }
    }
    told
}

pub(super) fn runtime_class(body: &Body) -> Vec<String> {
    let selector = map(body, "scheduling").and_then(|found| map(found, "nodeSelector"));
    let labels = selector.into_iter().flatten().map(|(label, _)| label);
    labels
        .filter_map(|label| Some(format!("scheduling.nodeSelector: {}", instead(label)?)))
        .collect()
}

pub(super) fn storage_class(body: &Body) -> Vec<String> {
    let mut told = Vec::new();
    for (at, term) in maps(body, "allowedTopologies", "") {
        for (at, requirement) in maps(term, "matchLabelExpressions", &at) {
            let message = instead(text(requirement, "key"));
            told.extend(message.map(|message| format!("{at}.key: {message}")));
        }
    }
    told
}

pub(super) fn capacity(body: &Body) -> Vec<String> {
    let Some(selector) = map(body, "nodeTopology") else {
        return Vec::new();
    };
    let mut told = of_term(selector, false, "nodeTopology");
    for (label, _) in map(selector, "matchLabels").into_iter().flatten() {
        let message = instead(label);
        told.extend(message.map(|message| format!("nodeTopology.matchLabels.{label}: {message}")));
    }
    told
}
