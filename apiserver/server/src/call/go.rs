//! Parses JSON with Go's error messages, because users search for their wording.
//!
//! Accepts the same texts as `serde_json`; of duplicate fields, the last value counts. Must not depend on the meaning of the text.

use std::fmt::{self, Write as _};

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses JSON.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| complaint(text, &error))
}

/// Parses an unsigned number.
pub(crate) fn parse_uint(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else if let Ok(number) = text.parse() {
        return Ok(number);
    } else {
        "value out of range"
    };
    Err(format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

/// Parses JSON; also returns the duplicate fields in the order of the text.
pub(crate) fn parse_noting(text: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut notes = Notes::default();
    let value = note(text, &mut notes).map_err(|error| complaint(text, &error))?;
    Ok((value, notes.twice))
}

/// Returns the paths of all fields in the order of the text.
pub(crate) fn paths(text: &[u8]) -> Vec<String> {
    let mut notes = Notes {
        all: Some(Vec::new()),
        ..Notes::default()
    };
    // For invalid JSON, the paths before the error are enough.
    let _value = note(text, &mut notes);
    notes.all.unwrap_or_default()
}

fn note(text: &[u8], notes: &mut Notes) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Noted(notes).deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Notes that are taken while JSON is parsed.
#[derive(Default)]
struct Notes {
    path: String,
    twice: Vec<String>,
    all: Option<Vec<String>>,
}

/// Deserializes a value and takes notes.
struct Noted<'a>(&'a mut Notes);

impl<'de> DeserializeSeed<'de> for Noted<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Noted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let length = self.0.path.len();
        loop {
            // Writing to a `String` cannot fail.
            let _infallible = write!(self.0.path, "[{}]", items.len());
            let item = list.next_element_seed(Noted(self.0))?;
            self.0.path.truncate(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let length = self.0.path.len();
        while let Some(name) = fields.next_key_seed(Name)? {
            if length > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&name);
            if let Some(all) = &mut self.0.all {
                all.push(self.0.path.clone());
            }
            if map.contains_key(&name) {
                self.0.twice.push(self.0.path.clone());
            }
            let value = fields.next_value_seed(Noted(self.0))?;
            self.0.path.truncate(length);
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Deserializes the name of a field.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<String, D::Error> {
        String::deserialize(json)
    }
}

fn complaint(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line_start = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    let at = line_start + error.column().saturating_sub(1);
    if let Some(complaint) = literal(text, at) {
        return complaint;
    }
    // Go looks at single bytes: it shows a byte beyond ASCII as the code point of that number.
    let letter = char::from(text.get(at).copied().unwrap_or(b' '));
    let letter = if letter.is_ascii_graphic() || letter == ' ' {
        letter.to_string()
    } else if letter.is_control() {
        format!("\\u{:04x}", u32::from(letter))
    } else {
        letter.to_string()
    };
    let told = error.to_string();
    let place = if told.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if told.starts_with("expected value") {
        "looking for beginning of value"
    } else if told.starts_with("expected `:`") {
        "after object key"
    } else if told.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if told.starts_with("expected `,` or `]`") {
        "after array element"
    } else if told.starts_with("trailing characters") {
        "after top-level value"
    } else {
        return told;
    };
    format!("invalid character '{letter}' {place}")
}

/// Returns the message for a `true`, `false` or `null` with a wrong letter.
fn literal(text: &[u8], at: usize) -> Option<String> {
    for word in ["true", "false", "null"] {
        for length in 1..word.len() {
            let Some(start) = at.checked_sub(length) else {
                break;
            };
            let found = text.get(start..at)? == &word.as_bytes()[..length];
            let wanted = char::from(word.as_bytes()[length]);
            let letter = char::from(*text.get(at)?);
            let alone = start == 0 || !text[start - 1].is_ascii_alphanumeric();
            if found && alone && letter != wanted && letter != '"' {
                return Some(format!(
                    "invalid character '{letter}' in literal {word} (expecting '{wanted}')"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_there_twice_are_noted() {
        let text = br#"{"a": 1, "b": [{"c": 1, "c": {"d": 2}}, 3], "a": 4}"#;
        let (value, twice) = parse_noting(text).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": 4, "b": [{"c": {"d": 2}}, 3]})
        );
        assert_eq!(twice, ["b[0].c", "a"]);
        assert_eq!(paths(text), ["a", "b", "b[0].c", "b[0].c", "b[0].c.d", "a"]);
    }

    #[test]
    fn complaints_name_the_character() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "garbage",
                "invalid character 'g' looking for beginning of value",
            ),
            (
                "{bad",
                "invalid character 'b' looking for beginning of object key string",
            ),
            (
                "{\"a\":1\n x",
                "invalid character 'x' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "nonsense",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            ("{} x", "invalid character 'x' after top-level value"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
    }
}
