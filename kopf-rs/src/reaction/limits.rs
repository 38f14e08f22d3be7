//! The limits of attempts, and elapsed times. Must not know the cycle of a handler.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::cause::Attempt;
use crate::handler::definition::Handler;
use crate::state::progress::Record;

/// The limit that was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exhausted {
    Timeout(Duration),
    Retries(u32),
}

impl Exhausted {
    /// Returns the limit that `handler` has reached, if any. A timeout cannot expire before the first attempt.
    pub(crate) fn of(handler: &Handler, record: &Record, now: Timestamp) -> Option<Self> {
        let runtime = since(record.started, now);
        let is_over = |timeout| record.was_called() && runtime >= timeout;
        if handler.retry.timeout.is_some_and(is_over) {
            return Some(Self::Timeout(runtime));
        }
        let limit = handler.retry.retries?;
        (record.retries >= limit).then_some(Self::Retries(limit))
    }
}

/// Returns the attempt information for a handler.
pub(crate) fn attempt(record: &Record, now: Timestamp) -> Attempt {
    Attempt {
        retry: record.retries,
        is_first: !record.was_called(),
        started: record.started,
        runtime: since(record.started, now),
        key: None,
    }
}

/// Returns the time from `then` to `now`, or zero if the clock was set back.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
