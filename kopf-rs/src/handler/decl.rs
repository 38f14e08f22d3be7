//! A declared function: the constant an attribute leaves behind, and the handler made of it at start.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::handler::cause::{Cause, Reason};
use crate::handler::error::HandlerError;
use crate::handler::filter::Filters;
use crate::handler::seconds::Seconds;
use crate::object::patch::Patch;
use crate::object::path::FieldPath;
use crate::object::selector::{Selector, SelectorError};

/// One annotated function: what its attributes declare, the lowest attribute first, as Kopf registers them.
#[derive(Clone, Copy)]
pub struct Declared(pub &'static [Decl]);

/// What an attribute registers. Constant: everything dynamic hides behind a function pointer.
#[derive(Clone, Copy)]
pub struct Decl {
    /// The function's name: the base of the handler id.
    pub name: &'static str,
    /// Where the function is; two attributes on one function share it.
    pub place: Place,
    /// Which attribute.
    pub kind: HandlerKind,
    /// Which resources; `None` for activities.
    pub selector: Option<fn() -> Result<Selector, SelectorError>>,
    /// The attribute's options.
    pub options: fn() -> Options,
    /// How to call the function.
    pub call: Call,
}

/// A place in the sources: that of the function's name, so that all attributes of one function share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// `CARGO_PKG_NAME` of the crate.
    pub package: &'static str,
    /// `file!()`
    pub file: &'static str,
    /// The line of the function's name, from 1.
    pub line: u32,
    /// The column of the function's name, from 1.
    pub column: u32,
    /// `module_path!()`
    pub module: &'static str,
}

/// Which attribute declared the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandlerKind {
    /// `#[on_create]`
    Create,
    /// `#[on_update]`
    Update,
    /// `#[on_delete]`
    Delete,
    /// `#[on_resume]`
    Resume,
    /// `#[on_field]`
    Field,
    /// `#[on_event]`
    Event,
    /// `#[on_startup]`
    Startup,
    /// `#[on_cleanup]`
    Cleanup,
}

/// What an operator does for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Startup,
    Cleanup,
}

/// The options of an attribute, all optional.
#[derive(Clone, Default)]
pub struct Options {
    /// Another id than the function's name.
    pub id: Option<String>,
    /// An opaque value for the argument `param`.
    pub param: Option<Arc<dyn Any + Send + Sync>>,
    /// What arbitrary errors mean.
    pub errors: Option<ErrorsMode>,
    /// Total time over all attempts; an async attempt is cancelled when it is over.
    pub timeout: Option<Duration>,
    /// Total number of attempts.
    pub retries: Option<u32>,
    /// Fixed delay after an arbitrary error.
    pub backoff: Option<Duration>,
    /// The field the handler is for.
    pub field: Option<FieldPath>,
    /// `on_resume`: also for objects being deleted.
    pub deleted: bool,
    /// `on_delete`: do not demand the finalizer.
    pub optional: bool,
    /// `labels annotations when value old new`
    pub filters: Filters,
}

/// What an arbitrary error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorsMode {
    /// Logged, counts as success.
    Ignored,
    /// Retried. The default.
    Temporary,
    /// Final.
    Permanent,
}

/// What a call gives: a result for `status.{id}`, nothing, or an error.
pub type Returned = Result<Option<Value>, HandlerError>;

/// A boxed future of a call.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Returned> + Send + 'a>>;

/// How to call a handler.
#[derive(Clone, Copy)]
pub enum Call {
    /// An `async fn`.
    Async(for<'a> fn(&'a Cause, &'a mut Patch) -> Calling<'a>),
    /// A plain `fn`, run on the blocking pool.
    Blocking(fn(&Cause, &mut Patch) -> Returned),
}

/// A handler at work: a declaration resolved once, at start. Displays as log lines name it: `Handler 'id'`, `Activity 'id'`.
pub(crate) struct Handler {
    /// Kopf's id: `name`, `name/field.path`.
    pub(crate) id: Arc<str>,
    pub(crate) kind: HandlerKind,
    pub(crate) selector: Option<Selector>,
    pub(crate) options: Options,
    pub(crate) origin: Origin,
    pub(crate) callee: Callee,
}

/// Where a handler comes from: two handlers of one origin are one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Function(Place),
    Closure(&'static Location<'static>),
}

/// A closure that is called like an `async fn`.
pub(crate) type Closure = dyn for<'a> Fn(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + Sync;

/// What a handler calls: a function known at compile time, or a closure of an explicit registry.
#[derive(Clone)]
pub(crate) enum Callee {
    Fn(Call),
    Closure(Arc<Closure>),
}

