//! Which objects and changes a handler is for (core.md 13).
//!
//! Evaluated once per event. A value callback gets `None` for an absent field.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::handler::cause::Cause;

/// The criterion of a label, annotation or field that must be there, whatever its value.
pub const PRESENT: Criterion = Criterion::Present;

/// The criterion of a label, annotation or field that must not be there.
pub const ABSENT: Criterion = Criterion::Absent;

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

// === impl Criterion ===

impl Criterion {
    /// Whatever `predicate` says of the value; `None` where there is none.
    pub fn matches(predicate: impl Fn(Option<&Value>) -> bool + Send + Sync + 'static) -> Self {
        Self::Matches(Arc::new(predicate))
    }
    /// Whether `value` is as wanted; `None` is absence.
    #[must_use]
    pub fn holds(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Equals(wanted) => value == Some(wanted),
            Self::Present => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Matches(predicate) => predicate(value),
        }
    }
}

impl<T: Into<Value>> From<T> for Criterion {
    fn from(value: T) -> Self {
        Self::Equals(value.into())
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filters")
            .field("labels", &self.labels)
            .field("annotations", &self.annotations)
            .field("value", &self.value)
            .field("old", &self.old)
            .field("new", &self.new)
            .field("when", &self.when.is_some())
            .finish()
    }
}

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

// === for generated code ===

/// Written as a value, or as the name of a predicate.
pub struct AsValue;
/// Written as a predicate.
pub struct AsPredicate;
/// Written as a criterion.
pub struct AsCriterion;

/// What an attribute takes for a criterion; `M` says which of the three it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no criterion",
    label = "expected a value, `PRESENT`, `ABSENT`, or a predicate `fn(Option<&Value>) -> bool`"
)]
pub trait IntoCriterion<M> {
    /// The criterion.
    fn into_criterion(self) -> Criterion;
}

impl<T: Serialize> IntoCriterion<AsValue> for T {
    fn into_criterion(self) -> Criterion {
        Criterion::Equals(serde_json::to_value(self).unwrap_or_default())
    }
}

impl<F: Fn(Option<&Value>) -> bool + Send + Sync + 'static> IntoCriterion<AsPredicate> for F {
    fn into_criterion(self) -> Criterion {
        Criterion::matches(self)
    }
}

impl IntoCriterion<AsCriterion> for Criterion {
    fn into_criterion(self) -> Criterion {
        self
    }
}

/// A criterion, however it is written.
pub fn criterion<M>(written: impl IntoCriterion<M>) -> Criterion {
    written.into_criterion()
}

/// A criterion written as a closure, whose argument needs no type.
pub fn matches(predicate: impl Fn(Option<&Value>) -> bool + Send + Sync + 'static) -> Criterion {
    Criterion::matches(predicate)
}

/// A predicate over the whole cause.
pub fn when(predicate: impl Fn(&Cause) -> bool + Send + Sync + 'static) -> When {
    Arc::new(predicate)
}
