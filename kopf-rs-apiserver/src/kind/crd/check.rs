//! What is wrong with a definition.
//!
//! Promise: complaints are the real server's. Must not know the store, nor what a definition leads to.

use serde_json::Value;

use super::versions;
use crate::kind::Kind;
use crate::object::{Body, at_path, meta_text, text};
use crate::rules::names;
use crate::schema;
use crate::status::Cause;

/// The types of printer columns.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// What is wrong with a definition; nothing for objects of other kinds.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    if !kind.is_crd() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let string = |path: &str| {
        let found = at_path(body, path).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let name = meta_text(body, "name");
    let wanted = format!("{}.{}", string("spec.names.plural"), string("spec.group"));
    if name != wanted {
        let message = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), message));
    }
    group(string("spec.group"), &mut causes);
    one_of(
        "spec.scope",
        string("spec.scope"),
        &["Cluster", "Namespaced"],
        &mut causes,
    );
    check_versions(body, &mut causes);
    check_names(body, &mut causes);
    one_of(
        "spec.conversion.strategy",
        string("spec.conversion.strategy"),
        &["None", "Webhook"],
        &mut causes,
    );
    if versions(body).is_empty() {
        let message = "must have at least one stored version";
        causes.push(Cause::invalid(
            "status.storedVersions",
            &Value::Null,
            message,
        ));
    }
    causes
}

fn group(group: &str, causes: &mut Vec<Cause>) {
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(message) = names::subdomain(group) {
        causes.push(Cause::invalid("spec.group", &group.into(), &message));
    } else if !group.contains('.') {
        let message = "should be a domain with at least one dot";
        causes.push(Cause::invalid("spec.group", &group.into(), message));
    }
}

fn one_of(field: &str, given: &str, known: &[&str], causes: &mut Vec<Cause>) {
    if given.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if !known.contains(&given) {
        let words: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
        let words = words.join(", ");
        let message = format!("Unsupported value: {given:?}: supported values: {words}");
        causes.push(Cause::new("FieldValueNotSupported", field, message));
    }
}

fn check_names(body: &Body, causes: &mut Vec<Cause>) {
    let empty = Body::new();
    let found = at_path(body, "spec.names").and_then(Value::as_object);
    let given = found.unwrap_or(&empty);
    for part in ["plural", "singular", "kind", "listKind"] {
        let name = text(given, part);
        let field = format!("spec.names.{part}");
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
            continue;
        }
        let mixed = matches!(part, "kind" | "listKind");
        let plain = if mixed {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        if let Some(message) = names::dns_1035(&plain) {
            let start = if mixed {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            let message = format!("{start}{message}");
            causes.push(Cause::invalid(field, &name.into(), &message));
        }
    }
    if !text(given, "kind").is_empty() && text(given, "kind") == text(given, "listKind") {
        let name = text(given, "listKind").into();
        let message = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &name, message));
    }
    for part in ["shortNames", "categories"] {
        let listed = given.get(part).and_then(Value::as_array);
        for (at, name) in listed.into_iter().flatten().enumerate() {
            if let Some(message) = names::dns_1035(name.as_str().unwrap_or_default()) {
                let field = format!("spec.names.{part}[{at}]");
                causes.push(Cause::invalid(field, name, &message));
            }
        }
    }
}

fn check_versions(body: &Body, causes: &mut Vec<Cause>) {
    let versions = versions(body);
    let mut complain = |message: &str| {
        let shown = at_path(body, ".spec.versions").cloned().unwrap_or_default();
        causes.push(Cause::invalid("spec.versions", &shown, message));
    };
    let names: Vec<&str> = versions.iter().map(|v| text(v, "name")).collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        complain("must contain unique version names");
    }
    let stored = |version: &&&Body| version.get("storage") == Some(&Value::Bool(true));
    if versions.iter().filter(stored).count() != 1 {
        complain("must have exactly one version marked as storage version");
    }
    for (at, version) in versions.iter().enumerate() {
        check_version(version, &format!("spec.versions[{at}]"), causes);
    }
}

fn check_version(version: &Body, field: &str, causes: &mut Vec<Cause>) {
    let name = text(version, "name");
    if let Some(message) = names::dns_1035(name) {
        causes.push(Cause::invalid(
            format!("{field}.name"),
            &name.into(),
            &message,
        ));
    }
    let place = format!("{field}.schema.openAPIV3Schema");
    match at_path(version, "schema.openAPIV3Schema").filter(|found| found.is_object()) {
        Some(found) => causes.extend(schema::structural::check(found, &place)),
        None => causes.push(Cause::required(place, "")),
    }
    let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    if let Some(warning) = version.get("deprecationWarning").filter(|w| !w.is_null()) {
        let message = if !deprecated {
            "can only be set for deprecated versions"
        } else if *warning == "" {
            "must not be an empty string"
        } else {
            ""
        };
        if !message.is_empty() {
            causes.push(Cause::invalid(
                format!("{field}.deprecationWarning"),
                warning,
                message,
            ));
        }
    }
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    let columns = columns.into_iter().flatten().filter_map(Value::as_object);
    for (at, column) in columns.enumerate() {
        check_column(
            column,
            &format!("{field}.additionalPrinterColumns[{at}]"),
            causes,
        );
    }
    let scale = at_path(version, "subresources.scale").and_then(Value::as_object);
    if let Some(scale) = scale {
        check_scale(scale, &format!("{field}.subresources.scale"), causes);
    }
}

fn check_column(column: &Body, field: &str, causes: &mut Vec<Cause>) {
    let known = format!("must be one of {}", COLUMN_TYPES.join(","));
    if text(column, "name").is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    }
    let kind = text(column, "type");
    let at = format!("{field}.type");
    if kind.is_empty() {
        causes.push(Cause::required(at, &known));
    } else if !COLUMN_TYPES.contains(&kind) {
        causes.push(Cause::invalid(at, &kind.into(), &known));
    }
    let path = text(column, "jsonPath");
    let at = format!("{field}.JSONPath");
    if path.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if !path.starts_with('.') {
        let message = "must be a simple json path starting with .";
        causes.push(Cause::invalid(at, &path.into(), message));
    }
}

fn check_scale(scale: &Body, field: &str, causes: &mut Vec<Cause>) {
    for (name, starts, told) in [
        ("specReplicasPath", &[".spec."][..], ".spec"),
        ("statusReplicasPath", &[".status."][..], ".status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "either .spec or .status",
        ),
    ] {
        let (path, at) = (text(scale, name), format!("{field}.{name}"));
        if path.is_empty() {
            if name != "labelSelectorPath" {
                causes.push(Cause::required(at, ""));
            }
        } else if !path.starts_with('.') {
            let message = "must be a simple json path starting with .";
            causes.push(Cause::invalid(at, &path.into(), message));
        } else if !starts.iter().any(|start| path.starts_with(start)) {
            let message = format!("should be a json path under {told}");
            causes.push(Cause::invalid(at, &path.into(), &message));
        }
    }
}
