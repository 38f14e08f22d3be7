//! Daemons and timers of one object: calls that run beside its worker, and end as letters to it.
//!
//! What is called, and when, is decided by the plan; what they want changed is written by the worker, as all else. Must not know any
//! schedule, nor when a daemon is cut off.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::invoke::guarded;
use crate::engine::key::Key;
use crate::engine::mailbox::{Letter, Origin, ReturnedCall};
use crate::engine::overdue::told_while_running;
use crate::engine::report::report;
use crate::engine::running_calls::RunningCall;
use crate::engine::shared::Shared;
use crate::engine::watchdog::watched;
use crate::engine::worker::{Due, Worker};
use crate::handler::cause::Attempt;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::live::Live;
use crate::handler::outcome::Outcome;
use crate::handler::stopped::{StopReason, Stopped};
use crate::handler::subject::{BackgroundSubject, Subject, SubjectObject};
use crate::handler::timing::BackgroundKind;
use crate::happening::Happening;
use crate::happening::user_code::UserCode;
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::background::Returned;
use crate::reaction::background_plan::{BackgroundPlan, Step};
use crate::reaction::judge::Judge;
use crate::reaction::settle::deliver;

/// For so long a daemon is noted as a call that may end the process: whatever runs all the time would always be accused.
const SUSPICIOUS: Duration = Duration::from_secs(10);
/// What is due and could not be called is looked at again after that.
const SOON: Duration = Duration::from_secs(1);

impl Worker {
    /// Do what is planned for daemons and timers. Where nothing may begin any more, nothing is remembered of the plan either.
    pub(super) fn run_in_background(&mut self, planned: BackgroundPlan, body: &Arc<Body>) {
        let BackgroundPlan { memory, steps, .. } = planned;
        let is_none = self.memory.background().is_none() && memory.is_empty();
        if is_none || !self.context.may_call() {
            return;
        }
        self.memory.background_or_none().memory = memory;
        for step in steps {
            match step {
                Step::Call { handler, attempt } => self.call_in_background(handler, attempt, body),
                Step::Signal { handler, reason } => {
                    if let Some(call) = self.running(&handler) {
                        call.stopped.set(reason);
                    }
                }
                Step::Cancel { handler } => {
                    if let Some(call) = self.running(&handler) {
                        call.cancelled.cancel();
                    }
                }
            }
        }
        if let Some(background) = self.memory.background() {
            for call in &background.calls {
                call.live.set(body.clone());
            }
        }
        self.schedule_background(SOON);
    }

    fn running(&self, handler: &Arc<Handler>) -> Option<&Arc<RunningCall>> {
        let background = self.memory.background()?;
        let mut calls = background.calls.iter();
        calls.find(|call| Arc::ptr_eq(&call.handler, handler))
    }

    fn call_in_background(&mut self, handler: Arc<Handler>, attempt: Attempt, body: &Arc<Body>) {
        let (stopped, live) = (Stopped::new(), Live::of(body.clone()));
        let logger = self.context.logger().clone();
        let shared = &self.context.shared;
        let begun = (stopped.clone(), live.clone());
        let call = shared.running.begin(handler.clone(), logger, begun);
        let subject = Subject::Background(BackgroundSubject {
            object: SubjectObject {
                resource: self.kind.resource.clone(),
                body: body.clone(),
            },
            live,
            stopped,
        });
        let run = Run {
            shared: shared.clone(),
            key: self.context.key.clone(),
            about: self.context.about.clone(),
            cause: HandlerCall::new(handler, self.surroundings.clone(), attempt, subject),
            call: call.clone(),
            origin: Origin {
                raw: self.raw.clone(),
                kind: self.kind.clone(),
            },
        };
        shared.spawn_call(run.run());
        if !shared.gate.is_open() {
            shared.end_call(call.clone(), StopReason::OPERATOR_EXITING);
        }
        let background = self.memory.background_or_none();
        background.calls.push(call);
    }

