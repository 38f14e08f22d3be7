//! Validation of access reviews.
//!
//! Selectors restrict no permission here, but invalid ones are reported. Must not depend on users.

use serde_json::Value;

use super::review::{string, strings};
use crate::object::{Body, MANAGED, at_path, meta_text, metadata, text};
use crate::rules::names;
use crate::selector::{self, labels};
use crate::status::Cause;

const ATTRIBUTES: &str = "spec.resourceAttributes";
const PAGES: &str = "spec.nonResourceAttributes";

fn wrong(field: &str, value: &str, why: &str) -> Cause {
    let message = format!("Invalid value: {value}: {why}");
    Cause::new("FieldValueInvalid", field, message)
}

/// Validates the specification of a review.
pub(super) fn flaws(kind: &str, body: &Body) -> Vec<Cause> {
    let local = kind == "LocalSubjectAccessReview";
    let part = |field: &str| {
        let found = at_path(body, &format!(".spec.{field}"));
        found.and_then(Value::as_object)
    };
    let asked = (part("resourceAttributes"), part("nonResourceAttributes"));
    let mut causes = flaws_of_subject(asked);
    let nobody = string(body, ".spec.user").is_empty() && strings(body, ".spec.groups").is_empty();
    if kind != "SelfSubjectAccessReview" && nobody {
        let why = "at least one of user or group must be specified";
        causes.push(wrong("spec.user", "\"\"", why));
    }
    for selector in SELECTORS {
        let found = asked
            .0
            .and_then(|resource| resource.get(selector)?.as_object());
        if let Some(found) = found {
            flaws_of_selector(selector, found, &mut causes);
        }
    }
    let empty = Body::new();
    let meta = metadata(body).unwrap_or(&empty);
    let known = |field: &String| field == MANAGED || local && field == "namespace";
    if !meta.keys().all(known) {
        let shown = written(meta);
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        causes.push(wrong("metadata", &shown, why));
    }
    if local {
        causes.extend(flaws_of_place(body, asked));
    }
    causes
}

/// Checks that a review asks about exactly one of resource and page.
fn flaws_of_subject((resource, page): (Option<&Body>, Option<&Body>)) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let (Some(_), Some(page)) = (resource, page) {
        let why = "cannot be specified in combination with resourceAttributes";
        causes.push(wrong(PAGES, &shown(page), why));
    }
    if let (None, None) = (resource, page) {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(wrong(ATTRIBUTES, "null", why));
    }
    causes
}

/// Checks that the namespace of a local review matches that of its resource attributes.
fn flaws_of_place(body: &Body, (resource, page): (Option<&Body>, Option<&Body>)) -> Vec<Cause> {
    let mut causes = Vec::new();
    let asked = resource.map_or("", |resource| text(resource, "namespace"));
    if resource.is_some() && asked != meta_text(body, "namespace") {
        let field = format!("{ATTRIBUTES}.namespace");
        let why = "must match metadata.namespace";
        causes.push(wrong(&field, &format!("{asked:?}"), why));
    }
    if let Some(page) = page {
        let why = "disallowed on this kind of request";
        causes.push(wrong(PAGES, &shown(page), why));
    }
    causes
}

/// The fields in the order of their Go structs; other fields come last.
const ORDER: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
];

/// Formats metadata as the real server prints it.
fn written(meta: &Body) -> String {
    let place = |field: &str| ORDER.iter().position(|known| *known == field);
    let mut fields: Vec<(&String, &Value)> = meta.iter().collect();
    fields.sort_by_key(|(field, _)| place(field).unwrap_or(ORDER.len()));
    let part = |(field, value): (&String, &Value)| match value {
        Value::Array(entries) if field == MANAGED => {
            let entries = entries.iter().filter_map(Value::as_object).map(written);
            format!("{field:?}:[{}]", entries.collect::<Vec<String>>().join(","))
        }
        value => format!("{field:?}:{value}"),
    };
    let parts: Vec<String> = fields.into_iter().map(part).collect();
    format!("{{{}}}", parts.join(","))
}

