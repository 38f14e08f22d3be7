//! Reads JSON leniently: a missing value is shown as an empty one.

use serde_json::Value;

/// Returns a text or a number as text; nothing for other values.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Returns the items of a list; none for other values.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
