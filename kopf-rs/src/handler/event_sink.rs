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

/// Takes Events without ever blocking.
pub(crate) trait EventSink: fmt::Debug + Send + Sync {
    /// Returns whether the operator posts Events at all.
    fn is_enabled(&self) -> bool;
    /// Returns whether the operator posts Events of this level.
    fn takes(&self, level: PostingLevel) -> bool;
    /// Returns whether the operator also posts log lines.
    fn takes_lines(&self) -> bool;
    /// Queues an Event for posting.
    fn post(&self, event: PostedEvent);
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
