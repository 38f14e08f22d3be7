//! Validates Deployments and similar kinds: selectors must match templates, and strategies their types.
//!
//! Templates are validated as Pods. Never looks at the old object of an update.

use serde_json::Value;

use super::change::printed;
use super::finder::{Finder, child, is_empty, map, number};
use super::format::percent;
use super::rule::Named;
use crate::object::{Body, at_path, text};
use crate::rules::names;
use crate::selector::choice::{chooses, has_all};
use crate::status::shown;

pub(super) const NAMED: Named = &[
    ("deployment", deployment),
    ("replica_set", replica_set),
    ("stateful_set", stateful_set),
    ("daemon_set", daemon_set),
    ("replication", replication),
    ("rolling", rolling),
    ("daemon_rolling", daemon_rolling),
];

fn labels_of(spec: &Body) -> Option<&Body> {
    at_path(spec, ".template.metadata.labels")?.as_object()
}

fn labels_differ(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let labels = labels_of(spec).map_or(Value::Null, |labels| Value::Object(labels.clone()));
    let at = format!("{at}.template.metadata.labels");
    finder.invalid(at, &labels, "`selector` does not match template `labels`");
}

/// Checks that the selector is valid and matches the labels of the template.
pub(super) fn selector(finder: &mut Finder<'_>, spec: &Body, at: &str, kind: &str) {
    let Some(selector) = map(spec, "selector") else {
        // Only the labels matter without a selector.
        return labels_differ(finder, spec, at);
    };
    if selector.is_empty() {
        let message = format!("empty selector is invalid for {kind}");
        finder.invalid_as(child(at, "selector"), "{}", &message);
        return;
    }
    let empty = Body::new();
    if !is_selector(selector) {
        let message = match kind {
            "deployment" => "invalid label selector",
            "statefulset" => "",
            _ => return,
        };
        let shown = printed(Some(&Value::Object(selector.clone())));
        finder.invalid_as(child(at, "selector"), &shown, message);
    } else if !chooses(selector, labels_of(spec).unwrap_or(&empty)) {
        labels_differ(finder, spec, at);
    }
}

/// Returns true if the selector is valid.
fn is_selector(selector: &Body) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let wrong = |(key, value): (&String, &Value)| {
        let value = value.as_str().unwrap_or_default();
        !names::qualified(key).is_empty() || !names::label_value(value).is_empty()
    };
    if labels.into_iter().flatten().any(wrong) {
        return false;
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    expressions.into_iter().flatten().all(|expression| {
        let some = !is_empty(expression.get("values"));
        match expression["operator"].as_str() {
            Some("In" | "NotIn") => some,
            Some("Exists" | "DoesNotExist") => !some,
            _ => false,
        }
    })
}

/// Checks that the Pods of a template run without a time limit and are always restarted.
fn lasting(finder: &mut Finder<'_>, spec: &Body, at: &str, kind: &str) {
    let at = format!("{at}.template.spec");
    let policy = at_path(spec, ".template.spec.restartPolicy");
    if let Some(policy) = policy.filter(|policy| *policy != "Always") {
        finder.unsupported(child(&at, "restartPolicy"), policy, &["Always"]);
    }
    if at_path(spec, ".template.spec.activeDeadlineSeconds").is_some() {
        let message = format!("activeDeadlineSeconds in {kind} is not Supported");
        finder.forbidden(child(&at, "activeDeadlineSeconds"), &message);
    }
}

fn deployment(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    selector(finder, spec, at, "deployment");
    lasting(finder, spec, at, "ReplicaSet");
    let at_strategy = child(at, "strategy");
    if let Some(strategy) = map(spec, "strategy") {
        match text(strategy, "type") {
            "RollingUpdate" => {}
            "Recreate" if !strategy.contains_key("rollingUpdate") => {}
            "Recreate" => finder.forbidden(
                child(&at_strategy, "rollingUpdate"),
                "may not be specified when strategy `type` is 'Recreate'",
            ),
            other => {
                unknown_strategy(
                    finder,
                    &at_strategy,
                    other,
                    strategy,
                    &["Recreate", "RollingUpdate"],
                );
            }
        }
    }
    let ready = number(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) =
        number(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready)
    {
        let at = child(at, "progressDeadlineSeconds");
        finder.invalid(at, &deadline.into(), "must be greater than minReadySeconds");
    }
}

