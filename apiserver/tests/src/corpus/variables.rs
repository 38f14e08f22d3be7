//! Variables `${name}` in paths, headers and bodies.
//!
//! An unknown variable is an error in the script, not an empty text. Must not know servers.

use std::collections::BTreeMap;

use serde_json::Value;

/// The names and values on one server.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables(BTreeMap<String, String>);

// === impl Variables ===

impl Variables {
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Replaces the variables in a text by their values.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once("${") {
            let (name, after) = tail.split_once('}').expect("a variable ends with a brace");
            let value = self.0.get(name);
            filled.push_str(before);
            filled.push_str(value.unwrap_or_else(|| panic!("no variable ${{{name}}} in {text}")));
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    /// Does the same as [`Variables::fill`] for all strings and keys in a value.
    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (self.fill(key), self.fill_value(value)))
                .collect(),
            other => other.clone(),
        }
    }
}
