//! The life of one busy object: take the newest state, plan, call, settle, write; again until nothing is due; then rest.
//!
//! Must not know what a plan is made of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Level;

use crate::engine::Shared;
use crate::engine::invoke::{Cancelled, guarded};
use crate::engine::key::Key;
use crate::engine::kind::Kind;
use crate::engine::memory::{Memory, Version};
use crate::engine::queue::{Hired, Mail};
use crate::engine::report::report;
use crate::engine::rivals::FIGHTS;
use crate::engine::subhandler_run::SubhandlerRun;
use crate::handler::cause::{Cause, CauseContext};
use crate::handler::decl::Handler;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::outcome::Outcome;
use crate::happening::Happening;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::python::seconds;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::cycle::since;
use crate::reaction::plan::{Input, Plan, plan};
use crate::reaction::settle::{Attempted, Effects, Line, settle};
use crate::rt::backoff::Backoff;
use crate::rt::outage::Outage;

/// Work for an object until it may rest.
pub(crate) async fn work(shared: Arc<Shared>, hired: Hired) {
    let newest = |mail: &Mail| (mail.raw.clone(), mail.kind.clone());
    let Some((raw, kind)) = shared.queue.peek(&hired.key, newest) else {
        shared.queue.forget(&hired.key);
        return;
    };
    let mut worker = Worker::new(shared, hired, raw, kind);
    while let Some(turn) = worker.next().await {
        worker.turn(turn).await;
    }
    worker.part().await;
}

/// One object and the worker it has.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) kind: Arc<Kind>,
    pub(super) key: Key,
    /// The newest state known.
    pub(super) raw: Raw,
    pub(super) about: Arc<Reference>,
    pub(super) memory: Memory,
    pub(super) wake: Arc<Notify>,
    pub(super) trouble: Trouble,
    pub(super) due: Due,
    /// A write may have been made without an answer: what comes in then may be its echo.
    pub(super) unsure: bool,
    /// What handlers have done is still to be written.
    pub(super) owing: bool,
    /// What is said once until there is nothing to do.
    said: BTreeSet<String>,
    surroundings: CauseContext,
}

/// What has gone wrong with this object since it last went well.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) conflicts: Backoff,
    pub(super) conflicted: u32,
    pub(super) refusals: Backoff,
    pub(super) refused: u32,
    /// What others fail for, too.
    pub(super) outage: Option<Outage>,
    panics: Backoff,
    panicked: u32,
}

/// Why there are no effects.
enum Halt {
    /// The operator stops; what raw-event handlers want changed.
    Stopped(Patch),
    Later(Due),
}

/// What to do next.
enum Turn {
    /// Something has come in.
    Mail(Mail),
    /// Look again at the newest state known: a reply, or the same after a pause.
    Again,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Timestamp),
    /// When something comes in.
    Never,
    /// The object is no more.
    Gone,
    /// The operator stops.
    Stopped,
}

// === impl Worker ===

impl Worker {
    fn new(shared: Arc<Shared>, hired: Hired, raw: Raw, kind: Arc<Kind>) -> Self {
        let facts = raw.facts();
        let about = Arc::new(Reference {
            api_version: kind.resource.api_version(),
            kind: kind.resource.kind.clone(),
            name: facts.name.clone(),
            namespace: facts.namespace.clone(),
            uid: facts.uid.clone(),
        });
        let mut worker = Self {
            surroundings: CauseContext {
                logger: Logger::of(about.clone()),
                memo: Memo::default(),
                extensions: shared.setup.extensions.clone(),
            },
            shared,
            kind,
            key: hired.key,
            raw,
            about,
            memory: Memory::default(),
            wake: hired.wake,
            trouble: Trouble::default(),
            due: Due::Never,
            said: BTreeSet::new(),
            unsure: false,
            owing: false,
        };
        worker.recall(hired.memory);
        worker
    }

