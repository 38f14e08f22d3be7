//! Converts the value of one setting from a file or a variable to the type of its field.
//!
//! Must not know individual settings.

use std::time::Duration;

use serde_json::Value;
#[cfg(feature = "cli")]
use serde_json::json;

use crate::handler::event_sink::PostingLevel;
use crate::handler::lifecycle::Lifecycle;
use crate::operator::selection_map::SelectorMap;
use crate::operator::settings::admission::{AdmissionServer, EXPECTED};
use crate::operator::settings::log_level::LogLevel;
use crate::operator::settings::written::Written;
use crate::rt::tls::TlsVersion;

/// The type of a setting that a file or a variable can hold.
pub(super) trait SettingValue: Sized {
    /// Describes the expected values for a message.
    fn expected() -> String;

    /// Reads the value; `None` if it is not as expected.
    fn read(written: &Written) -> Option<Self>;

    /// Returns whether it is a time or a count of zero.
    fn is_zero(&self) -> bool {
        false
    }

    /// Limits a time, so that it can be added to any instant.
    fn bound(&mut self) {}

    /// Returns the JSON schema of its notation in a file.
    #[cfg(feature = "cli")]
    fn schema() -> Value;
}

/// The field of a setting, whatever its type.
pub(in crate::operator) trait Field {
    /// Stores a value. The error describes the expected values.
    fn set(&mut self, written: &Written) -> Result<(), String>;

    /// See [`SettingValue::is_zero`].
    fn is_zero(&self) -> bool;

    /// See [`SettingValue::bound`].
    fn bound(&mut self);

    /// See [`SettingValue::schema`].
    #[cfg(feature = "cli")]
    fn schema(&self) -> Value;
}

impl<T: SettingValue> Field for T {
    fn set(&mut self, written: &Written) -> Result<(), String> {
        *self = T::read(written).ok_or_else(T::expected)?;
        Ok(())
    }

    fn is_zero(&self) -> bool {
        SettingValue::is_zero(self)
    }

    fn bound(&mut self) {
        SettingValue::bound(self);
    }

    #[cfg(feature = "cli")]
    fn schema(&self) -> Value {
        <T as SettingValue>::schema()
    }
}

