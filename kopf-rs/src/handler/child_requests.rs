//! The interface through which `Children` sends requests on behalf of a handler. The engine
//! implements it.
//!
//! This module does not know how requests are made.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::error::{HandlerError, PermanentError, TemporaryError};
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::object::body::Body;
use crate::object::child::taken::TakenFields;
use crate::object::child::{ChildName, Ownership};
use crate::object::hierarchy::Misfit;

/// A pending request. Dropping it at any time is safe.
pub(crate) type ChildFuture<T> = Pin<Box<dyn Future<Output = Result<T, ChildError>> + Send>>;

/// Applies, reads and deletes children.
pub(crate) trait ChildRequests: fmt::Debug + Send + Sync {
    /// Applies the object as a child of the owner.
    fn apply(self: Arc<Self>, wish: ChildWish) -> ChildFuture<ChildReply>;
    /// Applies all these objects, and deletes all other objects of the same handler and owner.
    fn set(self: Arc<Self>, objects: Vec<Value>, of: ChildContext) -> ChildFuture<Vec<ChildReply>>;
    /// Returns the current state of a child of the owner; `None` if there is no such child.
    fn read(self: Arc<Self>, wish: ChildWish) -> ChildFuture<Option<Value>>;
    /// Returns the current children of the owner that have the kind of the wish.
    fn list(self: Arc<Self>, wish: ChildWish) -> ChildFuture<Vec<Value>>;
    /// Returns the object that was applied.
    fn read_applied(self: Arc<Self>, api_version: String, child: ChildName) -> ChildFuture<Value>;
    /// Deletes the object if it is a child of the owner; returns `false` if there is no such child.
    fn delete(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool>;
    /// Removes the object from the children of the owner without deleting it; returns `false` if there is no such
    /// child.
    fn orphan(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool>;
}

/// The operator's implementation of [`ChildRequests`], registered among the values that handlers ask for by type.
#[derive(Clone, Debug)]
pub(crate) struct OperatorChildren(pub(crate) Arc<dyn ChildRequests>);

/// The handler and the owner on whose behalf a request is made.
#[derive(Clone, Debug)]
pub(crate) struct ChildContext {
    pub(crate) ownership: Ownership,
    /// Adopts objects that have no controller, so that they become children.
    pub(crate) adopts: bool,
    /// Deletes and recreates children whose immutable fields differ.
    pub(crate) recreates: bool,
    /// Field managers of former releases, whose fields the operator takes over.
    pub(crate) former_managers: Arc<[String]>,
    /// The owner, in the newest state that the operator knows.
    pub(crate) owner: Arc<Body>,
    pub(crate) handler_id: Arc<str>,
    /// The memo of the owner.
    pub(crate) memo: Memo,
    pub(crate) logger: Logger,
}

/// A child that a handler requests.
#[derive(Debug)]
pub(crate) struct ChildWish {
    pub(crate) object: Value,
    /// True if the child is part of the set of the handler.
    pub(crate) in_set: bool,
    pub(crate) context: ChildContext,
}

/// The state of a child after it was applied.
#[derive(Clone, Debug)]
pub(crate) struct ChildReply {
    pub(crate) api_version: String,
    pub(crate) child: ChildName,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// True if the apply created the object.
    pub(crate) created: bool,
    /// The whole object, if the caller requested it.
    pub(crate) object: Option<Value>,
}

/// Why a request for a child failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error(
        "{0}. Apply it by `children.unowned()` instead, and delete it by `children.unowned().delete(..)` in a function with #[on_delete]: such \
         a function keeps its object until it has succeeded"
    )]
    NotOwnable(Misfit),
    #[error(transparent)]
    Misfit(Misfit),
    #[error("no operator runs here, so no children can be applied")]
    NoOperator,
    #[error("the owner is being deleted: the operator applies no more children")]
    OwnerTerminating,
    #[error("the operator is paused in favour of another one: it writes no children until it continues")]
    Paused,
    #[error("{0} is being deleted: it is applied again once it is gone")]
    Terminating(ChildName),
    #[error("another client has deleted {0} meanwhile")]
    Vanished(ChildName),
    #[error(
        "{child} exists already and is not a child of this object: it is {why}. It stays unchanged: give the child another name, or delete that \
         object"
    )]
    NotOurs { child: ChildName, why: String },
    #[error(
        "{child} exists already and is not a child of this object: it is {why}. It stays unchanged; `children.adopting()` takes it over"
    )]
    Unclaimed { child: ChildName, why: String },
    #[error(
        "two handlers, '{first}' and '{second}', apply different content to {child}: one handler must apply the whole child"
    )]
    TwoAuthors { child: ChildName, first: Arc<str>, second: Arc<str> },
    #[error(
        "the content of {child} differs in each call, for instance at `{place}`, so it is applied at most once a minute"
    )]
    Unstable { child: ChildName, place: String, wait: Duration },
    #[error(
        "\"{}\" changes {child} after each correction, at {}: the next correction follows in {} seconds",
        taken.manager, taken.fields.join(", "), wait.as_secs()
    )]
    Contested { child: ChildName, taken: Box<TakenFields>, wait: Duration },
    #[error(
        "{child} is deleted, and the next attempt creates it again, because it cannot be changed: {error}"
    )]
    Recreated { child: ChildName, error: String },
    #[error(
        "{child} was recreated before and cannot be changed either: it is recreated again in {} seconds. {error}",
        wait.as_secs()
    )]
    RecreatedAgain { child: ChildName, error: String, wait: Duration },
    #[error("no kind {kind} of {api_version} is served: is its CustomResourceDefinition applied?")]
    KindMissing { api_version: String, kind: String },
    /// The server rejects the content of the child.
    #[error("{child} is refused: {error}")]
    Refused { child: ChildName, error: String },
    /// A quota, a policy or a webhook rejects the child, or a permission is missing. A later attempt may succeed.
    #[error("{child} cannot be applied now: {error}")]
    RefusedForNow { child: ChildName, error: String },
    /// The server is busy or does not answer.
    #[error("{child} cannot be applied now: {error}")]
    NotNow { child: ChildName, error: String },
    #[error("{child} cannot be read now: {error}")]
    Unread { child: ChildName, error: String },
    #[error("the children of kind {kind} cannot be listed now: {error}")]
    Unlisted { kind: String, error: String },
    #[error("{child} cannot be deleted now: {error}")]
    Undeleted { child: ChildName, error: String },
    #[error("{0} occurs twice in one set")]
    Twice(ChildName),
    #[error(
        "{0} cannot be in a set: no handler names its kind in `owns`, so the operator could not find leftover ones"
    )]
    Unwatched(ChildName),
    #[error("{} of {of} children have failed: {}", failed.len(), first_of(failed))]
    Several { failed: Vec<Self>, of: usize },
}

