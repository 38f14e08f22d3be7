//! Plans the daemons and timers of an object: which it should have now, which to call, and which to end.
//!
//! Evaluates their filters once per plan. Must not know how handlers are called or cancelled, nor the object's other handlers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::Schedule;

use crate::handler::again::AgainCell;
use crate::handler::cause::Attempt;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::filter::Former;
use crate::handler::live::Live;
use crate::handler::stopped::{StopReason, Stopped};
use crate::handler::subject::{BackgroundSubject, Subject};
use crate::handler::timing::{Pause, Timing};
use crate::happening::handling::Handling;
use crate::object::patch::Patch;
use crate::reaction::background::{
    BackgroundMemory, BackgroundRun, Dirty, Phase, Running, after, asked, exited, is_reconcile, is_same,
    later, next_run, schedule, timing,
};
use crate::reaction::comparison::{first_attempt, object};
use crate::reaction::input::Input;
use crate::reaction::judge::{Judge, next_random};
use crate::reaction::limits::Exhausted;
use crate::reaction::limits::since;
use crate::reaction::moment::Moment;
use crate::reaction::shutdown_stages::{Exiting, Look, Order};
use crate::reaction::standing::Standing;

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
}

impl BackgroundPlan {
    /// Returns true if the object has or had daemons or timers.
    pub(super) fn is_any(&self) -> bool {
        !self.memory.is_empty()
    }
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

/// The state of planning an object's daemons and timers.
struct Looking<'a, 'b> {
    input: &'a Input<'a>,
    /// The subject for filters and for functions that return durations.
    subject: Subject,
    lives: bool,
    random: f64,
    memory: BackgroundMemory,
    steps: Vec<Step>,
    failed: Vec<Arc<Handler>>,
    patch: Patch,
    told: &'b mut Vec<Handling>,
}

/// Plans the daemons and timers that the object should have now. `lives` is false for an object that is marked for deletion.
pub(super) fn background(input: &Input<'_>, lives: bool, told: &mut Vec<Handling>) -> BackgroundPlan {
    let none = BackgroundMemory::default();
    let memory = input.background.unwrap_or(&none);
    let handlers = input.handlers.iter().filter(|it| it.timing.is_some());
    let handlers: Vec<_> = handlers.collect();
    if handlers.is_empty() && memory.is_empty() {
        return BackgroundPlan::default();
    }
    let essence = essence(input, &handlers);
    let has_changed = memory.essence != essence;
    let mut looking = Looking {
        memory: BackgroundMemory {
            runs: Box::default(),
            essence,
            changed: if has_changed { input.now.into() } else { memory.changed },
            reconcilers_wait: true,
        },
        ..Looking::new(input, lives, told)
    };
    let suspended = looking.look(memory, &handlers, has_changed);
    looking.planned(suspended)
}

/// Adds the calls of due reconcilers, after everything that takes precedence is done.
pub(super) fn reconcile(input: &Input<'_>, plan: &mut BackgroundPlan, told: &mut Vec<Handling>) {
    if !plan.memory.has_reconcilers() {
        return;
    }
    let planned = std::mem::take(plan);
    let mut looking = Looking {
        memory: planned.memory,
        steps: planned.steps,
        failed: planned.failed,
        patch: planned.patch,
        ..Looking::new(input, true, told)
    };
    looking.memory.release_reconcilers();
    let runs = std::mem::take(&mut looking.memory.runs).into_vec();
    let runs = runs.into_iter().map(|run| looking.called_if_due(run));
    let runs: Vec<_> = runs.collect();
    looking.memory.runs = runs.into();
    *plan = looking.planned(planned.suspended);
}

/// Returns the fingerprint of the essence, including the fields of daemons and timers.
fn essence(input: &Input<'_>, handlers: &[&Arc<Handler>]) -> u64 {
    let fields = handlers.iter().filter_map(|it| it.field());
    let essence = input.persistence.essence_of(input.body, fields);
    essence.fingerprint()
}

impl<'a, 'b> Looking<'a, 'b> {
    fn new(input: &'a Input<'a>, lives: bool, told: &'b mut Vec<Handling>) -> Self {
        Self {
            input,
            subject: Subject::Background(BackgroundSubject {
                again: AgainCell::default(),
                object: object(input),
                live: Live::of(input.body.clone()),
                stopped: Stopped::unset(None),
            }),
            lives,
            random: input.random,
            memory: BackgroundMemory::default(),
            steps: Vec::new(),
            failed: Vec::new(),
            patch: Patch::new(),
            told,
        }
    }

