//! Happenings of the handling of an object's changes.
//!
//! This module contains no wording.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::background::BackgroundHandling;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::state::Damaged;
use crate::state::changes::WriteTrouble;

/// A happening of an object or one of its handlers. Cheap to create, since large parts are shared.
#[derive(Clone, Debug)]
pub(crate) enum Handling {
    // === attempts ===
    /// An attempt has ended, or a handler has reached its limits before another attempt.
    Attempted {
        handler: Arc<Handler>,
        end: AttemptEnd,
    },
    /// The handler waits for its sub-handlers.
    WaitsForSubhandlers { handler: Arc<Handler> },
    /// The deletion does not wait for the handler.
    LeftUndone { handler: Arc<Handler> },

    // === cycles ===
    /// Handlers are called or awaited for this reason.
    InProgress { reason: Reason, body: Arc<Body> },
    /// The difference between the last-handled state and the current one.
    Differs { reason: Reason, diff: Arc<Diff> },
    /// A cycle for `reason` has superseded the cycle for another reason, with these counts of its handlers.
    Superseded {
        ended: Reason,
        reason: Reason,
        succeeded: usize,
        failed: usize,
        left: usize,
    },
    /// All handlers are done, with these counts.
    Processed {
        reason: Reason,
        succeeded: usize,
        failed: usize,
    },
    /// The essence of the object has not changed.
    Unchanged,
    /// The cycle is complete; the next change starts another one.
    CycleFinished,
    /// The next attempt is due after this pause.
    Sleeps { pause: Duration },
    /// An event arrived this long before the end of the pause.
    SleepInterrupted { left: Duration },
    /// A filter, or the framework itself, has panicked. The object is handled again after a pause.
    Throttled { panic: String, pause: Duration },

    // === daemons and timers ===
    /// A happening of daemons and timers.
    Background(BackgroundHandling),

    // === deletion ===
    /// Handlers need to see the deletion.
    FinalizerAdded,
    /// No handler needs to see the deletion.
    FinalizerNotNeeded,
    /// All deletion handlers are done.
    FinalizerReleased,
    /// The object is being deleted, but has no finalizer of this operator.
    DeletionOfOthers,
    /// The object no longer exists.
    Deleted,
    /// Daemons and timers that must stop first block the deletion.
    DeletionAwaitsBackground,
    /// Deletion handlers that cannot run now block the deletion.
    DeletionWithheld { handlers: Vec<Arc<str>> },

    // === state on the object ===
    /// A problem with the operator's state on the object.
    State(StateTrouble),
}

/// A problem with the operator's state on an object.
#[derive(Clone, Debug)]
pub(crate) enum StateTrouble {
    /// The target of the cycle cannot be decoded.
    TargetLost(Damaged),
    /// The last-handled state cannot be decoded.
    LastHandledLost(Damaged),
    /// A handler's record cannot be decoded; it may still be in memory.
    ProgressLost {
        id: Arc<str>,
        damage: Damaged,
        is_in_memory: bool,
    },
    /// The stored time of a handler's next attempt is implausibly far in the future; the attempt is made after this
    /// pause instead.
    NextAttemptAhead {
        id: Arc<str>,
        at: Option<Timestamp>,
        pause: Duration,
    },
    /// The stored time of a handler's first attempt lies in the future; its timeout counts from now.
    FirstAttemptAhead { id: Arc<str>, at: Timestamp },
    /// The state that a handler saw was not stored because it was too large, so the handler is called without its
    /// `old`.
    FormerTooLarge { id: Arc<str> },
    /// A part of the state could not be written.
    Write(WriteTrouble),
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub(crate) enum AttemptEnd {
    Succeeded,
    Temporary {
        message: String,
        fate: Fate,
        child: Option<ChildTrouble>,
    },
    Permanent {
        message: String,
        child: Option<ChildTrouble>,
    },
    Arbitrary {
        message: String,
        fate: Fate,
    },
    TimedOut {
        after: Duration,
    },
    RetriesExceeded {
        limit: u32,
    },
}

/// The consequence of a handler's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Retried {
        delay: Duration,
    },
    /// The errors count as a success.
    Ignored,
    Stopped,
    /// Another attempt would exceed the timeout.
    WouldTimeOut(Duration),
    /// Another attempt would exceed the number of retries.
    WouldExceed(u32),
}

impl AttemptEnd {
    /// A permanent failure that is not about a child.
    pub(crate) fn permanent(message: String) -> Self {
        Self::Permanent {
            message,
            child: None,
        }
    }
}

impl Handling {
    /// Returns a stable form of a happening that each cycle finds again, so that it is reported only once: the same
    /// value without the parts that vary. `None` for happenings that do not recur.
    pub(crate) fn recurring(&self) -> Option<Cow<'_, Self>> {
        let recurs = match self {
            Self::DeletionWithheld { .. } => true,
            Self::State(trouble) => match trouble {
                StateTrouble::Write(WriteTrouble::NoRoom { only_memory, .. }) => {
                    let (bytes, only_memory) = (0, *only_memory);
                    let trouble = WriteTrouble::NoRoom { bytes, only_memory };
                    return Some(Cow::Owned(Self::State(StateTrouble::Write(trouble))));
                }
                StateTrouble::TargetLost(_)
                | StateTrouble::LastHandledLost(_)
                | StateTrouble::ProgressLost { .. }
                | StateTrouble::NextAttemptAhead { .. }
                | StateTrouble::FirstAttemptAhead { .. }
                | StateTrouble::FormerTooLarge { .. }
                | StateTrouble::Write(WriteTrouble::NotKept(_)) => true,
                StateTrouble::Write(_) => false,
            },
            _ => false,
        };
        recurs.then_some(Cow::Borrowed(self))
    }
}
