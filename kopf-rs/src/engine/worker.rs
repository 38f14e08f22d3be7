//! The life cycle of one busy object: take the newest state, plan, call, settle, write; repeat until nothing is due; then become idle.
//!
//! Must not know what a plan contains.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::Instrument;

use crate::engine::caller::Caller;
use crate::engine::context::WorkerContext;
use crate::engine::invoke::Cancelled;
use crate::engine::mailbox::{Mailbox, Message, Pending, Snapshot};
use crate::engine::memory::{Memory, Missing, Version};
use crate::engine::queue::WorkerStart;
use crate::engine::reconcile_slots::SlotRequest;
use crate::engine::report::{about, report_quietly};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::shared::Shared;
use crate::engine::transform::keep_identity;
use crate::engine::writer::Writer;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::stopped::StopReason;
use crate::happening::handling::Handling;
use crate::object::event::EventType;
use crate::object::lazy_json::Outline;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::reaction::judge::since;
use crate::reaction::plan::Plan;
use crate::reaction::settle::Effects;
use crate::rt::backoff::Backoff;

mod background;
mod background_writes;
mod beside_calls;
mod last_writes;
mod missing;
mod observed;
mod planning;
mod write;

/// The longest sleep of a worker that waits for a message: it checks again after this time even without one.
const LONG: Duration = Duration::from_secs(3600);

/// Works for an object until it is idle.
pub(crate) async fn work(shared: Arc<Shared>, mut start: WorkerStart) {
    let newest = |mailbox: &Mailbox| Some((mailbox.origin()?, mailbox.state().is_some()));
    loop {
        if let Some(newest) = shared.queue.peek(&start.key, newest).flatten() {
            let mut worker = Worker::new(shared, start, newest);
            loop {
                // Boxed because a worker that waits for its next cycle must be small.
                match worker.next().await {
                    Next::Turn(turn) => Box::pin(worker.turn(turn)).await,
                    Next::Stop => return Box::pin(worker.stop()).await,
                    Next::Released => return,
                }
            }
        }
        // The watch has ended before the worker could begin.
        match shared.queue.remove(&start.key) {
            Some(memory) => start.memory = memory,
            None => return,
        }
    }
}

/// The worker of one object.
pub(super) struct Worker {
    pub(super) context: WorkerContext,
    pub(super) kind: Arc<ResourceHandlers>,
    /// The newest known state.
    pub(super) raw: Raw,
    /// A newer state may exist and has to be read.
    pub(super) outdated: bool,
    pub(super) memory: Memory,
    pub(super) writer: Writer,
    pub(super) trouble: Trouble,
    pub(super) due: Due,
    /// Outcomes of handlers have not been written yet.
    pub(super) unwritten_outcome: bool,
    /// The object was not found when it was last read, and no watch has reported a deletion yet.
    pub(super) missing: Option<Missing>,
    /// Daemons and timers have made progress while handlers were called, so an earlier plan for them is outdated.
    pub(super) background_went_on: bool,
    /// The slot, or the request for one, of a level-triggered handler.
    pub(super) slot: SlotRequest,
    /// Lines that are reported once, until no work is left.
    said: BTreeSet<String>,
    /// When the handled change arrived, if metrics or traces need it.
    changed: Option<Instant>,
    pub(super) surroundings: CauseContext,
}

/// The failures of this object since its last success.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) refusals: Backoff,
    pub(super) refused: u32,
    pub(super) absences: Backoff,
    pub(super) panics: Backoff,
}

/// Why there are no effects.
enum Halt {
    /// The operator stops; the patch holds the changes of raw-event handlers.
    Stopped(Patch),
    Later(Due),
}

/// The worker's next action.
enum Next {
    Turn(Turn),
    /// The operator stops.
    Stop,
    /// The object is idle, or is forgotten. From then on it may have another worker, so this one must not touch its messages.
    Released,
}

/// The next step.
enum Turn {
    /// Handle a message.
    Message(Message),
    /// Handle the newest known state again: a reply, or the same state after a pause.
    Again,
    /// Serve daemons and timers while everything else pauses.
    Background,
}

