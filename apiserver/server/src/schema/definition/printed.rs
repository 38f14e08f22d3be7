//! Prints parts of a definition as the real server does in error messages: as JSON of its Go structs.
//!
//! Prints all fields, in the order and under the names of the struct. Independent of what the error is.

use serde_json::Value;

/// The Go type that decides how a field is printed.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    /// The JSON as it is, or `null` if the field is absent.
    Plain,
    Schema,
    Schemas,
    Items,
    OrBool,
    Map,
    OrTexts,
    Struct(&'static [(&'static str, &'static str, Kind)]),
    Structs(&'static [(&'static str, &'static str, Kind)]),
}

type Fields = [(&'static str, &'static str, Kind)];

const RULE: &Fields = &[
    ("Rule", "rule", Kind::Text),
    ("Message", "message", Kind::Text),
    ("MessageExpression", "messageExpression", Kind::Text),
    ("Reason", "reason", Kind::Plain),
    ("FieldPath", "fieldPath", Kind::Text),
    ("OptionalOldSelf", "optionalOldSelf", Kind::Plain),
];

const DOCS: &Fields = &[
    ("Description", "description", Kind::Text),
    ("URL", "url", Kind::Text),
];

const SCHEMA: &Fields = &[
    ("ID", "id", Kind::Text),
    ("Schema", "$schema", Kind::Text),
    ("Ref", "$ref", Kind::Plain),
    ("Description", "description", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Nullable", "nullable", Kind::Bool),
    ("Format", "format", Kind::Text),
    ("Title", "title", Kind::Text),
    ("Default", "default", Kind::Plain),
    ("Maximum", "maximum", Kind::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Kind::Bool),
    ("Minimum", "minimum", Kind::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Kind::Bool),
    ("MaxLength", "maxLength", Kind::Plain),
    ("MinLength", "minLength", Kind::Plain),
    ("Pattern", "pattern", Kind::Text),
    ("MaxItems", "maxItems", Kind::Plain),
    ("MinItems", "minItems", Kind::Plain),
    ("UniqueItems", "uniqueItems", Kind::Bool),
    ("MultipleOf", "multipleOf", Kind::Plain),
    ("Enum", "enum", Kind::Plain),
    ("MaxProperties", "maxProperties", Kind::Plain),
    ("MinProperties", "minProperties", Kind::Plain),
    ("Required", "required", Kind::Plain),
    ("Items", "items", Kind::Items),
    ("AllOf", "allOf", Kind::Schemas),
    ("OneOf", "oneOf", Kind::Schemas),
    ("AnyOf", "anyOf", Kind::Schemas),
    ("Not", "not", Kind::Schema),
    ("Properties", "properties", Kind::Map),
    ("AdditionalProperties", "additionalProperties", Kind::OrBool),
    ("PatternProperties", "patternProperties", Kind::Map),
    ("Dependencies", "dependencies", Kind::OrTexts),
    ("AdditionalItems", "additionalItems", Kind::OrBool),
    ("Definitions", "definitions", Kind::Map),
    ("ExternalDocs", "externalDocs", Kind::Struct(DOCS)),
    ("Example", "example", Kind::Plain),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Kind::Plain,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Kind::Bool,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Kind::Bool),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Kind::Plain),
    ("XListType", "x-kubernetes-list-type", Kind::Plain),
    ("XMapType", "x-kubernetes-map-type", Kind::Plain),
    (
        "XValidations",
        "x-kubernetes-validations",
        Kind::Structs(RULE),
    ),
];

const SCALE: &Fields = &[
    ("SpecReplicasPath", "specReplicasPath", Kind::Text),
    ("StatusReplicasPath", "statusReplicasPath", Kind::Text),
    ("LabelSelectorPath", "labelSelectorPath", Kind::Plain),
];

