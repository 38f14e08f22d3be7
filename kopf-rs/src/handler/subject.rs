//! The subject of a handler call: an object and its change, a watch event, or an activity of the operator.
//!
//! There is one variant per family. This module depends on neither handlers nor `Cause`; the family modules add
//! accessors to `Cause`.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::handler::again::AgainCell;
use crate::handler::index::erased::EntriesSink;
use crate::handler::live::Live;
use crate::handler::review::{ReviewFacts, Warnings};
use crate::handler::stopped::Stopped;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::event::EventType;
use crate::object::path::FieldPath;
use crate::object::resource::Resource;
use crate::object::str_eq::equals_text;

/// The subject of a handler call.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Change(ChangeSubject),
    Event(EventSubject),
    Background(BackgroundSubject),
    Index(IndexSubject),
    Review(ReviewSubject),
    Activity(Activity),
}

/// The reason of a handling cycle, named as in Kopf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The object is new to this operator.
    Create,
    /// The object's essence differs from the one that was handled last.
    Update,
    /// The object is being deleted.
    Delete,
    /// The operator has started, and the object has not changed since it was handled last.
    Resume,
}

/// The object that a handler is called for.
#[derive(Clone, Debug)]
pub(crate) struct SubjectObject {
    pub(crate) resource: Arc<Resource>,
    pub(crate) body: Arc<Body>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct ChangeSubject {
    pub(crate) object: SubjectObject,
    pub(crate) change: Change,
    /// Provided by the engine while the handler runs; `None` during the evaluation of filters.
    pub(crate) subhandlers: Option<LentSubhandlers>,
}

/// The change since the object was handled last, reduced to the handler's field if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// `None` if there is nothing to handle. Then only filters see this change.
    pub(crate) reason: Option<Reason>,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Option<Arc<Value>>,
    pub(crate) diff: Arc<Diff>,
}

/// The [`Subhandlers`](crate::Subhandlers) of a call. Type-erased, since they hold closures that take causes, and
/// causes hold subjects.
pub(crate) type LentSubhandlers = Arc<dyn Any + Send + Sync>;

/// A watch event.
#[derive(Clone, Debug)]
pub(crate) struct EventSubject {
    pub(crate) object: SubjectObject,
    pub(crate) event: EventType,
}

/// An object with a background handler.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundSubject {
    /// The object at the start of the call.
    pub(crate) object: SubjectObject,
    /// The newest state of the object.
    pub(crate) live: Live,
    pub(crate) stopped: Stopped,
    /// The requeue request of a reconcile function.
    pub(crate) again: AgainCell,
}

/// An object that an index function maps to keys and values.
#[derive(Clone, Debug)]
pub(crate) struct IndexSubject {
    pub(crate) object: SubjectObject,
    /// The sink for these keys and values.
    pub(crate) entries: EntriesSink,
}

/// An admission request about an object, which a handler allows or denies.
#[derive(Clone, Debug)]
pub(crate) struct ReviewSubject {
    /// The object after the operation; for a deletion, the object before it.
    pub(crate) object: SubjectObject,
    pub(crate) facts: Arc<ReviewFacts>,
    pub(crate) sides: Arc<Sides>,
    pub(crate) warnings: Warnings,
}

/// The object of a request, before and after the operation.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    /// True for a deletion. Then the body is the object before it, since there is none after it.
    pub(crate) is_deletion: bool,
    /// The object before the change to the body.
    pub(crate) before: Option<Value>,
    /// Computed on first use.
    pub(crate) diff: OnceLock<Diff>,
}

/// An activity of the operator itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// `#[on_startup]`
    Startup,
    /// `#[on_cleanup]`
    Cleanup,
    /// `#[on_login]`
    Login,
    /// `#[on_probe]`
    Probe,
}

// === impl ===

impl Subject {
    /// Returns the object, if there is one.
    pub(crate) fn object(&self) -> Option<&SubjectObject> {
        match self {
            Self::Change(subject) => Some(&subject.object),
            Self::Event(subject) => Some(&subject.object),
            Self::Background(subject) => Some(&subject.object),
            Self::Index(subject) => Some(&subject.object),
            Self::Review(subject) => Some(&subject.object),
            Self::Activity(_) => None,
        }
    }

    /// Returns the name of the object. An object under review may have none yet; then returns the name from the
    /// request.
    pub(crate) fn name(&self) -> &str {
        let own = self.object().map_or("", |it| it.body.name());
        match self {
            Self::Review(it) if own.is_empty() => it.facts.name.as_deref().unwrap_or_default(),
            _ => own,
        }
    }

    /// Returns the namespace of the object, with the same fallback.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let own = self.object().and_then(|it| it.body.namespace());
        match self {
            Self::Review(it) => own.or(it.facts.namespace.as_deref()),
            _ => own,
        }
    }
}

impl ReviewSubject {
    /// Returns the whole object before the operation.
    pub(crate) fn before(&self) -> Option<&Value> {
        if self.sides.is_deletion { Some(&self.object.body) } else { self.sides.before.as_ref() }
    }

    /// Returns the whole object after the operation.
    pub(crate) fn after(&self) -> Option<&Value> {
        (!self.sides.is_deletion).then_some(&self.object.body)
    }

    pub(crate) fn diff(&self) -> &Diff {
        let diff = || Diff::between(self.before(), self.after());
        self.sides.diff.get_or_init(diff)
    }
}

impl Reason {
    /// Returns `create`, `update`, `delete` or `resume`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resume => "resume",
        }
    }
}

equals_text!(Reason, |reason, text| reason.as_str() == text);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Change {
    /// Returns the change of one field.
    pub(crate) fn reduced(&self, field: &FieldPath) -> Self {
        let at = |side: &Option<Arc<Value>>| {
            let value = side.as_deref().and_then(|side| field.resolve(side));
            value.cloned().map(Arc::new)
        };
        Self {
            reason: self.reason,
            old: at(&self.old),
            new: at(&self.new),
            diff: Arc::new(self.diff.reduced(field)),
        }
    }
}

impl Activity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
            Self::Login => "authentication",
            Self::Probe => "probe",
        }
    }
}
