//! Plans the daemons and timers of an object: which it should have now, which to call, and which to end.
//!
//! A call is ended stage by stage: a stop signal, a grace period, cancellation, and finally abandoning it. Evaluates the filters of daemons
//! and timers once per plan. Must not know how handlers are called or cancelled, nor the object's other handlers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::Schedule;

use crate::handler::again::AgainCell;
use crate::handler::cause::Attempt;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::live::Live;
use crate::handler::stopped::{StopReason, Stopped};
use crate::handler::subject::{BackgroundSubject, Subject};
use crate::handler::timing::Pause;
use crate::happening::handling::{Exit, Handling};
use crate::object::patch::Patch;
use crate::reaction::background::{
    BackgroundMemory, BackgroundRun, Dirty, Exiting, Moment, Phase, Running, Stage, after, asked, exited,
    is_reconcile, is_same, later, next_run, schedule, stage,
};
use crate::reaction::comparison::object;
use crate::reaction::input::{Input, Standing};
use crate::reaction::judge::{Judge, limit_reached, next_random, since};

/// The plan for daemons and timers.
#[derive(Debug, Default)]
pub(crate) struct BackgroundPlan {
    /// The memory after the plan was executed.
    pub(crate) memory: BackgroundMemory,
    pub(crate) steps: Vec<Step>,
    /// Daemons and timers that are suspended for the current object.
    pub(crate) suspended: Vec<Arc<Handler>>,
    /// Handlers that have failed permanently without a call.
    pub(crate) failed: Vec<Arc<Handler>>,
    /// The data that a later process needs about new timers with a schedule.
    pub(crate) patch: Patch,
    pub(crate) told: Vec<Handling>,
}

/// One step of the plan.
#[derive(Debug)]
pub(crate) enum Step {
    /// Call the handler.
    Call { handler: Arc<Handler>, attempt: Attempt },
    /// Set the stop flag of a running call.
    Signal { handler: Arc<Handler>, reason: StopReason },
    /// Cancel the running call.
    Cancel { handler: Arc<Handler> },
}

/// At the start of the operator, first calls of timers for existing objects are spread over at most this long.
const LONGEST_SPREAD: Duration = Duration::from_secs(60);
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A daemon that is never cancelled is first reported after this long, or after its polling interval if that is shorter.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The state of planning an object's daemons and timers.
struct Planning<'a> {
    input: &'a Input<'a>,
    /// The subject for filters and for functions that return durations.
    subject: Subject,
    lives: bool,
    random: f64,
    plan: BackgroundPlan,
}

/// Plans the daemons and timers that the object should have now. `lives` is false for an object that is marked for deletion.
pub(super) fn background(input: &Input<'_>, lives: bool) -> BackgroundPlan {
    let none = BackgroundMemory::default();
    let memory = input.background.unwrap_or(&none);
    let handlers: Vec<_> = input.handlers.iter().filter(|it| it.is_background()).collect();
    if handlers.is_empty() && memory.is_empty() {
        return BackgroundPlan::default();
    }
    let fields = handlers.iter().filter_map(|it| it.field());
    let essence = input.persistence.essence_of(input.body, fields).fingerprint();
    let has_changed = memory.essence != essence;
    let mut planning = Planning::new(input, lives, BackgroundPlan::default());
    planning.plan.memory = BackgroundMemory {
        runs: Box::default(),
        essence,
        changed: if has_changed { input.now.into() } else { memory.changed },
        reconcilers_wait: true,
    };
    planning.plan_all(memory, &handlers, has_changed);
    planning.plan
}

/// Adds the calls of due reconcilers, after everything that takes precedence is done.
pub(super) fn reconcile(input: &Input<'_>, plan: &mut BackgroundPlan) {
    if !plan.memory.runs.iter().any(|run| is_reconcile(&run.handler)) {
        return;
    }
    let mut planning = Planning::new(input, true, std::mem::take(plan));
    planning.plan.memory.hold_reconcilers(false);
    let runs = std::mem::take(&mut planning.plan.memory.runs).into_vec();
    let runs: Vec<_> = runs.into_iter().map(|run| planning.called_if_due(run)).collect();
    planning.plan.memory.runs = runs.into();
    *plan = planning.plan;
}

