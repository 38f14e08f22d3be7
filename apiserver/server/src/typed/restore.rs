//! Converts a map to a Go struct as the real server does after a strategic merge patch: without JSON in between, so that it accepts
//! other numbers and reports other errors than the decoder.
//!
//! The result is valid input for `shape`. Independent of patches.

use serde_json::{Map, Value};

use super::scalar::{self, Why};
use super::shape::{self, Misfit};
use super::{Struct, Type, by_index};
use crate::schema::go::type_of;

type Fields = Map<String, Value>;

/// Converts the values of a whole object to their types; returns the unknown fields.
///
/// # Errors
///
/// Returns the error of Go's converter if a value does not match its type.
pub(crate) fn restore(of: &'static Struct, body: &mut Fields) -> Result<Vec<String>, String> {
    let word = Type::Text("string");
    let mut unknown = Vec::new();
    for field in ["kind", "apiVersion"] {
        if let Some(found) = body.get_mut(field) {
            value(&word, found, field, &mut unknown)?;
        }
    }
    object(of, body, "", &mut unknown)?;
    unknown.retain(|name| name != "kind" && name != "apiVersion");
    unknown.sort();
    Ok(unknown)
}

fn object(
    of: &'static Struct,
    body: &mut Fields,
    at: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let below = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    fields(of, body, &below, unknown)?;
    let strange = body.keys().filter(|name| of.field(name).is_none());
    unknown.extend(strange.map(|name| below(name)));
    Ok(())
}

fn fields(
    of: &'static Struct,
    body: &mut Fields,
    below: &dyn Fn(&str) -> String,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for field in &of.fields {
        match field.of.as_struct() {
            Some(inner) if field.is_inline() => fields(inner, body, below, unknown)?,
            _ => {
                if let Some(found) = body.get_mut(field.name) {
                    value(&field.of, found, &below(field.name), unknown)?;
                }
            }
        }
    }
    Ok(())
}

fn value(of: &Type, found: &mut Value, at: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    if found.is_null() {
        return Ok(());
    }
    match (of, found) {
        (Type::Pointer(of), found) => value(of, found, at, unknown),
        (Type::Struct(index), Value::Object(map)) => object(by_index(*index), map, at, unknown),
        (Type::Struct(_), found) => Err(format!("cannot restore struct from: {}", word(found))),
        (Type::List(of) | Type::Wrapped(of), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                value(of, item, &format!("{at}[{index}]"), unknown)?;
            }
            Ok(())
        }
        // Go's error does not include the key of a map entry.
        (Type::Map(of), Value::Object(map)) => map
            .values_mut()
            .try_for_each(|found| value(of, found, at, unknown)),
        (Type::Map(_), found) => Err(format!("cannot restore map from {}", word(found))),
        (Type::Bytes, Value::String(text)) => of_bytes(text),
        (Type::List(_) | Type::Wrapped(_) | Type::Bytes, found) => {
            Err(format!("cannot restore slice from {}", word(found)))
        }
        (of, found) => simple(of, found),
    }
}

fn of_bytes(text: &str) -> Result<(), String> {
    match scalar::value(&Type::Bytes, &text.into()) {
        Some(Err(Why::Text(why) | Why::Found(why))) => {
            Err(format!("error decoding from json: {why}"))
        }
        _ => Ok(()),
    }
}

/// Converts a value without parts, or one that parses itself.
fn simple(of: &Type, found: &mut Value) -> Result<(), String> {
    let kind = match of {
        Type::Text(_) => "string",
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float => "float64",
        _ => {
            let told = |misfit: Misfit| misfit.to_string();
            return shape::value(of, found.clone(), &mut Vec::new())
                .map(|_| ())
                .map_err(told);
        }
    };
    let cannot = |found: &Value| format!("cannot convert {} to {}", type_of(found), of.go_name());
    match (of, &*found) {
        (Type::Text(_), Value::String(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Float, Value::Number(_)) => Ok(()),
        (Type::Text(_), Value::Number(number)) if !number.is_f64() => Err(cannot(found)),
        (Type::Int32 | Type::Int64, Value::Number(_)) => {
            let Some(number) = whole(found) else {
                return Err(cannot(found));
            };
            *found = match of {
                Type::Int32 => cut(number).into(),
                _ => number.into(),
            };
            Ok(())
        }
        _ => Err(format!("unrecognized type: {kind}")),
    }
}

/// Returns a number without a fraction as an integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "as Go converts whole floats"
)]
fn whole(found: &Value) -> Option<i64> {
    let float = || found.as_f64().filter(|float| float.fract() == 0.0);
    found.as_i64().or_else(|| float().map(|float| float as i64))
}

/// Truncates a number that is too large to its lower half, as Go does.
#[expect(clippy::cast_possible_truncation, reason = "as Go converts integers")]
const fn cut(number: i64) -> i32 {
    number as i32
}

/// Returns Go's name for the kind of a value.
fn word(found: &Value) -> &'static str {
    match found {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        found => type_of(found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_kind;
    use super::*;
    use serde_json::json;

    #[test]
    fn misfits_are_told_as_the_converter_tells_them() {
        for (body, expected) in [
            (json!({"kind": 1}), "cannot convert int64 to string"),
            (json!({"metadata": []}), "cannot restore struct from: slice"),
            (
                json!({"metadata": {"labels": "a"}}),
                "cannot restore map from string",
            ),
            (
                json!({"metadata": {"labels": {"a": true}}}),
                "unrecognized type: string",
            ),
            (
                json!({"spec": {"replicas": "3"}}),
                "unrecognized type: int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "cannot convert float64 to int32",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "cannot restore slice from map",
            ),
        ] {
            let mut body = body.as_object().unwrap().clone();
            let of = of_kind("apps/v1", "Deployment").unwrap();
            assert_eq!(restore(of, &mut body), Err(expected.to_owned()));
        }
    }

    #[test]
    fn what_fits_becomes_of_its_type() {
        let mut body = json!({
            "kind": "Deployment",
            "foo": 1,
            "spec": {"replicas": 3.0, "minReadySeconds": 4_294_967_297_i64, "bar": null},
        });
        let of = of_kind("apps/v1", "Deployment").unwrap();
        let unknown = restore(of, body.as_object_mut().unwrap());
        assert_eq!(unknown, Ok(vec!["foo".to_owned(), "spec.bar".to_owned()]));
        assert_eq!(body["spec"]["replicas"], json!(3));
        assert_eq!(body["spec"]["minReadySeconds"], json!(1));
    }
}
