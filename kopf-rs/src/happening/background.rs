//! Happenings of daemons and timers beside their attempts.
//!
//! Must not know any wording.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::stopped::StopReason;
use crate::object::path::FieldPath;

/// Something that has happened to a daemon or timer.
#[derive(Clone, Debug)]
pub(crate) enum BackgroundHandling {
    /// It is called no more; as it was told to, or by itself.
    Exited {
        handler: Arc<Handler>,
        requested: bool,
    },
    /// It was cut off before it has ended.
    CutOff { handler: Arc<Handler> },
    /// It is to end.
    Exits { handler: Arc<Handler>, exit: Exit },
    /// It was not called when its schedule said so, and is called once instead.
    MissedRuns {
        handler: Arc<Handler>,
        /// When the first of these runs was due.
        first: Timestamp,
        /// It was not the only one.
        more: bool,
    },
    /// Level-triggered, it has changed what it is called for in so many calls in a row.
    ChangesItself {
        handler: Arc<Handler>,
        times: u8,
        /// The first place that the last one has changed.
        field: FieldPath,
    },
    /// Level-triggered, its call has failed for an object that is to be deleted meanwhile.
    EndedByDeletion {
        handler: Arc<Handler>,
        message: String,
    },
    /// Level-triggered, it wants to be called again at once.
    AgainAtOnce {
        handler: Arc<Handler>,
        instead: Duration,
    },
    /// Its interval, as its function says, is none.
    ZeroInterval {
        handler: Arc<Handler>,
        instead: Duration,
    },
    /// The function that says its interval, or its initial delay, has panicked.
    NoPause {
        handler: Arc<Handler>,
        /// `interval` or `initial delay`
        option: &'static str,
        panic: String,
        instead: Duration,
    },
}

/// How far the end of a daemon has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was told to end.
    Told(StopReason),
    /// It may end by itself for a while.
    Signalled,
    /// It is cut off.
    Cancelled,
    /// It is not waited for any more.
    Abandoned,
    /// It runs on, and nothing cuts it off.
    Awaited {
        age: Duration,
        next: Duration,
        /// The deletion of the object waits for it.
        deletion: bool,
    },
}