impl<'a> Planning<'a> {
    fn new(input: &'a Input<'a>, lives: bool, plan: BackgroundPlan) -> Self {
        let subject = Subject::Background(BackgroundSubject {
            again: AgainCell::default(),
            object: object(input),
            live: Live::of(input.body.clone()),
            stopped: Stopped::unset(None),
        });
        Self { input, subject, lives, random: input.random, plan }
    }
}

impl Planning<'_> {
    fn plan_all(&mut self, memory: &BackgroundMemory, handlers: &[&Arc<Handler>], has_changed: bool) {
        let mut left: Vec<BackgroundRun> = memory.runs.to_vec();
        let mut runs = Vec::with_capacity(left.len());
        for (at, handler) in handlers.iter().enumerate() {
            if handlers[..at].iter().any(|it| is_same(it, handler)) {
                continue;
            }
            // If a function has several attributes, the first one that matches the object determines the calls.
            let mut declared = handlers[at..].iter().filter(|it| is_same(it, handler));
            let matches = |it: &Arc<Handler>| it.accepts(self.input.body, |when| when(&self.cause(it)));
            let mut wanted = declared.find(|it| self.lives && matches(it)).copied();
            if let Some(handler) = wanted
                && self.input.standing(handler) == Standing::Suspended
            {
                self.plan.suspended.push(Arc::clone(handler));
                wanted = None;
            }
            let known = left.iter().position(|run| is_same(&run.handler, handler));
            let run = match known.map(|at| left.swap_remove(at)) {
                Some(run) => self.go_on(run, wanted, has_changed),
                None => wanted.map(|handler| self.begun(handler)),
            };
            runs.extend(run.map(|run| self.called_if_due(run)));
        }
        // These handlers are no longer declared.
        for run in left {
            runs.extend(self.go_on(run, None, has_changed));
        }
        self.plan.memory.runs = runs.into();
    }

    fn cause(&self, handler: &Arc<Handler>) -> HandlerCall {
        let (context, attempt) = (self.input.surroundings.clone(), Attempt::first(self.input.now));
        HandlerCall::new(handler.clone(), context, attempt, self.subject.clone())
    }

    /// Starts a daemon or timer for the object.
    fn begun(&mut self, handler: &Arc<Handler>) -> BackgroundRun {
        let phase = if let Some(schedule) = schedule(handler) {
            self.first_run(handler, schedule)
        } else {
            let delay = self.delay(handler);
            Phase::Waits(after(self.input.now, delay).into())
        };
        BackgroundRun { handler: handler.clone(), phase, attempts: None }
    }

    /// Returns the delay of its first call.
    fn delay(&mut self, handler: &Arc<Handler>) -> Duration {
        let timing = &handler.timing;
        if let Some(delay) = &timing.initial_delay {
            return self.ask((handler, "initial delay"), delay);
        }
        let is_spread =
            self.input.seen.is_new_to_background() && self.input.policy.spreads_first_calls && !timing.sharp;
        let interval = timing.interval.as_ref().filter(|_| is_spread);
        let span = interval.map(|interval| self.ask((handler, "interval"), interval));
        let Some(span) = span.or(timing.idle.filter(|_| is_spread)) else {
            return Duration::ZERO;
        };
        let spread = self.random_part(span.min(LONGEST_SPREAD));
        // The delay includes the idle time, because the object counts as changed now: a spread that ends within the idle time would have no
        // effect, and all idle timers would be called at once.
        timing.idle.unwrap_or_default().saturating_add(spread)
    }

    /// Returns the first run of a timer with a schedule: soon, if a former process has recorded a run and another one was due since. An
    /// object that has started to match the filters only since then has missed no run.
    fn first_run(&mut self, handler: &Arc<Handler>, schedule: &Schedule) -> Phase {
        let Input { now, persistence, body, policy, .. } = *self.input;
        let wall = self.input.times().wall();
        let is_new = self.input.seen.is_new_to_background();
        let Some(noted) = persistence.last_run(&handler.id, body).filter(|_| is_new) else {
            persistence.note_run(&handler.id, wall, body, &mut self.plan.patch);
            return Phase::Scheduled(next_run(schedule, wall).into());
        };
        // The clock may have been set back.
        let first = next_run(schedule, noted.min(wall));
        if first > wall {
            return Phase::Scheduled(first.into());
        }
        let more = next_run(schedule, first) <= wall;
        self.plan.told.push(Handling::MissedRuns { handler: handler.clone(), first, more });
        let spread =
            if policy.spreads_first_calls { self.random_part(LONGEST_SPREAD) } else { Duration::ZERO };
        Phase::Waits(after(now, spread).into())
    }

    /// If another instance of the operator has already made the due run, returns the one after it.
    fn next_after_others(&self, run: &BackgroundRun) -> Option<Timestamp> {
        let schedule = schedule(&run.handler).filter(|_| run.failed_attempts() == 0)?;
        let wall = self.input.times().wall();
        let Input { persistence, body, .. } = self.input;
        let noted = persistence.last_run(&run.handler.id, body).filter(|noted| *noted <= wall)?;
        Some(next_run(schedule, noted)).filter(|next| *next > wall)
    }

    /// Returns the time of the call for a timer with a schedule that waits until `at`. A clock that is set back slightly must not repeat a
    /// run, but a recorded run more than a day ahead means that the clock was wrong.
    fn scheduled(&self, handler: &Handler, at: Timestamp) -> Timestamp {
        let Input { persistence, body, .. } = self.input;
        let wall = self.input.times().wall();
        let was_ahead = |noted: Timestamp| after(wall, A_DAY) < noted;
        match schedule(handler) {
            Some(schedule) if persistence.last_run(&handler.id, body).is_some_and(was_ahead) => {
                at.min(next_run(schedule, wall))
            }
            _ => at,
        }
    }

    fn random_part(&mut self, whole: Duration) -> Duration {
        self.random = next_random(self.random);
        whole.mul_f64(self.random.clamp(0.0, 1.0))
    }

    fn ask(&mut self, whose: (&Arc<Handler>, &'static str), pause: &Pause) -> Duration {
        let cause = self.cause(whose.0).cause;
        let answer = (self.input.ask_pause)(pause, &cause);
        asked(whose, answer, &mut self.plan.told)
    }

    /// Continues a handler in its phase; `None` if it ends without another call. `wanted` is its declaration that matches the object.
    fn go_on(
        &mut self,
        mut run: BackgroundRun,
        wanted: Option<&Arc<Handler>>,
        has_changed: bool,
    ) -> Option<BackgroundRun> {
        let now = self.input.now;
        if has_changed && wanted.is_some() && is_reconcile(&run.handler) {
            run.object_changed(self.input.event.is_some(), self.plan.memory.essence, now);
        }
        match &mut run.phase {
            Phase::Runs(running) => {
                if wanted.is_none() || running.exiting.is_some() {
                    let exiting = running.exiting.get_or_insert_with(|| Exiting::begun(now));
                    self.exit(&run.handler, exiting, wanted.is_some());
                }
                return Some(run);
            }
            Phase::Ended { revives } => {
                if let Some(at) = *revives
                    && has_changed
                    && self.lives
                {
                    wanted?;
                    let wall = self.input.times().wall();
                    let next = match (schedule(&run.handler), at.time()) {
                        (Some(schedule), at) if at <= wall => next_run(schedule, wall),
                        (Some(_), at) => at,
                        (None, at) => at.max(now),
                    };
                    run.phase = run.waits_until(next);
                    run.attempts = None;
                }
            }
            Phase::Waits(_) | Phase::Scheduled(_) | Phase::AwaitsChange if wanted.is_none() => {
                if run.failed_attempts() > 0 {
                    self.plan.told.push(exited(&run.handler, true));
                }
                return None;
            }
            Phase::AwaitsChange if has_changed => run.phase = Phase::Waits(now.into()),
            Phase::Scheduled(at) => *at = self.scheduled(&run.handler, at.time()).into(),
            Phase::Waits(_) | Phase::AwaitsChange => {}
        }
        if let Some(handler) = wanted {
            run.handler = handler.clone();
        }
        Some(run)
    }

    /// Performs the next stage of ending the call, if it is due. A call that is to end does so even if its handler is wanted again.
    fn exit(&mut self, handler: &Arc<Handler>, exiting: &mut Exiting, is_wanted: bool) {
        let reason = match (self.lives, is_wanted) {
            (false, _) => StopReason::RESOURCE_DELETED,
            (true, false) => StopReason::FILTERS_MISMATCH,
            (true, true) => StopReason::NONE,
        };
        self.signal(handler, exiting, reason, Exit::Told { reason });
        if exiting.is_left_to_engine {
            return;
        }
        let now = self.input.now;
        let age = since(exiting.since, now);
        let (reason, exit, until) = match stage(&handler.timing, age) {
            Stage::Signalled(until) => (StopReason::DAEMON_SIGNALLED, Exit::Signalled, Some(until)),
            Stage::Cancelled(until) => (StopReason::DAEMON_CANCELLED, Exit::Cancelled, Some(until)),
            Stage::Abandoned => (StopReason::DAEMON_ABANDONED, Exit::Abandoned, None),
            Stage::Awaited => {
                let polling = handler.timing.cancellation_polling;
                let next = polling.unwrap_or(self.input.policy.cancellation_polling);
                if exiting.next.is_some_and(|at| at <= now) {
                    self.tell_exit(handler, Exit::Awaited { age, next, deletion: !self.lives });
                    exiting.next = now.checked_add(next).ok();
                } else if exiting.next.is_none() {
                    exiting.next = now.checked_add(next.min(FIRST_LOOK)).ok();
                }
                return;
            }
        };
        exiting.next = until.and_then(|age| exiting.since.checked_add(age).ok());
        self.signal(handler, exiting, reason, exit);
    }

    /// Signals and reports a stage of ending a call, unless that was done.
    fn signal(&mut self, handler: &Arc<Handler>, exiting: &mut Exiting, reason: StopReason, exit: Exit) {
        if exiting.reason.contains(reason) {
            return;
        }
        exiting.reason = exiting.reason | reason;
        self.plan.steps.push(Step::Signal { handler: handler.clone(), reason });
        if matches!(exit, Exit::Cancelled | Exit::Abandoned) {
            self.plan.steps.push(Step::Cancel { handler: handler.clone() });
        }
        self.tell_exit(handler, exit);
    }

    fn tell_exit(&mut self, handler: &Arc<Handler>, exit: Exit) {
        self.plan.told.push(Handling::Exits { handler: handler.clone(), exit });
    }

    /// Calls the handler if it is due.
    fn called_if_due(&mut self, mut run: BackgroundRun) -> BackgroundRun {
        let at = match run.phase {
            Phase::Waits(at) => at.time(),
            Phase::Scheduled(at) => later(at.time(), -self.input.wall_ahead),
            _ => return run,
        };
        if self.plan.memory.holds_reconcilers_back(&run) {
            return run;
        }
        let now = self.input.now;
        // The next attempt must see the changes that a former attempt has requested.
        let is_to_be_written = self.input.seen.wanted_in_background().is_some();
        if self.plan.memory.not_before(&run, at) > now || is_to_be_written {
            return run;
        }
        if let Some(next) = self.next_after_others(&run) {
            run.phase = Phase::Scheduled(next.into());
            return run;
        }
        let mut record = run.record(now);
        if let Some(end) = limit_reached(&run.handler, &record, now) {
            let judge = Judge { random: self.random, ..self.input.times().judge };
            let told = &mut self.plan.told;
            judge.enter(&run.handler, &mut record, end, told);
            run.note_error(&record, told);
            self.plan.failed.push(run.handler.clone());
            if is_reconcile(&run.handler) {
                run.give_up(judge);
                return run;
            }
            let cause = self.cause(&run.handler).cause;
            let revives = run.revives(&cause, self.input.times(), &mut self.plan.told);
            run.phase = Phase::Ended { revives: revives.map(Moment::from) };
            self.plan.told.push(exited(&run.handler, false));
            return run;
        }
        let started = run.attempted(now);
        let retry = run.failed_attempts();
        let attempt =
            Attempt { retry, is_first: retry == 0, started, runtime: since(started, now), key: None };
        self.plan.steps.push(Step::Call { handler: run.handler.clone(), attempt });
        run.phase = Phase::Runs(Box::new(Running { since: now.into(), exiting: None, dirty: Dirty::Clean }));
        run
    }
}
