//! Validates definitions.
//!
//! Errors match the real server, which moves settings that all versions share to the top of the spec, so that errors name the field there.
//! Independent of the store and of the effects of a definition.

mod conversion;
mod version;

use serde_json::{Map, Value};

use super::versions;
use crate::kind::Kind;
use crate::object::{Body, at_path, meta_text, metadata, text};
use crate::rules::names;
use crate::schema::definition::{self, printed};
use crate::status::Cause;

/// The annotation that API groups of Kubernetes need.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// The settings that versions may share, and the field that then holds them.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Validates a definition; returns no errors for objects of other kinds.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    if !kind.is_crd() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let name = meta_text(body, "name");
    let plural = string(body, "spec.names.plural");
    if name != format!("{plural}.{}", string(body, "spec.group")) {
        let message = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), message));
    }
    causes.extend(spec(body, None));
    causes.extend(status(body));
    causes.extend(approval(body, None));
    causes
}

/// Validates a changed definition; returns no errors for objects of other kinds.
pub(crate) fn check_change(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    if !kind.is_crd() {
        return Vec::new();
    }
    let mut causes = spec(new, Some(old));
    let established = is_established(old);
    for (field, always) in [
        ("spec.scope", false),
        ("spec.names.kind", false),
        ("spec.group", true),
        ("spec.names.plural", true),
    ] {
        if (always || established) && at_path(old, field) != at_path(new, field) {
            let shown = string(new, field).into();
            causes.push(Cause::invalid(field, &shown, "field is immutable"));
        }
    }
    if established && conversion::authorities(old).is_none_or(conversion::is_bundle) {
        causes.extend(conversion::bad_bundle(new));
    }
    causes.extend(status(new));
    causes.extend(approval(new, Some(old)));
    causes
}

/// Validates a changed status of a definition; returns no errors for objects of other kinds.
pub(crate) fn check_status(kind: &Kind, new: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.is_crd() {
        spelling(new, "status.acceptedNames", &mut causes);
    }
    causes
}

/// Returns the warnings for an accepted definition; none for objects of other kinds.
pub(crate) fn warnings(kind: &Kind, old: Option<&Body>, new: &Body) -> Vec<String> {
    if !kind.is_crd() {
        return Vec::new();
    }
    let formats = |body: &Body| {
        let (own, shared) = split(body);
        let own = own.iter().filter_map(|version| version.get("schema"));
        let all = shared.get("validation").into_iter().chain(own);
        let all = all.filter_map(|schema| schema.get("openAPIV3Schema"));
        all.flat_map(definition::unknown_formats)
            .collect::<Vec<String>>()
    };
    let known = old.map(formats).unwrap_or_default();
    let fresh = formats(new)
        .into_iter()
        .filter(|format| !known.contains(format));
    fresh
        .map(|format| format!("unrecognized format {format:?}"))
        .collect()
}

