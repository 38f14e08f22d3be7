//! Defaults and validation of webhook configurations; `policy::flaws` does the same for policies.
//!
//! Guarantees the real server's messages and defaults. Must not depend on how webhooks are called.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::policy::flaws;
use super::{CONFIGURATIONS, GROUP, POLICIES, condition, url};
use crate::kind::Kind;
use crate::object::{Body, text};
use crate::rules::names;
use crate::selector::object;
use crate::status::{Cause, shown};

/// The maximum number of match conditions per webhook.
const MOST: usize = 64;
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

fn is_ours(kind: &Kind) -> bool {
    kind.group == GROUP && CONFIGURATIONS.contains(&kind.plural.as_str())
}

/// Returns whether a kind is the policy (0) or the policy binding (1).
fn is_policy(kind: &Kind, which: usize) -> bool {
    kind.group == GROUP && kind.version == "v1" && kind.plural == POLICIES[which]
}

/// Fills in the defaults of a configuration.
pub(crate) fn fill(kind: &Kind, body: &mut Body) {
    if is_policy(kind, 0) {
        flaws::fill_policy(body);
    } else if is_policy(kind, 1) {
        flaws::fill_binding(body);
    }
    if !is_ours(kind) {
        return;
    }
    let hooks = body.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten().filter_map(Value::as_object_mut) {
        let mut defaults = vec![
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ];
        if kind.plural == CONFIGURATIONS[0] {
            defaults.push(("reinvocationPolicy", json!("Never")));
        }
        for (field, value) in defaults {
            complete(hook, field, value);
        }
        let service = hook
            .get_mut("clientConfig")
            .and_then(|config| config.get_mut("service"));
        if let Some(Value::Object(service)) = service {
            complete(service, "port", json!(443));
        }
        let rules = hook.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            complete(rule, "scope", json!("*"));
        }
    }
}

pub(super) fn complete(map: &mut Body, field: &str, value: Value) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value);
    }
}

/// Validates a new or changed configuration.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_policy(kind, 0) {
        return flaws::of_policy(body);
    }
    if is_policy(kind, 1) {
        return flaws::of_binding(body);
    }
    if !is_ours(kind) {
        return causes;
    }
    let hooks = body.get("webhooks").and_then(Value::as_array);
    let mut seen = BTreeSet::new();
    for (index, hook) in hooks.into_iter().flatten().enumerate() {
        let Some(hook) = hook.as_object() else {
            continue;
        };
        let at = format!("webhooks[{index}]");
        check_hook(hook, &at, &mut causes);
        let name = text(hook, "name");
        if !name.is_empty() && !seen.insert(name) {
            causes.push(duplicate(&format!("{at}.name"), name));
        }
    }
    causes
}

pub(super) fn duplicate(field: &str, value: &str) -> Cause {
    let message = format!("Duplicate value: {value:?}");
    Cause::new("FieldValueDuplicate", field, message)
}

fn check_hook(hook: &Body, at: &str, causes: &mut Vec<Cause>) {
    check_name(text(hook, "name"), &format!("{at}.name"), causes);
    let list = |field: &str| {
        let found = hook.get(field).and_then(Value::as_array);
        found.map(Vec::as_slice).unwrap_or_default()
    };
    check_versions(list("admissionReviewVersions"), at, causes);
    for (index, rule) in list("rules").iter().enumerate() {
        check_rule(rule, &format!("{at}.rules[{index}]"), causes);
    }
    for (field, supported) in [
        ("failurePolicy", ["Fail", "Ignore"]),
        ("matchPolicy", ["Equivalent", "Exact"]),
        ("reinvocationPolicy", ["IfNeeded", "Never"]),
        ("sideEffects", ["None", "NoneOnDryRun"]),
    ] {
        if let Some(found) = hook.get(field).and_then(Value::as_str) {
            one_of(&format!("{at}.{field}"), found, &supported, causes);
        }
    }
    if hook.get("sideEffects").is_none_or(Value::is_null) {
        let why = "must specify one of None, NoneOnDryRun";
        causes.push(Cause::required(format!("{at}.sideEffects"), why));
    }
    if let Some(seconds) = hook.get("timeoutSeconds").and_then(Value::as_i64)
        && !(1..=30).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        let field = format!("{at}.timeoutSeconds");
        causes.push(Cause::invalid(field, &seconds.into(), why));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = hook.get(field).and_then(Value::as_object) {
            causes.extend(object::check(selector, &format!("{at}.{field}")));
        }
    }
    let config = hook.get("clientConfig").unwrap_or(&Value::Null);
    check_client(config, &format!("{at}.clientConfig"), causes);
    check_conditions(list("matchConditions"), at, causes);
}

