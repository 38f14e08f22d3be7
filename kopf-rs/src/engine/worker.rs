//! The life of one busy object: take the newest state, plan, call, settle, write; again until nothing is due; then rest.
//!
//! Must not know what a plan is made of.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::Instrument;

use crate::engine::context::WorkerContext;
use crate::engine::invoke::Cancelled;
use crate::engine::mailbox::{Letter, Mailbox, Origin, Pending};
use crate::engine::memory::{Memory, Missing, Version};
use crate::engine::planned_calls::PlannedCalls;
use crate::engine::queue::WorkerStart;
use crate::engine::reconcile_slots::SlotWish;
use crate::engine::report::{about, report_quietly};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::shared::Shared;
use crate::engine::transform::Transformer;
use crate::engine::writer::Writer;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::stopped::StopReason;
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::object::event::EventType;
use crate::object::outline::Outline;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::reaction::member::since;
use crate::reaction::planned::Plan;
use crate::reaction::settle::Effects;
use crate::rt::backoff::Backoff;
use crate::wording::Line;

mod observed;

/// What is awaited as a letter is looked for that often all the same.
const LONG: Duration = Duration::from_secs(3600);

/// Work for an object until it may rest.
pub(crate) async fn work(shared: Arc<Shared>, mut start: WorkerStart) {
    let newest = |mailbox: &Mailbox| Some((mailbox.origin()?, mailbox.state().is_some()));
    loop {
        if let Some(newest) = shared.queue.peek(&start.key, newest).flatten() {
            let mut worker = Worker::new(shared, start, newest);
            loop {
                let next = worker.next().await;
                // Boxed: a worker that waits for its next turn must be small.
                if !Box::pin(worker.go_on(next)).await {
                    return;
                }
            }
        }
        // Not watched any more before the worker could begin.
        match shared.queue.remove(&start.key) {
            Some(memory) => start.memory = memory,
            None => return,
        }
    }
}

/// One object and the worker it has.
pub(super) struct Worker {
    pub(super) context: WorkerContext,
    pub(super) kind: Arc<ResourceHandlers>,
    /// The newest state known.
    pub(super) raw: Raw,
    /// There may be a newer one, which has to be read.
    pub(super) outdated: bool,
    pub(super) memory: Memory,
    pub(super) writer: Writer,
    pub(super) trouble: Trouble,
    pub(super) due: Due,
    /// What handlers have done is still to be written.
    pub(super) unwritten_outcome: bool,
    /// It was not found when it was last asked for, and no watch has told yet that it is gone.
    pub(super) missing: Option<Missing>,
    /// Daemons and timers have gone on while handlers were called: what was planned before that is old.
    pub(super) background_went_on: bool,
    /// A slot for a level-triggered handler, or the wish for one.
    pub(super) slot: SlotWish,
    /// What is said once until there is nothing to do.
    said: BTreeSet<String>,
    /// When the change has come in that is handled, where somebody wants figures.
    changed: Option<Instant>,
    pub(super) surroundings: CauseContext,
}

/// What has gone wrong with this object since it last went well.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) refusals: Backoff,
    pub(super) refused: u32,
    pub(super) absences: Backoff,
    pub(super) panics: Backoff,
    pub(super) panicked: u32,
}

/// Why there are no effects.
enum Halt {
    /// The operator stops; what raw-event handlers want changed.
    Stopped(Patch),
    Later(Due),
}

/// How a worker goes on.
enum Next {
    Turn(Turn),
    /// The operator stops.
    Stop,
    /// The object rests, or is forgotten. From that moment on it may have another worker, whose letters are not to be touched.
    Released,
}

/// What to do next.
enum Turn {
    /// Something has come in.
    Letter(Letter),
    /// Look again at the newest state known: a reply, or the same after a pause.
    Again,
    /// Look after daemons and timers: all else pauses.
    Background,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Timestamp),
    /// Not earlier, whatever daemons and timers do meanwhile: something has failed, or handlers change the object again and again.
    Paused(Timestamp),
    /// When something comes in.
    Never,
    /// The object is no more.
    Gone,
    /// The object is not watched any more.
    Unwatched,
    /// The operator stops.
    Stopped,
}

// === impl Worker ===

