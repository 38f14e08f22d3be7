//! Validates a version of a definition, except for its schema.
//!
//! Errors match the real server. Independent of other versions.

use serde_json::{Map, Value};

use crate::object::{Body, at_path, text};
use crate::rules::names;
use crate::schema::definition;
use crate::status::{Cause, shown};

/// The types of printer columns.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// The formats of printer columns.
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
/// The most selectable fields.
const MOST_SELECTABLE: usize = 8;

/// Validates the fields that belong to a single version.
pub(super) fn check(version: &Body, field: &str, causes: &mut Vec<Cause>) {
    let name = text(version, "name");
    if let Some(message) = names::dns_1035(name) {
        let field = format!("{field}.name");
        causes.push(Cause::invalid(field, &name.into(), &message));
    }
    let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        for message in misworded(deprecated, warning) {
            let field = format!("{field}.deprecationWarning");
            causes.push(Cause::invalid(field, &warning.into(), &message));
        }
    }
    check_parts(version, field, version.get("schema"), causes);
}

/// Validates subresources, printer columns and selectable fields, of one version or shared by all.
pub(super) fn check_parts(
    parts: &Map<String, Value>,
    field: &str,
    schema: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    let scale = at_path(parts, "subresources.scale").and_then(Value::as_object);
    if let Some(scale) = scale {
        check_scale(scale, &format!("{field}.subresources.scale"), causes);
    }
    let listed = |name: &str| parts.get(name).and_then(Value::as_array);
    let columns = listed("additionalPrinterColumns").into_iter().flatten();
    for (at, column) in columns.filter_map(Value::as_object).enumerate() {
        let field = format!("{field}.additionalPrinterColumns[{at}]");
        check_column(column, &field, causes);
    }
    if let Some(fields) = listed("selectableFields").filter(|fields| !fields.is_empty()) {
        let field = format!("{field}.selectableFields");
        if let Some(schema) = schema.and_then(|found| found.get("openAPIV3Schema")) {
            check_selectable(fields, schema, &field, causes);
        } else {
            let message = "may only be set when `version.schema.openAPIV3Schema` is not included";
            causes.push(Cause::invalid(field, &"".into(), message));
        }
    }
}

fn misworded(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut messages = Vec::new();
    if warning.len() > 256 {
        messages.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        messages.push("must not be an empty string".to_owned());
    }
    // Go counts only the plain space as printable, and no other white space.
    let odd = |letter: char| letter.is_control() || (letter.is_whitespace() && letter != ' ');
    if let Some(at) = warning.find(odd) {
        messages.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    messages
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
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let message = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.push(Cause::invalid(
            format!("{field}.format"),
            &format.into(),
            &message,
        ));
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

fn check_selectable(fields: &[Value], schema: &Value, field: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<String> = Vec::new();
    for (at, selectable) in fields.iter().enumerate() {
        let field = format!("{field}[{at}].jsonPath");
        let path = selectable["jsonPath"].as_str().unwrap_or_default();
        let mut complain = |message: &str| {
            causes.push(Cause::invalid(&*field, &path.into(), message));
        };
        if path.is_empty() {
            causes.push(Cause::required(field, ""));
            continue;
        }
        let (normal, found) = match definition::find(path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                complain(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        if normal == "metadata" || normal.starts_with("metadata.") {
            complain("must not point to fields in metadata");
        }
        if !matches!(
            found["type"].as_str(),
            Some("string" | "boolean" | "integer")
        ) {
            complain(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            );
        }
        if seen.contains(&normal) {
            let message = format!("Duplicate value: {}", shown(&path.into()));
            causes.push(Cause::new("FieldValueDuplicate", field, message));
        } else {
            seen.push(normal);
        }
    }
    if seen.len() > MOST_SELECTABLE {
        let message = format!(
            "Too many: {}: must have at most {MOST_SELECTABLE} items",
            seen.len()
        );
        causes.push(Cause::new("FieldValueTooMany", field, message));
    }
}
