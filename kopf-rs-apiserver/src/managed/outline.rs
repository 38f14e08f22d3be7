//! How objects come apart: which maps and lists are merged part by part, which as a whole, and how items are told apart.
//!
//! Promise: the same view of built-in types, of schemas of custom kinds, and of what no schema describes.
//! Must not know sets or managers.

use serde_json::{Map, Value};

use crate::patch::strategic::go;
use crate::typed::{self, Relation, Struct, Type};

/// What is known of a place in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outline<'a> {
    Struct(&'static Struct),
    Field(&'a Type, &'a Relation),
    /// The schema of a whole custom object.
    Root(&'a Value),
    Schema(&'a Value),
    /// Nothing: maps come apart, lists do not.
    Free,
    /// Nothing below here may be.
    Undeclared,
}

/// How a value at a place comes apart.
#[derive(Clone, Debug)]
pub(crate) enum Form<'a> {
    /// Not at all.
    Whole,
    Map,
    /// Into items that are told apart by themselves.
    Set,
    /// Into items that are told apart by these fields.
    Keyed(Vec<&'a str>),
}

const USUAL: Relation = Relation::Usual;

// === impl Outline ===

impl<'a> Outline<'a> {
    /// How this value comes apart here.
    pub(crate) fn form(self, value: &Value) -> Form<'a> {
        match (self, value) {
            (Self::Struct(of), Value::Object(_)) if of.atomic => Form::Whole,
            (Self::Struct(_) | Self::Root(_) | Self::Free, Value::Object(_)) => Form::Map,
            (Self::Field(of, relation), value) => form_of_field(of, relation, value),
            (Self::Schema(schema), value) => form_of_schema(schema, value),
            _ => Form::Whole,
        }
    }

    /// What is known of a field of a map.
    pub(crate) fn child(self, name: &str) -> Self {
        match self {
            Self::Struct(of) => match of.field(name) {
                Some(field) => Self::Field(&field.of, &field.relation),
                None => Self::Undeclared,
            },
            Self::Field(of, _) => match (of.as_struct(), of.element()) {
                (Some(of), _) => Self::Struct(of).child(name),
                (None, Some(element)) => Self::Field(element, &USUAL),
                (None, None) => Self::Free,
            },
            Self::Root(_) if name == "metadata" => {
                typed::metadata().map_or(Self::Free, Self::Struct)
            }
            Self::Root(_) if matches!(name, "apiVersion" | "kind") => Self::Free,
            Self::Root(schema) => Self::Schema(schema).child(name),
            Self::Schema(schema) => child_of_schema(schema, name),
            Self::Free | Self::Undeclared => Self::Free,
        }
    }

    /// What is known of the items of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Field(of, _) => of
                .element()
                .map_or(Self::Free, |of| Self::Field(of, &USUAL)),
            Self::Schema(schema) => schema.get("items").map_or(Self::Free, Self::Schema),
            _ => Self::Free,
        }
    }

    /// Why a value without parts cannot be here.
    pub(crate) fn misfit(self, value: &Value) -> Option<String> {
        let wanted = match self {
            Self::Field(of, _) => of.wanted()?,
            Self::Schema(schema) if schema["x-kubernetes-int-or-string"] == true => return None,
            Self::Schema(schema) => match schema["type"].as_str()? {
                "string" => "string",
                "boolean" => "boolean",
                "integer" | "number" => "numeric (int or float)",
                "object" => "map",
                "array" => "list",
                _ => return None,
            },
            Self::Struct(_) | Self::Root(_) => "map",
            Self::Free | Self::Undeclared => return None,
        };
        let fits = match value {
            Value::Null => true,
            Value::String(_) => wanted == "string",
            Value::Bool(_) => wanted == "boolean",
            Value::Number(_) => wanted.starts_with("numeric"),
            Value::Array(_) => wanted == "list",
            Value::Object(_) => wanted == "map",
        };
        let got = match wanted {
            "string" => format!("&value.valueUnstructured{{Value:{value}}}"),
            "numeric (int or float)" => go_type(value).to_owned(),
            _ => format!("&{{{}}}", go(value)),
        };
        (!fits).then(|| format!("expected {wanted}, got {got}"))
    }

    /// Whether a field is one of those the type names, rather than one key of many.
    pub(crate) fn names(self, field: &str) -> bool {
        match self {
            Self::Struct(of) => of.field(field).is_some(),
            Self::Field(of, _) => of.as_struct().is_some_and(|of| of.field(field).is_some()),
            Self::Root(_) if matches!(field, "apiVersion" | "kind" | "metadata") => true,
            Self::Schema(schema)
                if field == "metadata" && schema["x-kubernetes-embedded-resource"] == true =>
            {
                true
            }
            Self::Root(schema) | Self::Schema(schema) => schema["properties"].get(field).is_some(),
            Self::Free | Self::Undeclared => false,
        }
    }

    /// How an item of such a list is called in a set of fields; why it cannot be.
    pub(crate) fn item_name(self, form: &Form<'_>, item: &Value) -> Result<String, String> {
        match (form, item) {
            (Form::Keyed(keys), Value::Object(map)) => self.keys_of(keys, map),
            (Form::Keyed(_), Value::Null) => {
                Err("associative list with keys may not have a null element".to_owned())
            }
            (Form::Keyed(_), _) => {
                Err("associative list with keys may not have non-map elements".to_owned())
            }
            (_, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            (_, Value::Array(_)) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            (_, Value::Null) => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            (_, item) => Ok(format!("v:{item}")),
        }
    }

    fn keys_of(self, keys: &[&str], item: &Map<String, Value>) -> Result<String, String> {
        let of = self.item();
        let found: Map<String, Value> = keys
            .iter()
            .filter_map(|key| {
                let value = item.get(*key).cloned().or_else(|| of.default_of(key))?;
                Some(((*key).to_owned(), value))
            })
            .collect();
        if found.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
            )
            .replace("\", \"", "\" \""));
        }
        Ok(format!("k:{}", Value::Object(found)))
    }

    fn default_of(self, key: &str) -> Option<Value> {
        match self {
            Self::Struct(of) => of.field(key)?.usual(),
            Self::Field(of, _) => of.as_struct()?.field(key)?.usual(),
            Self::Schema(schema) => schema["properties"].get(key)?.get("default").cloned(),
            _ => None,
        }
    }
}

