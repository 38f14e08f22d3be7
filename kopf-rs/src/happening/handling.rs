//! Happenings of the handling of objects: attempts, cycles, deletions, stored state, daemons and timers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::definition::Handler;
use crate::handler::outcome::Outcome;
use crate::handler::stopped::StopReason;
use crate::handler::subject::Reason;
use crate::happening::meter::Meter;
use crate::happening::{DEBUG, ERROR, INFO, ObjectEvent, WARN, happenings, of_handler, quoted};
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::path::FieldPath;
use crate::object::python::{Python, seconds, timedelta};
use crate::state::changes::WriteTrouble;
use crate::state::{Damaged, NotKept, budget};

happenings! {
    /// A happening of an object or one of its handlers. Cheap to create, since large parts are shared.
    #[derive(Clone, Debug)]
    enum Handling counted by Handling::count_failure {
        // === attempts ===
        /// An attempt has ended, or a handler has reached its limits before another attempt.
        Attempted { handler: Arc<Handler>, end: AttemptEnd }
            => match end {
                // One line per watch event, or per call of a probe, would drown out all others.
                AttemptEnd::Succeeded if handler.is_for_events() || handler.kind == HandlerKind::OnProbe => DEBUG,
                end => end.level(),
            }, "{handler} {end}"
            => event end.event_of(handler);
        /// The handler waits for its sub-handlers.
        WaitsForSubhandlers { handler: Arc<Handler> }
            => DEBUG, "{handler} has unfinished sub-handlers. Will retry soon.";
        /// The deletion does not wait for the handler.
        LeftUndone { handler: Arc<Handler> }
            => WARN, "{handler} is not tried again: a deletion waits for deletion handlers only."
            => event of_handler(handler, "HandlerLeftUndone");

        // === cycles ===
        /// Handlers are called or awaited for this reason.
        InProgress { reason: Reason, body: Arc<Body> }
            => DEBUG, "{} is in progress: {}", title(*reason), Python::value(body);
        /// The difference between the last-handled state and the current one.
        Differs { reason: Reason, diff: Arc<Diff> }
            => DEBUG, "{} diff: {diff}", title(*reason);
        /// A cycle for `reason` has superseded the cycle for another reason, with these counts of its handlers.
        Superseded { ended: Reason, reason: Reason, succeeded: usize, failed: usize, left: usize }
            => INFO, "{} is superseded by {}: {succeeded} succeeded; {failed} failed; {left} left to the moment.",
            title(*ended), title(*reason).to_lowercase()
            => event of_cycle(*ended, "Superseded");
        /// All handlers are done, with these counts.
        Processed { reason: Reason, succeeded: usize, failed: usize }
            => INFO, "{} is processed: {succeeded} succeeded; {failed} failed.", title(*reason)
            => event of_cycle(*reason, "Processed");
        /// The essence of the object has not changed.
        Unchanged => DEBUG, "Something has changed, but we are not interested (the essence is the same).";
        /// The cycle is complete; the next change starts another one.
        CycleFinished => DEBUG, "Handling cycle is finished, waiting for new changes.";
        /// The next attempt is due after this pause.
        Sleeps { pause: Duration } => DEBUG, "Sleeping for {} seconds for the delayed handlers.", seconds(*pause);
        /// An event arrived this long before the end of the pause.
        SleepInterrupted { left: Duration }
            => DEBUG, "Sleeping was interrupted by new changes, {} seconds left.", seconds(*left);
        /// A filter, or the framework itself, has panicked. The object is handled again after a pause.
        Throttled { panic: String, pause: Duration }
            => ERROR, "Throttling for {} seconds due to an unexpected error: {panic}", seconds(*pause);

        // === deletion ===
        /// Handlers need to see the deletion.
        FinalizerAdded => DEBUG, "Adding the finalizer, thus preventing the actual deletion.";
        /// No handler needs to see the deletion.
        FinalizerNotNeeded => DEBUG, "Removing the finalizer, as there are no handlers requiring it.";
        /// All deletion handlers are done.
        FinalizerReleased => DEBUG, "Removing the finalizer, thus allowing the actual deletion.";
        /// The object is being deleted, but has no finalizer of this operator.
        DeletionOfOthers => DEBUG, "Deletion, but we are done with it, and we do not care.";
        /// The object no longer exists.
        Deleted => DEBUG, "Deleted, really deleted, and we are notified.";
        /// Daemons and timers that must stop first block the deletion.
        DeletionAwaitsBackground => DEBUG, "Deletion waits for daemons and timers to exit.";
        /// Deletion handlers that cannot run now block the deletion.
        DeletionWithheld { handlers: Vec<Arc<str>> }
            => WARN, "The deletion waits for handlers that are not served now: {}. The finalizer stays, and no deletion handler is called until \
            they are served. An earlier line says why they are not.", quoted(handlers)
            => event of_cycle(Reason::Delete, "DeletionWithheld");

        // === state on the object ===
        /// The target of the cycle cannot be decoded.
        TargetLost { damage: Damaged } => WARN, "{damage}: the cycle continues with the current object.";
        /// The last-handled state cannot be decoded.
        LastHandledLost { damage: Damaged } => WARN, "{damage}: the object is handled as if it were new.";
        /// A handler's record cannot be decoded; it may still be in memory.
        ProgressLost { id: Arc<str>, damage: Damaged, is_in_memory: bool }
            => WARN, "{damage}: the progress of handler '{id}' {}.",
            if *is_in_memory { "is taken from memory" } else { "is lost, and it starts from the beginning" };
        /// The stored time of a handler's next attempt is implausibly far in the future; the attempt is made after this
        /// pause instead.
        NextAttemptAhead { id: Arc<str>, at: Option<Timestamp>, pause: Duration }
            => WARN, "The record of handler '{id}' sets its next attempt to {}, later than the handler has asked for: a clock was wrong, or the \
            record was edited. The attempt is made in {} seconds.", at.map(|at| at.to_string()).unwrap_or_default(), seconds(*pause);
        /// The stored time of a handler's first attempt lies in the future; its timeout counts from now.
        FirstAttemptAhead { id: Arc<str>, at: Timestamp }
            => WARN, "The record of handler '{id}' sets its first attempt to {at}, which is in the future: a clock was wrong, or the record was \
            edited. The handler's time counts from now.";
        /// The state that a handler saw was not stored because it was too large, so the handler is called without its
        /// `old`.
        FormerTooLarge { id: Arc<str> }
            => INFO, "Handler '{id}' gets no old state: the object changed while other handlers were still running, and the state that this \
            handler has seen was too large to store. Move large values out of the object to avoid this.";
        /// A storage has failed to store a value.
        NotKept { failed: NotKept } => WARN, "{failed}: it is kept in memory only.";
        /// A storage has failed to remove a value.
        NotRemoved { failed: NotKept } => WARN, "{failed}.";
        /// The last-handled state is too large for an annotation.
        LastHandledTooLarge { bytes: usize }
            => WARN, "The last-handled configuration takes {bytes} bytes even when compressed, too many for an annotation: only its digest is \
            kept, and handlers of the next change will get no old state. Move large values out of the object to avoid this.";
        /// The annotations would take this many bytes: progress is kept in a short form, or in memory only.
        NoRoom { bytes: usize, only_memory: bool }
            => WARN, "The annotations of this object would take {bytes} bytes of the {} that Kubernetes allows: {}. Remove large annotations to \
            avoid this.", budget::LIMIT, if *only_memory {
                "progress is kept in memory only, and handlers may run again after a restart"
            } else {
                "the state is kept in short form, and handlers of the next change will get no old state"
            };

        // === daemons and timers ===
        /// The handler has stopped, on request or by itself.
        Exited { handler: Arc<Handler>, requested: bool }
            => DEBUG, "{handler} has exited {} and will not be retried or restarted.",
            if *requested { "on request" } else { "on its own" };
        /// The handler was cancelled before it returned.
        CutOff { handler: Arc<Handler> } => DEBUG, "{handler} has been cut off.";
        /// The handler is stopping.
        Exits { handler: Arc<Handler>, exit: Exit }
            => exit.level(), "{handler} {exit}{}", match (exit, handler.kind) {
                (Exit::Awaited { .. }, HandlerKind::Daemon) => ": `cancellation_timeout = ..` puts an end to that.",
                // Timers have no such option.
                (Exit::Awaited { .. }, _) => ": its function should look at `stopped`.",
                _ => "",
            };
        /// The handler has missed scheduled runs, and is called once to make up for them. Carries the time at which the
        /// first one was due, and whether there are more.
        MissedRuns { handler: Arc<Handler>, first: Timestamp, more: bool }
            => INFO, "{handler} has missed {} {first}: it is called once now.",
            if *more { "several runs, the first at" } else { "its run at" };
        /// A reconcile function has changed its own trigger in this many calls in a row. Carries the first field that the
        /// last call changed.
        ChangesItself { handler: Arc<Handler>, times: u8, field: FieldPath }
            => WARN, "{handler} has changed what it is called for in {times} calls in a row, the last time at {field}: from now on, \
            calls that its own changes cause are delayed by up to a minute. It should write the same spec, labels and annotations where nothing else \
            has changed.";
        /// A reconcile call has failed for an object that has been marked for deletion meanwhile.
        EndedByDeletion { handler: Arc<Handler>, message: String }
            => INFO, "{handler} is ended, because the object is being deleted: {message}";
        /// A reconcile function has requested an immediate requeue; it is delayed by `instead`.
        AgainAtOnce { handler: Arc<Handler>, instead: Duration }
            => WARN, "{handler} wants to be called again at once (`Again::after(0)`): it is called every {} seconds while it does. To wait for a \
            change, it should return `Again::on_change()`.", seconds(*instead);
        /// The interval function has returned zero or less; `instead` is used.
        ZeroInterval { handler: Arc<Handler>, instead: Duration }
            => WARN, "The function that says the interval of {handler} has given zero, or less: it is called in {} seconds.", seconds(*instead);
        /// The function for the `interval` or the `initial delay` has panicked.
        NoPause { handler: Arc<Handler>, option: &'static str, panic: String, instead: Duration }
            => ERROR, "The function that says the {option} of {handler} {panic}: it is called in {} seconds.", seconds(*instead);
    }
}

happenings! {
    /// The end of an attempt. Displayed behind the handler; as in Kopf, some of these texts are also stored in
    /// progress records.
    #[derive(Clone, Debug)]
    enum AttemptEnd {
        Succeeded => INFO, "succeeded.";
        Temporary { message: String, fate: Fate, child: Option<ChildTrouble> }
            => ERROR, "failed temporarily{}: {message}", match fate {
                Fate::WouldTimeOut(limit) => format!(" but will time out after {} seconds", seconds(*limit)),
                Fate::WouldExceed(limit) => format!(" but will exceed {limit} retries"),
                Fate::Retried { .. } | Fate::Ignored | Fate::Stopped => String::new(),
            };
        Permanent { message: String, child: Option<ChildTrouble> } => ERROR, "failed permanently: {message}";
        Arbitrary { message: String, fate: Fate }
            => ERROR, "failed with an exception and will {}: {message}", match fate {
                Fate::Retried { delay } => format!("try again in {} seconds", seconds(*delay)),
                Fate::Ignored => "ignore it".to_owned(),
                Fate::Stopped => "stop now".to_owned(),
                Fate::WouldTimeOut(limit) => format!("stop now (it would time out in {} seconds on the next attempt)", seconds(*limit)),
                Fate::WouldExceed(limit) => format!("stop now (it would exceed {limit} retries on the next attempt)"),
            };
        TimedOut { after: Duration } => ERROR, "has timed out after {}.", timedelta(*after);
        RetriesExceeded { limit: u32 } => ERROR, "has exceeded {limit} retries.";
    }
}

happenings! {
    /// The stages of stopping a daemon. Displayed behind the handler.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Exit {
        /// The stop flag was set.
        Told { reason: StopReason } => DEBUG, "is told to exit: {reason}.";
        /// The grace period for returning by itself has started.
        Signalled => DEBUG, "is signalled to exit gracefully.";
        /// The function is cancelled.
        Cancelled => DEBUG, "is signalled to exit by force.";
        /// The operator no longer waits for the function.
        Abandoned => WARN, "did not exit in time. Leaving it orphaned.";
        /// The function still runs, and there is no timeout after which it is cancelled. The deletion of the object may
        /// wait for it.
        Awaited { age: Duration, next: Duration, deletion: bool }
            => if *deletion { WARN } else { INFO },
            "is still exiting. The next check is in {} seconds. It was told to {} seconds ago{}", seconds(*next), seconds(*age),
            if *deletion { ", and the deletion of the object waits for it" } else { "" };
    }
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

/// Returns Kopf's name for a cycle.
fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::Create => "Creation",
        Reason::Update => "Updating",
        Reason::Delete => "Deletion",
        Reason::Resume => "Resuming",
    }
}