    fn planned(self, suspended: Vec<Arc<Handler>>) -> BackgroundPlan {
        BackgroundPlan {
            memory: self.memory,
            steps: self.steps,
            suspended,
            failed: self.failed,
            patch: self.patch,
        }
    }
}

impl Looking<'_, '_> {
    fn look(
        &mut self,
        memory: &BackgroundMemory,
        handlers: &[&Arc<Handler>],
        has_changed: bool,
    ) -> Vec<Arc<Handler>> {
        let mut suspended = Vec::new();
        let mut left: Vec<BackgroundRun> = memory.runs.to_vec();
        let mut runs = Vec::with_capacity(left.len());
        for (at, handler) in handlers.iter().enumerate() {
            let is_known = |other: &&&Arc<Handler>| is_same(other, handler);
            if handlers[..at].iter().any(|it| is_known(&it)) {
                continue;
            }
            let mut wanted = handlers[at..].iter().filter(is_known);
            let wanted = wanted.find(|it| self.lives && self.lets_through(it));
            let standing = wanted.map(|handler| self.input.standing(handler));
            let wanted = match (wanted, standing) {
                (Some(handler), Some(Standing::Suspended)) => {
                    suspended.push(Arc::clone(handler));
                    None
                }
                (wanted, _) => wanted,
            };
            let known = left.iter().position(|run| is_same(&run.handler, handler));
            let known = known.map(|at| left.swap_remove(at));
            let run = match (known, wanted) {
                (Some(run), _) => {
                    let mut run = self.go_on(run, wanted.is_some(), has_changed);
                    // If a function has several attributes, the first one that matches the object determines the further calls.
                    if let (Some(run), Some(handler)) = (&mut run, wanted)
                        && !matches!(run.phase, Phase::Runs(_))
                    {
                        run.handler = Arc::clone(handler);
                    }
                    run
                }
                (None, Some(handler)) => Some(self.begun(handler)),
                (None, None) => None,
            };
            let run = run.map(|run| self.called_if_due(run));
            runs.extend(run);
        }
        // These handlers are no longer declared.
        for run in left {
            let run = self.go_on(run, false, has_changed);
            runs.extend(run);
        }
        self.memory.runs = runs.into();
        suspended
    }

    fn lets_through(&self, handler: &Arc<Handler>) -> bool {
        let (body, field) = (self.input.body, handler.field());
        let value = field.and_then(|field| field.resolve(body));
        handler.filtered(|filters| {
            filters.accept_object(body, field, Former::Known(value), value)
                && filters.when.as_ref().is_none_or(|when| when(&self.cause(handler)))
        })
    }

    fn cause(&self, handler: &Arc<Handler>) -> HandlerCall {
        HandlerCall::new(
            handler.clone(),
            self.input.surroundings.clone(),
            first_attempt(self.input),
            self.subject.clone(),
        )
    }

    /// Starts a daemon or timer for the object.
    fn begun(&mut self, handler: &Arc<Handler>) -> BackgroundRun {
        let phase = if let Some(schedule) = schedule(handler) {
            self.first_run(handler, schedule)
        } else {
            let delay = timing(handler).map(|timing| self.delay(handler, timing));
            Phase::Waits(after(self.input.now, delay.unwrap_or_default()).into())
        };
        BackgroundRun { handler: handler.clone(), phase, attempts: None }
    }

    /// Returns the delay of its first call.
    fn delay(&mut self, handler: &Arc<Handler>, timing: &Timing) -> Duration {
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
        let noted = if self.input.seen.is_new_to_background() {
            persistence.last_run(&handler.id, body)
        } else {
            None
        };
        let Some(noted) = noted else {
            persistence.note_run(&handler.id, wall, body, &mut self.patch);
            return Phase::Scheduled(next_run(schedule, wall).into());
        };
        // The clock may have been set back.
        let first = next_run(schedule, noted.min(wall));
        if first > wall {
            return Phase::Scheduled(first.into());
        }
        let missed =
            Handling::MissedRuns { handler: handler.clone(), first, more: next_run(schedule, first) <= wall };
        self.told.push(missed);
        let spread =
            if policy.spreads_first_calls { self.random_part(LONGEST_SPREAD) } else { Duration::ZERO };
        Phase::Waits(after(now, spread).into())
    }

    /// Returns the recorded time of the last run, by any instance.
    fn last_run(&self, handler: &Handler) -> Option<Timestamp> {
        let Input { persistence, body, .. } = self.input;
        persistence.last_run(&handler.id, body)
    }

    /// If another instance of the operator has already made the due run, returns the one after it.
    fn next_after_others(&self, run: &BackgroundRun) -> Option<Timestamp> {
        let schedule = schedule(&run.handler).filter(|_| run.failed_attempts() == 0)?;
        let wall = self.input.times().wall();
        let noted = self.last_run(&run.handler).filter(|noted| *noted <= wall)?;
        Some(next_run(schedule, noted)).filter(|next| *next > wall)
    }