// === impl ===

impl ChildError {
    /// Returns the back-off before the next attempt; `None` if an attempt makes no sense before something changes.
    fn delay(&self) -> Option<Duration> {
        match self {
            Self::NotOwnable(_)
            | Self::Misfit(_)
            | Self::NoOperator
            | Self::OwnerTerminating
            | Self::TwoAuthors { .. }
            | Self::Twice(_)
            | Self::Unwatched(_)
            | Self::Refused { .. } => None,
            Self::Unstable { wait, .. }
            | Self::Contested { wait, .. }
            | Self::RecreatedAgain { wait, .. } => Some(*wait),
            Self::Paused | Self::Vanished(_) | Self::Recreated { .. } => Some(Duration::from_secs(1)),
            Self::Terminating(_) => Some(Duration::from_secs(5)),
            Self::KindMissing { .. }
            | Self::RefusedForNow { .. }
            | Self::NotNow { .. }
            | Self::Unread { .. }
            | Self::Unlisted { .. }
            | Self::Undeleted { .. } => Some(Duration::from_secs(15)),
            Self::NotOurs { .. } | Self::Unclaimed { .. } => Some(Duration::from_secs(60)),
            Self::Several { failed, .. } => failed.iter().filter_map(Self::delay).min(),
        }
    }

    /// Returns the trouble that conditions report.
    fn trouble(&self) -> Option<ChildTrouble> {
        match self {
            Self::Refused { .. }
            | Self::RefusedForNow { .. }
            | Self::Undeleted { .. }
            | Self::RecreatedAgain { .. } => Some(ChildTrouble::Refused),
            Self::NotOurs { .. } | Self::Unclaimed { .. } => Some(ChildTrouble::NotOurs),
            Self::TwoAuthors { .. } | Self::Contested { .. } => Some(ChildTrouble::Conflict),
            Self::KindMissing { .. } => Some(ChildTrouble::KindMissing),
            Self::Several { failed, .. } => failed.iter().find_map(Self::trouble),
            _ => None,
        }
    }

    /// Merges the errors of several children; `None` if no child has failed.
    pub(crate) fn several(mut failed: Vec<Self>, of: usize) -> Option<Self> {
        match failed.len() {
            0 => None,
            1 => failed.pop(),
            _ => Some(Self::Several { failed, of }),
        }
    }
}

/// The number of errors that a message quotes in full.
const QUOTED: usize = 3;

fn first_of(failed: &[ChildError]) -> String {
    let told = failed.iter().take(QUOTED).map(ToString::to_string);
    let told = told.collect::<Vec<_>>().join("; ");
    match failed.len().saturating_sub(QUOTED) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}

impl From<ChildError> for PermanentError {
    fn from(error: ChildError) -> Self {
        Self::new(error.to_string())
    }
}

/// Converts the error so that a handler can pass it on with `?`.
pub(crate) fn handler_error(error: &ChildError) -> HandlerError {
    let (text, trouble) = (error.to_string(), error.trouble());
    match error.delay() {
        Some(delay) => {
            let temporary = TemporaryError::new(text).delay(delay);
            HandlerError::Temporary(temporary.about_child(trouble))
        }
        None => HandlerError::Permanent(PermanentError::new(text).about_child(trouble)),
    }
}

impl From<Misfit> for ChildError {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::OtherNamespace { .. } | Misfit::ClusterScoped { .. } => Self::NotOwnable(misfit),
            other => Self::Misfit(other),
        }
    }
}
