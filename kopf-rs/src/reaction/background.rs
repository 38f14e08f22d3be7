//! What is remembered of an object's daemons and timers, and what becomes of them when a call has ended.
//!
//! All of it is in the process only. Promises that none is called while it runs, and that a tick that takes long delays the next one. Must
//! not know the object, nor how anything is called.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kopf_rs_schedule::Schedule;
use serde_json::Value;

use crate::handler::cause::Cause;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::outcome::Outcome;
use crate::handler::stopped::StopReason;
use crate::handler::subject::Subject;
use crate::handler::timing::{AskPause, BackgroundKind, Timing};
use crate::happening::background::BackgroundHandling;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::reaction::error_class::class_of;
use crate::reaction::exiting::Exiting;
use crate::reaction::judge::Judge;
use crate::reaction::member::since;
use crate::reaction::moment::Moment;
use crate::state::progress::Record;

/// What is remembered of an object's daemons and timers.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundMemory {
    pub(super) runs: Box<[BackgroundRun]>,
    /// What tells one essence from another.
    pub(super) essence: u64,
    /// When that has changed last, as far as this process has seen.
    pub(super) changed: Moment,
    /// Those that are level-triggered let handlers of changes go first, or wait until one of them may be called.
    pub(super) reconcilers_wait: bool,
}

/// A daemon or timer of an object.
#[derive(Clone, Debug)]
pub(super) struct BackgroundRun {
    pub(super) handler: Arc<Handler>,
    pub(super) phase: Phase,
    /// Those since the last success. Boxed, as is all that does not rest: thousands do.
    pub(super) attempts: Option<Box<Attempts>>,
}

/// Attempts of one call.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    /// How many have failed.
    pub(super) failed: u32,
    /// When the first one was made.
    pub(super) started: Timestamp,
    /// Of a level-triggered handler: they are over, and the next attempt is a first one.
    pub(super) end: Option<AttemptsEnd>,
    /// Of a level-triggered handler: how many calls in a row have changed what it is called for.
    pub(super) own_changes: u8,
    /// What tells the essence that the last of them wanted from others.
    pub(super) own_essence: u64,
    /// Of a level-triggered handler: it wants to be called again at once, as was told.
    pub(super) at_once: bool,
    /// What the last one has come to, where that is an error.
    pub(super) error: Option<Box<AttemptError>>,
}

/// What has gone wrong.
#[derive(Clone, Debug)]
pub(super) struct AttemptError {
    pub(super) class: &'static str,
    pub(super) message: String,
}

/// How the attempts of a level-triggered handler have ended that are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptsEnd {
    Succeeded,
    /// They have failed for good, for the object as it is.
    GaveUp,
}

/// A call that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) since: Moment,
    /// It is to end.
    pub(super) exiting: Option<Exiting>,
    /// Of a level-triggered handler: what has changed since the call began.
    pub(super) dirty: Dirty,
}

/// What has changed since the last call of a level-triggered handler began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dirty {
    #[default]
    Clean,
    /// A child.
    Child,
    /// The object itself.
    Object,
}

/// How far a daemon or timer has come.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// It is called then, or once the object has been unchanged for long enough.
    Waits(Moment),
    /// The same, at that time of the wall clock: as its schedule says.
    Scheduled(Moment),
    /// It is called once after each change, and has been called after the last one.
    AwaitsChange,
    Runs(Box<Running>),
    /// It is called no more; a timer that has failed is, once the object has changed, but not before that time: it may have changed the
    /// object itself.
    Ended {
        /// A time of the wall clock where the timer has a schedule.
        revives: Option<Moment>,
    },
}

/// When it is, and who says how long something waits.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// Goes on steadily.
    pub(crate) now: Timestamp,
    /// How far the wall clock is ahead of that.
    pub(crate) wall_ahead: SignedDuration,
    pub(crate) ask: AskPause,
}

/// What has come of a call.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pub(crate) result: Option<Value>,
    /// It has failed for good.
    pub(crate) failed: bool,
    /// It is called no more: the object may not be held any longer, or may have it again.
    pub(crate) is_over: bool,
    /// When the run began, where a later process has to know.
    pub(crate) ran: Option<Timestamp>,
}

