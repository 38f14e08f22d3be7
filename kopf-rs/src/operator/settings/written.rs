//! The value of one setting as it is written, before its type is known.
//!
//! Guarantees that the entries of a map keep their order. Must not know any setting.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The value of a setting in a file or a variable.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(in crate::operator) enum Written {
    Map(Entries<String, Value>),
    Plain(Value),
    /// The text of a variable; the setting decides which type of value it is.
    #[serde(skip_deserializing)]
    Variable(String),
}

/// The entries of a map in their written order.
#[derive(Debug)]
pub(in crate::operator) struct Entries<K, V>(pub(in crate::operator) Vec<(K, V)>);

impl Written {
    /// Returns the value: of a variable as JSON if it is valid JSON, else as text; of a map in a file without its entries.
    pub(in crate::operator) fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Map(_) => Cow::Owned(Value::Object(serde_json::Map::new())),
            Self::Plain(value) => Cow::Borrowed(value),
            Self::Variable(text) => {
                let parsed = serde_json::from_str(text);
                Cow::Owned(parsed.unwrap_or_else(|_| Value::String(text.clone())))
            }
        }
    }

    /// Returns the text. For a variable that is its whole value, whatever it looks like.
    pub(in crate::operator) fn text(&self) -> Option<&str> {
        match self {
            Self::Map(_) => None,
            Self::Plain(value) => value.as_str(),
            Self::Variable(text) => Some(text),
        }
    }

    /// Returns the entries of a map.
    pub(in crate::operator) fn entries(&self) -> Option<Cow<'_, [(String, Value)]>> {
        match self {
            Self::Map(Entries(entries)) => Some(Cow::Borrowed(entries)),
            Self::Plain(_) => None,
            Self::Variable(text) => {
                let Entries(entries) = serde_json::from_str(text).ok()?;
                Some(Cow::Owned(entries))
            }
        }
    }
}

impl fmt::Display for Written {
    /// Formats the value as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(_) => self.value().fmt(f),
            other => f.write_str(&serde_json::to_string(other).unwrap_or_default()),
        }
    }
}

impl Serialize for Entries<String, Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Reader<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<K, V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
}
