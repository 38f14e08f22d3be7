//! Evaluates `format` calls: `'%s has %d'.format([..])`.
//!
//! Uses the English locale, as the real server does. Independent of other functions.

use crate::cel::clauses::{self, Clause};
use crate::cel::value::{Fault, List, Outcome, Value};

use super::convert;

/// Formats the values of `list` into the clauses of a string.
pub(super) fn format<'a>(text: &str, list: &List<'a>) -> Outcome<'a> {
    let show = |place: usize, clause: Clause| match list.get(place) {
        Some(Ok(value)) => shown(clause, &value),
        Some(Err(Fault::Told(why))) => Err(why),
        Some(Err(Fault::Limit)) | None => Err(format!("index {place} out of range")),
    };
    let filled = clauses::filled(text, list.len(), show);
    filled.map(Value::text).map_err(Fault::Told)
}

fn shown((clause, precision): Clause, value: &Value<'_>) -> Result<String, String> {
    let given = value.type_name();
    let only = |clause: char| Err(clauses::refusal(clause, given));
    match (clause, value) {
        ('s', value) => plain(value),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('d', _) => only('d'),
        ('f', value) => match float(value) {
            Some(number) => Ok(fixed(number, precision.unwrap_or(6))),
            None => only('f'),
        },
        ('e', value) => match float(value) {
            // cel-go parses the precision here but ignores it.
            Some(number) => Ok(scientific(number)),
            None => only('e'),
        },
        ('b', Value::Bool(truth)) => Ok(u8::from(*truth).to_string()),
        ('b', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', _) => only('b'),
        ('o', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => only('o'),
        (letter, value) => {
            let made = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::Text(text) => hex(text.as_bytes()),
                Value::Bytes(octets) => hex(octets),
                _ => return only('x'),
            };
            Ok(if letter == 'X' {
                made.to_uppercase()
            } else {
                made
            })
        }
    }
}

fn hex(octets: &[u8]) -> String {
    let digit = |number: u8| char::from_digit(number.into(), 16).unwrap_or('0');
    let pair = |octet: &u8| [digit(octet >> 4), digit(octet & 15)];
    octets.iter().flat_map(pair).collect()
}

fn signed(number: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> Option<String> {
    if number.is_nan() {
        return Some("NaN".to_owned());
    }
    let infinite = if number > 0.0 { "∞" } else { "-∞" };
    number.is_infinite().then(|| infinite.to_owned())
}

/// Formats a number with commas between thousands.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(special) = special(number) {
        return special;
    }
    let plain = format!("{:.precision$}", number.abs());
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut made = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            made.push(',');
        }
        made.push(digit);
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    format!("{sign}{made}{fraction}")
}

fn scientific(number: f64) -> String {
    if let Some(special) = special(number) {
        return special;
    }
    let plain = format!("{number:.6e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let raised = |letter: char| match letter {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(u32::from('⁰') + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    };
    let padded = match exponent.strip_prefix('-') {
        Some(digits) => format!("-{digits:0>2}"),
        None => format!("{exponent:0>2}"),
    };
    let exponent: String = padded.chars().map(raised).collect();
    format!("{digits}×10{exponent}")
}

/// Formats a value for `%s` at the top level.
fn plain(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(_) | Value::Map(_) => within(value),
        Value::Optional(_)
        | Value::Quantity(_)
        | Value::Ip(_)
        | Value::Cidr(..)
        | Value::Url(_)
        | Value::Semver(_)
        | Value::Format(_)
        | Value::Unknown(_) => Err(clauses::refusal('s', value.type_name())),
        other => match convert::to_text(other) {
            Some(Ok(Value::Text(text))) => Ok(text.into_owned()),
            _ => Err(format!(
                "could not convert argument to {}",
                value.type_name()
            )),
        },
    }
}

/// Formats a value within a list or a map, as an expression would write it.
fn within(value: &Value<'_>) -> Result<String, String> {
    let told = |fault: Fault| match fault {
        Fault::Told(why) => why,
        Fault::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
    };
    Ok(match value {
        Value::List(list) => {
            let items: Result<Vec<String>, String> =
                list.values().map_err(told)?.iter().map(within).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for key in map.keys() {
                let of = map.find(&key).map_err(told)?.unwrap_or(Value::Null);
                entries.push(format!("{}:{}", within(&key)?, within(&of)?));
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Text(text) => format!("{text:?}"),
        Value::Bytes(_) => format!("b{:?}", plain(value)?),
        Value::Timestamp(_) => format!("timestamp({:?})", plain(value)?),
        Value::Duration(_) => format!("duration({:?})", plain(value)?),
        Value::Double(number) if number.is_finite() => format!("{number:.6}"),
        Value::Double(_) => format!("{:?}", plain(value)?),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Type(_) => {
            plain(value)?
        }
        other => return Err(format!("no formatting function for {}", other.type_name())),
    })
}
