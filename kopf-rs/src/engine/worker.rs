//! The life of one busy object: take the newest state, plan, call, settle, write; again until nothing is due; then rest.
//!
//! Must not know what a plan is made of.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Level;

use crate::engine::Shared;
use crate::engine::brood::Brood;
use crate::engine::invoke::{Cancelled, guarded};
use crate::engine::key::Key;
use crate::engine::kind::Kind;
use crate::engine::memory::{Memory, Version};
use crate::engine::queue::{Hired, Mail};
use crate::handler::cause::{Cause, EventType, Surroundings};
use crate::handler::decl::Handler;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::outcome::Outcome;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::plan::{Input, Plan, plan};
use crate::reaction::settle::{Attempted, Effects, Line, settle};
use crate::rt::backoff::Backoff;

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
    surroundings: Surroundings,
}

/// What has gone wrong with this object since it last went well.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) conflicts: Backoff,
    pub(super) conflicted: u32,
    pub(super) refusals: Backoff,
    pub(super) refused: u32,
    panics: Backoff,
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
            surroundings: Surroundings {
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
                Due::Now => return Some(Turn::Again),
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
                self.raw = mail.raw;
                self.due = self.deleted().await;
            }
            Turn::Mail(mail) if mail.tells_nothing_to(&self.memory.version) => {
                self.echo(&mail).await;
            }
            Turn::Mail(mail) => {
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
        let Some(plan) = self.plan(event, &self.kind.handlers) else {
            return self.throttled();
        };
        match self.act(plan, event.is_some()).await {
            Ok(effects) => self.deliver(effects).await,
            Err(due) => due,
        }
    }

    /// The object is gone: nothing can be written, but best-effort handlers may still be due.
    async fn deleted(&mut self) -> Due {
        for round in 0..=self.kind.handlers.len() {
            let Some(plan) = self.plan(Some(EventType::Deleted), &self.kind.handlers) else {
                break;
            };
            let last = plan.changing.is_empty();
            match self.act(plan, round == 0).await {
                Ok(effects) => self.memory.seen = effects.seen_if_refused,
                Err(Due::Stopped) => return Due::Stopped,
                Err(_) => break,
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
        let newest = std::mem::replace(&mut self.raw, mail.raw.clone());
        let plan = self.plan(Some(mail.event), &mail.kind.watching);
        self.raw = newest;
        let mut patch = Patch::new();
        for cause in plan.iter().flat_map(|plan| &plan.watching) {
            if self.watched(cause, &mut patch).await.is_err() {
                return;
            }
        }
        self.deliver_extra(&patch).await;
    }

    fn plan(&self, event: Option<EventType>, handlers: &[Arc<Handler>]) -> Option<Plan> {
        let setup = &self.shared.setup;
        let body = match self.raw.body() {
            Ok(body) => Arc::new(body),
            Err(error) => {
                self.log(Level::ERROR, format_args!("{error}"));
                return None;
            }
        };
        let input = Input {
            handlers,
            persistence: &setup.persistence,
            policy: &setup.policy,
            resource: &self.kind.resource,
            body: &body,
            event,
            seen: &self.memory.seen,
            surroundings: &self.surroundings,
            now: setup.clock.now(),
            chance: self.shared.chance.roll(),
        };
        guarded(|| plan(&input))
            .inspect_err(|panic| self.log_panic(panic))
            .ok()
    }

    /// Call what is planned.
    async fn act(&mut self, plan: Plan, watching: bool) -> Result<Effects, Due> {
        let shared = self.shared.clone();
        let _place = shared.place().await;
        self.log_all(&plan.lines);
        let mut patch = Patch::new();
        for cause in plan.watching.iter().filter(|_| watching) {
            self.watched(cause, &mut patch).await?;
        }
        let mut attempted = Vec::with_capacity(plan.changing.len());
        for cause in &plan.changing {
            let Some(nest) = plan.nest(&cause.handler) else {
                break;
            };
            let brood = Brood::new(shared.clone(), self.about.clone(), nest);
            let called = brood.call(cause.clone(), &mut patch).await;
            let children = brood.end(&mut patch);
            let stopped = called.is_err();
            if stopped && children.is_empty() && attempted.is_empty() {
                return Err(Due::Stopped);
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
        let now = shared.setup.clock.now();
        match guarded(|| settle(plan, attempted, patch, now)) {
            Ok(effects) => {
                self.log_all(&effects.lines);
                for handler in &effects.failed {
                    shared.failed(handler, &self.about);
                }
                Ok(effects)
            }
            Err(panic) => {
                self.log_panic(&panic);
                Err(self.throttled())
            }
        }
    }

    /// One attempt of a handler.
    async fn invoke(&self, cause: &Cause, patch: &mut Patch) -> Result<Outcome, Cancelled> {
        let id = &cause.handler.id;
        self.log(Level::DEBUG, format_args!("Handler '{id}' is invoked."));
        let outcome = self.shared.invoker.invoke(cause, &self.about, patch).await;
        if outcome.is_err() {
            self.log(
                Level::WARN,
                format_args!("Handler '{id}' is cancelled. Will escalate."),
            );
        }
        outcome
    }

    /// Call a raw-event handler. Its result goes to the status; its failure concerns nobody else.
    async fn watched(&self, cause: &Cause, patch: &mut Patch) -> Result<(), Due> {
        let outcome = self.invoke(cause, patch).await;
        let id = &cause.handler.id;
        let failed = match outcome.map_err(|Cancelled| Due::Stopped)? {
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
        self.raw = raw;
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

    pub(super) fn log(&self, level: Level, line: std::fmt::Arguments<'_>) {
        self.surroundings.logger.log(level, line);
    }

    fn log_all(&self, lines: &[Line]) {
        for line in lines {
            self.log(line.level, format_args!("{}", line.text));
        }
    }

    fn log_panic(&self, panic: &str) {
        self.log(
            Level::ERROR,
            format_args!(
                "Throttling due to an unexpected error in a filter or in the framework: {panic}"
            ),
        );
    }

    fn throttled(&mut self) -> Due {
        let pause = self.trouble.panics.next_pause();
        self.after(pause)
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
            panics: patient(),
        }
    }
}
