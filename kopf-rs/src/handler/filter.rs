//! Which objects and changes a handler is for (core.md 13).
//!
//! Evaluated once per event. A value callback gets `None` for an absent field.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::handler::cause::Cause;

/// The filters of one handler: all must hold.
#[derive(Clone, Default)]
pub struct Filters {
    /// Per label.
    pub labels: Vec<(String, Criterion)>,
    /// Per annotation.
    pub annotations: Vec<(String, Criterion)>,
    /// The field's value, on either side of the change.
    pub value: Option<Criterion>,
    /// The field's former value.
    pub old: Option<Criterion>,
    /// The field's new value.
    pub new: Option<Criterion>,
    /// Anything else; evaluated last.
    pub when: Option<When>,
}

/// What one value must be.
#[derive(Clone)]
pub enum Criterion {
    /// Exactly this.
    Equals(Value),
    /// There, whatever it is.
    Present,
    /// Not there.
    Absent,
    /// Whatever the function says of it.
    Matches(Arc<dyn Fn(Option<&Value>) -> bool + Send + Sync>),
}

/// A predicate over the whole cause.
pub type When = Arc<dyn Fn(&Cause) -> bool + Send + Sync>;

impl fmt::Debug for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(value) => write!(f, "Equals({value})"),
            Self::Present => f.write_str("Present"),
            Self::Absent => f.write_str("Absent"),
            Self::Matches(_) => f.write_str("Matches(..)"),
        }
    }
}
