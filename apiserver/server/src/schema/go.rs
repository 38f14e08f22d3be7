//! Prints, compares and converts values as Go does.
//!
//! The output equals Go's for every JSON value. Independent of schemas.

pub(crate) mod duration;

use serde_json::{Number, Value};

/// Prints a float as `%v` does.
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

/// Returns the number as Go reads it back from JSON: integral floats that fit become integers, larger integers become floats.
pub(crate) fn reread(number: &Number) -> Number {
    match number.as_f64() {
        Some(float) if !number.is_i64() => {
            let is_integer = float.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&float);
            if is_integer {
                cut(float).into()
            } else {
                Number::from_f64(float).unwrap_or_else(|| number.clone())
            }
        }
        _ => number.clone(),
    }
}

/// The smallest float that exceeds an `i64`.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Prints a float as Go's JSON encoder does.
pub(crate) fn json_float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

/// Returns true if a float is within a billionth of an integer.
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

/// Returns true if the values are equal, or equal after Go's conversion to the type of `wanted`.
pub(super) fn converts(found: &Value, wanted: &Value) -> bool {
    if found == wanted {
        return true;
    }
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => match (found.as_i64(), wanted.as_i64()) {
            (None, Some(wanted)) => found.as_f64().is_some_and(|found| cut(found) == wanted),
            _ => found.as_f64() == wanted.as_f64(),
        },
        // Go converts a number to the string with that code point.
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

/// Prints a value as `%v` does.
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

/// Returns the type of a value as `%T` prints it.
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
    fn numbers_in_json_by_table() {
        let stored = |text: &str| {
            let number: Number = serde_json::from_str(text).unwrap();
            let mut written = Vec::new();
            crate::object::write_json(&mut written, &Value::Number(reread(&number)));
            String::from_utf8(written).unwrap()
        };
        for (given, expected) in [
            ("2.0", "2"),
            ("0.5", "0.5"),
            ("-0.0", "0"),
            ("1e15", "1000000000000000"),
            ("1e18", "1000000000000000000"),
            ("1e19", "10000000000000000000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("-1.5e300", "-1.5e+300"),
            ("1e-6", "0.000001"),
            ("1e-7", "1e-7"),
            ("1.25e-10", "1.25e-10"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854776000"),
            ("18446744073709551615", "18446744073709552000"),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            assert_eq!(stored(given), expected, "{given}");
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
