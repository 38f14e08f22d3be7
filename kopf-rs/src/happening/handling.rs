//! Happenings while the changes of an object are handled.
//!
//! Must not know any wording.

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

/// Something that has happened to an object, or to one of its handlers. Cheap to make: what is large is shared.
#[derive(Clone, Debug)]
pub(crate) enum Handling {
    // === attempts ===
    /// An attempt has ended, or a handler has reached its limits without one.
    Attempted {
        handler: Arc<Handler>,
        end: AttemptEnd,
    },
    /// Sub-handlers of it are left to be called.
    WaitsForSubhandlers { handler: Arc<Handler> },
    /// The deletion does not wait for it.
    LeftUndone { handler: Arc<Handler> },

    // === cycles ===
    /// Handlers are called for that reason, or waited for.
    InProgress { reason: Reason, body: Arc<Body> },
    /// The difference between the last handled state and the present one.
    Differs { reason: Reason, diff: Arc<Diff> },
    /// The cycle for another reason has been put an end to by one for `reason`: so many handlers of it.
    Superseded {
        ended: Reason,
        reason: Reason,
        succeeded: usize,
        failed: usize,
        left: usize,
    },
    /// All handlers are done: so many.
    Processed {
        reason: Reason,
        succeeded: usize,
        failed: usize,
    },
    /// Nothing that counts has changed.
    Unchanged,
    /// Nothing is left to do until something changes.
    CycleFinished,
    /// The next attempt is due after that time.
    Sleeps { pause: Duration },
    /// Something has come in before that, so much earlier.
    SleepInterrupted { left: Duration },
    /// A filter, or the framework itself, has panicked: the object is looked at again after a pause.
    Throttled { panic: String, pause: Duration },

    // === daemons and timers ===
    /// Beside attempts.
    Background(BackgroundHandling),

    // === deletion ===
    /// Handlers want to see the deletion.
    FinalizerAdded,
    /// No handler wants to see the deletion.
    FinalizerNotNeeded,
    /// All deletion handlers are done.
    FinalizerReleased,
    /// It is deleted, and the finalizer is not on it.
    DeletionOfOthers,
    /// It is no more.
    Deleted,
    /// Daemons and timers that are to end hold it up.
    DeletionAwaitsBackground,
    /// Deletion handlers that are not served now hold it up.
    DeletionWithheld { handlers: Vec<Arc<str>> },

    // === state on the object ===
    /// Something about the operator's state on the object.
    State(StateTrouble),
}

/// Damage of the operator's state on an object.
#[derive(Clone, Debug)]
pub(crate) enum StateTrouble {
    /// The target of the cycle cannot be read.
    TargetLost(Damaged),
    /// The last handled state cannot be read.
    LastHandledLost(Damaged),
    /// A handler's record cannot be read; it may be in memory.
    ProgressLost {
        id: Arc<str>,
        damage: Damaged,
        is_in_memory: bool,
    },
    /// A handler's next attempt is later than anybody has asked for: it is made after that pause.
    NextAttemptAhead {
        id: Arc<str>,
        at: Option<Timestamp>,
        pause: Duration,
    },
    /// A handler's first attempt lies ahead: its time counts from now.
    FirstAttemptAhead { id: Arc<str>, at: Timestamp },
    /// Not all of it could be written.
    Write(WriteTrouble),
}

/// How an attempt has ended.
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

/// What follows for a handler that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Retried {
        delay: Duration,
    },
    /// Its errors count as a success.
    Ignored,
    Stopped,
    /// Another attempt would be beyond its timeout.
    WouldTimeOut(Duration),
    /// Another attempt would be beyond its retries.
    WouldExceed(u32),
}

impl AttemptEnd {
    /// For good, and not because of a child.
    pub(crate) fn permanent(message: String) -> Self {
        Self::Permanent {
            message,
            child: None,
        }
    }
}

impl Handling {
    /// Where each look at the object finds it anew, so that it is news for the first time only: the same without what may be another number
    /// each time.
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
                | StateTrouble::Write(WriteTrouble::NotKept(_)) => true,
                StateTrouble::Write(_) => false,
            },
            _ => false,
        };
        recurs.then_some(Cow::Borrowed(self))
    }
}