/// Adds an error with the strategy in the real server's internal form.
fn unknown_strategy(finder: &mut Finder<'_>, at: &str, of: &str, strategy: &Body, known: &[&str]) {
    let rolling = strategy
        .get("rollingUpdate")
        .map_or("null".to_owned(), |found| {
            let part = |name: &str| found.get(name).map_or("0".to_owned(), shown);
            format!(
                "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                part("maxUnavailable"),
                part("maxSurge")
            )
        });
    let known: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
    let message = format!(
        "Unsupported value: {{\"Type\":{of:?},\"RollingUpdate\":{rolling}}}: supported values: {}",
        known.join(", ")
    );
    finder.causes.push(crate::status::Cause::new(
        "FieldValueNotSupported",
        at,
        message,
    ));
}

fn replica_set(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    selector(finder, spec, at, "deployment");
    lasting(finder, spec, at, "ReplicaSet");
}

fn replication(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    if spec.get("template").is_none_or(Value::is_null) {
        return finder.required(child(at, "template"), "");
    }
    let wanted = map(spec, "selector");
    let empty = Body::new();
    if !is_empty(spec.get("selector")) && !has_all(wanted, labels_of(spec).unwrap_or(&empty)) {
        labels_differ(finder, spec, at);
    }
    lasting(finder, spec, at, "ReplicationController");
}

fn stateful_set(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    selector(finder, spec, at, "statefulset");
    lasting(finder, spec, at, "StatefulSet");
    let Some(strategy) = map(spec, "updateStrategy") else {
        return;
    };
    let at = child(at, "updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match text(strategy, "type") {
        "RollingUpdate" => {}
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let partition = rolling
                    .get("partition")
                    .and_then(Value::as_i64)
                    .unwrap_or_default();
                let shown = format!("{{\"Partition\":{partition},\"MaxUnavailable\":null}}");
                let message = "only allowed for updateStrategy 'RollingUpdate'";
                finder.invalid_as(child(&at, "rollingUpdate"), &shown, message);
            }
        }
        other => {
            let rolling = rolling.map_or("null".to_owned(), |rolling| {
                let partition = rolling
                    .get("partition")
                    .and_then(Value::as_i64)
                    .unwrap_or_default();
                format!("{{\"Partition\":{partition},\"MaxUnavailable\":null}}")
            });
            let shown = format!("{{\"Type\":{other:?},\"RollingUpdate\":{rolling}}}");
            finder.invalid_as(at, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn daemon_set(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    selector(finder, spec, at, "daemonset");
    lasting(finder, spec, at, "DaemonSet");
    let Some(strategy) = map(spec, "updateStrategy") else {
        return;
    };
    let of = text(strategy, "type");
    if !matches!(of, "RollingUpdate" | "OnDelete") {
        let at = child(at, "updateStrategy");
        unknown_strategy(finder, &at, of, strategy, &["RollingUpdate", "OnDelete"]);
    }
}

/// Returns a number or percentage as a number, even if it is invalid.
fn part(body: &Body, field: &str) -> i64 {
    match body.get(field) {
        Some(Value::String(text)) => percent(text).unwrap_or_default(),
        Some(value) => value.as_i64().unwrap_or_default(),
        None => 0,
    }
}

fn too_much(finder: &mut Finder<'_>, body: &Body, field: &str, at: &str) {
    let found = body.get(field);
    let share = found.and_then(Value::as_str).and_then(percent);
    if let (Some(value), true) = (found, share.is_some_and(|share| share > 100)) {
        finder.invalid(child(at, field), value, "must not be greater than 100%");
    }
}

fn rolling(finder: &mut Finder<'_>, body: &Body, at: &str) {
    if part(body, "maxUnavailable") == 0 && part(body, "maxSurge") == 0 {
        let value = body
            .get("maxUnavailable")
            .cloned()
            .unwrap_or_else(|| 0.into());
        let message = "may not be 0 when `maxSurge` is 0";
        finder.invalid(child(at, "maxUnavailable"), &value, message);
    }
    too_much(finder, body, "maxUnavailable", at);
}

fn daemon_rolling(finder: &mut Finder<'_>, body: &Body, at: &str) {
    for field in ["maxUnavailable", "maxSurge"] {
        too_much(finder, body, field, at);
    }
    match (
        part(body, "maxUnavailable") != 0,
        part(body, "maxSurge") != 0,
    ) {
        (true, true) => {
            let message = "may not be set when maxUnavailable is non-zero";
            finder.invalid(child(at, "maxSurge"), &body["maxSurge"], message);
        }
        (false, false) => {
            finder.required(
                child(at, "maxUnavailable"),
                "cannot be 0 when maxSurge is 0",
            );
        }
        _ => {}
    }
}
