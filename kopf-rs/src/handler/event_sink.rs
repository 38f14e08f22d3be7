//! Where Kubernetes Events go that handlers post: whoever runs the handlers takes them.
//!
//! Must not know how they are posted.

use std::fmt;
use std::sync::Arc;

use crate::object::posted_event::PostedEvent;

/// How important a log line is, or what becomes an Event: [`Posting::level`](crate::Posting::level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PostingLevel {
    /// For developers.
    Debug,
    /// The normal course of things.
    #[default]
    Info,
    /// Something odd.
    Warning,
    /// A failure.
    Error,
}

/// Takes Events. Never waits.
pub(crate) trait EventSink: fmt::Debug + Send + Sync {
    /// Whether Events are posted at all.
    fn is_enabled(&self) -> bool;
    /// Whether what has this level is posted.
    fn takes(&self, level: PostingLevel) -> bool;
    /// Whether log lines are posted, too.
    fn takes_lines(&self) -> bool;
    /// Post an Event, now or later.
    fn post(&self, event: PostedEvent);
}

/// The operator's sink, among the values that handlers ask for by type.
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
