//! Values as Go prints, compares and converts them.
//!
//! Promise: the same text as Go's for everything JSON can hold. Must not know schemas.

pub(crate) mod duration;

use serde_json::Value;

/// A float as `%v` prints it.
pub(crate) fn float(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&power) {
        return format!("{number}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// Whether a float counts as a whole number: within a billionth.
pub(super) fn is_whole(number: f64) -> bool {
    let (whole, distance) = (number.trunc(), (number - number.trunc()).abs());
    if distance == 0.0 {
        return true;
    }
    if number == 0.0 || whole == 0.0 {
        return distance < 1e-9;
    }
    distance / (number.abs() + whole.abs()) < 1e-9
}

/// Whether a value is another one, or becomes it when it is converted to its type.
pub(super) fn converts(found: &Value, wanted: &Value) -> bool {
    if found == wanted {
        return true;
    }
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => match (found.as_i64(), wanted.as_i64()) {
            (None, Some(wanted)) => found.as_f64().is_some_and(|found| cut(found) == wanted),
            _ => found.as_f64() == wanted.as_f64(),
        },
        // A number becomes the letter of that number.
        (Value::Number(found), Value::String(wanted)) => {
            let letter = found.as_u64().and_then(|number| u32::try_from(number).ok());
            let letter = letter.and_then(char::from_u32);
            letter.is_some_and(|letter| wanted.chars().eq([letter]))
        }
        _ => false,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "as Go cuts off floats")]
fn cut(float: f64) -> i64 {
    float as i64
}

/// A value as `%v` prints it.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(self::value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entry = |(name, found): (&String, &Value)| format!("{name}:{}", self::value(found));
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// The type of a value as `%T` prints it.
pub(crate) fn type_of(value: &Value) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn floats_by_table() {
        for (number, expected) in [
            (0.5, "0.5"),
            (3.0, "3"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (1.5e-7, "1.5e-07"),
        ] {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn values_by_table() {
        for (found, expected, of) in [
            (json!(null), "<nil>", "<nil>"),
            (
                json!({"a": [1, "x"]}),
                "map[a:[1 x]]",
                "map[string]interface {}",
            ),
            (json!(1.5), "1.5", "float64"),
        ] {
            assert_eq!((value(&found).as_str(), type_of(&found)), (expected, of));
        }
    }
}