    /// Wait for the next thing to do; `None` to end.
    async fn next(&mut self) -> Option<Turn> {
        loop {
            if self.due == Due::Gone {
                self.shared.queue.forget(&self.key);
                return None;
            }
            if self.due == Due::Stopped || self.shared.stopping.is_cancelled() {
                return None;
            }
            if let Some(mail) = self.mail().await {
                return Some(Turn::Mail(mail));
            }
            match self.due {
                Due::Now => {
                    // Requests in memory are answered at once: without this, a busy object would leave nobody else on its thread a turn.
                    tokio::task::yield_now().await;
                    return Some(Turn::Again);
                }
                Due::At(at) => {
                    let at = self.shared.setup.clock.instant(at);
                    tokio::select! {
                        biased;
                        () = self.shared.stopping.cancelled() => {}
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(at) => self.due = Due::Now,
                    }
                }
                _ => {
                    let memory = self.rested();
                    let (memory, mail) = self.shared.queue.rest(&self.key, memory)?;
                    self.recall(memory);
                    return Some(Turn::Mail(mail));
                }
            }
        }
    }

    /// What has come in. A storm of changes is let pass first; a deletion does not wait.
    async fn mail(&mut self) -> Option<Mail> {
        let known = &self.memory.version;
        let arrived = self.shared.queue.peek(&self.key, |mail| {
            let urgent = mail.event == EventType::Deleted || mail.tells_nothing_to(known);
            (!urgent).then_some(mail.arrived)
        })?;
        if let Some(pause) = arrived.and_then(|arrived| self.memory.pace.pause(arrived)) {
            self.pause(pause).await;
        }
        self.shared.queue.take(&self.key)
    }

