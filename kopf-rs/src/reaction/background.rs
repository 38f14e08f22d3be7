//! The memory of an object's daemons and timers, and the transitions after their calls.
//!
//! Kept only in this process. Guarantees that no handler is called while it runs, and that a slow call of a timer delays the next one. Must
//! not know the object or how handlers are called.

use std::num::NonZeroI64;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kopf_rs_schedule::{HandlerKind, Schedule};
use serde_json::Value;

use crate::handler::cause::Cause;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::outcome::Outcome;
use crate::handler::stopped::{StopReason, Stopped};
use crate::handler::subject::Subject;
use crate::handler::timing::{AskPause, Timing};
use crate::happening::handling::{Fate, Handling};
use crate::reaction::judge::{Judge, class_of, since};
use crate::state::progress::Record;

mod reconciling;

/// The memory of an object's daemons and timers.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundMemory {
    pub(super) runs: Box<[BackgroundRun]>,
    /// The fingerprint of the object's essence.
    pub(super) essence: u64,
    /// The time when the essence last changed, as observed by this process.
    pub(super) changed: Moment,
    /// True while reconcilers are on hold, because change handlers take precedence or no reconcile slot is free.
    pub(super) reconcilers_wait: bool,
}

/// A daemon or timer of an object.
#[derive(Clone, Debug)]
pub(super) struct BackgroundRun {
    pub(super) handler: Arc<Handler>,
    pub(super) phase: Phase,
    /// The attempts since the last success. Boxed like all state that an idle handler lacks, because thousands are idle.
    pub(super) attempts: Option<Box<Attempts>>,
}

/// The attempts of one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The number of failed attempts.
    pub(super) failed: u32,
    /// The time of the first attempt.
    pub(super) started: Timestamp,
    /// For reconcilers: the result of the completed attempts; the next attempt then starts a new series.
    pub(super) end: Option<AttemptsEnd>,
    /// For reconcilers: the number of consecutive calls that have changed the state that triggers them.
    pub(super) own_changes: u8,
    /// The fingerprint of the essence that the last of these calls requested.
    pub(super) own_essence: u64,
    /// For reconcilers: true if it requested an immediate call, which was reported.
    pub(super) at_once: bool,
    /// The last attempt's error, if it failed.
    pub(super) error: Option<Box<AttemptError>>,
}

/// The error of an attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptError {
    pub(super) class: &'static str,
    pub(super) message: String,
}

/// The result of a completed series of a reconciler's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptsEnd {
    Succeeded,
    /// They have failed permanently for the current object.
    GaveUp,
}

/// A time with microsecond precision, rounded down. Thousands of handlers are idle, and an optional time takes eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroI64);

/// A running call.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) since: Moment,
    /// Set if the call is to end.
    pub(super) exiting: Option<Exiting>,
    /// For reconcilers: the changes since the call began.
    pub(super) dirty: Dirty,
}

/// The progress of ending a call.
#[derive(Clone, Debug)]
pub(super) struct Exiting {
    pub(super) since: Timestamp,
    /// The reasons that were signalled.
    pub(super) reason: StopReason,
    /// The time of the next check.
    pub(super) next: Option<Timestamp>,
    /// True if the engine performs the stages: the object was not watched for a while, or the operator ends.
    pub(super) is_left_to_engine: bool,
}

/// The stages of ending a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may end by itself until this long after the first signal.
    Signalled(Duration),
    /// It is cancelled, and waited for until this long after the first signal.
    Cancelled(Duration),
    /// It is not waited for any more.
    Abandoned,
    /// It is never cancelled.
    Awaited,
}

/// The changes since the last call of a reconciler began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dirty {
    #[default]
    Clean,
    /// A child has changed.
    Child,
    /// The object itself has changed.
    Object,
}

/// The state of a daemon or timer.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// It is called at that time, or later when the object has been unchanged for long enough.
    Waits(Moment),
    /// It is called at that time of the wall clock, according to its schedule.
    Scheduled(Moment),
    /// It is called once after each change, and has been called after the last one.
    AwaitsChange,
    Runs(Box<Running>),
    /// It is not called again, except for a failed timer: a change of the object revives it, but not before that time, because the timer may
    /// have changed the object itself.
    Ended {
        /// A time of the wall clock if the timer has a schedule.
        revives: Option<Moment>,
    },
}