/// Delay before another attempt to start calls that are due and could not start.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// When to requeue the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Timestamp),
    /// Not earlier, whatever daemons and timers do meanwhile: a failure, or self-triggered changes.
    Paused(Timestamp),
    /// When a message arrives.
    Never,
    /// The object is deleted.
    Gone,
    /// The object is no longer watched.
    Unwatched,
    /// The operator stops.
    Stopped,
}

// === impl Worker ===

impl Worker {
    fn new(shared: Arc<Shared>, start: WorkerStart, (newest, is_state): (Snapshot, bool)) -> Self {
        let Snapshot { raw, kind } = newest;
        let version = Version::of(&raw.facts().resource_version);
        let is_newest = is_state || version != Version::Unknown && version == start.memory.version;
        let facts = raw.facts();
        let about = Arc::new(about(&kind.resource, facts));
        let surroundings = CauseContext {
            logger: Logger::of(about.clone()),
            memo: Memo::default(),
            extensions: shared.setup.extensions.clone(),
        };
        let context = WorkerContext::new(shared, start.key, about, start.wake);
        let mut worker = Self {
            surroundings,
            writer: Writer::new(&context),
            context,
            kind,
            raw,
            outdated: !is_newest,
            memory: Memory::default(),
            trouble: Trouble::default(),
            due: Due::Never,
            slot: SlotRequest::default(),
            said: BTreeSet::new(),
            unwritten_outcome: false,
            missing: None,
            background_went_on: false,
            changed: None,
        };
        worker.recall(start.memory);
        worker
    }

    /// Waits for the next work, and for the permits to do it, so that a plan always sees the newest state.
    async fn next(&mut self) -> Next {
        self.context.leave_place();
        self.slot.release();
        loop {
            if matches!(self.due, Due::Gone | Due::Unwatched) && self.forget().is_none() {
                return Next::Released;
            }
            if self.due == Due::Stopped || !self.shared().gate.is_open() {
                return Next::Stop;
            }
            if self.has_slot() {
                self.due = Due::Now;
            }
            let has_message = self.debounce().await;
            if has_message || self.due == Due::Now {
                return self.begin(has_message).await;
            }
            if let Due::Paused(at) = self.due {
                if let Some(next) = self.pause(at).await {
                    return next;
                }
                continue;
            }
            if let Due::At(at) = self.due {
                let at = self.shared().setup.clock.instant(at);
                let at = self.memory.due().map_or(at, |due| at.min(due));
                if self.context.sleep_until(at).await {
                    self.due = Due::Now;
                }
                continue;
            }
            if self.memory.due().is_some_and(|due| due <= Instant::now()) {
                self.due = Due::Now;
                continue;
            }
            // If it became idle now, an object that has left its selector would have handlers again after a call returns.
            let is_leaving = self.kind.has_left && self.memory.has_calls();
            if is_leaving || self.is_ticking() || self.slot.waits() {
                let due = self.memory.due().unwrap_or(Instant::now() + LONG);
                if self.context.sleep_until(due).await {
                    self.due = Due::Now;
                }
                continue;
            }
            if self.kind.has_left {
                self.due = Due::Unwatched;
                continue;
            }
            let memory = self.rested();
            let Some(memory) = self.shared().queue.rest(&self.context.key, memory) else {
                return Next::Released;
            };
            self.recall(memory);
        }
    }

    /// Forgets an object that is gone or no longer watched. Returns `None` unless it is known again by now.
    fn forget(&mut self) -> Option<()> {
        self.note_waiting(Vec::new());
        let (shared, key) = (self.context.shared.clone(), self.context.key.clone());
        if self.due == Due::Gone {
            shared.indexing.forget(&key);
            self.start_over(shared.queue.remove(&key)?);
        } else {
            let memory = self.rested();
            let again = shared.queue.forget(&key, memory);
            if again.is_none() && !shared.queue.remembers(&key) {
                shared.indexing.forget(&key);
            }
            self.recall(again?);
            self.due = Due::Now;
        }
        Some(())
    }

