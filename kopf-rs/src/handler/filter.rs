//! Filters that select the objects and changes for which a handler is called.
//!
//! Filters are evaluated once per event. A value predicate gets `None` for an absent field. Filters do not know which
//! change they are evaluated for.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::handler::cause::Cause;
use crate::object::body::Body;
use crate::object::diff::same;
use crate::object::path::FieldPath;

/// The criterion of a label, annotation or field that must be present, with any value.
pub const PRESENT: Criterion = Criterion::Present;

/// The criterion of a label, annotation or field that must be absent.
pub const ABSENT: Criterion = Criterion::Absent;

/// The filters of a handler. An object must pass all of them.
#[derive(Clone, Default)]
pub(crate) struct Filters {
    /// One criterion per label.
    pub(crate) labels: Vec<(String, Criterion)>,
    /// One criterion per annotation.
    pub(crate) annotations: Vec<(String, Criterion)>,
    /// The criterion on the field's value. It suffices if the value before or after the change meets it.
    pub(crate) value: Option<Criterion>,
    /// The criterion on the field's value before the change.
    pub(crate) old: Option<Criterion>,
    /// The criterion on the field's value after the change.
    pub(crate) new: Option<Criterion>,
    /// A predicate over the whole cause, evaluated last.
    pub(crate) when: Option<When>,
}

/// A criterion that one value must meet.
#[derive(Clone)]
#[non_exhaustive]
pub enum Criterion {
    /// The value equals this one.
    Equals(Value),
    /// The value is present.
    Present,
    /// The value is absent.
    Absent,
    /// The function returns `true` for the value; it gets `None` if the value is absent.
    Matches(Predicate),
}

/// A predicate over one value.
pub(crate) type Predicate = Arc<dyn Fn(Option<&Value>) -> bool + Send + Sync>;

/// A predicate over the whole cause.
pub(crate) type When = Arc<dyn Fn(&Cause) -> bool + Send + Sync>;

// === impl Criterion ===

impl Criterion {
    /// Creates a criterion from a predicate, which gets `None` for an absent value.
    pub fn matches(predicate: impl Fn(Option<&Value>) -> bool + Send + Sync + 'static) -> Self {
        Self::Matches(Arc::new(predicate))
    }
    /// Returns whether `value` meets the criterion; `None` is an absent value.
    #[must_use]
    pub fn holds(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Equals(wanted) => value.is_some() && same(Some(wanted), value),
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

/// The former value of a field. It is unknown if the former state was too large to store, so that only its digest was
/// kept. Every criterion then holds for it, since one call too many does less harm than a missed call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Former<'a> {
    Known(Option<&'a Value>),
    Unknown,
}

impl Filters {
    /// Returns whether the object passes the labels, the annotations, and the field criterion on either side of the
    /// change.
    pub(crate) fn accept_object(
        &self,
        body: &Body,
        field: Option<&FieldPath>,
        old: Former<'_>,
        new: Option<&Value>,
    ) -> bool {
        let all = |criteria: &[(String, Criterion)], found: &serde_json::Map<String, Value>| {
            criteria.iter().all(|(key, criterion)| criterion.holds(found.get(key)))
        };
        all(&self.labels, body.label_map())
            && all(&self.annotations, body.annotation_map())
            && field.is_none_or(|_| {
                let value = self.value.as_ref().unwrap_or(&Criterion::Present);
                value.holds(new) || value.holds_formerly(old)
            })
    }

    /// Returns whether the field, or the object, has changed from and to the values that `old` and `new` accept.
    pub(crate) fn accept_change(&self, old: Former<'_>, new: Option<&Value>) -> bool {
        self.old.as_ref().is_none_or(|it| it.holds_formerly(old))
            && self.new.as_ref().is_none_or(|it| it.holds(new))
    }

    /// Returns whether the filters contain user functions.
    pub(crate) fn has_functions(&self) -> bool {
        let named = self.labels.iter().chain(&self.annotations);
        let values = self.value.iter().chain(&self.old).chain(&self.new);
        let mut criteria = named.map(|(_, it)| it).chain(values);
        self.when.is_some() || criteria.any(Criterion::is_function)
    }

    /// Rejects filters that contradict each other.
    pub(crate) fn check(&self, field: Option<&FieldPath>) -> Result<(), &'static str> {
        let one_sided = self.old.is_some() || self.new.is_some();
        if field.is_none() && (one_sided || self.value.is_some()) {
            return Err("`value`, `old` and `new` need a `field`");
        }
        if self.value.is_some() && one_sided {
            return Err("`value` excludes `old` and `new`");
        }
        Ok(())
    }
}

impl Criterion {
    /// Returns whether the criterion is a user function.
    pub(crate) fn is_function(&self) -> bool {
        matches!(self, Self::Matches(_))
    }