/// What Go's `%T` says of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn form_of_field<'a>(of: &'a Type, relation: &'a Relation, value: &Value) -> Form<'a> {
    match (of, relation, value) {
        (Type::Pointer(of), relation, value) => form_of_field(of, relation, value),
        (_, Relation::Atomic, _) => Form::Whole,
        (Type::Struct(_), _, Value::Object(_)) if of.as_struct().is_some_and(|of| of.atomic) => {
            Form::Whole
        }
        (Type::Struct(_) | Type::Map(_), _, Value::Object(_)) => Form::Map,
        (Type::List(_) | Type::Wrapped(_), Relation::Set, Value::Array(_)) => Form::Set,
        (Type::List(_) | Type::Wrapped(_), Relation::Keys(keys), Value::Array(_)) => {
            Form::Keyed(keys.clone())
        }
        _ => Form::Whole,
    }
}

fn form_of_schema<'a>(schema: &'a Value, value: &Value) -> Form<'a> {
    match value {
        Value::Object(_) if schema["type"] == "array" => Form::Whole,
        Value::Array(_) if schema["type"] == "object" => Form::Whole,
        Value::Object(_) if schema["x-kubernetes-map-type"] == "atomic" => Form::Whole,
        Value::Object(_) => Form::Map,
        Value::Array(_) => match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Form::Set,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array();
                Form::Keyed(
                    keys.into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .collect(),
                )
            }
            _ => Form::Whole,
        },
        _ => Form::Whole,
    }
}

fn child_of_schema<'a>(schema: &'a Value, name: &str) -> Outline<'a> {
    if let Some(known) = schema.get("properties").and_then(|found| found.get(name)) {
        return Outline::Schema(known);
    }
    if name == "metadata" && schema["x-kubernetes-embedded-resource"] == true {
        return typed::metadata().map_or(Outline::Free, Outline::Struct);
    }
    match schema.get("additionalProperties") {
        Some(extra @ Value::Object(_)) => Outline::Schema(extra),
        Some(Value::Bool(true)) => Outline::Free,
        _ if schema["x-kubernetes-preserve-unknown-fields"] == true => Outline::Free,
        _ if schema["x-kubernetes-embedded-resource"] == true => Outline::Free,
        _ => Outline::Undeclared,
    }
}
