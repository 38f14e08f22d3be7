//! What a handler is called for: an object and what has changed of it, a watch event, an activity of the operator.
//!
//! One variant per family. Must not know handlers, nor how a cause offers its subject: each family's module adds methods to `Cause`.

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
use crate::object::words::equals_text;

/// What a handler is called for.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Change(ChangeSubject),
    Event(EventSubject),
    Background(BackgroundSubject),
    Index(IndexSubject),
    Review(ReviewSubject),
    Activity(Activity),
}

/// The reason of a handling cycle, as Kopf names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The object is new to this operator.
    Create,
    /// Its essence differs from what was handled last.
    Update,
    /// It is being deleted.
    Delete,
    /// The operator has started and the object is as it was handled last.
    Resume,
}

/// The object a handler is called for.
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
    /// Lent by the engine while the handler runs. Filters are evaluated before, and have none.
    pub(crate) subhandlers: Option<LentSubhandlers>,
}

/// What has changed since the object was handled last; reduced to the handler's field where it has one.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// `None` where nothing is to be handled: then only filters see it.
    pub(crate) reason: Option<Reason>,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Option<Arc<Value>>,
    pub(crate) diff: Arc<Diff>,
}

/// The [`Subhandlers`](crate::Subhandlers) of a call. Without their type, for they hold closures that take causes, and causes hold subjects.
pub(crate) type LentSubhandlers = Arc<dyn Any + Send + Sync>;

/// A watch event.
#[derive(Clone, Debug)]
pub(crate) struct EventSubject {
    pub(crate) object: SubjectObject,
    pub(crate) event: EventType,
}

/// An object that is looked after in the background.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundSubject {
    /// As it was when the call began.
    pub(crate) object: SubjectObject,
    /// As it is now.
    pub(crate) live: Live,
    pub(crate) stopped: Stopped,
    /// When a reconcile function wants to be called again.
    pub(crate) again: AgainCell,
}

/// An object of which an index function says what is to be found by which keys.
#[derive(Clone, Debug)]
pub(crate) struct IndexSubject {
    pub(crate) object: SubjectObject,
    /// Where that goes.
    pub(crate) entries: EntriesSink,
}

/// A request about an object, which an admission handler lets pass or not.
#[derive(Clone, Debug)]
pub(crate) struct ReviewSubject {
    /// As it is to be; where it is to be deleted, as it is.
    pub(crate) object: SubjectObject,
    pub(crate) facts: Arc<ReviewFacts>,
    pub(crate) sides: Arc<Sides>,
    pub(crate) warnings: Warnings,
}

/// The object of a request, before and after.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    /// The body is the object as it is: there will be none.
    pub(crate) is_deletion: bool,
    /// The object before it is changed to the body.
    pub(crate) before: Option<Value>,
    /// Made where it is asked for.
    pub(crate) diff: OnceLock<Diff>,
}

/// What an operator does for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
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
    /// The object, where there is one.
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

    /// The name of the object. Not all objects under review have one: then it is that in the request.
    pub(crate) fn name(&self) -> &str {
        let own = self.object().map_or("", |it| it.body.name());
        match self {
            Self::Review(it) if own.is_empty() => it.facts.name.as_deref().unwrap_or_default(),
            _ => own,
        }
    }

    /// Its namespace, likewise.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let own = self.object().and_then(|it| it.body.namespace());
        match self {
            Self::Review(it) => own.or(it.facts.namespace.as_deref()),
            _ => own,
        }
    }
}

impl ReviewSubject {
    /// The whole object as it is.
    pub(crate) fn before(&self) -> Option<&Value> {
        if self.sides.is_deletion {
            Some(&self.object.body)
        } else {
            self.sides.before.as_ref()
        }
    }

    /// The whole object as it is to be.
    pub(crate) fn after(&self) -> Option<&Value> {
        (!self.sides.is_deletion).then_some(&self.object.body)
    }

    pub(crate) fn diff(&self) -> &Diff {
        let diff = || Diff::between(self.before(), self.after());
        self.sides.diff.get_or_init(diff)
    }
}

impl Reason {
    /// `create`, `update`, `delete` or `resume`.
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
    /// The change of a field of what has changed.
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
