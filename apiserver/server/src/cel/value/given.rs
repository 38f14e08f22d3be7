//! JSON as expressions see it through its schema.
//!
//! Fields that are missing from the schema are not visible. Independent of functions.

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map as JsonMap, Value as Json, json};

use super::moment::Moment;
use super::{Fault, Items, List, Map, Outcome, Value};
use crate::cel::kind::{escaped, unescaped};
use crate::schema::format;

/// The visible part of an object's metadata.
static METADATA: LazyLock<Json> = LazyLock::new(
    || json!({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}),
);

static NAME: LazyLock<Json> = LazyLock::new(|| json!({"type": "string"}));

impl<'a> Value<'a> {
    /// Converts JSON by its schema; `whole` means that it is a Kubernetes object with metadata.
    pub(crate) fn of(schema: &'a Json, json: &'a Json, whole: bool) -> Outcome<'a> {
        match json {
            Json::Object(map) if whole => Ok(Self::Map(Map::Given {
                map,
                schema: Some(schema),
                whole,
            })),
            _ => value(Some(schema), json),
        }
    }

    /// Converts JSON by its own types, without a schema.
    pub(crate) fn plain(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(truth) => Self::Bool(*truth),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) => Self::Int(whole),
                (None, Some(whole)) => Self::Uint(whole),
                _ => Self::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::text(text.as_str()),
            Json::Array(items) => Self::List(List {
                items: Items::Given(items),
                schema: None,
            }),
            Json::Object(map) => Self::Map(Map::Given {
                map,
                schema: None,
                whole: false,
            }),
        }
    }
}

fn is(schema: &Json, flag: &str) -> bool {
    schema.get(flag) == Some(&Json::Bool(true))
}

fn wrong<'a>(wanted: &str, found: &Json) -> Outcome<'a> {
    let found = crate::schema::go::type_of(found);
    Err(Fault::Told(format!(
        "invalid data, expected {wanted}, got {found}"
    )))
}

/// Converts JSON by its schema, or by its own types if there is none.
pub(super) fn value<'a>(schema: Option<&'a Json>, json: &'a Json) -> Outcome<'a> {
    let Some(schema) = schema else {
        return Ok(Value::plain(json));
    };
    if json.is_null() {
        return if is(schema, "nullable") {
            Ok(Value::Null)
        } else {
            let why = "invalid data, got null for schema with nullable=false";
            Err(Fault::told(why))
        };
    }
    if is(schema, "x-kubernetes-int-or-string") {
        return match json {
            Json::String(_) => Ok(Value::plain(json)),
            Json::Number(number) if number.is_i64() => Ok(Value::plain(json)),
            _ => Err(Fault::told(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
        };
    }
    let kind = schema
        .get("type")
        .and_then(Json::as_str)
        .unwrap_or_default();
    match (kind, json) {
        ("object", Json::Object(map)) => Ok(Value::Map(Map::Given {
            map,
            schema: Some(schema),
            whole: is(schema, "x-kubernetes-embedded-resource"),
        })),
        ("object", _) => Err(Fault::told(
            "invalid data, expected a map for the provided schema with type=object",
        )),
        ("array", Json::Array(items)) => Ok(Value::List(List {
            items: Items::Given(items),
            schema: Some(schema),
        })),
        ("array", _) => Err(Fault::told(
            "invalid data, expected an array for the provided schema with type=array",
        )),
        ("string", Json::String(found)) => text(schema, found),
        ("string", found) => wrong("string", found),
        ("number", Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or_default())),
        ("number", found) => wrong("float", found),
        ("integer", Json::Number(number)) if number.is_i64() => Ok(Value::plain(json)),
        ("integer", found) => wrong("int", found),
        ("boolean", Json::Bool(truth)) => Ok(Value::Bool(*truth)),
        ("boolean", found) => wrong("bool", found),
        _ if is(schema, "x-kubernetes-preserve-unknown-fields") => Ok(Value::Unknown(json)),
        (other, _) => Err(Fault::Told(format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {other}"
        ))),
    }
}

fn text<'a>(schema: &'a Json, text: &'a str) -> Outcome<'a> {
    let invalid = |what: &str| Fault::Told(format!("Invalid {what} {text}"));
    match schema.get("format").and_then(Json::as_str) {
        Some("duration") => {
            let nanos = format::duration(text).ok_or_else(|| invalid("duration"))?;
            Ok(Value::Duration(nanos))
        }
        Some("date") => {
            let moment = Moment::parse(&format!("{text}T00:00:00Z"));
            let moment = moment.ok_or_else(|| invalid("date formatted string"))?;
            Ok(Value::Timestamp(moment))
        }
        Some("date-time" | "datetime") => {
            let moment = Moment::parse(text);
            let moment = moment.ok_or_else(|| invalid("date-time formatted string"))?;
            Ok(Value::Timestamp(moment))
        }
        Some("byte") => {
            let octets = base64::engine::general_purpose::STANDARD.decode(text);
            let octets = octets.map_err(|_| invalid("byte formatted string"))?;
            Ok(Value::Bytes(Cow::Owned(octets)))
        }
        _ => Ok(Value::text(text)),
    }
}

/// Returns true if the schema declares fields rather than map entries.
fn has_fields(schema: &Json, whole: bool) -> bool {
    whole || schema.get("properties").is_some()
}

/// Returns the schema of a field, or `None` for a field that is not visible.
pub(super) fn part<'a>(schema: &'a Json, whole: bool, name: &str) -> Option<&'a Json> {
    if whole {
        match name {
            "metadata" => return Some(&METADATA),
            "kind" | "apiVersion" => return Some(&NAME),
            _ => {}
        }
    }
    if has_fields(schema, whole) {
        return schema.get("properties")?.get(name);
    }
    schema
        .get("additionalProperties")
        .filter(|extra| extra.is_object())
}

/// Returns the field with the (escaped) name that an expression uses.
pub(super) fn field<'a>(
    map: &'a JsonMap<String, Json>,
    schema: Option<&'a Json>,
    whole: bool,
    name: &str,
) -> Option<Outcome<'a>> {
    let Some(schema) = schema else {
        return map.get(name).map(|found| value(None, found));
    };
    let fields = has_fields(schema, whole);
    let name = if fields {
        unescaped(name)?
    } else {
        Cow::Borrowed(name)
    };
    let found = map.get(&*name)?;
    if fields && found.is_null() {
        return None;
    }
    let part = part(schema, whole, &name)?;
    Some(value(Some(part), found))
}

/// Returns the name that an expression uses for a key, or `None` for a key that is not visible.
pub(super) fn shown_name<'a>(
    schema: Option<&'a Json>,
    whole: bool,
    name: &'a str,
) -> Option<Cow<'a, str>> {
    let Some(schema) = schema else {
        return Some(name.into());
    };
    part(schema, whole, name)?;
    if !has_fields(schema, whole) {
        return Some(name.into());
    }
    Some(escaped(name).map_or(Cow::Borrowed(name), Cow::Owned))
}