/// In place of a span of time that a function has panicked over.
const INSTEAD_OF_A_PANIC: Duration = Duration::from_secs(60);
/// So long after it has failed for good, a change calls a timer again that has no interval.
const WITHOUT_AN_INTERVAL: Duration = Duration::from_secs(60);
/// In place of an interval of zero that a function has given.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Whether both are the same to their object: attributes on one function declare it once.
pub(crate) fn is_same(one: &Handler, other: &Handler) -> bool {
    let kind = |it: &Handler| it.background().map(|(kind, _)| kind);
    one.id == other.id && kind(one) == kind(other)
}

/// Whether it is level-triggered.
pub(crate) fn is_reconcile(handler: &Handler) -> bool {
    matches!(handler.background(), Some((BackgroundKind::Reconcile, _)))
}

pub(super) fn timing(handler: &Handler) -> Option<&Timing> {
    handler.background().map(|(_, timing)| timing)
}

pub(super) fn schedule(handler: &Handler) -> Option<&Schedule> {
    timing(handler)?.schedule.as_ref()
}

/// The run after `time`, both of the wall clock.
pub(super) fn next_run(schedule: &Schedule, time: Timestamp) -> Timestamp {
    schedule.next(time).unwrap_or(Timestamp::MAX)
}

// === what is asked ===

impl BackgroundMemory {
    /// What one timer at rest takes.
    #[cfg(test)]
    pub(crate) const SIZE_OF_A_TIMER: usize = size_of::<BackgroundRun>();

    /// Whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the object has to stay for its daemons and timers.
    pub(crate) fn holds(&self, is_living: bool) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|run| match &run.phase {
            // Calls of a reconciler are waited for, and no more: without them, the object needs none of them.
            Phase::Waits(_) | Phase::AwaitsChange if is_reconcile(&run.handler) => false,
            Phase::Runs(_) if is_living && is_reconcile(&run.handler) => false,
            Phase::Waits(_) | Phase::Scheduled(_) | Phase::AwaitsChange => true,
            Phase::Runs(running) => !running.is_abandoned(),
            Phase::Ended { .. } => false,
        })
    }

    /// Whether it is remembered, as what is called, or as what is called no more.
    #[cfg(test)]
    pub(crate) fn knows(&self, handler: &Handler) -> bool {
        self.runs.iter().any(|run| is_same(&run.handler, handler))
    }

    /// When to look at them again, where nothing changes.
    pub(crate) fn due(&self, wall_ahead: SignedDuration) -> Option<Timestamp> {
        let due = |run: &BackgroundRun| match &run.phase {
            Phase::Waits(_) if self.holds_reconcilers_back(run) => None,
            Phase::Waits(at) => Some(self.not_before(run, at.time())),
            Phase::Scheduled(at) => {
                let at = later(at.time(), -wall_ahead);
                Some(self.not_before(run, at))
            }
            Phase::Runs(running) => running.exiting.as_ref()?.next_look(),
            Phase::AwaitsChange | Phase::Ended { .. } => None,
        };
        self.runs.iter().filter_map(due).min()
    }

    /// Whether timers and reconcilers are being called, are to be called now, or are to be tried again: what an operator that is to end waits for.
    pub(crate) fn is_ticking(&self, now: Timestamp) -> bool {
        self.ticking_runs(now).next().is_some()
    }

    /// The ids of those, and what they have complained about.
    pub(crate) fn ticking(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (Arc<str>, Option<String>)> {
        self.ticking_runs(now).map(|run| {
            let attempts = run.attempts.as_ref();
            let error = attempts.and_then(|it| it.error.as_ref());
            (run.handler.id.clone(), error.map(|it| it.message.clone()))
        })
    }

    fn ticking_runs(&self, now: Timestamp) -> impl Iterator<Item = &BackgroundRun> {
        self.runs.iter().filter(move |run| {
            let is_daemon = matches!(run.handler.background(), Some((BackgroundKind::Daemon, _)));
            !is_daemon
                && match &run.phase {
                    Phase::Runs(running) => running.exiting.is_none(),
                    // An operator that is to end is there for a moment: no clock is set meanwhile.
                    Phase::Waits(at) | Phase::Scheduled(at) => {
                        run.failed_attempts() > 0 || self.not_before(run, at.time()) <= now
                    }
                    Phase::AwaitsChange | Phase::Ended { .. } => false,
                }
        })
    }

    /// When it is called that waits until `at`.
    pub(super) fn not_before(&self, run: &BackgroundRun, at: Timestamp) -> Timestamp {
        let idle = timing(&run.handler).and_then(|timing| timing.idle);
        idle.map_or(at, |idle| at.max(after(self.changed.time(), idle)))
    }
}