    /// When to look at them again; what is due already is looked at after a while.
    fn schedule_background(&mut self, soon: Duration) {
        let clock = self.context.shared.setup.clock;
        let Some(background) = self.memory.background_mut() else {
            return;
        };
        if background.memory.is_empty() && background.calls.is_empty() {
            self.memory.take_background();
            return;
        }
        let earliest = Instant::now() + soon;
        let due = background.memory.due().map(|at| clock.instant(at));
        background.due = due.map(|due| if due <= Instant::now() { earliest } else { due });
    }

    /// Nothing can be said of the object: its daemons and timers are looked at with the next plan.
    pub(super) fn leave_background(&mut self) {
        if let Some(background) = self.memory.background_mut() {
            background.due = None;
        }
    }

    /// Calls have ended.
    pub(super) fn returned(&mut self, calls: Vec<ReturnedCall>) {
        for call in calls {
            self.has_returned(call);
        }
        self.schedule_background(Duration::ZERO);
    }

    fn has_returned(&mut self, returned: ReturnedCall) {
        let ReturnedCall {
            number,
            call,
            outcome,
            mut patch,
            ..
        } = returned;
        let Some(ended) = self.judge_returned(number, &call, outcome) else {
            return;
        };
        if let Some(result) = ended.result {
            deliver(&mut patch, &call.handler.id, result);
        }
        if ended.failed {
            let shared = self.shared();
            shared.failed(&call.handler.id, &self.context.about);
        }
        if !patch.is_empty() {
            self.keep_patch(patch);
        }
        if ended.is_over && self.due != Due::Gone {
            self.due = Due::Now;
        }
    }

    /// Judges a call that has ended; `None` where this object has no such call any more.
    fn judge_returned(
        &mut self,
        number: u64,
        call: &HandlerCall,
        outcome: Option<Outcome>,
    ) -> Option<Returned> {
        let shared = self.context.shared.clone();
        let now = shared.setup.clock.now();
        let judge = Judge {
            now,
            backoff: shared.setup.policy.backoff,
            random: shared.rng().next_f64(),
        };
        let background = self.memory.background_mut()?;
        let place = background.calls.iter().position(|it| it.number == number)?;
        background.calls.swap_remove(place);
        let mut told = Vec::new();
        let memory = &mut background.memory;
        let filters = self.kind.filters.clone().map(UserCode::Filters);
        let code = filters.into_iter().collect();
        let judged = watched(code, self.context.logger(), &self.context.about.uid, || {
            guarded(|| memory.returned(call, outcome, judge, &mut told))
        });
        let ended = match judged {
            Ok(ended) => ended.unwrap_or_default(),
            Err(panic) => {
                told.push(background.memory.without_interval(call, panic, now));
                Returned::default()
            }
        };
        for handling in told {
            self.report_handling(handling);
        }
        Some(ended)
    }

    /// What a daemon or timer wants changed is written with the next cycle.
    fn keep_patch(&mut self, mut patch: Patch) {
        self.keep_identity(&mut patch);
        self.memory.seen.keep_for_later(patch);
        // The clock has made this change, and not a former one.
        self.memory.lately.self_triggered.end();
        self.unwritten_outcome = true;
        if self.due != Due::Gone {
            self.due = Due::Now;
        }
    }

    // === the end ===

    /// The object is no more: whatever runs for it ends, and nothing waits for that.
    pub(super) fn release_background(&mut self, reason: StopReason) {
        if let Some(mut background) = self.memory.take_background() {
            for call in std::mem::take(&mut background.calls) {
                self.shared().end_call(call, reason);
            }
        }
    }

    /// The object is not watched any more: whatever runs for it is ended, and that is waited for, unless it is watched again.
    pub(super) async fn stop_background(&mut self, reason: StopReason) {
        let now = self.shared().setup.clock.now();
        if let Some(background) = self.memory.background_mut() {
            background.memory.stop(reason, now);
            for call in background.calls.clone() {
                self.shared().end_call(call, reason);
            }
        }
        self.await_returned(true).await;
    }