/// Returns an Event about a cycle.
fn of_cycle(cycle: Reason, reason: &'static str) -> ObjectEvent<'static> {
    let action = match cycle {
        Reason::Create => "Create",
        Reason::Update => "Update",
        Reason::Delete => "Delete",
        Reason::Resume => "Resume",
    };
    ObjectEvent { action, reason, text: None }
}

impl AttemptEnd {
    /// Returns the end of an attempt with this outcome; `None` while its sub-handlers are unfinished. `fate` determines what follows
    /// a failure that may be retried, from the delay that the handler has requested, if any.
    pub(crate) fn of(outcome: Outcome, fate: impl FnOnce(Option<Duration>) -> Fate) -> Option<Self> {
        Some(match outcome {
            Outcome::Succeeded(_) => Self::Succeeded,
            Outcome::Temporary { message, delay, child } => {
                Self::Temporary { message, fate: fate(Some(delay)), child }
            }
            Outcome::Permanent { message, child } => Self::Permanent { message, child },
            Outcome::Denied { message, .. } => Self::Permanent { message, child: None },
            Outcome::Arbitrary { message } | Outcome::Panicked { message } => {
                Self::Arbitrary { message, fate: fate(None) }
            }
            Outcome::TimedOut { after } => Self::TimedOut { after },
            Outcome::Waiting => return None,
        })
    }

    /// Returns what follows; `None` after a success.
    pub(crate) fn fate(&self) -> Option<Fate> {
        match self {
            Self::Succeeded => None,
            Self::Temporary { fate, .. } | Self::Arbitrary { fate, .. } => Some(*fate),
            Self::Permanent { .. } | Self::TimedOut { .. } | Self::RetriesExceeded { .. } => {
                Some(Fate::Stopped)
            }
        }
    }

    fn event_of<'a>(&self, handler: &'a Handler) -> Option<ObjectEvent<'a>> {
        let reason = match self.fate() {
            None => "HandlerSucceeded",
            Some(Fate::Retried { .. }) => "HandlerRetried",
            Some(_) => "HandlerFailed",
        };
        let mut event = of_handler(handler, reason)?;
        if let Self::Arbitrary { message, fate: Fate::Retried { .. } } = self {
            // Omits the delay of the log line, since it grows with each attempt.
            event.text = Some(format!("{handler} failed with an exception and will try again: {message}"));
        }
        Some(event)
    }
}