impl Attempts {
    /// Whether the last call has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0 || self.end == Some(AttemptsEnd::GaveUp)
    }
}

impl Running {
    fn is_abandoned(&self) -> bool {
        self.exiting.as_ref().is_some_and(Exiting::is_abandoned)
    }
}

impl BackgroundRun {
    pub(super) fn record(&self, now: Timestamp) -> Record {
        let mut record = Record::begun(self.started().unwrap_or(now));
        record.retries = self.failed_attempts();
        record
    }

    /// How many attempts have failed since the last success.
    pub(super) fn failed_attempts(&self) -> u32 {
        self.counted().map_or(0, |it| it.failed)
    }

    /// When the first attempt since the last success was made.
    fn started(&self) -> Option<Timestamp> {
        Some(self.counted()?.started)
    }

    /// The attempts that the next one belongs to.
    fn counted(&self) -> Option<&Attempts> {
        self.attempts.as_deref().filter(|it| it.end.is_none())
    }

    /// An attempt is made. When the first one was.
    pub(super) fn attempted(&mut self, now: Timestamp) -> Timestamp {
        let (own_changes, at_once) = (self.own_changes(), self.asks_at_once());
        let own_essence = self.attempts.as_ref().map_or(0, |it| it.own_essence);
        self.attempts.take_if(|it| it.end.is_some());
        let attempts = self.attempts.get_or_insert_with(|| {
            Box::new(Attempts {
                failed: 0,
                started: now,
                end: None,
                own_changes,
                own_essence,
                at_once,
                error: None,
            })
        });
        attempts.started
    }

    /// What an attempt has come to that was told last.
    pub(super) fn note_error(&mut self, record: &Record, told: &[Handling]) {
        let class = told.last().and_then(class_of);
        if let Some(attempts) = &mut self.attempts {
            let error = record.message.clone().zip(class);
            attempts.error =
                error.map(|(message, class)| Box::new(AttemptError { class, message }));
        }
    }

