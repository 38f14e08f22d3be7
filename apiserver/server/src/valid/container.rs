//! Validates containers: probes, hooks, environment variables and restart rules.
//!
//! Looks at one container at a time; of the Pod, uses only its grace period. Never looks at the old object of an update.

use std::collections::HashSet;

use super::finder::{Finder, child, items, map, maps, number};
use super::rule::Named;
use super::{reference, resource, whole};
use crate::object::{Body, text};

pub(super) const NAMED: Named = &[("container", container), ("env", env), ("handler", handler)];

fn container(finder: &mut Finder<'_>, container: &Body, at: &str) {
    let mut seen = HashSet::new();
    for (at, port) in maps(container, "ports", at) {
        let name = text(port, "name");
        if !name.is_empty() && !seen.insert(name) {
            finder.duplicate(child(&at, "name"), &name.into());
        }
    }
    for probe in ["livenessProbe", "startupProbe"] {
        let threshold = map(container, probe).and_then(|probe| number(probe, "successThreshold"));
        if let Some(threshold) = threshold.filter(|threshold| *threshold != 1) {
            let at = format!("{at}.{probe}.successThreshold");
            finder.invalid(at, &threshold.into(), "must be 1");
        }
    }
    let grace = map(container, "readinessProbe")
        .and_then(|probe| probe.get("terminationGracePeriodSeconds"));
    if let Some(grace) = grace {
        let at = format!("{at}.readinessProbe.terminationGracePeriodSeconds");
        finder.invalid(at, grace, "must not be set for readinessProbes");
    }
    for source in maps(container, "envFrom", at) {
        env_from(finder, source.1, &child(at, "envFrom"));
    }
    if let Some(resources) = map(container, "resources") {
        let at = child(at, "resources");
        resource::requirements(finder, resources, &at);
        whole::claims(finder, resources, &at);
    }
    sleeps(finder, container, at);
    resize_policies(finder, container, at);
    let policy = container.get("restartPolicy");
    let known = ["Always", "Never", "OnFailure"];
    if let Some(policy) = policy.filter(|policy| !known.iter().any(|known| policy == known)) {
        finder.unsupported(child(at, "restartPolicy"), policy, &known);
    }
    restart_rules(finder, container, at);
}

/// Checks the rules for restarts that override the restart policy.
fn restart_rules(finder: &mut Finder<'_>, container: &Body, at: &str) {
    let rules = maps(container, "restartPolicyRules", at);
    if !rules.is_empty() && !container.contains_key("restartPolicy") {
        let message = "must specify restartPolicy when restart rules are used";
        return finder.required(child(at, "restartPolicy"), message);
    }
    for (at, rule) in rules {
        let known = ["Restart", "RestartAllContainers"];
        let action = text(rule, "action");
        if !known.contains(&action) {
            finder.unsupported(child(&at, "action"), &action.into(), &known);
        }
        let at = child(&at, "exitCodes");
        let Some(codes) = map(rule, "exitCodes") else {
            finder.required(at, "must be specified");
            continue;
        };
        let known = ["In", "NotIn"];
        let operator = text(codes, "operator");
        if !known.contains(&operator) {
            finder.unsupported(child(&at, "operator"), &operator.into(), &known);
        }
    }
}

/// Checks that a hook does not sleep longer than the grace period of the Pod.
fn sleeps(finder: &mut Finder<'_>, container: &Body, at: &str) {
    let specs = [".spec", ".spec.template.spec", ".template.spec"];
    let grace = specs.iter().find_map(|path| {
        let path = format!("{path}.terminationGracePeriodSeconds");
        crate::object::at_path(finder.root, &path)?.as_i64()
    });
    let Some(grace) = grace else {
        return;
    };
    for hook in ["postStart", "preStop"] {
        let sleep = map(container, "lifecycle")
            .and_then(|hooks| map(hooks, hook))
            .and_then(|hook| map(hook, "sleep"));
        let seconds = sleep.and_then(|sleep| number(sleep, "seconds"));
        if let Some(seconds) = seconds.filter(|seconds| !(0..=grace).contains(seconds)) {
            let message = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            let at = format!("{at}.lifecycle.{hook}.sleep");
            finder.invalid(at, &seconds.into(), &message);
        }
    }
}

/// Checks resize policies; errors name the list instead of the item, as in the real server.
fn resize_policies(finder: &mut Finder<'_>, container: &Body, at: &str) {
    let mut seen = HashSet::new();
    for (at_policy, policy) in maps(container, "resizePolicy", at) {
        let name = text(policy, "resourceName");
        if !seen.insert(name) {
            finder.duplicate(at_policy, &name.into());
        }
        let at = child(at, "resizePolicy");
        for (value, known) in [
            (name, ["cpu", "memory"]),
            (
                text(policy, "restartPolicy"),
                ["NotRequired", "RestartContainer"],
            ),
        ] {
            if value.is_empty() {
                finder.required(at.as_str(), "");
            } else if !known.contains(&value) {
                finder.unsupported(at.as_str(), &value.into(), &known);
            }
        }
    }
}

fn env_from(finder: &mut Finder<'_>, source: &Body, at: &str) {
    let found = ["configMapRef", "secretRef"]
        .iter()
        .filter(|name| source.contains_key(**name));
    match found.count() {
        0 => finder.invalid(
            at,
            &"".into(),
            "must specify one of: `configMapRef` or `secretRef`",
        ),
        1 => {}
        _ => {
            let message = "may not have more than one field specified at a time";
            finder.invalid(at, &"".into(), message);
        }
    }
}

fn env(finder: &mut Finder<'_>, variable: &Body, at: &str) {
    let Some(source) = map(variable, "valueFrom") else {
        return;
    };
    let at = child(at, "valueFrom");
    if let Some(field) = map(source, "fieldRef") {
        let at = child(&at, "fieldRef");
        reference::field(finder, field, &at, &reference::FIELDS);
    }
    if let Some(resource) = map(source, "resourceFieldRef") {
        let at = child(&at, "resourceFieldRef");
        reference::resource(finder, resource, &at, false);
    }
    let message = match source.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => {
            "may not be specified when `value` is not empty"
        }
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    finder.invalid(at, &"".into(), message);
}

/// Checks that a probe or hook has exactly one handler.
fn handler(finder: &mut Finder<'_>, body: &Body, at: &str) {
    let known = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut found = known.iter().filter(|name| body.contains_key(**name));
    if found.next().is_none() {
        finder.required(at, "must specify a handler type");
    }
    for more in found {
        finder.forbidden(child(at, more), "may not specify more than 1 handler type");
    }
    for header in map(body, "httpGet").map_or(&[][..], |http| items(http, "httpHeaders")) {
        let name = header["name"].as_str().unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            finder.invalid(child(at, "httpGet.httpHeaders"), &name.into(), message);
        }
    }
}
