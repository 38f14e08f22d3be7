//! Conversions between types.
//!
//! The error of an impossible conversion names both types. Independent of operators.

use crate::cel::value::moment::{self, Moment};
use crate::cel::value::{Fault, Outcome, Value};
use crate::schema::go::duration;

/// Converts a value, or returns `None` if the function is not a conversion.
pub(super) fn call<'a>(name: &str, method: bool, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [of] = given else {
        return None;
    };
    if method {
        return (name == "size").then(|| size(of));
    }
    let made = match name {
        "size" => return Some(size(of)),
        "dyn" => Some(Ok(of.clone())),
        "type" => Some(Ok(Value::Type(of.type_name()))),
        "int" => to_int(of),
        "uint" => to_uint(of),
        "double" => to_double(of),
        "string" => to_text(of),
        "bool" => to_bool(of),
        "bytes" => to_bytes(of),
        "timestamp" => to_timestamp(of),
        "duration" => to_duration(of),
        _ => return None,
    };
    Some(made.unwrap_or_else(|| {
        let to = match name {
            "timestamp" => "google.protobuf.Timestamp",
            "duration" => "google.protobuf.Duration",
            name => name,
        };
        Err(Fault::Told(format!(
            "type conversion error from '{}' to '{to}'",
            of.type_name()
        )))
    }))
}

fn size<'a>(of: &Value<'a>) -> Outcome<'a> {
    match of {
        Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
            Ok(Value::Int(i64::try_from(of.size()).unwrap_or(i64::MAX)))
        }
        other => Err(Fault::overload("size", std::slice::from_ref(other))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "what does not fit is told before"
)]
fn to_int<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    let overflow = || Fault::told("integer overflow");
    Some(match of {
        Value::Int(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => i64::try_from(*number)
            .map(Value::Int)
            .map_err(|_| overflow()),
        Value::Double(number) => {
            let fits = *number > i64::MIN as f64 && *number < i64::MAX as f64;
            fits.then_some(Value::Int(*number as i64))
                .ok_or_else(overflow)
        }
        Value::Text(text) => Ok(Value::Int(text.parse().ok()?)),
        Value::Timestamp(moment) => Ok(Value::Int(moment.seconds())),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "what does not fit is told before"
)]
fn to_uint<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    let overflow = || Fault::told("unsigned integer overflow");
    Some(match of {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => u64::try_from(*number)
            .map(Value::Uint)
            .map_err(|_| overflow()),
        Value::Double(number) => {
            let fits = *number >= 0.0 && *number < u64::MAX as f64;
            fits.then_some(Value::Uint(*number as u64))
                .ok_or_else(overflow)
        }
        Value::Text(text) => Ok(Value::Uint(text.parse().ok()?)),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go converts them")]
fn to_double<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(Value::Double(match of {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::Text(text) => text.parse().ok()?,
        _ => return None,
    })))
}

fn to_bool<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(Value::Bool(match of {
        Value::Bool(truth) => *truth,
        Value::Text(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => return None,
        },
        _ => return None,
    })))
}

/// Converts a value to a string, or returns `None` if no conversion exists.
pub(super) fn to_text<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(Value::text(match of {
        Value::Text(_) => return Some(Ok(of.clone())),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double(*number),
        Value::Bytes(octets) => {
            let Ok(text) = String::from_utf8(octets.to_vec()) else {
                let why = "invalid UTF-8 in bytes, cannot convert to string";
                return Some(Err(Fault::told(why)));
            };
            text
        }
        Value::Timestamp(moment) => moment.to_string(),
        Value::Duration(nanos) => moment::seconds(*nanos),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(address, bits) => format!("{address}/{bits}"),
        _ => return None,
    })))
}

fn double(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        crate::schema::go::float(number)
    }
}

fn to_bytes<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(Value::Bytes(match of {
        Value::Bytes(octets) => octets.clone(),
        Value::Text(text) => text.as_bytes().to_vec().into(),
        _ => return None,
    })))
}

fn to_timestamp<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match of {
        Value::Timestamp(_) => Ok(of.clone()),
        Value::Text(text) => Ok(Value::Timestamp(Moment::parse(text)?)),
        Value::Int(seconds) => Moment::from_seconds(*seconds)
            .map(Value::Timestamp)
            .ok_or_else(|| Fault::told("timestamp overflow")),
        _ => return None,
    })
}

fn to_duration<'a>(of: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(Value::Duration(match of {
        Value::Duration(nanos) | Value::Int(nanos) => *nanos,
        Value::Text(text) => duration::nanos(text).ok()?,
        _ => return None,
    })))
}