// === for generated code ===

/// A span of time, however it is written.
pub fn duration(time: impl Into<Seconds>) -> Duration {
    time.into().duration()
}

/// Box the future of a handler. A function of its own so that the compiler names the bound when a future cannot be sent.
pub fn handler_future_must_be_send<'a, F: Future + Send + 'a>(
    future: F,
) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'a>> {
    Box::pin(future)
}

// === impl ===

impl HandlerKind {
    /// The attribute, as users write it.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Create => "on_create",
            Self::Update => "on_update",
            Self::Delete => "on_delete",
            Self::Resume => "on_resume",
            Self::Field => "on_field",
            Self::Event => "on_event",
            Self::Startup => "on_startup",
            Self::Cleanup => "on_cleanup",
        }
    }
}

impl Activity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(place) => place.fmt(f),
            Self::Closure(place) => place.fmt(f),
        }
    }
}

impl Origin {
    /// The package of the annotated function.
    pub(crate) fn package(self) -> Option<&'static str> {
        match self {
            Self::Function(place) => Some(place.package),
            Self::Closure(_) => None,
        }
    }
}

/// What each kind of handler is for: asked here, and matched on nowhere else.
impl Handler {
    /// Whether it is called for changes of objects: its progress is kept on them.
    pub(crate) fn is_for_changes(&self) -> bool {
        match self.kind {
            HandlerKind::Create
            | HandlerKind::Update
            | HandlerKind::Delete
            | HandlerKind::Resume
            | HandlerKind::Field => true,
            HandlerKind::Event | HandlerKind::Startup | HandlerKind::Cleanup => false,
        }
    }

    /// Whether it is called for every watch event, whatever has changed.
    pub(crate) fn is_for_events(&self) -> bool {
        self.kind == HandlerKind::Event
    }

    /// Whether a cycle with this reason is one it is for. `initial`: the object was listed and not handled since.
    pub(crate) fn is_for(&self, reason: Reason, initial: bool) -> bool {
        match self.kind {
            HandlerKind::Create => reason == Reason::Create,
            HandlerKind::Update => reason == Reason::Update,
            HandlerKind::Delete => reason == Reason::Delete,
            HandlerKind::Resume => {
                initial
                    && reason != Reason::Create
                    && (reason != Reason::Delete || self.options.deleted)
            }
            HandlerKind::Field => true,
            HandlerKind::Event | HandlerKind::Startup | HandlerKind::Cleanup => false,
        }
    }

    /// Whether it is called for differences only, one change after the other.
    pub(crate) fn reacts_to_differences(&self) -> bool {
        matches!(self.kind, HandlerKind::Update | HandlerKind::Field)
    }

    /// Whether it is called when the operator starts, and not for changes.
    pub(crate) fn is_for_resuming(&self) -> bool {
        self.kind == HandlerKind::Resume
    }

    /// Whether an object in its scope must not vanish before it has seen the deletion.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.kind == HandlerKind::Delete && !self.options.optional
    }

    /// Whether it sees a deletion as well as it can, without holding it up.
    pub(crate) fn is_optional_deletion(&self) -> bool {
        self.kind == HandlerKind::Delete && self.options.optional
    }

    /// The field it is for.
    pub(crate) fn field(&self) -> Option<&FieldPath> {
        self.options.field.as_ref()
    }

    /// Which objects and changes it is for.
    pub(crate) fn filters(&self) -> &Filters {
        &self.options.filters
    }

    /// Total time over all attempts.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }

    /// Whether it is a plain `fn`, which no timeout can interrupt.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.callee, Callee::Fn(Call::Blocking(_)))
    }

    /// Total number of attempts.
    pub(crate) fn retries(&self) -> Option<u32> {
        self.options.retries
    }

    /// Fixed delay after an arbitrary error.
    pub(crate) fn backoff(&self) -> Option<Duration> {
        self.options.backoff
    }

    /// What an arbitrary error means.
    pub(crate) fn errors(&self) -> ErrorsMode {
        self.options.errors.unwrap_or(ErrorsMode::Temporary)
    }

    /// The activity it is part of; `None` for handlers of objects.
    pub(crate) fn activity(&self) -> Option<Activity> {
        match self.kind {
            HandlerKind::Startup => Some(Activity::Startup),
            HandlerKind::Cleanup => Some(Activity::Cleanup),
            _ => None,
        }
    }
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.activity().map_or("Handler", |_| "Activity");
        write!(f, "{what} '{}'", self.id)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handler({:?}, {:?})", self.id, self.kind)
    }
}