    /// It has failed for good: from when on a change of the object calls it again; nothing where it does not.
    pub(super) fn revives(
        &self,
        cause: &Cause,
        times: Times,
        told: &mut Vec<Handling>,
    ) -> Option<Timestamp> {
        let (kind, timing) = self.handler.background()?;
        if kind != BackgroundKind::Timer {
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
        Some(after(times.now, pause.max(SHORTEST_INTERVAL)))
    }

    /// It is called at `at`: at that time of the wall clock where it has a schedule.
    pub(super) fn waits_until(&self, at: Timestamp) -> Phase {
        match schedule(&self.handler) {
            Some(_) => Phase::Scheduled(at.into()),
            None => Phase::Waits(at.into()),
        }
    }
}

impl Times {
    /// What the wall clock says.
    pub(super) fn wall(&self) -> Timestamp {
        later(self.now, self.wall_ahead)
    }
}

/// The answer of a user's function, or what takes its place.
pub(super) fn asked(
    (handler, option): (&Arc<Handler>, &'static str),
    answer: Result<Duration, String>,
    told: &mut Vec<Handling>,
) -> Duration {
    answer.unwrap_or_else(|panic| {
        told.push(Handling::Background(BackgroundHandling::NoPause {
            handler: handler.clone(),
            option,
            panic,
            instead: INSTEAD_OF_A_PANIC,
        }));
        INSTEAD_OF_A_PANIC
    })
}

// === what comes back ===

impl BackgroundMemory {
    /// It was to be called, and could not be: it waits until `at`.
    pub(crate) fn put_off(&mut self, handler: &Handler, at: Timestamp) {
        let mut runs = self.runs.iter_mut();
        if let Some(run) = runs.find(|run| is_same(&run.handler, handler)) {
            run.phase = Phase::Waits(at.into());
            if run.failed_attempts() == 0 {
                run.end_attempts(AttemptsEnd::Succeeded, at);
            }
        }
    }

    /// A call has ended; without an outcome where it was cut off. Nothing where none was running.
    pub(crate) fn returned(
        &mut self,
        call: &HandlerCall,
        outcome: Option<Outcome>,
        (judge, times): (Judge, Times),
        told: &mut Vec<Handling>,
    ) -> Option<Returned> {
        let handler = &call.handler;
        let mut runs = self.runs.iter();
        let place = runs.position(|run| is_same(&run.handler, handler))?;
        let Phase::Runs(running) = &self.runs[place].phase else {
            return None;
        };
        let has_changed = self.changed > running.since;
        let ran = self.runs[place].ran_since(running.since.time(), times);
        match outcome {
            Some(outcome) if running.exiting.is_none() => {
                let run = &mut self.runs[place];
                Some(run.judged(call, outcome, (judge, times, has_changed), told))
            }
            last => {
                let mut runs = std::mem::take(&mut self.runs).into_vec();
                runs.swap_remove(place);
                self.runs = runs.into();
                let ran = ran.filter(|_| matches!(last, Some(Outcome::Succeeded(_))));
                Some(Returned {
                    result: judge_the_last(call, last, told),
                    failed: false,
                    is_over: true,
                    ran,
                })
            }
        }
    }

    /// All that runs is told to end, and nothing is called any more; who does so goes through the stages. What has ended by itself is still known
    /// then, should the object be watched again.
    pub(crate) fn stop(&mut self, reason: StopReason, now: Timestamp) {
        let mut runs = std::mem::take(&mut self.runs).into_vec();
        runs.retain(|run| matches!(run.phase, Phase::Runs(_) | Phase::Ended { .. }));
        for run in &mut runs {
            if let Phase::Runs(running) = &mut run.phase {
                let exiting = running.exiting.get_or_insert_with(|| Exiting::begun(now));
                exiting.leave_to_engine(reason);
            }
        }
        self.runs = runs.into();
    }
}

impl BackgroundRun {
    /// When, by the wall clock, the attempts began of which the last one began at `since`, where a later process has to know.
    fn ran_since(&self, since: Timestamp, times: Times) -> Option<Timestamp> {
        schedule(&self.handler)?;
        Some(later(self.started().unwrap_or(since), times.wall_ahead))
    }

    /// A call has ended by itself.
    fn judged(
        &mut self,
        call: &HandlerCall,
        outcome: Outcome,
        (judge, times, has_changed): (Judge, Times, bool),
        told: &mut Vec<Handling>,
    ) -> Returned {
        let Phase::Runs(running) = &self.phase else {
            return Returned::default();
        };
        let since = running.since.time();
        let ran = self.ran_since(since, times);
        if let Some(message) = error_of_deleted(call, &outcome) {
            self.is_deleted_meanwhile(judge);
            told.push(ended_by_deletion(&call.handler, message));
            return Returned::default();
        }
        let mut record = self.record(judge.now);
        let result = judge.attempted(&call.handler, &mut record, outcome, told);
        self.note_error(&record, told);
        if is_reconcile(&self.handler) {
            self.reconciled(call, &record, judge, told);
            return Returned {
                result,
                failed: record.failure,
                ..Returned::default()
            };
        }
        self.phase = if record.success {
            self.attempts = None;
            let next = next_tick(call, (since, times), has_changed, told);
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
                revives => Phase::Ended {
                    revives: revives.map(Moment::from),
                },
            }
        };
        let is_over = matches!(self.phase, Phase::Ended { .. });
        if is_over {
            told.push(exited(&call.handler, false));
        }
        Returned {
            result,
            failed: record.failure,
            is_over,
            ran: ran.filter(|_| record.is_final()),
        }
    }
}

pub(super) fn exited(handler: &Arc<Handler>, requested: bool) -> Handling {
    let handler = handler.clone();
    Handling::Background(BackgroundHandling::Exited { handler, requested })
}

/// What a level-triggered handler complains about, where its object is to be deleted meanwhile: nobody can do what it wants any more.
fn error_of_deleted<'a>(call: &HandlerCall, outcome: &'a Outcome) -> Option<&'a str> {
    let Subject::Background(subject) = &call.subject else {
        return None;
    };
    let (Outcome::Temporary { message, .. } | Outcome::Permanent { message, .. }) = outcome else {
        return None;
    };
    let is_deleted = is_reconcile(&call.handler) && subject.live.body().is_deleting();
    is_deleted.then_some(message)
}

