//! Measurements beside the happenings: durations of calls, requests and waits.
//!
//! This module knows neither the metrics nor who reads them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::object::resource::Resource;

/// Receives measurements. Callers report them inline, so implementations must not block.
pub(crate) trait Meter: fmt::Debug + Send + Sync {
    /// Reports that an attempt of a handler has failed, and another one will follow.
    fn handler_retries(&self, handler: &str);
    /// Reports that a handler has failed permanently.
    fn handler_fails(&self, handler: &str);
    /// Reports that this many Kubernetes Events were dropped.
    fn events_dropped(&self, events: u64, why: WhyLeftOut);
    /// Reports that a worker has panicked.
    fn worker_panicked(&self);
    /// Reports the start of a handler call; returns a number that identifies the call when it ends.
    fn call_begins(&self, handler: &str) -> u64;
    /// Reports the end of a call that was made for this reason. `end` is `None` if sub-handlers remain, so that the
    /// call was not an attempt of its own.
    fn call_ends(&self, number: u64, reason: &'static str, end: Option<CallEnd>);
    /// Reports that a state of an object is processed after it has waited this long.
    fn state_taken(&self, waited: Duration);
    /// Reports that all handlers of a change are done, this long after the operator first saw the change.
    fn change_handled(&self, resource: &Resource, took: Duration);
    /// Reports the response to an admission review.
    fn review_ends(&self, handler: &str, allowed: bool, code: u16, took: Duration);
    /// Reports that a request is about to be sent.
    fn request_begins(&self);
    /// Reports the status code of a response, or the lack of a response. The request was for a resource, for one of
    /// its subresources, or for a path outside of all resources, such as discovery.
    fn request_ends(
        &self,
        verb: &'static str,
        asked: (Option<&Resource>, Option<&str>),
        code: Option<u16>,
        took: Duration,
    );
    /// Reports that the server has requested a back-off of this duration.
    fn throttled(&self, pause: Duration);
    /// Reports that a Kubernetes Event was posted.
    fn event_posted(&self);
    /// Reports that instances share the Lease with this name (`namespace/name`).
    fn leased(&self, lease: &str);
    /// Reports that the Lease was acquired or renewed, with the duration of the request.
    fn lease_renewed(&self, lease: &str, took: Duration);
    /// Reports that a request was not sent because the term of this instance may be over: before it was made
    /// (`start`), or before it was passed to its connection (`send`).
    fn fenced(&self, point: &'static str);
}

/// A meter that all parts of the operator share; `None` without metrics.
pub(crate) type SharedMeter = Option<Arc<dyn Meter>>;

/// Why Events were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WhyLeftOut {
    /// The operator produces more than the server accepts.
    QueueFull,
    /// There are too many Events about one object.
    TooMany,
    /// The operator is shutting down.
    Stop,
}

impl WhyLeftOut {
    /// Returns the word for metrics.
    #[cfg(feature = "metrics")]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::TooMany => "too_many",
            Self::Stop => "stop",
        }
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Success,
    Temporary,
    Permanent,
    Error,
    Timeout,
    Cancelled,
    /// The admission handler has denied the request, which is a regular outcome.
    Denied,
}

impl CallEnd {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 7] = [
        Self::Success,
        Self::Temporary,
        Self::Permanent,
        Self::Error,
        Self::Timeout,
        Self::Cancelled,
        Self::Denied,
    ];

    /// Returns the word for metrics and traces.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }
}