fn check_name(name: &str, at: &str, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if let Some(why) = names::subdomain(name) {
        causes.push(Cause::invalid(at, &name.into(), &why));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(at, &name.into(), why));
    }
}

fn check_versions(versions: &[Value], at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.admissionReviewVersions");
    let all = VERSIONS.join(", ");
    if versions.is_empty() {
        causes.push(Cause::required(
            field,
            &format!("must specify one of {all}"),
        ));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let word = version.as_str().unwrap_or_default();
        if !seen.insert(word) {
            causes.push(Cause::invalid(&at, version, "duplicate version"));
            continue;
        }
        if let Some(why) = names::dns_1035(word) {
            causes.push(Cause::invalid(&at, version, &why));
        }
    }
    if !seen.iter().any(|version| VERSIONS.contains(version)) {
        let message = format!(
            "Invalid value: {}: must include at least one of {all}",
            Value::from(versions)
        );
        causes.push(Cause::new("FieldValueInvalid", field, message));
    }
}

pub(super) fn check_rule(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    let operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (field, others) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ] {
        let items = rule.get(field).and_then(Value::as_array);
        let items = items.map(Vec::as_slice).unwrap_or_default();
        let place = format!("{at}.{field}");
        if items.is_empty() {
            causes.push(Cause::required(&place, ""));
        }
        if items.len() > 1 && items.iter().any(|item| item == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            causes.push(Cause::invalid(&place, &items.into(), &why));
        }
        for (index, item) in items.iter().enumerate() {
            let place = format!("{place}[{index}]");
            let word = item.as_str().unwrap_or_default();
            match field {
                "operations" => one_of(&place, word, &operations, causes),
                "apiVersions" if word.is_empty() => causes.push(Cause::required(place, "")),
                _ => {}
            }
        }
    }
    check_resources(rule, at, causes);
    if let Some(scope) = rule.get("scope").and_then(Value::as_str) {
        let supported = ["*", "Cluster", "Namespaced"];
        one_of(&format!("{at}.scope"), scope, &supported, causes);
    }
}

fn check_resources(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    let items = rule.get("resources").and_then(Value::as_array);
    let items = items.map(Vec::as_slice).unwrap_or_default();
    let field = format!("{at}.resources");
    if items.is_empty() {
        causes.push(Cause::required(&field, ""));
    }
    let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
    let (mut with_all, mut of_all) = (BTreeSet::new(), BTreeSet::new());
    for (index, word) in words.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if word.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let (plural, sub) = word.split_once('/').unwrap_or((word, ""));
        let mut clash = |other: String| {
            let why = format!("if '{other}' is present, must not specify {word}");
            causes.push(Cause::invalid(&at, &(*word).into(), &why));
        };
        if !sub.is_empty() && with_all.contains(plural) {
            clash(format!("{plural}/*"));
        }
        if !sub.is_empty() && of_all.contains(sub) {
            clash(format!("*/{sub}"));
        }
        if sub == "*" {
            with_all.insert(plural);
        }
        if plural == "*" {
            of_all.insert(sub);
        }
    }
    if words.len() > 1 && words.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        causes.push(Cause::invalid(&field, &items.into(), why));
    }
    // The real server looks only at the last resource without a subresource.
    let plain = words.iter().rfind(|word| !word.contains('/'));
    if words.contains(&"*") && plain.is_some_and(|word| *word != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.push(Cause::invalid(&field, &items.into(), why));
    }
}