fn ended_by_deletion(handler: &Arc<Handler>, message: &str) -> Handling {
    Handling::Background(BackgroundHandling::EndedByDeletion {
        handler: handler.clone(),
        message: message.to_owned(),
    })
}

/// The outcome of a call that is not repeated, since it was to end; `None` where the call was cut off. Returns the result.
fn judge_the_last(
    call: &HandlerCall,
    outcome: Option<Outcome>,
    told: &mut Vec<Handling>,
) -> Option<Value> {
    let handler = &call.handler;
    if let Some(message) = outcome.as_ref().and_then(|it| error_of_deleted(call, it)) {
        told.push(ended_by_deletion(handler, message));
        return None;
    }
    let fate = Fate::Stopped;
    let mut result = None;
    let end = match outcome {
        Some(Outcome::Succeeded(given)) => {
            result = given.filter(|it| !it.is_null());
            AttemptEnd::Succeeded
        }
        Some(Outcome::Temporary { message, child, .. }) => AttemptEnd::Temporary {
            message,
            fate,
            child,
        },
        Some(Outcome::Permanent { message, child }) => AttemptEnd::Permanent { message, child },
        Some(Outcome::Denied { message, .. }) => AttemptEnd::permanent(message),
        Some(Outcome::Arbitrary { message } | Outcome::Panicked { message }) => {
            AttemptEnd::Arbitrary { message, fate }
        }
        Some(Outcome::TimedOut { after }) => AttemptEnd::TimedOut { after },
        None | Some(Outcome::Waiting) => {
            let handler = handler.clone();
            told.push(Handling::Background(BackgroundHandling::CutOff { handler }));
            return None;
        }
    };
    let of_attempt = handler.clone();
    told.push(Handling::Attempted {
        handler: of_attempt,
        end,
    });
    told.push(exited(handler, true));
    result
}

/// When a timer that has succeeded is called next; nothing for a daemon, and for a timer that is called once.
fn next_tick(
    call: &HandlerCall,
    (began, times): (Timestamp, Times),
    has_changed: bool,
    told: &mut Vec<Handling>,
) -> Option<Phase> {
    let (kind, timing) = call.handler.background()?;
    if kind == BackgroundKind::Daemon {
        return None;
    }
    if let Some(schedule) = &timing.schedule {
        let next = next_run(schedule, times.wall());
        return Some(Phase::Scheduled(next.into()));
    }
    let Times { now, ask, .. } = times;
    let Some(interval) = &timing.interval else {
        timing.idle?;
        return Some(if has_changed {
            Phase::Waits(now.into())
        } else {
            Phase::AwaitsChange
        });
    };
    let answer = ask(interval, &call.cause);
    let mut interval = asked((&call.handler, "interval"), answer, told);
    if interval.is_zero() {
        let handler = call.handler.clone();
        told.push(Handling::Background(BackgroundHandling::ZeroInterval {
            handler,
            instead: SHORTEST_INTERVAL,
        }));
        interval = SHORTEST_INTERVAL;
    }
    let next = if timing.sharp {
        on_the_grid(began, interval, now)
    } else {
        after(now, interval)
    };
    Some(Phase::Waits(next.into()))
}

/// The first time after `now` that is whole intervals after `began`.
fn on_the_grid(began: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let elapsed = since(began, now).as_nanos();
    let whole = elapsed / interval.as_nanos().max(1) + 1;
    let nanos = whole.saturating_mul(interval.as_nanos());
    after(
        began,
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
    )
}

pub(super) fn after(time: Timestamp, pause: Duration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// So much later, or earlier.
pub(super) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
