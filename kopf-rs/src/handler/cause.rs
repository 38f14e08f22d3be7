//! Why a handler is called, and everything it may ask for.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::decl::Handler;
use crate::handler::extensions::Extensions;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::resource::Resource;

/// The reason of a handling cycle, as Kopf names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Seen in a listing; Kopf's `None`.
    Listed,
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
}

/// One call of one handler: all the data an argument can be made from.
#[derive(Clone, Debug)]
pub struct Cause {
    pub(crate) handler: Arc<Handler>,
    pub(crate) surroundings: Surroundings,
    pub(crate) attempt: Attempt,
    /// `None` in activities.
    pub(crate) subject: Option<Subject>,
}

/// What does not depend on the change: the same for all calls for one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) logger: Logger,
    pub(crate) memo: Memo,
    pub(crate) extensions: Arc<Extensions>,
}

/// Which attempt this is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// From 0.
    pub(crate) retry: u32,
    /// When the first attempt was due.
    pub(crate) started: Timestamp,
    /// Time since then.
    pub(crate) runtime: Duration,
}

/// The object a handler is called for.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) resource: Arc<Resource>,
    pub(crate) body: Arc<Body>,
    /// For changing handlers.
    pub(crate) change: Option<Change>,
    /// For raw-event handlers.
    pub(crate) event: Option<EventType>,
}

/// What has changed since the object was handled last; reduced to the handler's field where it has one.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) reason: Reason,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Option<Arc<Value>>,
    pub(crate) diff: Arc<Diff>,
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

impl EventType {
    /// `ADDED`, `MODIFIED`, `DELETED`, or `None` for a listing.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}
