//! Writes JSON as Python does: `json.dumps(value, separators=(",", ":"))`.
//!
//! This module guarantees the same bytes for the same value, except for the order of keys, which our trees do not
//! keep. It must not depend on the meaning of values.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Writes a complete value.
pub(crate) fn dumps(value: &Value) -> String {
    let mut text = String::new();
    put(value, &mut text);
    text
}

/// Writes a JSON object with its keys in the given order.
pub(crate) fn dumps_in_order<'a>(members: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let mut text = String::new();
    put_members(members, &mut text);
    text
}

/// Writes an essence in Kopf's order: first the stanzas of the object, then the metadata, then the status.
pub(crate) fn dumps_essence(essence: &Value) -> String {
    let Some(all) = essence.as_object() else {
        return dumps(essence);
    };
    let mut text = String::from("{");
    let late = ["metadata", "status"];
    let early = all.iter().filter(|(key, _)| !late.contains(&key.as_str()));
    for (key, value) in early.chain(late.iter().filter_map(|key| all.get_key_value(*key))) {
        put_key(key, &mut text);
        if key == "metadata" {
            put_metadata(value, &mut text);
        } else {
            put(value, &mut text);
        }
    }
    text.push('}');
    text
}

/// Writes labels and annotations first, then fields that handlers have opted into.
fn put_metadata(metadata: &Value, text: &mut String) {
    let Some(members) = metadata.as_object() else {
        return put(metadata, text);
    };
    let first = ["labels", "annotations"];
    let ordered = first
        .into_iter()
        .filter_map(|key| members.get_key_value(key))
        .chain(members.iter().filter(|(key, _)| !first.contains(&key.as_str())));
    put_members(ordered.map(|(key, value)| (key.as_str(), value)), text);
}

fn put(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => put_number(number, text),
        Value::String(string) => put_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                put(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => put_members(members.iter().map(|(key, value)| (key.as_str(), value)), text),
    }
}

fn put_members<'a>(members: impl Iterator<Item = (&'a str, &'a Value)>, text: &mut String) {
    text.push('{');
    for (key, value) in members {
        put_key(key, text);
        put(value, text);
    }
    text.push('}');
}

/// Writes a key, preceded by a comma unless it is the first one.
fn put_key(key: &str, text: &mut String) {
    if !text.ends_with('{') {
        text.push(',');
    }
    put_string(key, text);
    text.push(':');
}

/// Escapes everything except printable ASCII, as UTF-16.
fn put_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

/// Writes floats in Python's shortest form: with an exponent of at least two digits below 1e-4 and from 1e16 on.
fn put_number(number: &Number, text: &mut String) {
    let float = number.as_f64().filter(|_| number.is_f64());
    let Some(float) = float else {
        let _ = write!(text, "{number}");
        return;
    };
    let shortest = format!("{float:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let _ = write!(text, "{float:?}");
        return;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(text, "{digits}e{sign}{:02}", exponent.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_texts_as_python_writes_them() {
        for (value, expected) in [
            (json!(1.0), "1.0"),
            (json!(-0.0), "-0.0"),
            (json!(1e16), "1e+16"),
            (json!(123_456_789_012_345_680.0), "1.2345678901234568e+17"),
            (json!(1e15), "1000000000000000.0"),
            (json!(0.0001), "0.0001"),
            (json!(0.000_01), "1e-05"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(1e-100), "1e-100"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(-7), "-7"),
            (json!("é\u{7f}\u{1F600}\u{1}\"\\/"), "\"\\u00e9\\u007f\\ud83d\\ude00\\u0001\\\"\\\\/\""),
            (json!("\u{8}\u{c}\n\r\t"), "\"\\b\\f\\n\\r\\t\""),
            (json!({"b": [1, null, true], "a": {}}), "{\"a\":{},\"b\":[1,null,true]}"),
            (json!([[], "{", false]), "[[],\"{\",false]"),
            (json!({"{": "{", "}": 1}), "{\"{\":\"{\",\"}\":1}"),
        ] {
            assert_eq!(dumps(&value), expected);
        }
    }

    #[test]
    fn an_essence_has_its_metadata_last_and_labels_before_annotations() {
        let essence = json!({"zeta": 1, "spec": {"a": 1}, "status": {"s": 1},
            "metadata": {"annotations": {"x": "y"}, "labels": {"a": "b"}, "name": "n"}});
        assert_eq!(
            dumps_essence(&essence),
            r#"{"spec":{"a":1},"zeta":1,"metadata":{"labels":{"a":"b"},"annotations":{"x":"y"},"name":"n"},"status":{"s":1}}"#
        );
        assert_eq!(dumps_essence(&json!({})), "{}");
    }
}