const VERSION: &Fields = &[
    ("Name", "name", Kind::Text),
    ("Served", "served", Kind::Bool),
    ("Storage", "storage", Kind::Bool),
    ("Deprecated", "deprecated", Kind::Bool),
    ("DeprecationWarning", "deprecationWarning", Kind::Plain),
    (
        "Schema",
        "schema",
        Kind::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", Kind::Schema)]),
    ),
    (
        "Subresources",
        "subresources",
        Kind::Struct(&[
            ("Status", "status", Kind::Plain),
            ("Scale", "scale", Kind::Struct(SCALE)),
        ]),
    ),
    (
        "AdditionalPrinterColumns",
        "additionalPrinterColumns",
        Kind::Structs(&[
            ("Name", "name", Kind::Text),
            ("Type", "type", Kind::Text),
            ("Format", "format", Kind::Text),
            ("Description", "description", Kind::Text),
            ("Priority", "priority", Kind::Plain),
            ("JSONPath", "jsonPath", Kind::Text),
        ]),
    ),
    (
        "SelectableFields",
        "selectableFields",
        Kind::Structs(&[("JSONPath", "jsonPath", Kind::Text)]),
    ),
];

/// Returns the keywords that the schema has, in the order of the struct.
pub(super) fn in_order(schema: &Value) -> Vec<&'static str> {
    let names = SCHEMA.iter().map(|(_, name, _)| *name);
    names.filter(|name| schema.get(*name).is_some()).collect()
}

/// Prints a schema.
pub(super) fn schema(value: &Value) -> String {
    printed(Kind::Schema, Some(value))
}

/// Prints a rule.
pub(super) fn rule(value: &Value) -> String {
    printed(Kind::Struct(RULE), Some(value))
}

/// Prints the versions of a definition.
pub(crate) fn versions(value: &Value) -> String {
    printed(Kind::Structs(VERSION), Some(value))
}

fn printed(kind: Kind, found: Option<&Value>) -> String {
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return match kind {
            Kind::Text => "\"\"".to_owned(),
            Kind::Bool => "false".to_owned(),
            _ => "null".to_owned(),
        };
    };
    match kind {
        Kind::Text | Kind::Bool | Kind::Plain => plain(found),
        Kind::Schema => fields(SCHEMA, found),
        Kind::Schemas => list(Kind::Schema, found),
        Kind::Struct(of) => fields(of, found),
        Kind::Structs(of) => list(Kind::Struct(of), found),
        Kind::Map => map(Kind::Schema, found),
        Kind::OrTexts => map(Kind::Items, found),
        Kind::OrBool => {
            let allows = *found != false;
            let schema = Some(found).filter(|found| found.is_object());
            let schema = printed(Kind::Schema, schema);
            format!("{{\"Allows\":{allows},\"Schema\":{schema}}}")
        }
        Kind::Items => {
            let one = printed(Kind::Schema, Some(found).filter(|found| found.is_object()));
            let many = printed(Kind::Schemas, Some(found).filter(|found| found.is_array()));
            format!("{{\"Schema\":{one},\"JSONSchemas\":{many}}}")
        }
    }
}

/// Prints JSON as Go does, which escapes HTML characters.
fn plain(value: &Value) -> String {
    let text = value.to_string();
    text.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

fn fields(of: &Fields, found: &Value) -> String {
    let field = |(title, name, kind): &(&str, &str, Kind)| {
        format!("\"{title}\":{}", printed(*kind, found.get(*name)))
    };
    let fields: Vec<String> = of.iter().map(field).collect();
    format!("{{{}}}", fields.join(","))
}

fn list(kind: Kind, found: &Value) -> String {
    let items = found.as_array().into_iter().flatten();
    let items: Vec<String> = items.map(|item| printed(kind, Some(item))).collect();
    format!("[{}]", items.join(","))
}

fn map(kind: Kind, found: &Value) -> String {
    let entries = found.as_object().into_iter().flatten();
    let entry = |(name, value): (&String, &Value)| {
        format!(
            "{}:{}",
            plain(&name.as_str().into()),
            printed(kind, Some(value))
        )
    };
    let entries: Vec<String> = entries.map(entry).collect();
    format!("{{{}}}", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_is_printed_whole() {
        assert_eq!(
            rule(&json!({"rule": "self > 1"})),
            r#"{"Rule":"self \u003e 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}"#
        );
    }
}