    /// The operator stops, which ends whatever runs: what that comes to is still to be written.
    pub(super) async fn await_background(&mut self) {
        let now = self.shared().setup.clock.now();
        if let Some(background) = self.memory.background_mut() {
            background.memory.stop(StopReason::OPERATOR_EXITING, now);
        }
        self.await_returned(false).await;
    }

    async fn await_returned(&mut self, unless_watched: bool) {
        loop {
            let returned = self.shared().queue.take_returned(&self.context.key);
            self.returned(returned);
            if !self.memory.has_calls() || unless_watched && self.context.has_state() {
                return;
            }
            self.context.letter().await;
        }
    }
}

impl Shared {
    fn spawn_call(&self, call: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        // Boxed: `select!` would store it twice.
        let mut call = Box::pin(call);
        self.calls.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = &mut call => {}
            }
        });
    }

    /// See to the end of a call that no object waits for.
    fn end_call(&self, call: Arc<RunningCall>, reason: StopReason) {
        let grace = self.setup.limits.exit;
        self.spawn_call(async move { call.end(reason, grace).await });
    }

    /// The same for all calls there are. How long that may take.
    pub(super) fn end_all_calls(&self, reason: StopReason) -> Duration {
        let mut longest = Duration::ZERO;
        for call in self.running.all() {
            longest = longest.max(call.longest_end(self.setup.limits.exit));
            self.end_call(call, reason);
        }
        longest
    }
}

/// One call, and where what it comes to belongs.
struct Run {
    shared: Arc<Shared>,
    key: Key,
    about: Arc<Reference>,
    cause: HandlerCall,
    call: Arc<RunningCall>,
    origin: Origin,
}

impl Run {
    async fn run(self) {
        let mut patch = Patch::new();
        let outcome = self.invoke(&mut patch).await;
        let Self {
            shared,
            key,
            cause,
            call,
            origin,
            ..
        } = self;
        shared.running.end(&call);
        let returned = ReturnedCall {
            number: call.number,
            call: cause,
            outcome,
            patch,
            origin,
        };
        let letter = Letter::Returned(vec![returned]);
        if let Some(start) = shared.queue.post(&key, letter) {
            (shared.start_worker)(&shared, start);
        }
    }

    /// The outcome of the call; `None` where the call was cut off.
    async fn invoke(&self, patch: &mut Patch) -> Option<Outcome> {
        let Self {
            shared,
            about,
            cause,
            call,
            ..
        } = self;
        let handler = cause.handler.clone();
        report(cause.logger(), &Happening::Invoked { handler });
        let setup = &shared.setup;
        let book = setup.notes.as_ref();
        let mut call_note = book.map(|it| it.begin(cause, about, &setup.persistence));
        let outcome = {
            let invoked = shared
                .invoker
                .invoke_in_background(cause, about, patch, &call.cancelled);
            let invoked = async {
                let kind = cause.handler.background().map(|(kind, _)| kind);
                if kind == Some(BackgroundKind::Timer) {
                    let clock = shared.setup.clock;
                    return told_while_running(cause, clock, || false, invoked).await;
                }
                // A daemon may run for as long as it likes.
                let mut invoked = pin!(invoked);
                let soon = tokio::time::timeout(SUSPICIOUS, &mut invoked).await;
                if let Ok(outcome) = soon {
                    return outcome;
                }
                if let Some(note) = call_note.take() {
                    note.end(true);
                }
                invoked.await
            };
            tokio::select! {
                biased;
                outcome = invoked => outcome.ok(),
                () = call.abandoned.cancelled() => None,
            }
        };
        let has_returned = outcome.is_some();
        if let Some(note) = call_note {
            note.end(has_returned);
        }
        patch.sign(&cause.handler.id);
        outcome
    }
}