/// The clocks, the rules for outcomes, and the function that evaluates users' delays.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// With a monotonic time.
    pub(crate) judge: Judge,
    /// The lead of the wall clock over that time.
    pub(crate) wall_ahead: SignedDuration,
    pub(crate) ask: AskPause,
}

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pub(crate) result: Option<Value>,
    /// The handler has failed permanently.
    pub(crate) failed: bool,
    /// The handler is not called any more: it no longer holds the object, or may be started again for it.
    pub(crate) is_over: bool,
    /// The start time of the run, if a later process needs it.
    pub(crate) ran: Option<Timestamp>,
}

/// The duration to use if a user's function for a duration panics.
const INSTEAD_OF_A_PANIC: Duration = Duration::from_secs(60);
/// The time after a permanent failure before a change revives a timer without an interval.
const WITHOUT_AN_INTERVAL: Duration = Duration::from_secs(60);
/// The interval to use if a user's function returns zero.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Returns true if both are the same for their object: several attributes on one function declare it once.
pub(crate) fn is_same(one: &Handler, other: &Handler) -> bool {
    one.id == other.id && one.kind == other.kind
}

/// Returns true if the handler is a reconciler.
pub(crate) fn is_reconcile(handler: &Handler) -> bool {
    handler.kind == HandlerKind::Reconcile
}

pub(super) fn schedule(handler: &Handler) -> Option<&Schedule> {
    handler.timing.schedule.as_ref()
}

/// Returns the next run after `time`, both by the wall clock.
pub(super) fn next_run(schedule: &Schedule, time: Timestamp) -> Timestamp {
    schedule.next(time).unwrap_or(Timestamp::MAX)
}

// === queries ===

impl BackgroundMemory {
    /// The memory size of one idle timer.
    #[cfg(test)]
    pub(crate) const SIZE_OF_A_TIMER: usize = size_of::<BackgroundRun>();

    /// Returns true if there is no state.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns true if daemons and timers block the deletion of the object.
    pub(crate) fn holds(&self, is_living: bool) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|run| match &run.phase {
            // A reconciler blocks it only during a call: without calls, the object does not need it.
            Phase::Waits(_) | Phase::AwaitsChange if is_reconcile(&run.handler) => false,
            Phase::Runs(_) if is_living && is_reconcile(&run.handler) => false,
            Phase::Waits(_) | Phase::Scheduled(_) | Phase::AwaitsChange => true,
            Phase::Runs(running) => !running.is_abandoned(),
            Phase::Ended { .. } => false,
        })
    }

    /// Returns the next time to plan without a change.
    pub(crate) fn due(&self, wall_ahead: SignedDuration) -> Option<Timestamp> {
        let due = |run: &BackgroundRun| match &run.phase {
            Phase::Waits(_) if self.holds_reconcilers_back(run) => None,
            Phase::Waits(at) => Some(self.not_before(run, at.time())),
            Phase::Scheduled(at) => {
                let at = later(at.time(), -wall_ahead);
                Some(self.not_before(run, at))
            }
            Phase::Runs(running) => running.exiting.as_ref()?.next,
            Phase::AwaitsChange | Phase::Ended { .. } => None,
        };
        self.runs.iter().filter_map(due).min()
    }

    /// Returns the ids of timers and reconcilers that are running, due, or about to be retried, with their last errors. An operator that is to
    /// end waits for these.
    pub(crate) fn ticking(&self, now: Timestamp) -> impl Iterator<Item = (Arc<str>, Option<String>)> {
        let is_ticking = move |run: &&BackgroundRun| match &run.phase {
            _ if run.handler.kind == HandlerKind::Daemon => false,
            Phase::Runs(running) => running.exiting.is_none(),
            // The operator ends soon, so changes of the wall clock are ignored.
            Phase::Waits(at) | Phase::Scheduled(at) => {
                run.failed_attempts() > 0 || self.not_before(run, at.time()) <= now
            }
            Phase::AwaitsChange | Phase::Ended { .. } => false,
        };
        self.runs.iter().filter(is_ticking).map(|run| {
            let attempts = run.attempts.as_ref();
            let error = attempts.and_then(|it| it.error.as_ref());
            (run.handler.id.clone(), error.map(|it| it.message.clone()))
        })
    }

    /// Returns the time of the call for a handler that waits until `at`, considering its idle time.
    pub(super) fn not_before(&self, run: &BackgroundRun, at: Timestamp) -> Timestamp {
        let idle = run.handler.timing.idle;
        idle.map_or(at, |idle| at.max(after(self.changed.time(), idle)))
    }
}

