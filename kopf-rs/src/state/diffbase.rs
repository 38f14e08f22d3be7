//! The essence that was handled last (core.md 6.2).

use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;

/// What is known of the state handled last.
#[derive(Clone, Debug, PartialEq)]
pub enum LastHandled {
    /// All of it.
    Essence(Value),
    /// Only its digest: it was too large to keep.
    Digest(String),
}

/// Keeps the last-handled essence on the object.
pub trait EssenceStore: Send + Sync {
    /// What the object carries.
    fn fetch(&self, body: &Body) -> Option<LastHandled>;
    /// Put `essence` into `patch`.
    fn store(&self, essence: &Value, body: &Body, patch: &mut Patch);
}