fn string<'a>(body: &'a Body, path: &str) -> &'a str {
    let found = at_path(body, path).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn is_established(body: &Body) -> bool {
    let conditions = at_path(body, "status.conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == "Established" && found["status"] == "True")
}

fn spec(body: &Body, old: Option<&Body>) -> Vec<Cause> {
    let mut causes = Vec::new();
    group(string(body, "spec.group"), &mut causes);
    let scopes = ["Cluster", "Namespaced"];
    one_of(
        "spec.scope",
        string(body, "spec.scope"),
        &scopes,
        &mut causes,
    );
    all_versions(body, old, &mut causes);
    for part in ["plural", "singular", "kind", "listKind"] {
        let field = format!("spec.names.{part}");
        if string(body, &field).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    spelling(body, "spec.names", &mut causes);
    conversion::check(body, &mut causes);
    if at_path(body, "spec.preserveUnknownFields") == Some(&Value::Bool(true)) {
        unknown_fields(body, &mut causes);
    }
    causes
}

fn status(body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    spelling(body, "status.acceptedNames", &mut causes);
    stored_versions(body, &mut causes);
    causes
}

fn unknown_fields(body: &Body, causes: &mut Vec<Cause>) {
    let message = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    let field = "spec.preserveUnknownFields";
    causes.push(Cause::invalid(field, &true.into(), message));
    let strategy = string(body, "spec.conversion.strategy");
    if !matches!(strategy, "None") {
        let message = "must be None if spec.preserveUnknownFields is true";
        let field = "spec.conversion.strategy";
        causes.push(Cause::invalid(field, &strategy.into(), message));
    }
    let schemas = versions(body);
    let mut schemas = schemas.iter().filter_map(|version| version.get("schema"));
    if schemas.any(has_defaults) {
        let message = "must be false in order to use defaults in the schema";
        causes.push(Cause::invalid(field, &true.into(), message));
    }
}

fn has_defaults(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("default") || map.values().any(has_defaults),
        Value::Array(items) => items.iter().any(has_defaults),
        _ => false,
    }
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

/// Checks that a group of Kubernetes names its approval.
fn approval(body: &Body, old: Option<&Body>) -> Option<Cause> {
    let group = string(body, "spec.group");
    let ends = |end: &str| group == end || group.ends_with(&format!(".{end}"));
    if !ends("k8s.io") && !ends("kubernetes.io") {
        return None;
    }
    let given = |body: &Body| -> Option<String> {
        let found = metadata(body)?.get("annotations")?.get(APPROVAL)?;
        found
            .as_str()
            .map(str::to_owned)
            .filter(|text| !text.is_empty())
    };
    let state = |given: &Option<String>| match given {
        None => "missing",
        Some(text) if text.starts_with("unapproved") => "bypassed",
        Some(text) if is_link(text) => "approved",
        Some(_) => "invalid",
    };
    let found = given(body);
    if old.is_some_and(|old| state(&given(old)) == state(&found)) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state(&found) {
        "missing" => {
            let message =
                format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
            Some(Cause::required(field, &message))
        }
        "invalid" => {
            let message = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {see}"
            );
            Some(Cause::invalid(field, &found.into(), &message))
        }
        _ => None,
    }
}

fn is_link(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/') && !text.contains(' ')
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

/// Checks the spelling of the given names.
fn spelling(body: &Body, at: &str, causes: &mut Vec<Cause>) {
    let Some(given) = at_path(body, at).and_then(Value::as_object) else {
        return;
    };
    for part in ["plural", "singular", "kind", "listKind"] {
        let name = text(given, part);
        let mixed = matches!(part, "kind" | "listKind");
        let plain = if mixed {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        if let Some(message) = names::dns_1035(&plain).filter(|_| !name.is_empty()) {
            let start = if mixed {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            let message = format!("{start}{message}");
            causes.push(Cause::invalid(
                format!("{at}.{part}"),
                &name.into(),
                &message,
            ));
        }
    }
    if !text(given, "kind").is_empty() && text(given, "kind") == text(given, "listKind") {
        let name = text(given, "listKind").into();
        let message = "kind and listKind may not be the same";
        causes.push(Cause::invalid(format!("{at}.listKind"), &name, message));
    }
    for part in ["shortNames", "categories"] {
        let listed = given.get(part).and_then(Value::as_array);
        for (index, name) in listed.into_iter().flatten().enumerate() {
            if let Some(message) = names::dns_1035(name.as_str().unwrap_or_default()) {
                let field = format!("{at}.{part}[{index}]");
                causes.push(Cause::invalid(field, name, &message));
            }
        }
    }
}

/// Splits the versions into their own settings and those that all of them share.
fn split(body: &Body) -> (Vec<Body>, Map<String, Value>) {
    let mut own: Vec<Body> = versions(body).into_iter().cloned().collect();
    let mut shared = Map::new();
    for (name, above) in SHARED {
        let first = own.first().and_then(|version| version.get(name)).cloned();
        if own
            .iter()
            .all(|version| version.get(name) == first.as_ref())
        {
            shared.extend(first.map(|found| (above.to_owned(), found)));
            for version in &mut own {
                version.remove(name);
            }
        }
    }
    (own, shared)
}

fn all_versions(body: &Body, old: Option<&Body>, causes: &mut Vec<Cause>) {
    let (own, shared) = split(body);
    let has_status = |subresources: Option<&Value>| {
        subresources.is_some_and(|found| found.get("status").is_some())
    };
    for (at, version) in own.iter().enumerate() {
        let field = format!("spec.versions[{at}]");
        version::check(version, &field, causes);
        let schema = at_path(version, "schema.openAPIV3Schema");
        let above = shared
            .get("validation")
            .and_then(|found| found.get("openAPIV3Schema"));
        if schema.or(above).is_none() {
            let field = format!("{field}.schema.openAPIV3Schema");
            causes.push(Cause::required(field, ""));
        }
        if let Some(schema) = schema {
            let subresources = version.get("subresources").or(shared.get("subresources"));
            let status = has_status(subresources);
            let settled = is_settled(body, old, text(version, "name"));
            let field = format!("{field}.schema");
            causes.extend(definition::check(schema, &field, status, settled));
        }
    }
    if let Some(schema) = shared
        .get("validation")
        .and_then(|found| found.get("openAPIV3Schema"))
    {
        let mut all = own.iter().filter_map(|version| version.get("subresources"));
        let status = has_status(shared.get("subresources")) || all.any(|one| has_status(Some(one)));
        let settled = own.first().map(|version| text(version, "name"));
        let settled = settled.is_some_and(|name| is_settled(body, old, name));
        let found = definition::check(schema, "spec.validation", status, settled);
        causes.extend(found);
    }
    version::check_parts(&shared, "spec", shared.get("validation"), causes);
    together(body, &own, causes);
}

/// Returns true if the schema of a version is unchanged, and so was accepted before.
fn is_settled(body: &Body, old: Option<&Body>, name: &str) -> bool {
    let schema = |body: &Body| {
        let mut all = versions(body).into_iter();
        let version = all.find(|version| text(version, "name") == name)?;
        at_path(version, "schema.openAPIV3Schema").cloned()
    };
    old.is_some_and(|old| schema(old).is_some_and(|found| Some(found) == schema(body)))
}

/// Checks the versions as a whole.
fn together(body: &Body, own: &[Body], causes: &mut Vec<Cause>) {
    let mut complain = |message: &str| {
        let given = at_path(body, "spec.versions").is_some_and(Value::is_array);
        let shown = if given {
            printed::versions(&Value::from(own.to_vec()))
        } else {
            "null".to_owned()
        };
        let message = format!("Invalid value: {shown}: {message}");
        causes.push(Cause::new("FieldValueInvalid", "spec.versions", message));
    };
    let names: Vec<&str> = own.iter().map(|version| text(version, "name")).collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        complain("must contain unique version names");
    }
    let stored = |version: &&Body| version.get("storage") == Some(&Value::Bool(true));
    if own.iter().filter(stored).count() != 1 {
        complain("must have exactly one version marked as storage version");
    }
    // The real server also keeps the first version in a field of its own.
    let first = names.first().copied().filter(|name| !name.is_empty());
    if let Some((first, message)) = first.and_then(|name| Some((name, names::dns_1035(name)?))) {
        causes.push(Cause::invalid("spec.version", &first.into(), &message));
    }
}

fn stored_versions(body: &Body, causes: &mut Vec<Cause>) {
    let field = "status.storedVersions";
    let shown = at_path(body, field).cloned().unwrap_or_default();
    let known: Vec<&str> = shown
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if known.is_empty() {
        let shown = if shown.is_array() { Value::Null } else { shown };
        let message = "must have at least one stored version";
        causes.push(Cause::invalid(field, &shown, message));
        return;
    }
    let all = versions(body);
    for version in &all {
        let name = text(version, "name");
        let stored = version.get("storage") == Some(&Value::Bool(true));
        if stored && !known.contains(&name) {
            let message = format!("must have the storage version {name}");
            causes.push(Cause::invalid(field, &shown, &message));
        }
    }
    for (at, name) in known.iter().enumerate() {
        if !all.iter().any(|version| text(version, "name") == *name) {
            let message = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(
                format!("{field}[{at}]"),
                &(*name).into(),
                &message,
            ));
        }
    }
}
