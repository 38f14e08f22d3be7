//! Validates the schemas of a custom resource definition.
//!
//! Errors match the real server, including the checks that it skips after a first error. Independent of the rest of the definition.

mod dialect;
mod path;
mod preset;
pub(crate) mod printed;
mod ruled;
mod structural;

pub(crate) use path::find;

use serde_json::Value;

use crate::status::Cause;

/// The keywords that may stand at the root of a schema with a status subresource.
const BESIDE_STATUS: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
    ),
    ("XValidations", "x-kubernetes-validations"),
];

/// Validates the schema of a version at `field`; `settled` means that an earlier request was accepted with it.
pub(crate) fn check(schema: &Value, field: &str, has_status: bool, settled: bool) -> Vec<Cause> {
    let place = format!("{field}.openAPIV3Schema");
    let mut causes = Vec::new();
    if has_status {
        causes.extend(beside_status(schema, &place));
    }
    if super::is(schema, "nullable") {
        let message = "nullable cannot be true at the root";
        causes.push(Cause::forbidden(format!("{place}.nullable"), message));
    }
    let unsupported = structural::unsupported(schema);
    let mut structure = Vec::new();
    if unsupported.is_none() {
        structure = structural::check(schema, &place);
        if structure.is_empty() {
            structure = preset::check(schema, &place);
        }
    }
    let sound = unsupported.is_none() && structure.is_empty();
    causes.append(&mut structure);
    causes.extend(dialect::check(schema, &place, sound, settled));
    match unsupported {
        // Other checks usually report the same problem in other words.
        Some(why) if causes.is_empty() => {
            causes.push(Cause::invalid(place, &"".into(), &why));
        }
        _ => {}
    }
    causes
}

/// Returns the formats that are unknown for the type of their schema.
pub(crate) fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let given = schema.get("format").and_then(Value::as_str);
    let given = given.filter(|format| !format.is_empty());
    // The real server ignores int-or-string here and looks at the plain type.
    let mut plain = schema.clone();
    if let Value::Object(map) = &mut plain {
        map.remove("x-kubernetes-int-or-string");
    }
    if let Some(format) = given.filter(|_| super::format::of(&plain).is_empty()) {
        found.push(format.to_owned());
    }
    found.extend(structural::below(schema).flat_map(unknown_formats));
    found
}

/// Returns an error for a keyword that the root may not have beside a status subresource, because the status is validated separately.
fn beside_status(schema: &Value, place: &str) -> Option<Cause> {
    let fields = printed::in_order(schema);
    for name in fields {
        if name == "type" {
            let kind = schema[name].as_str().unwrap_or_default();
            if kind != "object" {
                let message = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                return Some(Cause::invalid(
                    format!("{place}.type"),
                    &kind.into(),
                    message,
                ));
            }
        } else if !BESIDE_STATUS.iter().any(|(_, known)| *known == name) {
            let known: Vec<&str> = BESIDE_STATUS.iter().map(|(known, _)| *known).collect();
            let message = format!(
                "Invalid value: {}: only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                printed::schema(schema),
                known.join(" ")
            );
            return Some(Cause::new("FieldValueInvalid", place, message));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_by_table() {
        for (schema, expected) in [
            (json!({"type": "object"}), ""),
            (
                json!({}),
                "s.openAPIV3Schema.type: Required value: must not be empty at the root",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "s.openAPIV3Schema.properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
                "",
            ),
            (
                json!({"type": "object", "anyOf": [{"type": "object"}]}),
                "s.openAPIV3Schema.anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}}),
                "s.openAPIV3Schema.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
                "s.openAPIV3Schema.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
            ),
        ] {
            let told: Vec<String> = check(&schema, "s", false, false)
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(told.join("; "), expected, "{schema}");
        }
    }
}