    /// Returns the time of the call for a timer with a schedule that waits until `at`. A clock that is set back slightly must not repeat a
    /// run, but a recorded run more than a day ahead means that the clock was wrong.
    fn scheduled(&self, handler: &Handler, at: Timestamp) -> Timestamp {
        let wall = self.input.times().wall();
        let was_ahead = |noted: Timestamp| after(wall, A_DAY) < noted;
        match schedule(handler) {
            Some(schedule) if self.last_run(handler).is_some_and(was_ahead) => {
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
        asked(whose, answer, self.told)
    }

    /// Continues a handler in its phase; `None` if it ends without another call.
    fn go_on(&mut self, mut run: BackgroundRun, is_wanted: bool, has_changed: bool) -> Option<BackgroundRun> {
        let now = self.input.now;
        if has_changed && is_wanted && is_reconcile(&run.handler) {
            run.object_changed(self.input.event.is_some(), self.memory.essence, now);
        }
        match &mut run.phase {
            Phase::Runs(running) => {
                if !is_wanted || running.exiting.is_some() {
                    let exiting = running.exiting.get_or_insert_with(|| Exiting::begun(now));
                    let reason = self.reason(is_wanted);
                    self.exit(&run.handler, exiting, reason);
                }
            }
            Phase::Ended { revives } => {
                if let Some(at) = *revives
                    && has_changed
                    && self.lives
                {
                    if !is_wanted {
                        return None;
                    }
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
            Phase::Waits(_) | Phase::Scheduled(_) | Phase::AwaitsChange if !is_wanted => {
                if run.failed_attempts() > 0 {
                    self.told.push(exited(&run.handler, true));
                }
                return None;
            }
            Phase::AwaitsChange if has_changed => run.phase = Phase::Waits(now.into()),
            Phase::Scheduled(at) => *at = self.scheduled(&run.handler, at.time()).into(),
            Phase::Waits(_) | Phase::AwaitsChange => {}
        }
        Some(run)
    }

    /// Returns the reason why an unwanted handler is to end, or no new reason if it is wanted again.
    fn reason(&self, is_wanted: bool) -> StopReason {
        match (self.lives, is_wanted) {
            (false, _) => StopReason::RESOURCE_DELETED,
            (true, false) => StopReason::FILTERS_MISMATCH,
            (true, true) => StopReason::NONE,
        }
    }

    /// Performs the next stage of ending the call, if it is due.
    fn exit(&mut self, handler: &Arc<Handler>, exiting: &mut Exiting, reason: StopReason) {
        let polling = self.input.policy.cancellation_polling;
        let look = Look { now: self.input.now, polling, is_waited_for: !self.lives };
        for order in exiting.look(timing(handler), reason, look) {
            let handler = handler.clone();
            match order {
                Order::Signal(reason) => self.steps.push(Step::Signal { handler, reason }),
                Order::Cancel => self.steps.push(Step::Cancel { handler }),
                Order::Tell(exit) => {
                    let exits = Handling::Exits { handler, exit };
                    self.told.push(exits);
                }
            }
        }
    }

    /// Calls the handler if it is due.
    fn called_if_due(&mut self, mut run: BackgroundRun) -> BackgroundRun {
        let at = match run.phase {
            Phase::Waits(at) => at.time(),
            Phase::Scheduled(at) => later(at.time(), -self.input.wall_ahead),
            _ => return run,
        };
        if self.memory.holds_reconcilers_back(&run) {
            return run;
        }
        let now = self.input.now;
        // The next attempt must see the changes that a former attempt has requested.
        let is_to_be_written = self.input.seen.wanted_in_background().is_some();
        if self.memory.not_before(&run, at) > now || is_to_be_written {
            return run;
        }
        if let Some(next) = self.next_after_others(&run) {
            run.phase = Phase::Scheduled(next.into());
            return run;
        }
        let mut record = run.record(now);
        if let Some(exhausted) = Exhausted::of(&run.handler, &record, now) {
            let judge = Judge { now, backoff: self.input.policy.backoff, random: self.random };
            judge.exhausted(&run.handler, &mut record, exhausted, self.told);
            run.note_error(&record, self.told);
            self.failed.push(run.handler.clone());
            if is_reconcile(&run.handler) {
                run.give_up(judge);
                return run;
            }
            let cause = self.cause(&run.handler).cause;
            let revives = run.revives(&cause, self.input.times(), self.told);
            run.phase = Phase::Ended { revives: revives.map(Moment::from) };
            self.told.push(exited(&run.handler, false));
            return run;
        }
        let started = run.attempted(now);
        let retry = run.failed_attempts();
        self.steps.push(Step::Call {
            handler: run.handler.clone(),
            attempt: Attempt {
                retry,
                is_first: retry == 0,
                started,
                runtime: since(started, now),
                key: None,
            },
        });
        run.phase = Phase::Runs(Box::new(Running { since: now.into(), exiting: None, dirty: Dirty::Clean }));
        run
    }
}