impl Running {
    fn is_abandoned(&self) -> bool {
        self.exiting.as_ref().is_some_and(|it| it.reason.contains(StopReason::DAEMON_ABANDONED))
    }
}

impl Exiting {
    pub(super) fn begun(now: Timestamp) -> Self {
        Self { since: now, reason: StopReason::NONE, next: None, is_left_to_engine: false }
    }
}

/// Returns the stage of ending a call at this age of the first signal.
pub(crate) fn stage(timing: &Timing, age: Duration) -> Stage {
    let backoff = timing.cancellation_backoff;
    let end = timing.cancellation_timeout.map(|it| it.saturating_add(backoff.unwrap_or_default()));
    match (backoff, end) {
        (Some(backoff), _) if age < backoff => Stage::Signalled(backoff),
        (_, Some(end)) if age < end => Stage::Cancelled(end),
        (_, Some(_)) => Stage::Abandoned,
        (_, None) => Stage::Awaited,
    }
}

impl BackgroundRun {
    pub(super) fn record(&self, now: Timestamp) -> Record {
        let mut record = Record::begun(self.started().unwrap_or(now));
        record.retries = self.failed_attempts();
        record
    }

    /// Returns the number of failed attempts since the last success.
    pub(super) fn failed_attempts(&self) -> u32 {
        self.counted().map_or(0, |it| it.failed)
    }

    /// Returns the time of the first attempt since the last success.
    fn started(&self) -> Option<Timestamp> {
        Some(self.counted()?.started)
    }

    /// Returns the attempts that the next one continues.
    fn counted(&self) -> Option<&Attempts> {
        self.attempts.as_deref().filter(|it| it.end.is_none())
    }

    /// Records an attempt, and returns the time of the first one.
    pub(super) fn attempted(&mut self, now: Timestamp) -> Timestamp {
        let is_first = self.counted().is_none();
        let attempts = self.attempts.get_or_insert_default();
        if is_first {
            **attempts = Attempts { failed: 0, started: now, end: None, error: None, ..**attempts };
        }
        attempts.started
    }

    /// Records the error of the attempt that was last reported.
    pub(super) fn note_error(&mut self, record: &Record, told: &[Handling]) {
        let class = told.last().and_then(class_of);
        if let Some(attempts) = &mut self.attempts {
            let error = record.message.clone().zip(class);
            attempts.error = error.map(|(message, class)| Box::new(AttemptError { class, message }));
        }
    }

    /// Returns the time from which a change of the object revives the permanently failed handler, or `None` if changes do not.
    pub(super) fn revives(&self, cause: &Cause, times: Times, told: &mut Vec<Handling>) -> Option<Timestamp> {
        let timing = &self.handler.timing;
        if self.handler.kind != HandlerKind::Timer {
            return None;
        }
        if let Some(schedule) = &timing.schedule {
            return Some(next_run(schedule, times.wall()));
        }
        let ask = times.ask;
        let pause = match (&timing.interval, timing.idle) {
            (Some(interval), _) => asked((&self.handler, "interval"), ask(interval, cause), told),
            (None, Some(idle)) => idle,
            (None, None) => WITHOUT_AN_INTERVAL,
        };
        Some(after(times.judge.now, pause.max(SHORTEST_INTERVAL)))
    }

    /// Returns the phase in which it waits until `at`, by the wall clock if it has a schedule.
    pub(super) fn waits_until(&self, at: Timestamp) -> Phase {
        match schedule(&self.handler) {
            Some(_) => Phase::Scheduled(at.into()),
            None => Phase::Waits(at.into()),
        }
    }
}

impl Times {
    /// Returns the time of the wall clock.
    pub(super) fn wall(&self) -> Timestamp {
        later(self.judge.now, self.wall_ahead)
    }
}