    /// Sleeps until `at` or until a message arrives. If daemons or timers are due earlier, returns a step that serves only them.
    async fn pause(&mut self, at: Timestamp) -> Option<Next> {
        let at = self.shared().setup.clock.instant(at);
        let now = Instant::now();
        let background = self.background_due();
        if at <= now {
            self.due = Due::Now;
        } else if background.is_some_and(|due| due <= now) {
            if self.context.begin().await {
                return Some(Next::Turn(Turn::Background));
            }
            // Otherwise a message waits, unless the operator stops.
            return (!self.shared().gate.is_open()).then_some(Next::Stop);
        } else {
            let at = background.map_or(at, |due| at.min(due));
            self.context.sleep_until(at).await;
        }
        None
    }

    /// Returns whether the operator runs with `once` and waits for timers of the object.
    pub(super) fn is_ticking(&self) -> bool {
        let setup = &self.shared().setup;
        setup.once && self.memory.is_ticking(setup.clock.now())
    }

    /// Waits for the permits, and returns the work to do by then. A message that only repeats known facts yields to a cycle that is due: a
    /// handler that changes its object on every event would otherwise delay it for ever.
    async fn begin(&mut self, has_message: bool) -> Next {
        self.slot.cancel();
        if !has_message {
            // In-memory requests complete at once, so without this a busy object would starve the other tasks of its thread.
            tokio::task::yield_now().await;
        }
        if !self.context.begin().await && !self.shared().gate.is_open() {
            return Next::Stop;
        }
        let (shared, key) = (&self.context.shared, &self.context.key);
        let matters = |it: &Mailbox| has_message || it.is_unwatched() || it.has_news(&self.memory);
        let message =
            if shared.queue.peek(key, matters) == Some(true) { shared.queue.take(key) } else { None };
        Next::Turn(message.map_or(Turn::Again, Turn::Message))
    }

    /// Returns whether a message has arrived. Debounces bursts of changes first, except for deletions.
    async fn debounce(&mut self) -> bool {
        let memory = &self.memory;
        let look = |it: &Mailbox| (it.is_empty(), it.change(memory).map(|state| state.arrived));
        let waiting = self.shared().queue.peek(&self.context.key, look);
        let Some((false, changed)) = waiting else {
            return false;
        };
        if let Some(pause) = changed.and_then(|arrived| self.memory.recent.pace.pause(arrived)) {
            self.context.pause(pause).await;
        }
        true
    }

    async fn turn(&mut self, turn: Turn) {
        if !self.may_begin(&turn).await {
            self.due = self.not_begun(turn);
            return;
        }
        match turn {
            Turn::Message(Message::Unwatched) => self.due = self.unwatched().await,
            Turn::Message(Message::State(state)) if state.is_deletion() => {
                self.report_interruption();
                self.raw = state.raw;
                self.due = self.deleted().await;
            }
            Turn::Message(Message::State(state)) if state.is_absence() => {
                self.report_interruption();
                self.due = self.absent(state).await;
            }
            Turn::Message(Message::State(state)) if self.is_echo(&state) => {
                if self.kind.is_same(&state.kind) {
                    self.echo(&state).await;
                } else {
                    self.look_as(state).await;
                }
            }
            Turn::Message(Message::State(state)) => {
                self.report_interruption();
                self.meter_state(state.arrived);
                self.memory.recent.self_triggered.end();
                self.missing = None;
                self.kind = state.kind;
                self.know(state.raw);
                self.due = self.cycle(Some(state.event)).await;
            }
            Turn::Message(Message::TakenOver(origin)) => self.due = self.taken_over(origin).await,
            Turn::Message(Message::Returned(calls)) => self.returned(calls),
            Turn::Message(Message::ChildrenChanged(children)) => self.children_changed(&children),
            Turn::Background => self.due = self.background_alone().await,
            Turn::Message(Message::Due(_)) if self.missing.is_none() && self.outdated => {
                self.due = self.look_for_due_background().await;
            }
            Turn::Message(Message::Due(_)) | Turn::Again => {
                self.due = match self.missing.take() {
                    Some(missing) => self.look_for_it(missing.event).await,
                    None if self.outdated => self.look_for_it(None).await,
                    None => self.cycle(None).await,
                };
            }
        }
        let is_old = std::mem::take(&mut self.background_went_on);
        if is_old && matches!(self.due, Due::Never | Due::At(_)) {
            self.due = Due::Now;
        }
        if !self.unwritten_outcome && self.missing.is_none() {
            self.writer.leave_outage();
        }
        if self.due == Due::Never {
            self.changed = None;
        }
        self.memory.recent.pace.ended(Instant::now());
    }

