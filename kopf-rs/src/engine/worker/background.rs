//! Runs the daemons and timers of one object: their calls run concurrently with its worker, and their ends are messages in its mailbox.
//!
//! The plan decides what to call and when; the worker writes their changes together with all others. Must not know schedules, nor when a
//! daemon is cut off.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;
use tokio::time::Instant;

use crate::engine::background_call::BackgroundCall;
use crate::engine::invoke::guarded;
use crate::engine::mailbox::{ChangedChildren, ReturnedCall, Snapshot};
use crate::engine::reconcile_slots::Slot;
use crate::engine::running_calls::RunningCall;
use crate::engine::watchdog::watched;
use crate::engine::worker::planning::ask_pause;
use crate::engine::worker::{Due, SOON, Worker};
use crate::handler::again::AgainCell;
use crate::handler::cause::Attempt;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::live::Live;
use crate::handler::outcome::Outcome;
use crate::handler::stopped::{StopReason, Stopped};
use crate::handler::subject::{BackgroundSubject, Subject, SubjectObject};
use crate::happening::calls::UserCode;
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::reaction::background::{Returned, Times, is_reconcile};
use crate::reaction::background_plan::{BackgroundPlan, Step};
use crate::reaction::judge::Judge;
use crate::reaction::settle::deliver;

impl Worker {
    /// Serves daemons and timers that are due, because the object is as it was planned for. Returns when to requeue the object: now if their
    /// plan requires a write.
    pub(super) fn serve_due_background(&mut self) -> Due {
        let was_held = self.memory.is_held_in_background(true);
        match self.run_background_plan(&self.origin(), true) {
            Err(due) => due,
            Ok(has_failed) => {
                let is_held = self.memory.is_held_in_background(true);
                let is_to_be_written = self.memory.seen.wanted_in_background().is_some();
                if has_failed || is_to_be_written || is_held != was_held { Due::Now } else { Due::Never }
            }
        }
    }

    /// Plans for daemons and timers, and executes the plan. Returns whether a handler has failed without a call, or when to requeue the
    /// object if there is no plan.
    pub(super) fn run_background_plan(&mut self, state: &Snapshot, is_free: bool) -> Result<bool, Due> {
        let planned = self.background_plan(state, is_free);
        let (mut planned, body) = planned.map_err(|why| self.without_plan(&why))?;
        let has_failed = !planned.failed.is_empty();
        self.report_all(std::mem::take(&mut planned.told));
        for handler in &planned.suspended {
            self.context.tell_suspended(handler, false);
        }
        self.run_in_background(planned, &body, state);
        Ok(has_failed)
    }

