//! Formats JSON as Python prints it, because Kopf's log lines show bodies and diffs in this form, and alerts match on them.
//!
//! This module must not be used for output that a program reads.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde_json::Value;

/// A value that displays like Python's `repr`.
pub(crate) struct Python<'a> {
    value: &'a Value,
    tuple: bool,
}

impl<'a> Python<'a> {
    /// Displays the value as it is.
    pub(crate) fn value(value: &'a Value) -> Self {
        Self { value, tuple: false }
    }
    /// Displays the outermost list as a tuple.
    pub(crate) fn tuple(value: &'a Value) -> Self {
        Self { value, tuple: true }
    }
}

impl fmt::Display for Python<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Null => f.write_str("None"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Number(number) => write!(f, "{number}"),
            Value::String(text) => quote(text, f),
            Value::Array(items) => {
                f.write_str(if self.tuple { "(" } else { "[" })?;
                for (number, item) in items.iter().enumerate() {
                    let comma = if number > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", Python::value(item))?;
                }
                f.write_str(match (self.tuple, items.len()) {
                    (true, 1) => ",)",
                    (true, _) => ")",
                    _ => "]",
                })
            }
            Value::Object(members) => {
                f.write_char('{')?;
                for (number, (key, member)) in members.iter().enumerate() {
                    f.write_str(if number > 0 { ", " } else { "" })?;
                    quote(key, f)?;
                    write!(f, ": {}", Python::value(member))?;
                }
                f.write_char('}')
            }
        }
    }
}

/// Formats seconds as Python prints a number: `60`, `0.5`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{}", (duration.as_secs_f64() * 1e6).round() / 1e6)
}

/// Formats a duration as Python prints a `timedelta`: `0:01:00`, `1 day, 0:00:00.500000`.
pub(crate) fn timedelta(duration: Duration) -> String {
    let (all, micros) = (duration.as_secs(), duration.subsec_micros());
    let (days, rest) = (all / 86_400, all % 86_400);
    let mut text = match days {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        days => format!("{days} days, "),
    };
    let _ = write!(text, "{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if micros > 0 {
        let _ = write!(text, ".{micros:06}");
    }
    text
}

fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    f.write_char(mark)?;
    for character in text.chars() {
        match character {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == mark => write!(f, "\\{c}")?,
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => {
                write!(f, "\\x{:02x}", u32::from(c))?;
            }
            c => f.write_char(c)?,
        }
    }
    f.write_char(mark)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_like_python() {
        let value = json!({"a": [true, null, 1.5, "it's"], "b": "q\"'\n\u{1}ä\\", "c": {}});
        assert_eq!(
            Python::value(&value).to_string(),
            r#"{'a': [True, None, 1.5, "it's"], 'b': 'q"\'\n\x01ä\\', 'c': {}}"#
        );
        assert_eq!(Python::tuple(&json!(["a"])).to_string(), "('a',)");
        assert_eq!(Python::tuple(&json!([])).to_string(), "()");
    }

    #[test]
    fn prints_times_like_python() {
        for (millis, as_seconds, as_delta) in [
            (60_000, "60", "0:01:00"),
            (500, "0.5", "0:00:00.500000"),
            (86_400_000, "86400", "1 day, 0:00:00"),
            (180_061_000, "180061", "2 days, 2:01:01"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(seconds(duration), as_seconds);
            assert_eq!(timedelta(duration), as_delta);
        }
    }
}