    /// Waits until the cycle may begin. Returns `false` if it may not.
    async fn may_begin(&mut self, turn: &Turn) -> bool {
        match turn {
            // The end of the watch is handled at once, whatever else the worker waits for.
            Turn::Message(Message::Unwatched) => self.shared().gate.is_open(),
            _ => self.context.is_indexed().await,
        }
    }

    /// Handles a cycle that may not begin, and keeps what no other message will repeat. Returns when to requeue the object.
    fn not_begun(&mut self, turn: Turn) -> Due {
        match turn {
            // The outcomes of the calls are still written.
            Turn::Message(Message::Returned(calls)) => self.returned(calls),
            Turn::Message(Message::State(state)) if state.is_absence() => return self.absence_is_left(),
            _ => {}
        }
        self.halted()
    }

    /// Returns when to requeue the object after a cycle that may not begin: the operator stops, or another message comes first.
    pub(super) fn halted(&self) -> Due {
        if self.shared().gate.is_open() { Due::Now } else { Due::Stopped }
    }

    /// Takes the object over from another instance: reads it, and begins as at the operator's start. Drops the memory of an unfinished
    /// cycle, except for writes that are pending after a pause; in another term, the other instance has repeated that work. Returns when to
    /// requeue it.
    async fn taken_over(&mut self, origin: Snapshot) -> Due {
        self.kind = origin.kind;
        self.unwritten_outcome &= self.context.term().is_none();
        let seen = std::mem::take(&mut self.memory.seen);
        self.memory.seen = seen.begun_anew(self.unwritten_outcome);
        self.trouble = Trouble::default();
        self.writer = Writer::new(&self.context);
        // Other instances have changed it since.
        self.outdated = true;
        self.look_for_it(Some(EventType::Listed)).await
    }

    /// Starts over with an object of the same uid, as if it had just been seen for the first time.
    fn start_over(&mut self, memory: Memory) {
        self.recall(memory);
        self.trouble = Trouble::default();
        self.due = Due::Never;
        self.writer = Writer::new(&self.context);
        self.unwritten_outcome = false;
        self.missing = None;
        self.slot = SlotRequest::default();
        self.said = BTreeSet::new();
    }

    /// Runs one cycle: plan, call, settle, write. Returns when to requeue the object.
    pub(super) async fn cycle(&mut self, event: Option<EventType>) -> Due {
        let plan = match self.plan(event, &self.kind.handlers) {
            Ok(plan) => plan,
            Err(why) => return self.without_plan(&why),
        };
        let span = self.span_of(&plan);
        let carried_out = self.execute_plan(plan, event.is_some());
        carried_out.instrument(span).await
    }

    /// Executes a plan: makes its calls, and writes their outcomes. Returns when to requeue the object.
    async fn execute_plan(&mut self, plan: Plan, watching: bool) -> Due {
        match self.act(plan, watching).await {
            Ok(mut effects) => {
                let finished = effects.concluded && effects.wake_at.is_none();
                self.note_waiting(std::mem::take(&mut effects.waiting));
                let due = self.deliver(effects).await;
                if finished {
                    self.context.report(&Handling::CycleFinished);
                }
                self.report_sleep(due);
                due
            }
            Err(Halt::Later(due)) => due,
            Err(Halt::Stopped(patch)) => {
                // Raw-event handlers are not called again for this event, so their changes are written now.
                self.deliver_extra(&patch).await;
                Due::Stopped
            }
        }
    }