/// Returns the result of a user's function, or its substitute after a panic.
pub(super) fn asked(
    (handler, option): (&Arc<Handler>, &'static str),
    answer: Result<Duration, String>,
    told: &mut Vec<Handling>,
) -> Duration {
    answer.unwrap_or_else(|panic| {
        told.push(Handling::NoPause { handler: handler.clone(), option, panic, instead: INSTEAD_OF_A_PANIC });
        INSTEAD_OF_A_PANIC
    })
}

// === results ===

impl BackgroundMemory {
    /// Postpones a planned call until `at`, because it could not be made.
    pub(crate) fn put_off(&mut self, handler: &Handler, at: Timestamp) {
        let mut runs = self.runs.iter_mut();
        if let Some(run) = runs.find(|run| is_same(&run.handler, handler)) {
            run.phase = Phase::Waits(at.into());
            if run.failed_attempts() == 0 {
                run.end_attempts(AttemptsEnd::Succeeded, at);
            }
        }
    }

    /// Handles the end of a call; the outcome is missing if the call was cancelled. Returns `None` if no call was running.
    pub(crate) fn returned(
        &mut self,
        call: &HandlerCall,
        outcome: Option<Outcome>,
        times: Times,
        told: &mut Vec<Handling>,
    ) -> Option<Returned> {
        let place = self.runs.iter().position(|run| is_same(&run.handler, &call.handler))?;
        let run = &mut self.runs[place];
        let Phase::Runs(running) = &run.phase else {
            return None;
        };
        let began = running.since.time();
        let has_changed = self.changed > running.since;
        let is_last = running.exiting.is_some() || is_stopped_by_operator(call);
        // The begin of the series of attempts, if a later process needs it.
        let ran = schedule(&run.handler).map(|_| later(run.started().unwrap_or(began), times.wall_ahead));
        let error = outcome.as_ref().and_then(|it| error_of_deleted(call, it));
        let is_deleted = error.is_some();
        if let Some(message) = error {
            told.push(Handling::EndedByDeletion { handler: call.handler.clone(), message });
        }
        match outcome {
            Some(_) if !is_last && is_deleted => {
                run.is_deleted_meanwhile(times.judge);
                Some(Returned::default())
            }
            Some(outcome) if !is_last => {
                let (returned, is_final) = run.judged(call, outcome, (began, has_changed), times, told);
                Some(Returned { ran: ran.filter(|_| is_final), ..returned })
            }
            last => {
                let mut runs = std::mem::take(&mut self.runs).into_vec();
                runs.swap_remove(place);
                self.runs = runs.into();
                let ran = ran.filter(|_| matches!(last, Some(Outcome::Succeeded(_))));
                let result = if is_deleted { None } else { judge_the_last(&call.handler, last, told) };
                Some(Returned { result, failed: false, is_over: true, ran })
            }
        }
    }

    /// Signals all running calls to end, and prevents further ones. The caller performs the later stages. Handlers that have ended by
    /// themselves are remembered, in case the object is watched again.
    pub(crate) fn stop(&mut self, reason: StopReason, now: Timestamp) {
        let mut runs = std::mem::take(&mut self.runs).into_vec();
        runs.retain(|run| matches!(run.phase, Phase::Runs(_) | Phase::Ended { .. }));
        for run in &mut runs {
            if let Phase::Runs(running) = &mut run.phase {
                let exiting = running.exiting.get_or_insert_with(|| Exiting::begun(now));
                *exiting = Exiting {
                    reason: exiting.reason | reason,
                    next: None,
                    is_left_to_engine: true,
                    ..exiting.clone()
                };
            }
        }
        self.runs = runs.into();
    }
}

/// Returns true if the engine has set the flag of the call because a term or the operator ends. It does so directly, because the worker of the
/// object may be waiting for the server, so this memory may hear of the end of the call first.
fn is_stopped_by_operator(call: &HandlerCall) -> bool {
    let reason = call.stopped().and_then(Stopped::reason).unwrap_or_default();
    reason.contains(StopReason::OPERATOR_PAUSING) || reason.contains(StopReason::OPERATOR_EXITING)
}

impl BackgroundRun {
    /// Handles the end of a call that has ended by itself. Also returns whether its series of attempts has ended.
    fn judged(
        &mut self,
        call: &HandlerCall,
        outcome: Outcome,
        (began, has_changed): (Timestamp, bool),
        times: Times,
        told: &mut Vec<Handling>,
    ) -> (Returned, bool) {
        let judge = times.judge;
        let mut record = self.record(judge.now);
        let result = judge.attempted(&call.handler, &mut record, outcome, told);
        self.note_error(&record, told);
        let returned = Returned { result, failed: record.failure, ..Returned::default() };
        if is_reconcile(&self.handler) {
            self.reconciled(call, &record, judge, told);
            return (returned, false);
        }
        self.phase = if record.success {
            self.attempts = None;
            let next = next_tick(call, (began, has_changed), times, told);
            next.unwrap_or(Phase::Ended { revives: None })
        } else if !record.failure {
            if let Some(attempts) = &mut self.attempts {
                attempts.failed = record.retries;
            }
            Phase::Waits(record.delayed.unwrap_or(judge.now).into())
        } else {
            match self.revives(&call.cause, times, told) {
                Some(at) if has_changed => {
                    self.attempts = None;
                    self.waits_until(at)
                }
                revives => Phase::Ended { revives: revives.map(Moment::from) },
            }
        };
        let is_over = matches!(self.phase, Phase::Ended { .. });
        if is_over {
            told.push(exited(&call.handler, false));
        }
        (Returned { is_over, ..returned }, record.is_final())
    }
}

pub(super) fn exited(handler: &Arc<Handler>, requested: bool) -> Handling {
    Handling::Exited { handler: handler.clone(), requested }
}

/// Returns the error of a reconciler whose object was marked for deletion meanwhile. The error is then meaningless, because the reconciler's
/// goal cannot be reached any more.
fn error_of_deleted(call: &HandlerCall, outcome: &Outcome) -> Option<String> {
    let Subject::Background(subject) = &call.subject else {
        return None;
    };
    let (Outcome::Temporary { message, .. } | Outcome::Permanent { message, .. }) = outcome else {
        return None;
    };
    let is_deleted = is_reconcile(&call.handler) && subject.live.body().is_deleting();
    is_deleted.then(|| message.clone())
}

/// Evaluates the outcome of a call that was to end and is not repeated, or `None` for a cancelled one. Returns the result.
fn judge_the_last(
    handler: &Arc<Handler>,
    mut outcome: Option<Outcome>,
    told: &mut Vec<Handling>,
) -> Option<Value> {
    let result = outcome.as_mut().and_then(Outcome::take_result);
    let Some(attempted) = outcome.and_then(|it| Handling::attempted(handler, it, |_| Fate::Stopped)) else {
        told.push(Handling::CutOff { handler: handler.clone() });
        return None;
    };
    told.extend([attempted, exited(handler, true)]);
    result
}

/// Returns the next call of a timer after a success, or `None` for a daemon and for a timer without further calls.
fn next_tick(
    call: &HandlerCall,
    (began, has_changed): (Timestamp, bool),
    times: Times,
    told: &mut Vec<Handling>,
) -> Option<Phase> {
    let timing = &call.handler.timing;
    if call.handler.kind == HandlerKind::Daemon {
        return None;
    }
    if let Some(schedule) = &timing.schedule {
        let next = next_run(schedule, times.wall());
        return Some(Phase::Scheduled(next.into()));
    }
    let now = times.judge.now;
    let Some(interval) = &timing.interval else {
        timing.idle?;
        return Some(if has_changed { Phase::Waits(now.into()) } else { Phase::AwaitsChange });
    };
    let mut interval = asked((&call.handler, "interval"), (times.ask)(interval, &call.cause), told);
    if interval.is_zero() {
        told.push(Handling::ZeroInterval { handler: call.handler.clone(), instead: SHORTEST_INTERVAL });
        interval = SHORTEST_INTERVAL;
    }
    let next = if timing.sharp { on_the_grid(began, interval, now) } else { after(now, interval) };
    Some(Phase::Waits(next.into()))
}

/// Returns the first time after `now` that is a whole number of intervals after `began`.
fn on_the_grid(began: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let elapsed = since(began, now).as_nanos();
    let whole = elapsed / interval.as_nanos().max(1) + 1;
    let nanos = whole.saturating_mul(interval.as_nanos());
    after(began, Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

pub(super) fn after(time: Timestamp, pause: Duration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Shifts a time by a positive or negative duration.
pub(super) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

// === times ===

/// The replacement for zero.
const FIRST: NonZeroI64 = match NonZeroI64::new(1) {
    Some(one) => one,
    None => NonZeroI64::MAX,
};

impl Moment {
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_microsecond(self.0.get()).unwrap_or(Timestamp::MAX)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        // The beginning of 1970 becomes a microsecond later.
        Self(NonZeroI64::new(time.as_microsecond()).unwrap_or(FIRST))
    }
}

impl Default for Moment {
    fn default() -> Self {
        Timestamp::default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_the_microsecond() {
        for text in ["2026-01-01T00:00:00.123456Z", "1969-12-31T23:59:59Z"] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(Moment::from(time).time(), time);
        }
        assert_eq!(Moment::default().time().as_microsecond(), 1);
        let last = Moment::from(Timestamp::MAX).time();
        assert!(last <= Timestamp::MAX && last > Timestamp::UNIX_EPOCH);
        assert_eq!(size_of::<Option<Moment>>(), 8);
    }
}