impl Handling {
    /// Returns the event of an attempt with this outcome; `None` while sub-handlers are unfinished. `fate` as for [`AttemptEnd::of`].
    pub(crate) fn attempted(
        handler: &Arc<Handler>,
        outcome: Outcome,
        fate: impl FnOnce(Option<Duration>) -> Fate,
    ) -> Option<Self> {
        let end = AttemptEnd::of(outcome, fate)?;
        Some(Self::Attempted { handler: handler.clone(), end })
    }

    fn count_failure(&self, meter: &dyn Meter) {
        let Self::Attempted { handler, end } = self else { return };
        match end.fate() {
            None | Some(Fate::Ignored) => {}
            Some(Fate::Retried { .. }) => meter.handler_retries(&handler.id),
            Some(_) => meter.handler_fails(&handler.id),
        }
    }

    /// Returns the text by which a happening that each cycle finds again is recognized, so that it is reported only
    /// once: the line without the parts that vary. `None` for happenings that do not recur.
    pub(crate) fn recurring(&self) -> Option<String> {
        match self {
            &Self::NoRoom { only_memory, .. } => {
                let bytes = 0;
                Some(Self::NoRoom { bytes, only_memory }.to_string())
            }
            Self::DeletionWithheld { .. }
            | Self::TargetLost { .. }
            | Self::LastHandledLost { .. }
            | Self::ProgressLost { .. }
            | Self::NextAttemptAhead { .. }
            | Self::FirstAttemptAhead { .. }
            | Self::FormerTooLarge { .. }
            | Self::NotKept { .. } => Some(self.to_string()),
            _ => None,
        }
    }
}

impl From<WriteTrouble> for Handling {
    fn from(trouble: WriteTrouble) -> Self {
        match trouble {
            WriteTrouble::NotKept(failed) => Self::NotKept { failed },
            WriteTrouble::NotRemoved(failed) => Self::NotRemoved { failed },
            WriteTrouble::LastHandledTooLarge { bytes } => Self::LastHandledTooLarge { bytes },
            WriteTrouble::NoRoom { bytes, only_memory } => Self::NoRoom { bytes, only_memory },
        }
    }
}