impl Worker {
    fn new(shared: Arc<Shared>, start: WorkerStart, (newest, is_state): (Origin, bool)) -> Self {
        let Origin { raw, kind } = newest;
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
            slot: SlotWish::default(),
            said: BTreeSet::new(),
            unwritten_outcome: false,
            missing: None,
            background_went_on: false,
            changed: None,
        };
        worker.recall(start.memory);
        worker
    }

    /// Wait for the next thing to do, and for a place to do it in. What is planned is planned for the newest state.
    async fn next(&mut self) -> Next {
        self.context.leave_place();
        self.slot.give_back();
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
            let has_letter = self.let_a_storm_pass().await;
            if has_letter || self.due == Due::Now {
                return self.begin(has_letter).await;
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
            // At rest, an object that has left its selector would have handlers again once a call returns.
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

    /// The object is gone, or not watched any more. `None` where it is not there again by now.
    fn forget(&mut self) -> Option<()> {
        let (shared, key) = (self.context.shared.clone(), self.context.key.clone());
        if self.due == Due::Gone {
            shared.indexing.forget(&key);
            self.start_over(shared.queue.remove(&key)?);
        } else {
            let memory = self.rested();
            let again = shared.queue.forget(&key, memory);
            if again.is_none() && !shared.queue.is_paused() {
                shared.indexing.forget(&key);
            }
            self.recall(again?);
            self.due = Due::Now;
        }
        Some(())
    }

    /// Whether there is more to come.
    async fn go_on(&mut self, next: Next) -> bool {
        match next {
            Next::Turn(turn) => {
                self.turn(turn).await;
                return true;
            }
            Next::Stop => self.stop().await,
            Next::Released => {}
        }
        false
    }

    /// Sleep until `at`, or something comes in, or there is something to do for daemons and timers: that alone is done then.
    async fn pause(&mut self, at: Timestamp) -> Option<Next> {
        let at = self.shared().setup.clock.instant(at);
        let now = Instant::now();
        let background = self.background_due();
        if at <= now {
            self.due = Due::Now;
        } else if background.is_some_and(|due| due <= now) {
            let may_begin = self.context.begin().await;
            return Some(if may_begin {
                Next::Turn(Turn::Background)
            } else {
                Next::Stop
            });
        } else {
            let at = background.map_or(at, |due| at.min(due));
            self.context.sleep_until(at).await;
        }
        None
    }

    /// Whether the operator is to end, and waits for timers of the object.
    pub(super) fn is_ticking(&self) -> bool {
        let setup = &self.shared().setup;
        setup.once && self.memory.is_ticking(setup.clock.now())
    }

    /// Wait for a place; what is to be done by then. What only repeats what is known can wait for a look that is due: a handler that
    /// changes its object with every event would hold it off for ever.
    async fn begin(&mut self, has_letter: bool) -> Next {
        self.slot.step_out();
        if !has_letter {
            // Requests in memory are answered at once: without this, a busy object would leave nobody else on its thread a turn.
            tokio::task::yield_now().await;
        }
        if !self.context.begin().await {
            return Next::Stop;
        }
        let (shared, key) = (&self.context.shared, &self.context.key);
        let is_news = |it: &Pending| it.is_absence() || !it.is_known_to(&self.memory);
        let matters =
            |it: &Mailbox| has_letter || it.is_unwatched() || it.state().is_some_and(is_news);
        let letter = if shared.queue.peek(key, matters) == Some(true) {
            shared.queue.take(key)
        } else {
            None
        };
        Next::Turn(letter.map_or(Turn::Again, Turn::Letter))
    }

    /// Whether a letter has come in. A storm of changes is let pass first; a deletion does not wait.
    async fn let_a_storm_pass(&mut self) -> bool {
        let memory = &self.memory;
        let look = |mailbox: &Mailbox| {
            let state = mailbox.state();
            let changes = state.filter(|it| !it.is_absence() && !it.is_known_to(memory));
            (mailbox.is_empty(), changes.map(|state| state.arrived))
        };
        let waiting = self.shared().queue.peek(&self.context.key, look);
        let Some((false, changed)) = waiting else {
            return false;
        };
        if let Some(pause) = changed.and_then(|arrived| self.memory.lately.pace.pause(arrived)) {
            self.context.pause(pause).await;
        }
        true
    }

    async fn turn(&mut self, turn: Turn) {
        if !self.context.is_indexed().await {
            if let Turn::Letter(Letter::Returned(calls)) = turn {
                // What they have done is still written.
                self.returned(calls);
            }
            self.due = Due::Stopped;
            return;
        }
        match turn {
            Turn::Letter(Letter::Unwatched) => self.due = self.unwatched().await,
            Turn::Letter(Letter::State(state)) if state.is_deletion() => {
                self.report_interruption();
                self.raw = state.raw;
                self.due = self.deleted().await;
            }
            Turn::Letter(Letter::State(state)) if state.is_absence() => {
                self.report_interruption();
                self.due = self.absent(state).await;
            }
            Turn::Letter(Letter::State(state)) if state.is_known_to(&self.memory) => {
                if self.kind.is_same(&state.kind) {
                    self.echo(&state).await;
                } else {
                    self.look_as(state).await;
                }
            }
            Turn::Letter(Letter::State(state)) => {
                self.report_interruption();
                self.meter_state(state.arrived);
                self.look_for_duplicates(&state.raw);
                self.memory.lately.self_triggered.end();
                self.missing = None;
                self.kind = state.kind;
                self.know(state.raw);
                self.due = self.cycle(Some(state.event)).await;
            }
            Turn::Letter(Letter::TakenOver(origin)) => self.due = self.taken_over(origin).await,
            Turn::Letter(Letter::Returned(calls)) => self.returned(calls),
            Turn::Letter(Letter::ChildrenChanged(children)) => self.children_changed(&children),
            Turn::Background => self.due = self.background_alone().await,
            Turn::Letter(Letter::Due(_)) | Turn::Again => {
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
            self.writer.wait_no_more();
        }
        if self.due == Due::Never {
            self.changed = None;
        }
        self.memory.lately.pace.ended(Instant::now());
    }

    /// Another instance was at work until now: read what it has left, and begin as at the operator's start. What this one remembers of an
    /// unfinished cycle is void.
    async fn taken_over(&mut self, origin: Origin) -> Due {
        self.kind = origin.kind;
        let seen = std::mem::take(&mut self.memory.seen);
        self.memory.seen = seen.before_a_pause();
        self.trouble = Trouble::default();
        self.writer = Writer::new(&self.context);
        self.unwritten_outcome = false;
        self.look_for_it(Some(EventType::Listed)).await
    }

    /// The same uid is there again: as an object that has just been seen for the first time.
    fn start_over(&mut self, memory: Memory) {
        self.recall(memory);
        self.trouble = Trouble::default();
        self.due = Due::Never;
        self.writer = Writer::new(&self.context);
        self.unwritten_outcome = false;
        self.missing = None;
        self.slot = SlotWish::default();
        self.said = BTreeSet::new();
    }

    /// One pass: plan, call, settle, write.
    pub(super) async fn cycle(&mut self, event: Option<EventType>) -> Due {
        let plan = match self.plan(event, &self.kind.handlers) {
            Ok(plan) => plan,
            Err(why) => return self.without_plan(&why),
        };
        let span = self.span_of(&plan);
        let carried_out = self.carry_out(plan, event.is_some());
        carried_out.instrument(span).await
    }

    /// Call what is planned, and write what it has come to.
    async fn carry_out(&mut self, plan: Plan, watching: bool) -> Due {
        match self.act(plan, watching).await {
            Ok(effects) => {
                let finished = effects.concluded && effects.wake_at.is_none();
                let due = self.deliver(effects).await;
                if finished {
                    self.report_handling(Handling::CycleFinished);
                }
                self.report_sleep(due);
                due
            }
            Err(Halt::Later(due)) => due,
            Err(Halt::Stopped(patch)) => {
                // Raw-event handlers are not called again for this event: what they have asked for has no later.
                self.deliver_extra(&patch).await;
                Due::Stopped
            }
        }
    }

    /// The object is gone: nothing can be written, but best-effort handlers may still be due.
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

    /// A state that is known already: only raw-event handlers want to hear of it.
    async fn echo(&mut self, state: &Pending) {
        if state.kind.watching.is_empty() {
            return;
        }
        if let Some(pause) = self.memory.lately.self_triggered.pause()
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
        if self.outdated && Version::of(&state.raw.facts().resource_version) == self.memory.version
        {
            self.know(state.raw.clone());
        }
        let mut patch = Patch::new();
        let calls = PlannedCalls::of(&self.context);
        let calls = calls.show_event(&plan.watching, &mut patch);
        // What is cancelled has changed nothing: what others have done is written.
        let _ = self.call_beside_background(calls).await;
        self.keep_identity(&mut patch);
        self.deliver_extra(&patch).await;
    }

    /// Call what is planned.
    async fn act(&mut self, mut plan: Plan, watching: bool) -> Result<Effects, Halt> {
        self.report_all(std::mem::take(&mut plan.told));
        let background = std::mem::take(&mut plan.background);
        self.run_in_background(background, plan.body(), &self.origin());
        for handler in &plan.suspended {
            self.context
                .tell_suspended(handler, self.is_waited_for(handler));
        }
        let mut patch = Patch::new();
        let calls = PlannedCalls::of(&self.context);
        let calls = calls.make(&plan, watching, &mut patch);
        let called = if plan.is_of_gone_object() {
            self.context.call(calls).await
        } else {
            self.call_beside_background(calls).await
        };
        let is_held = self
            .memory
            .is_held_in_background(!plan.body().is_deleting());
        if !plan.changing.is_empty() {
            self.release_reconcilers();
        }
        plan.background_went_on(&self.memory.seen, is_held);
        self.keep_identity(&mut patch);
        match called {
            // The term is over, which is the next letter.
            Err(Cancelled) if self.shared().gate.is_open() => Err(Halt::Later(Due::Now)),
            Err(Cancelled) => Err(Halt::Stopped(patch)),
            Ok(attempted) => self.settle(plan, attempted, patch).map_err(Halt::Later),
        }
    }

    /// Whether a deletion of the object waits for the handler.
    fn is_waited_for(&self, handler: &Handler) -> bool {
        let holds = |it: &Arc<Handler>| it.id == handler.id && it.needs_finalizer();
        let finalizer = &self.shared().setup.persistence.finalizer;
        handler.is_for_changes()
            && self.kind.handlers.iter().any(holds)
            && Outline::of(&self.raw)
                .is_some_and(|it| it.is_deleting() && it.has_finalizer(finalizer))
    }

    /// `raw` is the newest state from now on.
    pub(super) fn know(&mut self, raw: Raw) {
        self.memory.version = Version::of(&raw.facts().resource_version);
        self.memory.trace = self.shared().trace(&self.kind, &raw);
        self.raw = raw;
        self.outdated = false;
    }

    /// The answer to an own write is the newest state from now on.
    pub(super) fn know_reply(&mut self, reply: Raw) {
        self.memory.lately.answered = Some(Instant::now());
        self.look_for_unknown_records(&reply);
        self.know_answer(reply);
    }

    /// So is what the server has said of it, before any watch does: it is to be indexed, too.
    pub(super) fn know_answer(&mut self, raw: Raw) {
        let WorkerContext { shared, key, .. } = &self.context;
        shared.index_answer(key, &self.kind, &raw);
        self.know(raw);
    }

    /// Leave to the server what is its own, whatever handlers have put into their patch.
    pub(super) fn keep_identity(&self, patch: &mut Patch) {
        self.transformer().keep_identity(&self.raw, patch);
    }

    fn transformer(&self) -> Transformer<'_> {
        Transformer {
            logger: self.context.logger(),
            shared: self.shared(),
            about: &self.context.about,
            pruned: None,
        }
    }

    /// The newest state known, with the handlers that are for it.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            raw: self.raw.clone(),
            kind: self.kind.clone(),
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.context.shared
    }

    pub(super) fn report_handling(&self, handling: Handling) {
        self.context.report(&Happening::Handling(handling));
    }

    /// What each look at the object finds anew is told at DEBUG once it is no news.
    pub(super) fn report_all(&mut self, told: Vec<Handling>) {
        for handling in told {
            let recurring = handling.recurring().map(Cow::into_owned);
            let key = recurring.map(|it| Line(&Happening::Handling(it)).to_string());
            let is_news = key.is_none_or(|key| self.said.insert(key));
            if matches!(handling, Handling::Processed { .. }) {
                self.meter_change();
            }
            let happening = Happening::Handling(handling);
            if is_news {
                self.context.report(&happening);
            } else {
                report_quietly(self.context.logger(), &happening);
            }
        }
    }

    fn report_sleep(&self, due: Due) {
        if let Due::At(at) | Due::Paused(at) = due {
            let pause = since(self.shared().setup.clock.now(), at);
            self.report_handling(Handling::Sleeps { pause });
        }
    }

    /// What has come in before the sleep began interrupts it as well, as in Kopf: whoever reads of the sleep reads of its end.
    fn report_interruption(&self) {
        if let Due::At(at) | Due::Paused(at) = self.due {
            let left = since(self.shared().setup.clock.now(), at);
            self.report_handling(Handling::SleepInterrupted { left });
        }
    }

    /// Whether an operator that is to end does not try again what has failed so many times.
    pub(super) fn gives_up(&self, times: u32) -> bool {
        const ENOUGH: u32 = 5;
        self.shared().setup.once && times >= ENOUGH
    }

    /// Pause for so long.
    pub(super) fn after(&self, pause: Duration) -> Due {
        let now = self.shared().setup.clock.now();
        Due::Paused(now.checked_add(pause).unwrap_or(Timestamp::MAX))
    }

    fn recall(&mut self, mut memory: Memory) {
        let (shared, own) = (self.shared(), memory.memo.take());
        let memo = shared
            .indexing
            .memo(&self.context.key, own, &shared.setup.memo);
        self.surroundings.memo = memo;
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
        Self {
            refusals: patient(),
            refused: 0,
            absences: patient(),
            panics: patient(),
            panicked: 0,
        }
    }
}

#[cfg(test)]
mod tests;