    /// Handles a deleted object: nothing can be written, but handlers without a finalizer may still be due. Returns [`Due::Gone`] unless the
    /// operator stops.
    pub(super) async fn deleted(&mut self) -> Due {
        self.release_background(StopReason::RESOURCE_DELETED);
        for round in 0..=self.kind.handlers.len() {
            let plan = match self.plan(Some(EventType::Deleted), &self.kind.handlers) {
                Ok(plan) => plan,
                Err(why) => {
                    self.without_plan(&why);
                    break;
                }
            };
            let last = plan.changing.is_empty();
            match self.act(plan, round == 0).await {
                Ok(effects) => self.memory.seen = effects.seen_if_refused,
                Err(Halt::Stopped(_)) => return Due::Stopped,
                Err(Halt::Later(_)) => break,
            }
            if last {
                break;
            }
        }
        self.context.forget_calls();
        Due::Gone
    }

    /// Shows a known state to raw-event handlers only.
    async fn echo(&mut self, state: &Pending) {
        if state.kind.watching.is_empty() {
            return;
        }
        if let Some(pause) = self.memory.recent.self_triggered.pause()
            && !(self.context.pause(pause).await && self.context.begin().await)
        {
            return;
        }
        let newest = std::mem::replace(&mut self.raw, state.raw.clone());
        let planned = self.plan(Some(state.event), &state.kind.watching);
        self.raw = newest;
        let plan = match planned {
            Ok(plan) => plan,
            Err(why) => {
                self.without_plan(&why);
                return;
            }
        };
        let mut patch = Patch::new();
        let calls = Caller::of(&self.context);
        let calls = calls.show_event(&plan.watching, &mut patch);
        // A cancelled call has changed nothing; the changes of the others are written.
        let _ = self.call_beside_background(calls).await;
        self.keep_identity(&mut patch);
        self.deliver_extra(&patch).await;
    }

    /// Makes the calls of a plan. Returns the effects to write.
    async fn act(&mut self, mut plan: Plan, watching: bool) -> Result<Effects, Halt> {
        self.report_all(std::mem::take(&mut plan.told));
        let background = std::mem::take(&mut plan.background);
        self.run_in_background(background, plan.body(), &self.origin());
        for handler in &plan.suspended {
            self.context.tell_suspended(handler, self.is_waited_for(handler));
        }
        let mut patch = Patch::new();
        let calls = Caller::of(&self.context);
        let calls = calls.make(&plan, watching, &mut patch);
        let called = if plan.is_of_gone_object() {
            self.context.call(calls).await
        } else {
            self.call_beside_background(calls).await
        };
        let is_held = self.memory.is_held_in_background(!plan.body().is_deleting());
        if !plan.changing.is_empty() {
            self.release_reconcilers();
        }
        plan.background_went_on(&self.memory.seen, is_held);
        self.keep_identity(&mut patch);
        match called {
            // The term is over: the worker waits for the message that ends it.
            Err(Cancelled) if self.shared().gate.is_open() => Err(Halt::Later(Due::At(self.at(SOON)))),
            Err(Cancelled) => Err(Halt::Stopped(patch)),
            Ok(attempted) => self.settle(plan, attempted, patch).map_err(Halt::Later),
        }
    }

    /// Returns whether a deletion of the object waits for the handler.
    fn is_waited_for(&self, handler: &Handler) -> bool {
        let holds = |it: &Arc<Handler>| it.id == handler.id && it.needs_finalizer();
        let finalizer = &self.shared().setup.persistence.finalizer;
        handler.is_for_changes()
            && self.kind.handlers.iter().any(holds)
            && Outline::of(&self.raw).is_some_and(|it| it.is_deleting() && it.has_finalizer(finalizer))
    }

