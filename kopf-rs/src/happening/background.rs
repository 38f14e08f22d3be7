//! Happenings of daemons and timers, except their attempts.
//!
//! This module contains no wording.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::stopped::StopReason;
use crate::object::path::FieldPath;

/// A happening of a daemon or timer.
#[derive(Clone, Debug)]
pub(crate) enum BackgroundHandling {
    /// The handler has stopped, on request or by itself.
    Exited {
        handler: Arc<Handler>,
        requested: bool,
    },
    /// The handler was cancelled before it returned.
    CutOff { handler: Arc<Handler> },
    /// The handler is stopping.
    Exits { handler: Arc<Handler>, exit: Exit },
    /// The handler has missed scheduled runs, and is called once to make up for them.
    MissedRuns {
        handler: Arc<Handler>,
        /// The time at which the first missed run was due.
        first: Timestamp,
        /// True if more than one run was missed.
        more: bool,
    },
    /// A reconcile function has changed its own trigger in this many calls in a row.
    ChangesItself {
        handler: Arc<Handler>,
        times: u8,
        /// The first field that the last call changed.
        field: FieldPath,
    },
    /// A reconcile call has failed for an object that has been marked for deletion meanwhile.
    EndedByDeletion {
        handler: Arc<Handler>,
        message: String,
    },
    /// A reconcile function has requested an immediate requeue; it is delayed by `instead`.
    AgainAtOnce {
        handler: Arc<Handler>,
        instead: Duration,
    },
    /// The interval function has returned zero or less; `instead` is used.
    ZeroInterval {
        handler: Arc<Handler>,
        instead: Duration,
    },
    /// The function for the interval or the initial delay has panicked.
    NoPause {
        handler: Arc<Handler>,
        /// `interval` or `initial delay`
        option: &'static str,
        panic: String,
        instead: Duration,
    },
}

/// The stages of stopping a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The stop flag was set.
    Told(StopReason),
    /// The grace period for returning by itself has started.
    Signalled,
    /// The function is cancelled.
    Cancelled,
    /// The operator no longer waits for the function.
    Abandoned,
    /// The function still runs, and there is no timeout after which it is cancelled.
    Awaited {
        age: Duration,
        next: Duration,
        /// True if the deletion of the object waits for it.
        deletion: bool,
    },
}
