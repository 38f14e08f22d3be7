//! A declared function: the constant an attribute leaves behind, and the handler made of it at start.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::handler::cause::{Cause, Reason};
use crate::handler::error::HandlerError;
use crate::handler::family::activity::Activity;
use crate::handler::family::{Declaration, Family, FamilyRules};
use crate::handler::filter::{Filters, Former};
use crate::handler::options::{CommonOptions, ErrorsMode, Param};
use crate::handler::seconds::Seconds;
use crate::object::patch::Patch;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// One annotated function: what its attributes declare, the lowest attribute first, as Kopf registers them.
#[derive(Clone, Copy)]
pub struct Declared(pub &'static [Decl]);

/// What an attribute registers. Constant: everything dynamic hides behind a function pointer.
#[derive(Clone, Copy)]
pub struct Decl {
    /// The function's name: the base of the handler id.
    pub name: &'static str,
    /// Where the function is; two attributes on one function share it.
    pub location: SourceLocation,
    /// Which attribute, with the options of its family.
    pub declaration: Declaration,
    /// The options that all attributes have.
    pub common: fn() -> CommonOptions,
    /// How to call the function.
    pub call: Call,
}

/// The position of a function's name in the sources, so that all attributes of one function share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
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
    /// What it is called for, and how it is treated.
    pub(crate) family: Family,
    /// The value of the argument `param`.
    pub(crate) param: Option<Param>,
    pub(crate) declared_at: DeclaredAt,
    pub(crate) callee: Callee,
}

/// Where a handler is declared: two handlers declared at the same place are one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredAt {
    Function(SourceLocation),
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

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for DeclaredAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(location) => location.fmt(f),
            Self::Closure(location) => location.fmt(f),
        }
    }
}

impl DeclaredAt {
    /// The package of the annotated function.
    pub(crate) fn package(self) -> Option<&'static str> {
        match self {
            Self::Function(location) => Some(location.package),
            Self::Closure(_) => None,
        }
    }
}

/// What a handler is for: answered by its family. Nothing outside of `handler` asks which attribute declared it.
impl Handler {
    fn rules(&self) -> &dyn FamilyRules {
        self.family.rules()
    }

    /// Whether it is called for changes of objects.
    pub(crate) fn is_for_changes(&self) -> bool {
        matches!(self.family, Family::Change(_))
    }

    /// Whether it is called for every watch event, whatever has changed.
    pub(crate) fn is_for_events(&self) -> bool {
        matches!(self.family, Family::Event(_))
    }

    /// Whether the progress of its attempts is kept on the object.
    pub(crate) fn persists_progress(&self) -> bool {
        self.rules().persists_progress()
    }

    /// Whether a cycle with this reason is one it is for. `initial`: the object was listed and not handled since.
    pub(crate) fn is_for(&self, reason: Reason, initial: bool) -> bool {
        self.rules().is_for(reason, initial)
    }

    /// Whether it is called for differences only, one change after the other.
    pub(crate) fn reacts_to_differences(&self) -> bool {
        self.rules().reacts_to_differences()
    }

    /// Whether it is called when the operator starts, and not for changes.
    pub(crate) fn is_for_resuming(&self) -> bool {
        self.rules().is_for_resuming()
    }

    /// Whether an object in its scope must not vanish before it has seen the deletion.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.rules().needs_finalizer()
    }

    /// Whether it sees a deletion as well as it can, without holding it up.
    pub(crate) fn is_optional_deletion(&self) -> bool {
        self.rules().is_optional_deletion()
    }

    /// The resources it is for; `None` where it is for no object.
    pub(crate) fn selector(&self) -> Option<&Selector> {
        self.rules().selector()
    }

    /// The field it is for.
    pub(crate) fn field(&self) -> Option<&FieldPath> {
        self.rules().field()
    }

    /// Which objects it is for.
    pub(crate) fn filters(&self) -> &Filters {
        self.rules().filters()
    }

    /// Whether its field, or the object, has changed from and to what it is for.
    pub(crate) fn accepts_change(&self, old: Former<'_>, new: Option<&Value>) -> bool {
        self.rules().accepts_change(old, new)
    }

    /// Total time over all attempts.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.rules().retry().timeout
    }

    /// Whether it is a plain `fn`, which no timeout can interrupt.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.callee, Callee::Fn(Call::Blocking(_)))
    }

    /// Total number of attempts.
    pub(crate) fn retries(&self) -> Option<u32> {
        self.rules().retry().retries
    }

    /// Fixed delay after an arbitrary error.
    pub(crate) fn backoff(&self) -> Option<Duration> {
        self.rules().retry().backoff
    }

    /// What an arbitrary error means.
    pub(crate) fn errors(&self) -> ErrorsMode {
        let errors = self.rules().retry().errors;
        errors.unwrap_or(ErrorsMode::Temporary)
    }

    /// The activity it is part of; `None` for handlers of objects.
    pub(crate) fn activity(&self) -> Option<Activity> {
        match &self.family {
            Family::Activity(handler) => Some(handler.activity),
            _ => None,
        }
    }

    /// The ids of handlers with the same scope must differ where their resources overlap.
    pub(crate) fn id_scope(&self) -> &'static str {
        self.rules().id_scope()
    }
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.rules().noun(), self.id)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = self.rules().attribute().name;
        write!(f, "Handler({:?}, {attribute})", self.id)
    }
}