    /// Stores `raw` as the newest state.
    pub(super) fn know(&mut self, raw: Raw) {
        self.memory.version = Version::of(&raw.facts().resource_version);
        self.raw = raw;
        self.outdated = false;
    }

    /// Stores the answer to an own request as the newest state. States that were listed before it count as old.
    pub(super) fn know_reply(&mut self, reply: Raw) {
        self.memory.recent.answered = Some(Instant::now());
        self.know_answer(reply);
    }

    /// Stores a state from an answer of the server, and indexes it, since no watch has reported it yet.
    pub(super) fn know_answer(&mut self, raw: Raw) {
        let WorkerContext { shared, key, .. } = &self.context;
        shared.index_answer(key, &self.kind, &raw);
        self.know(raw);
    }

    /// Removes fields of the server from the patch of handlers.
    pub(super) fn keep_identity(&self, patch: &mut Patch) {
        keep_identity(self.context.logger(), &self.raw, patch);
    }

    /// Returns the newest known state with its handlers.
    pub(super) fn origin(&self) -> Snapshot {
        Snapshot { raw: self.raw.clone(), kind: self.kind.clone() }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.context.shared
    }

    /// Reports handlings. A line that every cycle would repeat is logged at DEBUG after the first time.
    pub(super) fn report_all(&mut self, told: Vec<Handling>) {
        for handling in told {
            let is_news = handling.recurring().is_none_or(|key| self.said.insert(key));
            if matches!(handling, Handling::Processed { .. }) {
                self.meter_change();
            }
            if is_news {
                self.context.report(&handling);
            } else {
                report_quietly(self.context.logger(), &handling);
            }
        }
    }

    /// Notes the handlers that wait for their next attempt, if a status page may ask for them.
    fn note_waiting(&self, waiting: Vec<(Arc<str>, Timestamp)>) {
        if let Some(calls) = &self.shared().setup.calls {
            let clock = self.shared().setup.clock;
            let waiting = waiting.into_iter().map(|(handler, at)| (handler, clock.instant(at)));
            calls.wait(&self.context.about, waiting.collect());
        }
    }

    fn report_sleep(&self, due: Due) {
        if let Due::At(at) | Due::Paused(at) = due {
            let pause = since(self.shared().setup.clock.now(), at);
            self.context.report(&Handling::Sleeps { pause });
        }
    }

    /// Reports the end of a sleep. As in Kopf, a message that arrived before the sleep interrupts it as well, so that the log shows both.
    fn report_interruption(&self) {
        if let Due::At(at) | Due::Paused(at) = self.due {
            let left = since(self.shared().setup.clock.now(), at);
            self.context.report(&Handling::SleepInterrupted { left });
        }
    }

    /// Returns whether an operator with `once` stops retrying after this many failures.
    pub(super) fn gives_up(&self, times: u32) -> bool {
        const ENOUGH: u32 = 5;
        self.shared().setup.once && times >= ENOUGH
    }

    /// Returns a pause from now on.
    pub(super) fn after(&self, pause: Duration) -> Due {
        Due::Paused(self.at(pause))
    }

    /// Returns the end of a pause that begins now.
    pub(super) fn at(&self, pause: Duration) -> Timestamp {
        let now = self.shared().setup.clock.now();
        now.checked_add(pause).unwrap_or(Timestamp::MAX)
    }

    fn recall(&mut self, mut memory: Memory) {
        let own = memory.memo.take();
        self.surroundings.memo = self.shared().indexing.memo(&self.context.key, own);
        self.memory = memory;
    }

    fn rested(&mut self) -> Memory {
        let mut memory = std::mem::take(&mut self.memory);
        let memo = std::mem::take(&mut self.surroundings.memo);
        memory.memo = self.shared().indexing.rest(&self.context.key, memo);
        memory
    }
}

impl Default for Trouble {
    fn default() -> Self {
        let patient = || Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        Self { refusals: patient(), refused: 0, absences: patient(), panics: patient() }
    }
}

#[cfg(test)]
mod tests;