    async fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Mail(mail) if mail.event == EventType::Deleted => {
                self.log_interruption();
                self.raw = mail.raw;
                self.due = self.deleted().await;
            }
            Turn::Mail(mail) if mail.tells_nothing_to(&self.memory.version) => {
                self.echo(&mail).await;
            }
            Turn::Mail(mail) => {
                self.log_interruption();
                self.look_for_rivals(&mail.raw);
                self.memory.rounds.end();
                self.know(mail.raw);
                self.kind = mail.kind;
                self.due = self.cycle(Some(mail.event)).await;
            }
            Turn::Again => self.due = self.cycle(None).await,
        }
        self.memory.pace.ended(Instant::now());
    }

    /// One pass: plan, call, settle, write.
    async fn cycle(&mut self, event: Option<EventType>) -> Due {
        let plan = match self.plan(event, &self.kind.handlers) {
            Ok(plan) => plan,
            Err(panic) => return self.throttled(&panic),
        };
        match self.act(plan, event.is_some()).await {
            Ok(effects) => {
                let finished = effects.concluded && effects.wake_at.is_none();
                let due = self.deliver(effects).await;
                if finished {
                    let text = "Handling cycle is finished, waiting for new changes.";
                    self.log(Level::DEBUG, format_args!("{text}"));
                }
                self.log_sleep(due);
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
    async fn deleted(&mut self) -> Due {
        for round in 0..=self.kind.handlers.len() {
            let plan = match self.plan(Some(EventType::Deleted), &self.kind.handlers) {
                Ok(plan) => plan,
                Err(panic) => {
                    self.throttled(&panic);
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
        Due::Gone
    }

    /// A state that is known already: only raw-event handlers want to hear of it.
    async fn echo(&mut self, mail: &Mail) {
        if mail.kind.watching.is_empty() {
            return;
        }
        if let Some(pause) = self.memory.rounds.pause()
            && !self.pause(pause).await
        {
            return;
        }
        let newest = std::mem::replace(&mut self.raw, mail.raw.clone());
        let planned = self.plan(Some(mail.event), &mail.kind.watching);
        self.raw = newest;
        let plan = match planned {
            Ok(plan) => plan,
            Err(panic) => {
                self.throttled(&panic);
                return;
            }
        };
        let mut patch = Patch::new();
        for cause in &plan.watching {
            if self.watched(cause, &mut patch).await.is_err() {
                break;
            }
        }
        self.keep_identity(&mut patch);
        self.deliver_extra(&patch).await;
    }

    /// What to do, or why nothing can be said of it.
    fn plan(&self, event: Option<EventType>, handlers: &[Arc<Handler>]) -> Result<Plan, String> {
        let setup = &self.shared.setup;
        let body = self.raw.body().map_err(|error| error.to_string())?;
        let body = Arc::new(body);
        let input = Input {
            handlers,
            persistence: &setup.persistence,
            policy: &setup.policy,
            resource: &self.kind.resource,
            body: &body,
            event,
            seen: &self.memory.seen,
            surroundings: &self.surroundings,
            rivalled: self.memory.fights >= FIGHTS,
            now: setup.clock.now(),
            chance: self.shared.chance().roll(),
        };
        guarded(|| plan(&input))
    }

    /// Call what is planned.
    async fn act(&mut self, plan: Plan, watching: bool) -> Result<Effects, Halt> {
        self.log_all(&plan.lines);
        let mut patch = Patch::new();
        let called = self.call(&plan, watching, &mut patch).await;
        self.keep_identity(&mut patch);
        match called {
            Err(Cancelled) => Err(Halt::Stopped(patch)),
            Ok(attempted) => self.settle(plan, attempted, patch).map_err(Halt::Later),
        }
    }

    /// The calls of a plan. Cancelled only where nothing is known of any of them.
    async fn call(
        &self,
        plan: &Plan,
        watching: bool,
        patch: &mut Patch,
    ) -> Result<Vec<Attempted>, Cancelled> {
        let shared = &self.shared;
        let _place = shared.place().await;
        for cause in plan.watching.iter().filter(|_| watching) {
            self.watched(cause, patch).await?;
        }
        let mut attempted = Vec::with_capacity(plan.changing.len());
        for cause in &plan.changing {
            let Some(nest) = plan.nest(&cause.handler) else {
                break;
            };
            let run =
                SubhandlerRun::new(shared.clone(), self.key.clone(), self.about.clone(), nest);
            let mut changed = patch.clone();
            let called = run.call(cause.clone(), &mut changed).await;
            if called.is_ok() {
                *patch = changed;
            }
            let children = run.end(patch);
            let stopped = called.is_err();
            if stopped && children.is_empty() && attempted.is_empty() {
                return Err(Cancelled);
            }
            if !stopped || !children.is_empty() {
                attempted.push(Attempted {
                    id: cause.handler.id.clone(),
                    outcome: called.unwrap_or(Outcome::Waiting),
                    children,
                });
            }
            if stopped {
                break;
            }
        }
        Ok(attempted)
    }

    fn settle(
        &mut self,
        plan: Plan,
        attempted: Vec<Attempted>,
        patch: Patch,
    ) -> Result<Effects, Due> {
        let now = self.shared.setup.clock.now();
        match guarded(|| settle(plan, attempted, patch, now)) {
            Ok(effects) => {
                self.log_all(&effects.lines);
                for handler in &effects.failed {
                    self.shared.failed(handler, &self.about);
                }
                Ok(effects)
            }
            Err(panic) => Err(self.throttled(&panic)),
        }
    }

    /// The operator stops while outcomes are still to be written: once more, without another call.
    async fn part(&mut self) {
        if !self.owing || self.shared.queue.is_deleted(&self.key) {
            return;
        }
        match self.read().await {
            Ok(Some(raw)) if raw.facts().uid == self.about.uid => self.know(raw),
            _ => return,
        }
        let Ok(plan) = self.plan(None, &self.kind.handlers) else {
            return;
        };
        if let Ok(effects) = self.settle(plan, Vec::new(), Patch::new()) {
            let left = self.left_of(&effects.patch, Some(&effects.body));
            let finalizers = effects.expected_finalizers.as_deref();
            if !left.is_empty() {
                self.last_try(&left, finalizers).await;
            }
        }
    }

    /// Call a raw-event handler. Its result goes to the status; its failure concerns nobody else.
    async fn watched(&self, cause: &Cause, patch: &mut Patch) -> Result<(), Cancelled> {
        let mut changed = patch.clone();
        let (key, about) = (&self.key, &self.about);
        let outcome = self.shared.invoke(key, about, cause, &mut changed).await?;
        *patch = changed;
        let id = &cause.handler.id;
        let failed = match outcome {
            Outcome::Succeeded(result) => {
                self.log(Level::INFO, format_args!("Handler '{id}' succeeded."));
                if let Some(result) = result {
                    patch["status"][&**id] = result;
                }
                return Ok(());
            }
            Outcome::Temporary { message, .. } => format!("failed temporarily: {message}"),
            Outcome::Permanent { message } => format!("failed permanently: {message}"),
            Outcome::Arbitrary { message } => {
                format!("failed with an exception and will ignore it: {message}")
            }
            Outcome::Waiting => "waits for sub-handlers".to_owned(),
            Outcome::TimedOut { after } => {
                format!("has timed out after {} seconds.", after.as_secs_f64())
            }
        };
        self.log(Level::ERROR, format_args!("Handler '{id}' {failed}"));
        Ok(())
    }

    /// `raw` is the newest state from now on.
    pub(super) fn know(&mut self, raw: Raw) {
        self.memory.version = Version::of(&raw.facts().resource_version);
        self.memory.trace = self.shared.trace(&self.kind, &raw);
        self.raw = raw;
    }

    /// The answer to an own write is the newest state from now on.
    pub(super) fn know_reply(&mut self, reply: Raw) {
        self.look_for_strangers(&reply);
        self.know(reply);
    }

    /// Sleep, unless the object is deleted or the operator stops meanwhile: then `false`.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            if self.shared.queue.is_deleted(&self.key) {
                return false;
            }
            tokio::select! {
                biased;
                () = self.shared.stopping.cancelled() => return false,
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(until) => return true,
            }
        }
    }

    pub(super) fn report(&self, happening: &Happening) {
        report(&self.surroundings.logger, happening);
    }

    pub(super) fn log(&self, level: Level, line: std::fmt::Arguments<'_>) {
        self.surroundings.logger.log(level, line);
    }

    fn log_all(&mut self, lines: &[Line]) {
        for Line {
            level,
            text,
            recurs,
        } in lines
        {
            let is_news = !recurs || self.said.insert(text.clone());
            let level = if is_news { *level } else { Level::DEBUG };
            self.log(level, format_args!("{text}"));
        }
    }

    fn log_sleep(&self, due: Due) {
        if let Due::At(at) = due {
            let left = since(self.shared.setup.clock.now(), at);
            let seconds = seconds(left);
            self.log(
                Level::DEBUG,
                format_args!("Sleeping for {seconds} seconds for the delayed handlers."),
            );
        }
    }

    /// What has come in before the sleep began interrupts it as well, as in Kopf: whoever reads of the sleep reads of its end.
    fn log_interruption(&self) {
        if let Due::At(at) = self.due {
            let seconds = seconds(since(self.shared.setup.clock.now(), at));
            self.log(
                Level::DEBUG,
                format_args!("Sleeping was interrupted by new changes, {seconds} seconds left."),
            );
        }
    }

    /// A filter, or the framework itself, has panicked.
    fn throttled(&mut self, panic: &str) -> Due {
        let pause = self.trouble.panics.next_pause(self.shared.chance());
        let seconds = seconds(pause);
        self.log(
            Level::ERROR,
            format_args!("Throttling for {seconds} seconds due to an unexpected error: {panic}"),
        );
        self.trouble.panicked += 1;
        if self.gives_up(self.trouble.panicked) {
            let what = format!("{} cannot be handled: {panic}", self.kind.resource);
            self.shared.leave(what);
            return Due::Never;
        }
        self.after(pause)
    }

    /// Whether an operator that is to end does not try again what has failed so many times.
    pub(super) fn gives_up(&self, times: u32) -> bool {
        const ENOUGH: u32 = 5;
        self.shared.setup.once && times >= ENOUGH
    }

    pub(super) fn after(&self, pause: Duration) -> Due {
        let now = self.shared.setup.clock.now();
        Due::At(now.checked_add(pause).unwrap_or(Timestamp::MAX))
    }

    fn recall(&mut self, mut memory: Memory) {
        let memo = memory
            .memo
            .get_or_insert_with(|| self.shared.setup.memo.copied());
        self.surroundings.memo = memo.clone();
        self.memory = memory;
    }

    fn rested(&mut self) -> Memory {
        let mut memory = std::mem::take(&mut self.memory);
        self.surroundings.memo = Memo::default();
        if memory.memo.as_ref().is_some_and(Memo::is_idle) {
            memory.memo = None;
        }
        memory
    }
}

impl Default for Trouble {
    fn default() -> Self {
        let patient = || Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        Self {
            conflicts: Backoff::new(Duration::from_millis(50), Duration::from_secs(10)),
            conflicted: 0,
            refusals: patient(),
            refused: 0,
            outage: None,
            panics: patient(),
            panicked: 0,
        }
    }
}
