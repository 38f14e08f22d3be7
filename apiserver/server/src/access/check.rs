//! Defaults and validation of roles and bindings.
//!
//! Guarantees the real server's messages and defaults. Must not depend on the author of a write.

use serde_json::Value;

use super::GROUP;
use crate::kind::Kind;
use crate::object::{Body, at_path, text};
use crate::rules::names;
use crate::selector::object;
use crate::status::Cause;

/// Replaces an empty list of rules in a new role by null.
pub(crate) fn fill_new(kind: &Kind, body: &mut Body) {
    let rules = body.get("rules").and_then(Value::as_array);
    if kind.group == GROUP && rules.is_some_and(Vec::is_empty) {
        body.insert("rules".to_owned(), Value::Null);
    }
}

/// Fills in the defaults of bindings.
pub(crate) fn fill(kind: &Kind, body: &mut Body) {
    if kind.group != GROUP || !kind.plural.ends_with("bindings") {
        return;
    }
    let complete = |subject: &mut Value| {
        if let Some(map) = subject.as_object_mut()
            && text(map, "apiGroup").is_empty()
        {
            map.insert("apiGroup".to_owned(), GROUP.into());
        }
    };
    if let Some(role) = body.get_mut("roleRef") {
        complete(role);
    }
    let subjects = body.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        let kind = subject.get("kind").and_then(Value::as_str);
        if matches!(kind, Some("User" | "Group")) {
            complete(subject);
        }
    }
}

/// Validates a new or changed role or binding; `old` is its previous state.
pub(crate) fn check(kind: &Kind, body: &Body, old: Option<&Body>) -> Vec<Cause> {
    if kind.group != GROUP {
        return Vec::new();
    }
    if kind.plural.ends_with("roles") {
        return role(kind, body);
    }
    let mut causes = binding(kind, body);
    if old.is_some_and(|old| old.get("roleRef") != body.get("roleRef")) {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "roleRef",
            format!("Invalid value: {}: cannot change roleRef", shown_role(body)),
        ));
    }
    causes
}

fn shown_role(body: &Body) -> String {
    let part = |field: &str| {
        let found = at_path(body, &format!(".roleRef.{field}"));
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    format!(
        "{{\"APIGroup\":{:?},\"Kind\":{:?},\"Name\":{:?}}}",
        part("apiGroup"),
        part("kind"),
        part("name")
    )
}

fn role(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let rules = body.get("rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        check_rule(kind, rule, &format!("rules[{index}]"), &mut causes);
    }
    let Some(aggregation) = body.get("aggregationRule").filter(|rule| !rule.is_null()) else {
        return causes;
    };
    let field = "aggregationRule.clusterRoleSelectors";
    let selectors = aggregation.get("clusterRoleSelectors");
    let selectors = selectors.and_then(Value::as_array).map(Vec::as_slice);
    let selectors = selectors.unwrap_or_default();
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.push(Cause::required(field, why));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let found = selector
            .as_object()
            .map(|selector| object::check(selector, &at))
            .unwrap_or_default();
        if !found.is_empty() {
            causes.extend(found);
            causes.push(Cause::invalid(at, &Value::Null, "invalid label selector."));
        }
    }
    causes
}

fn check_rule(kind: &Kind, rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    let is_empty = |field: &str| {
        let items = rule.get(field).and_then(Value::as_array);
        items.is_none_or(Vec::is_empty)
    };
    if is_empty("verbs") {
        let why = "verbs must contain at least one value";
        causes.push(Cause::required(format!("{at}.verbs"), why));
    }
    if !is_empty("nonResourceURLs") {
        let (field, pages) = (format!("{at}.nonResourceURLs"), &rule["nonResourceURLs"]);
        if kind.namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            causes.push(Cause::invalid(&field, pages, why));
        }
        if !["apiGroups", "resources", "resourceNames"]
            .into_iter()
            .all(is_empty)
        {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(&field, pages, why));
        }
        return;
    }
    for (field, why) in [
        (
            "apiGroups",
            "resource rules must supply at least one api group",
        ),
        (
            "resources",
            "resource rules must supply at least one resource",
        ),
    ] {
        if is_empty(field) {
            causes.push(Cause::required(format!("{at}.{field}"), why));
        }
    }
}

fn binding(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let part = |field: &str| {
        let found = at_path(body, &format!(".roleRef.{field}"));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let kinds: &[&str] = if kind.namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    one_of("roleRef.apiGroup", part("apiGroup"), &[GROUP], &mut causes);
    one_of("roleRef.kind", part("kind"), kinds, &mut causes);
    let name = part("name");
    if name.is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    } else if let Some(why) = names::path_segment(name) {
        causes.push(Cause::invalid("roleRef.name", &name.into(), &why));
    }
    let subjects = body.get("subjects").and_then(Value::as_array);
    for (index, subject) in subjects.into_iter().flatten().enumerate() {
        if let Some(subject) = subject.as_object() {
            let at = format!("subjects[{index}]");
            check_subject(kind, subject, &at, &mut causes);
        }
    }
    causes
}

fn check_subject(kind: &Kind, subject: &Body, at: &str, causes: &mut Vec<Cause>) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    }
    let group_field = format!("{at}.apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if let Some(why) = names::subdomain(name).filter(|_| !name.is_empty()) {
                causes.push(Cause::invalid(format!("{at}.name"), &name.into(), &why));
            }
            one_of(&group_field, group, &[""], causes);
            if !kind.namespaced && text(subject, "namespace").is_empty() {
                causes.push(Cause::required(format!("{at}.namespace"), ""));
            }
        }
        "User" | "Group" => one_of(&group_field, group, &[GROUP], causes),
        other => one_of(
            &format!("{at}.kind"),
            other,
            &["ServiceAccount", "User", "Group"],
            causes,
        ),
    }
}

fn one_of(field: &str, found: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    if supported.contains(&found) {
        return;
    }
    let supported: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
    let supported = supported.join(", ");
    let message = format!("Unsupported value: {found:?}: supported values: {supported}");
    causes.push(Cause::new("FieldValueNotSupported", field, message));
}