    /// Returns whether a former value met the criterion.
    pub(crate) fn holds_formerly(&self, value: Former<'_>) -> bool {
        match value {
            Former::Known(value) => self.holds(value),
            Former::Unknown => true,
        }
    }
}

// === for generated code ===

/// Marker: the criterion is written as a value or as the name of a predicate.
pub struct AsValue;
/// Marker: the criterion is written as a predicate.
pub struct AsPredicate;
/// Marker: the criterion is written as a [`Criterion`].
pub struct AsCriterion;

/// Notations that attributes accept for a criterion. The marker `M` distinguishes the three notations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no criterion",
    label = "expected a value, `PRESENT`, `ABSENT`, or a predicate `fn(Option<&Value>) -> bool`"
)]
pub trait IntoCriterion<M> {
    /// Converts the notation.
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

/// Converts a criterion from any notation.
pub fn criterion<M>(written: impl IntoCriterion<M>) -> Criterion {
    written.into_criterion()
}

/// Makes a criterion from a closure, so that its argument needs no type annotation.
pub fn matches(predicate: impl Fn(Option<&Value>) -> bool + Send + Sync + 'static) -> Criterion {
    Criterion::matches(predicate)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(value: Option<&Value>) -> bool {
        value.is_none_or(|it| it.as_str().is_some_and(|it| it.len() > 3))
    }

    #[test]
    fn criteria() {
        let matches = Criterion::Matches(Arc::new(long));
        for (criterion, value, expected) in [
            (Criterion::Equals(json!("x")), Some(json!("x")), true),
            (Criterion::Equals(json!("")), Some(json!("")), true),
            (Criterion::Equals(json!(1)), Some(json!(1.0)), true),
            (Criterion::Equals(json!("x")), None, false),
            (Criterion::Present, Some(json!("")), true),
            (Criterion::Present, None, false),
            (Criterion::Absent, Some(json!(false)), false),
            (Criterion::Absent, None, true),
            (matches.clone(), Some(json!("long")), true),
            (matches.clone(), Some(json!("no")), false),
            (matches, None, true),
        ] {
            assert_eq!(criterion.holds(value.as_ref()), expected, "{criterion:?} {value:?}");
        }
    }

    #[test]
    fn labels_and_annotations_must_all_hold() {
        let body = Body::new(json!({"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}));
        let mut filters = Filters {
            labels: vec![("a".into(), Criterion::Present), ("z".into(), Criterion::Absent)],
            annotations: vec![("b".into(), Criterion::Equals(json!("2")))],
            ..Filters::default()
        };
        assert!(filters.accept_object(&body, None, Former::Unknown, None));
        filters.labels.push(("a".into(), Criterion::Equals(json!("2"))));
        assert!(!filters.accept_object(&body, None, Former::Unknown, None));
    }

    #[test]
    fn values_hold_on_either_side() {
        let body = Body::new(json!({}));
        let field = FieldPath::parse("spec.x");
        let accepts = |value: Option<Criterion>, old: Option<Value>, new: Option<Value>| {
            let filters = Filters { value, ..Filters::default() };
            filters.accept_object(&body, Some(&field), Former::Known(old.as_ref()), new.as_ref())
        };
        let (v, w) = (Some(json!("v")), Some(json!("w")));
        let is_v = || Some(Criterion::Equals(json!("v")));
        assert!(accepts(is_v(), None, v.clone()));
        assert!(accepts(is_v(), v.clone(), w.clone()));
        assert!(!accepts(is_v(), w.clone(), Some(json!("z"))));
        assert!(accepts(None, v.clone(), None) && !accepts(None, None, None));
        assert!(accepts(Some(Criterion::Absent), None, v.clone()) && !accepts(Some(Criterion::Absent), v, w));
    }

    #[test]
    fn changes_are_checked_side_by_side() {
        let filters = Filters {
            old: Some(Criterion::Equals(json!(1))),
            new: Some(Criterion::Absent),
            ..Filters::default()
        };
        let one = json!(1);
        assert!(filters.accept_change(Former::Known(Some(&one)), None));
        assert!(!filters.accept_change(Former::Known(None), None));
        assert!(!filters.accept_change(Former::Known(Some(&one)), Some(&one)));
        assert!(filters.accept_change(Former::Unknown, None));
    }
}
