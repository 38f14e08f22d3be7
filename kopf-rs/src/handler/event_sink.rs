//! The interface that takes Kubernetes Events from handlers. The engine implements it.
//!
//! This module does not know how Events are posted.

use std::fmt;
use std::sync::Arc;

use crate::object::posted_event::PostedEvent;

/// The severity of a log line or an Event; [`Posting::level`](crate::Posting::level) sets the lowest one that is
/// posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PostingLevel {
    /// For developers.
    Debug,
    /// Normal operation.
    #[default]
    Info,
    /// Something unexpected.
    Warning,
    /// A failure.
    Error,
}

/// The filters for Events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingGates {
    /// The lowest level.
    pub(crate) level: PostingLevel,
    /// True if log lines are posted, too.
    pub(crate) lines: bool,
}

/// Takes Events without ever blocking.
pub(crate) trait EventSink: fmt::Debug + Send + Sync {
    /// Returns which Events the operator posts; `None` if none.
    fn gates(&self) -> Option<PostingGates>;
    /// Queues an Event for posting.
    fn post(&self, event: PostedEvent);
}

impl dyn EventSink {
    /// Returns whether the operator posts Events of this level.
    pub(crate) fn takes(&self, level: PostingLevel) -> bool {
        self.gates().is_some_and(|gates| level >= gates.level)
    }
}

/// The operator's sink, registered among the values that handlers ask for by type.
#[derive(Clone, Debug)]
pub(crate) struct OperatorSink(pub(crate) Arc<dyn EventSink>);

impl From<tracing::Level> for PostingLevel {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warning,
            tracing::Level::INFO => Self::Info,
            tracing::Level::DEBUG | tracing::Level::TRACE => Self::Debug,
        }
    }
}