fn check_client(config: &Value, at: &str, causes: &mut Vec<Cause>) {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").and_then(Value::as_object);
    match (url, service) {
        (Some(url), None) => check_url(url, &format!("{at}.url"), causes),
        (None, Some(service)) => check_service(service, &format!("{at}.service"), causes),
        _ => {
            let why = "exactly one of url or service is required";
            causes.push(Cause::required(at, why));
        }
    }
}

fn check_url(url: &str, at: &str, causes: &mut Vec<Cause>) {
    const FORMAT: &str = "; desired format: https://host[/path]";
    let url = match url::parse(url) {
        Ok(url) => url,
        Err(why) => {
            let why = format!("url must be a valid URL: {why}{FORMAT}");
            causes.push(Cause::required(at, &why));
            return;
        }
    };
    let mut complain = |value: &str, why: &str| {
        causes.push(Cause::invalid(at, &value.into(), why));
    };
    if url.scheme != "https" {
        complain(
            &url.scheme,
            &format!("'https' is the only allowed URL scheme{FORMAT}"),
        );
    }
    if url.host.is_empty() {
        complain(url.host, &format!("host must be specified{FORMAT}"));
    }
    if !url.user.is_empty() {
        complain(url.user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        complain(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        complain(url.query, "query parameters are not permitted in the URL");
    }
}

fn check_service(service: &Body, at: &str, causes: &mut Vec<Cause>) {
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            causes.push(Cause::required(format!("{at}.{field}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(format!("{at}.port"), &port.into(), why));
    }
    let path = text(service, "path");
    if path.is_empty() || path == "/" {
        return;
    }
    let field = format!("{at}.path");
    let mut complain = |why: &str| causes.push(Cause::invalid(&field, &path.into(), why));
    if !path.starts_with('/') {
        complain("must start with a '/'");
    }
    let inner = path.get(1..).unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (index, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            complain(&format!("segment[{index}] may not be empty"));
        } else if let Some(why) = names::subdomain(step) {
            complain(&format!("segment[{index}]: {why}"));
        }
    }
}

pub(super) fn check_conditions(conditions: &[Value], at: &str, causes: &mut Vec<Cause>) {
    if conditions.len() > MOST {
        let message = format!(
            "Too many: {}: must have at most {MOST} items",
            conditions.len()
        );
        let field = format!("{at}.matchConditions");
        causes.push(Cause::new("FieldValueTooMany", field, message));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = format!("{at}.matchConditions[{index}]");
        let word = |field: &str| {
            let found = condition.get(field).and_then(Value::as_str);
            found.unwrap_or_default()
        };
        let (name, expression) = (word("name"), word("expression"));
        if expression.trim().is_empty() {
            causes.push(Cause::required(format!("{at}.expression"), ""));
        } else if let Some(why) = condition::flaw(expression) {
            let why = format!("compilation failed: {why}");
            let field = format!("{at}.expression");
            causes.push(Cause::invalid(field, &expression.into(), &why));
        }
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
            continue;
        }
        for why in names::qualified(name) {
            causes.push(Cause::invalid(format!("{at}.name"), &name.into(), &why));
        }
        if !seen.insert(name) {
            causes.push(duplicate(&format!("{at}.name"), name));
        }
    }
}

pub(super) fn one_of(field: &str, found: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    if supported.contains(&found) {
        return;
    }
    let words: Vec<String> = supported
        .iter()
        .map(|word| shown(&(*word).into()))
        .collect();
    let message = format!(
        "Unsupported value: {found:?}: supported values: {}",
        words.join(", ")
    );
    causes.push(Cause::new("FieldValueNotSupported", field, message));
}
