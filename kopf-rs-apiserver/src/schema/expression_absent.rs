//! The twin of `expression` in builds without the feature `cel`: nothing is evaluated, and no rule is ever asked for.

use serde_json::Value;

/// Whether this build can evaluate expressions at all.
pub(super) const AVAILABLE: bool = false;

/// No functions.
pub(super) struct Expressions;

/// What an expression is about.
#[expect(dead_code, reason = "read by the twin only")]
pub(super) struct Values<'a> {
    pub(super) schema: &'a Value,
    pub(super) value: &'a Value,
    pub(super) old: Option<&'a Value>,
    pub(super) optional: bool,
}

// === impl Expressions ===

#[expect(clippy::unused_self, reason = "the twin's are methods")]
impl Expressions {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn names_old(&self, _source: &str) -> bool {
        false
    }

    #[expect(clippy::unnecessary_wraps, reason = "the twin may fail")]
    pub(super) fn truth(&self, _source: &str, _values: &Values<'_>) -> Result<bool, String> {
        Ok(true)
    }

    pub(super) fn text(&self, _source: &str, _values: &Values<'_>) -> Option<String> {
        None
    }
}

/// Every expression is one here, and names nothing.
#[expect(clippy::unnecessary_wraps, reason = "the twin may fail")]
pub(super) fn compile(_source: &str) -> Result<bool, String> {
    Ok(false)
}

/// What a schema calls its values.
pub(super) fn type_name(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or("any")
}