    /// Executes the plan for the daemons and timers of the object in `state`, which `body` holds as a tree. If no call may start any more,
    /// it does not remember the plan either.
    pub(super) fn run_in_background(&mut self, planned: BackgroundPlan, body: &Arc<Body>, state: &Snapshot) {
        let BackgroundPlan { memory, steps, failed, patch, .. } = planned;
        for handler in failed {
            self.shared().failures.add(&handler.id, &self.context.about);
        }
        let is_none = self.memory.background().is_none() && memory.is_empty();
        if is_none || !self.context.may_call() {
            return;
        }
        if !self.shared().setup.cluster.may_begin() {
            // The term is over: the worker waits for the message that ends it.
            self.memory.background_or_default().due = Some(Instant::now() + SOON);
            return;
        }
        self.memory.background_or_default().memory = memory;
        self.memory.seen.background_is_planned();
        if !patch.is_empty() {
            self.memory.seen.keep_of_background(patch);
        }
        let mut waits = false;
        for step in steps {
            match step {
                Step::Call { handler, .. } if self.has_call_of(&handler) => self.put_off(&handler),
                Step::Call { handler, attempt } => {
                    let slot = self.slot_for(&handler, state);
                    if slot.is_none() && is_reconcile(&handler) {
                        self.put_off(&handler);
                        waits = true;
                    } else {
                        self.call_in_background(handler, attempt, slot, (body, state));
                    }
                }
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
        self.slot.finish_plan(waits);
        if let Some(background) = self.memory.background_mut() {
            for call in background.calls() {
                call.live.set_text(state.raw.clone());
            }
            if waits {
                background.memory.hold_reconcilers(true);
            }
        }
        self.schedule_background(SOON);
    }

    /// Takes the concurrency slot that a call of a level-triggered handler needs; `None` if there is none, or none is needed.
    fn slot_for(&mut self, handler: &Handler, state: &Snapshot) -> Option<Slot> {
        if !is_reconcile(handler) {
            return None;
        }
        let slots = &self.context.shared.reconcile_slots;
        self.slot.take(slots, state.kind.id)
    }

    /// Returns whether a slot is free for a call that waits for one. If none is, the worker is woken as soon as there is.
    pub(super) fn has_slot(&mut self) -> bool {
        if !self.slot.waits() || !matches!(self.due, Due::Never | Due::At(_)) {
            return false;
        }
        let slots = &self.context.shared.reconcile_slots;
        let wake = self.context.wake();
        self.slot.enqueue(slots, self.kind.id, wake)
    }

    /// Returns whether a call of the handler for the former uid still runs, which happens after the server was restored from a backup.
    fn has_call_of(&self, handler: &Handler) -> bool {
        let running = &self.shared().running;
        running.has(&self.context.key, handler)
    }

    fn put_off(&mut self, handler: &Handler) {
        let now = self.shared().setup.clock.now();
        let background = self.memory.background_or_default();
        background.memory.put_off(handler, now);
    }

    fn running(&self, handler: &Arc<Handler>) -> Option<&Arc<RunningCall>> {
        let background = self.memory.background()?;
        let mut calls = background.calls().iter();
        calls.find(|call| Arc::ptr_eq(&call.handler, handler))
    }

    fn call_in_background(
        &mut self,
        handler: Arc<Handler>,
        attempt: Attempt,
        slot: Option<Slot>,
        (body, state): (&Arc<Body>, &Snapshot),
    ) {
        let (stopped, live) = (Stopped::new(), Live::of_text(state.raw.clone()));
        let logger = self.context.logger().clone();
        let shared = &self.context.shared;
        let begun = (stopped.clone(), live.clone());
        let whose = (self.context.key.clone(), handler.clone());
        let call = shared.running.begin(whose, logger, begun, slot);
        // Short calls share the present tree; a daemon parses its own on demand, because it would hold the tree for its whole life.
        let is_daemon = handler.kind == HandlerKind::Daemon;
        let body = if is_daemon { Arc::new(state.raw.body_later()) } else { body.clone() };
        let subject = Subject::Background(BackgroundSubject {
            again: AgainCell::default(),
            object: SubjectObject { resource: state.kind.resource.clone(), body },
            live,
            stopped,
        });
        let task = BackgroundCall {
            shared: shared.clone(),
            key: self.context.key.clone(),
            about: self.context.about.clone(),
            kind: state.kind.clone(),
            cause: HandlerCall::new(handler, self.surroundings.clone(), attempt, subject),
            call: call.clone(),
        };
        shared.spawn_call(task.run().boxed());
        if !shared.gate.is_open() {
            shared.end_call(call.clone(), StopReason::OPERATOR_EXITING);
        } else if !self.context.may_call() {
            // A shutdown or a pause that ended all calls in the meantime did not see this one.
            shared.end_call(call.clone(), shared.why_unwatched());
        }
        let background = self.memory.background_or_default();
        background.begins(call);
    }

    /// Schedules the next plan for daemons and timers. Work that is already due waits for `soon`.
    fn schedule_background(&mut self, soon: Duration) {
        let clock = self.context.shared.setup.clock;
        let wall_ahead = self.context.shared.wall.ahead();
        let Some(background) = self.memory.background_mut() else {
            return;
        };
        if background.memory.is_empty() && !background.has_calls() {
            self.memory.take_background();
            return;
        }
        let earliest = Instant::now() + soon;
        let due = background.memory.due(wall_ahead);
        let due = due.map(|at| clock.instant(at));
        background.due = due.map(|due| if due <= Instant::now() { earliest } else { due });
    }

    /// Schedules the next plan for daemons and timers for this time, and not earlier.
    pub(super) fn look_at_background_at(&mut self, at: Timestamp) {
        let at = self.shared().setup.clock.instant(at);
        if let Some(background) = self.memory.background_mut() {
            background.due = Some(at);
        }
    }

    /// Drops the schedule because the object could not be planned for: the next plan considers daemons and timers again.
    pub(super) fn leave_background(&mut self) {
        if let Some(background) = self.memory.background_mut() {
            background.due = None;
        }
    }

    /// Notes that children of the object have changed, or that a trigger has fired for it.
    pub(super) fn children_changed(&mut self, children: &ChangedChildren) {
        let now = self.shared().setup.clock.now();
        let mut concerns_changes = false;
        for kind in &children.kinds {
            let handlers = &self.kind.handlers;
            concerns_changes |= self.memory.seen.child_changed(kind, handlers);
            if let Some(background) = self.memory.background_mut() {
                background.memory.child_changed(kind, now);
            }
        }
        if children.is_triggered
            && let Some(background) = self.memory.background_mut()
        {
            background.memory.triggered(now);
        }
        if concerns_changes && matches!(self.due, Due::Never | Due::At(_)) {
            self.due = Due::Now;
        }
        self.schedule_background(Duration::ZERO);
    }

    /// Lets level-triggered handlers run, which come after the handlers of changes.
    pub(super) fn release_reconcilers(&mut self) {
        if let Some(background) = self.memory.background_mut() {
            background.memory.hold_reconcilers(false);
        }
        self.schedule_background(Duration::ZERO);
    }

    /// Processes calls that have ended.
    pub(super) fn returned(&mut self, calls: Vec<ReturnedCall>) {
        for call in calls {
            self.has_returned(call);
        }
        self.schedule_background(Duration::ZERO);
    }

    fn has_returned(&mut self, returned: ReturnedCall) {
        let ReturnedCall { number, call, outcome, mut patch, .. } = returned;
        let Some(ended) = self.judge_returned((number, &patch), &call, outcome) else {
            return;
        };
        if let Some(result) = ended.result {
            deliver(&mut patch, &call.handler.id, result);
        }
        if let Some(ran) = ended.ran {
            self.keep_identity(&mut patch);
            let persistence = &self.shared().setup.persistence;
            persistence.note_run(&call.handler.id, ran, call.body(), &mut patch);
        }
        if ended.failed {
            self.shared().failures.add(&call.handler.id, &self.context.about);
        }
        if !patch.is_empty() {
            self.keep_patch(patch);
        }
        // Other calls may wait for the end of this one.
        if ended.is_over && self.due != Due::Gone {
            self.due = Due::Now;
        }
        // The outcome may be shown as a condition.
        let shows_outcomes = self.shared().setup.policy.shows_outcomes;
        if shows_outcomes && matches!(self.due, Due::Never | Due::At(_)) {
            self.due = Due::Now;
        }
    }

    /// Judges a call that has ended; `None` if this object has no such call any more.
    fn judge_returned(
        &mut self,
        (number, patch): (u64, &Patch),
        call: &HandlerCall,
        outcome: Option<Outcome>,
    ) -> Option<Returned> {
        let shared = self.context.shared.clone();
        let now = shared.setup.clock.now();
        let judge = Judge { now, backoff: shared.setup.policy.backoff, random: shared.rng().next_f64() };
        let times = Times { judge, wall_ahead: shared.wall.ahead(), ask: ask_pause };
        let background = self.memory.background_mut()?;
        if !background.ends(number) {
            return None;
        }
        let mut told = Vec::new();
        let memory = &mut background.memory;
        let filters = self.kind.filters.clone().map(UserCode::Filters);
        let code = filters.into_iter().collect();
        let judged = watched(code, self.context.logger(), || {
            // Panics in functions of the patch are reported when the patch is written.
            let _ = guarded(|| {
                memory.wanted(call, patch, &shared.setup.persistence, &mut told);
            });
            memory.returned(call, outcome, times, &mut told)
        });
        let ended = judged.unwrap_or_default();
        for handling in told {
            self.context.report(&handling);
        }
        Some(ended)
    }

    /// Keeps the changes that a daemon or timer wants: the next cycle writes them, or a write of their own if the cycle has to wait.
    fn keep_patch(&mut self, mut patch: Patch) {
        self.keep_identity(&mut patch);
        self.memory.seen.keep_of_background(patch);
        // This change has its origin in the clock, so it does not continue a loop of self-triggered changes, unless handlers react to their
        // own changes now.
        if matches!(self.due, Due::Never | Due::At(_)) {
            self.memory.recent.self_triggered.end();
        }
        self.unwritten_outcome = true;
        if !matches!(self.due, Due::Gone | Due::Paused(_)) {
            self.due = Due::Now;
        }
    }

    // === the end ===

    /// Ends all calls for an object that is deleted, without waiting for them.
    pub(super) fn release_background(&mut self, reason: StopReason) {
        if let Some(mut background) = self.memory.take_background() {
            for call in background.take_calls() {
                self.shared().end_call(call, reason);
            }
        }
    }

    /// Ends all calls for the object, and starts no further ones.
    pub(super) fn end_background(&mut self, reason: StopReason) {
        let now = self.shared().setup.clock.now();
        if let Some(background) = self.memory.background_mut() {
            background.memory.stop(reason, now);
            background.due = None;
            for call in background.calls() {
                self.context.shared.end_call(call.clone(), reason);
            }
        }
    }

    /// Processes the calls that have ended.
    pub(super) fn take_returned(&mut self) {
        let returned = self.shared().queue.take_returned(&self.context.key);
        self.returned(returned);
    }
}