/// The maximum time. Adding to or multiplying the longest [`Duration`] would overflow.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl SettingValue for bool {
    fn expected() -> String {
        "expected true or false".to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        written.value().as_bool()
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

/// Counts: all of them must be positive.
macro_rules! counts {
    ($($count:ty)+) => { $(
        impl SettingValue for $count {
            fn expected() -> String {
                "expected a whole number, at least 1".to_owned()
            }

            fn read(written: &Written) -> Option<Self> {
                let count = written.value().as_u64().filter(|count| *count > 0)?;
                Self::try_from(count).ok()
            }

            fn is_zero(&self) -> bool {
                *self == 0
            }

            #[cfg(feature = "cli")]
            fn schema() -> Value {
                json!({"type": "integer", "minimum": 1})
            }
        }
    )+ };
}

counts!(usize u32);

/// Priorities.
impl SettingValue for i64 {
    fn expected() -> String {
        "expected a whole number".to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        written.value().as_i64()
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": "integer"})
    }
}

impl SettingValue for Duration {
    fn expected() -> String {
        "expected seconds, such as 0.5 or 90, or a time with its unit, such as 500ms, 90s, 10m or 1h"
            .to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        match &*written.value() {
            Value::Number(seconds) => Self::try_from_secs_f64(seconds.as_f64()?).ok(),
            Value::String(text) => time(text),
            _ => None,
        }
    }

    fn is_zero(&self) -> bool {
        self.is_zero()
    }

    fn bound(&mut self) {
        *self = FOR_EVER.min(*self);
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": ["number", "string"], "minimum": 0, "pattern": r"^[0-9][0-9.]*\s*(ms|s|m|h)$"})
    }
}

/// Parses a number with a unit.
fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) =
        units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let is_number = |it: char| it.is_ascii_digit() || it == '.';
    let number = number.trim_end();
    if !number.starts_with(|it: char| it.is_ascii_digit()) || !number.chars().all(is_number) {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

impl SettingValue for String {
    fn expected() -> String {
        "expected text, in quotes where it looks like something else".to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        written.text().map(str::to_owned)
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn expected() -> String {
        format!("{}, or null", T::expected())
    }

    fn read(written: &Written) -> Option<Self> {
        if written.value().is_null() {
            return Some(None);
        }
        T::read(written).map(Some)
    }

    fn is_zero(&self) -> bool {
        self.as_ref().is_some_and(SettingValue::is_zero)
    }

    fn bound(&mut self) {
        if let Some(value) = self {
            SettingValue::bound(value);
        }
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        let mut schema = T::schema();
        let types = match schema["type"].take() {
            Value::Array(types) => types,
            one => vec![one],
        };
        schema["type"] = types.into_iter().chain(["null".into()]).collect();
        if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
        schema
    }
}

impl SettingValue for TlsVersion {
    fn expected() -> String {
        "expected 1.2 or 1.3".to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        let value = written.value();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [Self::V1_2, Self::V1_3].into_iter().find(|version| version.to_string() == text)
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": ["number", "string"], "pattern": r"^1\.[23]$", "minimum": 1.2, "maximum": 1.3})
    }
}

/// Values from a list of words, in upper or lower case.
macro_rules! words {
    ($type:ty, $words:expr) => {
        impl SettingValue for $type {
            fn expected() -> String {
                let [others @ .., last] = $words.map(|(word, _)| word);
                format!("expected {} or {last}", others.join(", "))
            }

            fn read(written: &Written) -> Option<Self> {
                let text = written.text()?;
                $words.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| value)
            }

            #[cfg(feature = "cli")]
            fn schema() -> Value {
                let words = $words.map(|(word, _)| [word.to_owned(), word.to_uppercase()]);
                json!({"type": "string", "enum": words.concat()})
            }
        }
    };
}

words!(LogLevel, Self::ALL);
words!(
    PostingLevel,
    [("debug", Self::Debug), ("info", Self::Info), ("warning", Self::Warning), ("error", Self::Error)]
);
words!(
    Lifecycle,
    [
        ("asap", Self::Asap),
        ("one_by_one", Self::OneByOne),
        ("all_at_once", Self::AllAtOnce),
        ("randomized", Self::Randomized),
        ("shuffled", Self::Shuffled),
    ]
);

impl SettingValue for AdmissionServer {
    fn expected() -> String {
        EXPECTED.to_owned()
    }

    fn read(written: &Written) -> Option<Self> {
        Self::parse(written.text()?)
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl SettingValue for SelectorMap {
    fn expected() -> String {
        "expected resources with a selector each, such as {pods: app=web}".to_owned()
    }

    /// Keeps the order in which the entries are written, because the first matching shard selector applies.
    fn read(written: &Written) -> Option<Self> {
        let mut selectors = Self::default();
        for (resource, selector) in &*written.entries()? {
            selectors.insert(resource.as_str(), selector.as_str()?);
        }
        Some(selectors)
    }

    #[cfg(feature = "cli")]
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": {"type": "string"}})
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "cli"))]
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        for (written, expected) in [
            (json!(0), Some(0)),
            (json!(0.5), Some(500)),
            (json!(90), Some(90_000)),
            (json!("500ms"), Some(500)),
            (json!("90s"), Some(90_000)),
            (json!("1.5m"), Some(90_000)),
            (json!("1h"), Some(3_600_000)),
            (json!("90"), None),
            (json!("-1s"), None),
            (json!("1e3s"), None),
            (json!("s"), None),
            (json!(-1), None),
            (json!(1e300), None),
            (json!(true), None),
        ] {
            let read = Duration::read(&Written::Plain(written.clone()));
            let read = read.map(|it| it.as_millis());
            assert_eq!(read, expected, "{written}");
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn schemas_allow_what_is_read() {
        let schema = <Option<LogLevel> as SettingValue>::schema();
        let allowed = schema["enum"].as_array().unwrap();
        for written in [json!(null), json!("debug"), json!("DEBUG")] {
            assert!(
                allowed.contains(&written) && Option::<LogLevel>::read(&Written::Plain(written)).is_some()
            );
        }
        assert_eq!(LogLevel::expected(), "expected error, warning, info, debug or trace");
        assert_eq!(<Option<String> as SettingValue>::schema().get("enum"), None);
    }

    #[test]
    fn each_type_says_what_it_expects() {
        let mut limit = Some(3_usize);
        let plain = Written::Plain;
        assert_eq!(limit.set(&plain(json!(null))), Ok(()));
        assert_eq!(limit, None);
        let refused = limit.set(&plain(json!(0)));
        let expected = "expected a whole number, at least 1, or null".to_owned();
        assert_eq!(refused, Err(expected));
        assert_eq!(PostingLevel::read(&plain(json!("WARNING"))), Some(PostingLevel::Warning));
        for (text, version) in [("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)] {
            assert_eq!(TlsVersion::read(&Written::Variable(text.to_owned())), Some(version));
            let number: f64 = text.parse().unwrap();
            assert_eq!(TlsVersion::read(&plain(json!(number))), Some(version));
            assert_eq!(TlsVersion::read(&plain(json!(text))), Some(version));
        }
        assert_eq!(TlsVersion::read(&plain(json!(1.1))), None);
        assert_eq!(LogLevel::read(&plain(json!("Debug"))), Some(LogLevel::Debug));
        assert_eq!(LogLevel::read(&plain(json!("verbose"))), None);
        assert!(Lifecycle::read(&plain(json!("asap"))).is_some());
        assert!(Lifecycle::read(&plain(json!("custom"))).is_none());
        let selectors = |text: &str| SelectorMap::read(&Written::Variable(text.to_owned()));
        assert!(selectors(r#"{"pods": "app=web"}"#).is_some());
        assert!(selectors(r#"{"pods": 1}"#).is_none());
    }
}
