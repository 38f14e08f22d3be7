//! Structural differences of two JSON trees, in Kopf's form (core.md 6.4).

use serde_json::Value;

use crate::object::path::FieldPath;

/// What happened to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOp {
    /// The field appeared.
    Add,
    /// The field has another value.
    Change,
    /// The field is gone.
    Remove,
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffItem {
    /// What happened.
    pub op: DiffOp,
    /// Where.
    pub field: FieldPath,
    /// The value before; `None` where absent.
    pub old: Option<Value>,
    /// The value after; `None` where absent.
    pub new: Option<Value>,
}

/// All differences between two states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff(Vec<DiffItem>);

impl Diff {
    /// Compare two states; `None` is absence.
    #[must_use]
    pub fn between(old: Option<&Value>, new: Option<&Value>) -> Self {
        let _ = (old, new);
        todo!("core")
    }
    /// The differences at or under `field`, with relative paths.
    #[must_use]
    pub fn reduced(&self, field: &FieldPath) -> Self {
        let _ = field;
        todo!("core")
    }
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The differences, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, DiffItem> {
        self.0.iter()
    }
}
