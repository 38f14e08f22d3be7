//! What a handler, or the framework, wants changed on the object: a merge patch in the making.

use std::ops::{Index, IndexMut};

use serde_json::Value;

/// A merge patch (RFC 7386): `patch["status"]["address"] = json!("10.0.0.1")`; `null` removes a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch(Value);

impl Patch {
    /// An empty patch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Whether nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.as_object().is_none_or(serde_json::Map::is_empty)
    }
    /// The patch as JSON.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0
    }
}

impl Index<&str> for Patch {
    type Output = Value;
    fn index(&self, key: &str) -> &Value {
        &self.0[key]
    }
}

impl IndexMut<&str> for Patch {
    fn index_mut(&mut self, key: &str) -> &mut Value {
        &mut self.0[key]
    }
}
