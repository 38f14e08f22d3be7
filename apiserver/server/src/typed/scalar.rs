//! Parses and formats scalar values as Go does.
//!
//! Error messages match Go. Independent of structs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Number, Value};

use super::{Type, quantity};
use crate::rules::go_type;
use crate::schema::go;

/// The reason why a value does not match its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The JSON type is wrong; has the actual type.
    Found(String),
    /// Any other error message.
    Text(String),
}

/// Returns the normalized value of a scalar type, or `None` for other types.
pub(super) fn value(of: &Type, value: &Value) -> Option<Result<Value, Why>> {
    let found = || Why::Found(go_type(value).to_owned());
    Some(match (of, value) {
        (Type::Text(_) | Type::IntOrString, Value::String(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Raw, _) => Ok(value.clone()),
        (Type::Int32 | Type::Int64 | Type::IntOrString, Value::Number(number)) => {
            integer(of, number)
        }
        (Type::Float, Value::Number(number)) => Ok(Value::Number(go::reread(number))),
        (Type::Bytes, Value::String(text)) => bytes(text),
        (Type::Quantity, Value::String(text)) => quantity(text),
        (Type::Quantity, Value::Number(number)) => quantity(&number.to_string()),
        (Type::Quantity, other) => quantity(&other.to_string()),
        (Type::Time | Type::MicroTime, Value::String(text)) => time(of, text),
        (Type::Time | Type::MicroTime, other) => Err(Why::Text(unmarshal(other, "string"))),
        (
            Type::Text(_)
            | Type::Bool
            | Type::Int32
            | Type::Int64
            | Type::Float
            | Type::Bytes
            | Type::IntOrString,
            _,
        ) => Err(found()),
        _ => return None,
    })
}

fn unmarshal(found: &Value, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {wanted}",
        go_type(found)
    )
}

fn integer(of: &Type, number: &Number) -> Result<Value, Why> {
    let fits = number
        .as_i64()
        .filter(|number| *of == Type::Int64 || i32::try_from(*number).is_ok());
    fits.map(Value::from)
        .ok_or_else(|| Why::Found(format!("number {number}")))
}

fn bytes(text: &str) -> Result<Value, Why> {
    let plain: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match STANDARD.decode(&plain) {
        Ok(_) => Ok(plain.into()),
        Err(_) => Err(Why::Text(format!(
            "illegal base64 data at input byte {}",
            wrong_byte(text.as_bytes())
        ))),
    }
}

/// Returns the position at which Go's decoder stops.
fn wrong_byte(text: &[u8]) -> usize {
    let of_alphabet =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'\n' | b'\r');
    let stop = text.iter().position(|byte| !of_alphabet(byte));
    stop.unwrap_or(text.len() / 4 * 4)
}

fn quantity(text: &str) -> Result<Value, Why> {
    quantity::canonical(text)
        .map(Value::from)
        .map_err(Why::Text)
}

fn time(of: &Type, text: &str) -> Result<Value, Why> {
    let layout = match of {
        Type::MicroTime => "2006-01-02T15:04:05.000000Z07:00",
        _ => "2006-01-02T15:04:05Z07:00",
    };
    if *of == Type::MicroTime
        && let Some(rest) = text.get(19..)
        && !is_micro(rest)
    {
        return Err(Why::Text(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as \".000000\""
        )));
    }
    let time: Timestamp = text.parse().map_err(|_| {
        Why::Text(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""
        ))
    })?;
    Ok(written(of, time).into())
}

/// Returns true if exactly six digits follow the seconds.
fn is_micro(rest: &str) -> bool {
    let digits = rest.strip_prefix('.').unwrap_or_default();
    let end = digits.find(|letter: char| !letter.is_ascii_digit());
    end.unwrap_or(digits.len()) == 6
}

/// Formats a time for its type.
pub(super) fn written(of: &Type, time: Timestamp) -> String {
    let format = match of {
        Type::MicroTime => "%Y-%m-%dT%H:%M:%S.%6fZ",
        _ => "%Y-%m-%dT%H:%M:%SZ",
    };
    time.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_by_table() {
        for (of, given, expected) in [
            (Type::Text("string"), json!("a"), Ok(json!("a"))),
            (Type::Text("string"), json!(1), Err("number")),
            (Type::Bool, json!("true"), Err("string")),
            (Type::Int32, json!(5), Ok(json!(5))),
            (Type::Int32, json!(2.0), Err("number 2.0")),
            (
                Type::Int32,
                json!(3_000_000_000_u32),
                Err("number 3000000000"),
            ),
            (
                Type::Int64,
                json!(3_000_000_000_u32),
                Ok(json!(3_000_000_000_u32)),
            ),
            (Type::Float, json!(2.0), Ok(json!(2))),
            (Type::Bytes, json!("YQ=="), Ok(json!("YQ=="))),
            (
                Type::Bytes,
                json!("a b"),
                Err("illegal base64 data at input byte 1"),
            ),
            (Type::Quantity, json!(1), Ok(json!("1"))),
            (Type::Quantity, json!("1024Ki"), Ok(json!("1Mi"))),
            (
                Type::Time,
                json!("2026-01-02T05:04:05.5+02:00"),
                Ok(json!("2026-01-02T03:04:05Z")),
            ),
            (
                Type::MicroTime,
                json!("2026-01-02T03:04:05.12Z"),
                Err(
                    "parsing time \"2026-01-02T03:04:05.12Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".12Z\" as \".000000\"",
                ),
            ),
            (
                Type::MicroTime,
                json!("2026-01-02T03:04:05.120000Z"),
                Ok(json!("2026-01-02T03:04:05.120000Z")),
            ),
            (Type::IntOrString, json!("25%"), Ok(json!("25%"))),
            (Type::IntOrString, json!(true), Err("bool")),
        ] {
            let found = value(&of, &given).unwrap().map_err(|why| match why {
                Why::Found(text) | Why::Text(text) => text,
            });
            assert_eq!(found, expected.map_err(str::to_owned), "{of:?} {given}");
        }
    }
}