fn shown(page: &Body) -> String {
    let (path, verb) = (text(page, "path"), text(page, "verb"));
    format!("{{\"Path\":{path:?},\"Verb\":{verb:?}}}")
}

const SELECTORS: [&str; 2] = ["fieldSelector", "labelSelector"];

/// Validates a selector; unknown operators are valid, because other authorizers may support them.
fn flaws_of_selector(selector: &str, found: &Body, causes: &mut Vec<Cause>) {
    let at = format!("{ATTRIBUTES}.{selector}");
    let raw = text(found, "rawSelector");
    let wanted = requirements(found);
    if !raw.is_empty() && !wanted.is_empty() {
        let why = "may not specified at the same time as requirements";
        causes.push(Cause::invalid(
            format!("{at}.rawSelector"),
            &raw.into(),
            why,
        ));
    }
    if raw.is_empty() && wanted.is_empty() {
        let why = format!("when {at} is specified, requirements or rawSelector is required");
        causes.push(Cause::required(format!("{at}.requirements"), &why));
    }
    for (index, one) in wanted.iter().enumerate() {
        let at = format!("{at}.requirements[{index}]");
        let (key, values) = (one["key"].as_str().unwrap_or_default(), values(one));
        if selector == "fieldSelector" && key.is_empty() {
            causes.push(Cause::required(format!("{at}.key"), "must be specified"));
        }
        match one["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => causes.push(Cause::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => causes.push(Cause::forbidden(
                format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            _ => {}
        }
        if selector == "fieldSelector" {
            continue;
        }
        for why in names::qualified(key) {
            causes.push(Cause::invalid(format!("{at}.key"), &key.into(), &why));
        }
        for (index, value) in values.iter().enumerate() {
            for why in names::label_value(value) {
                let field = format!("{at}.values[{index}]");
                causes.push(Cause::invalid(field, &(*value).into(), &why));
            }
        }
    }
}

fn requirements(selector: &Body) -> &[Value] {
    let found = selector.get("requirements").and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

fn values(requirement: &Value) -> Vec<&str> {
    let found = requirement["values"].as_array().into_iter().flatten();
    found.filter_map(Value::as_str).collect()
}

/// Returns a notice for each selector of which a part is ignored because it cannot be parsed.
pub(super) fn ignored(body: &Body) -> Vec<String> {
    let resource = at_path(body, ".spec.resourceAttributes");
    let unread = |selector: &&str| {
        let found = resource.and_then(|resource| resource.get(*selector)?.as_object());
        found.is_some_and(|found| !is_understood(selector, found))
    };
    let found = SELECTORS.into_iter().filter(unread);
    found
        .map(|selector| format!("{ATTRIBUTES}.{selector} ignored due to parse error"))
        .collect()
}

fn is_understood(selector: &str, found: &Body) -> bool {
    let (raw, of_fields) = (text(found, "rawSelector"), selector == "fieldSelector");
    let known = |one: &Value| match one["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" => !of_fields || values(one).len() == 1,
        "Exists" | "DoesNotExist" => !of_fields,
        _ => false,
    };
    let raw_is_read = if of_fields {
        selector::reads_fields(raw)
    } else {
        labels::parse(raw).is_ok()
    };
    raw_is_read && requirements(found).iter().all(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questions_that_make_no_sense_are_told() {
        for (kind, body, expected) in [
            ("SubjectAccessReview", json!({"spec": {}}), 2),
            (
                "SubjectAccessReview",
                json!({"spec": {"user": "u", "resourceAttributes": {}}}),
                0,
            ),
            (
                "SelfSubjectAccessReview",
                json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}),
                1,
            ),
            (
                "LocalSubjectAccessReview",
                json!({"metadata": {"namespace": "a"}, "spec": {"user": "u", "resourceAttributes": {"namespace": "b"}}}),
                1,
            ),
        ] {
            let body: Body = body.as_object().unwrap().clone();
            assert_eq!(flaws(kind, &body).len(), expected, "{body:?}");
        }
    }
}
