//! Objects embedded in other objects: `x-kubernetes-embedded-resource`.
//!
//! An embedded object must have a type, and its metadata follows the rules of any object. Independent of other ways to walk a schema.

use serde_json::{Map, Value};

use super::walk::walk;
use crate::kind::Kind;
use crate::rules::{self, names};
use crate::status::{Cause, shown};

/// Drops unknown metadata fields of embedded objects and records their paths; fails if the metadata has a wrong type.
pub(super) fn tidy(
    schema: &Value,
    found: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match found {
        Value::Object(map) => {
            if super::is(schema, "x-kubernetes-embedded-resource") {
                tidy_object(map, path, unknown)?;
            }
            for (name, found) in map {
                if let Some((schema, field)) = super::part(schema, name, path) {
                    tidy(schema, found, &field, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (at, item) in items.iter_mut().enumerate() {
                    tidy(schema, item, &format!("{path}[{at}]"), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn tidy_object(
    map: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let wrong = |name: &str, found: &Value, why: &str| {
        let field = super::join(path, name);
        format!("{field}: Invalid value: {}: {why}", shown(found))
    };
    for name in ["apiVersion", "kind"] {
        if let Some(found) = map.get(name).filter(|found| !found.is_string()) {
            return Err(wrong(name, found, "must be a string"));
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return Ok(());
    };
    if let Err(why) = rules::check_types(&Kind::anonymous(), map) {
        return Err(wrong("metadata", metadata, &why));
    }
    let dropped = rules::tidy(map);
    unknown.extend(dropped.iter().map(|name| super::join(path, name)));
    Ok(())
}

/// Validates all embedded objects.
pub(super) fn check(schema: &Value, found: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, found, field, &mut |schema, found, field| {
        if let Value::Object(map) = found
            && super::is(schema, "x-kubernetes-embedded-resource")
        {
            check_object(map, field, &mut causes);
        }
    });
    causes
}

/// Validates one embedded object.
pub(super) fn check_object(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let field = super::join(path, name);
        match map.get(name) {
            None => causes.push(Cause::required(field, "")),
            Some(Value::String(text)) => {
                if let Some(why) = misnamed(name, text) {
                    causes.push(Cause::invalid(field, &text.as_str().into(), &why));
                }
            }
            Some(other) => causes.push(Cause::invalid(field, other, "must be a string")),
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    if let Err(why) = rules::check_types(&Kind::anonymous(), map) {
        // `tidy` rejects wrong types first, so this concerns only values that were never decoded, such as defaults.
        causes.push(Cause::invalid(
            super::join(path, "metadata"),
            metadata,
            &why,
        ));
        return;
    }
    let found = rules::check(&Kind::anonymous(), map);
    // Embedded objects may have any name that is valid within a path.
    let inner = found.into_iter().filter(|cause| {
        !matches!(
            cause.field.as_str(),
            "metadata.name" | "metadata.generateName"
        )
    });
    causes.extend(inner.map(|cause| Cause {
        field: super::join(path, &cause.field),
        ..cause
    }));
    for name in ["name", "generateName"] {
        let given = crate::object::meta_text(map, name);
        if let Some(why) = names::path_segment(given) {
            let field = super::join(path, &format!("metadata.{name}"));
            causes.push(Cause::invalid(field, &given.into(), &why));
        }
    }
}

fn misnamed(name: &str, text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name == "kind" {
        let why = names::dns_1035(&text.to_lowercase())?;
        return Some(format!(
            "may have mixed case, but should otherwise match: {why}"
        ));
    }
    let slashes = text.matches('/').count();
    (slashes > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}
