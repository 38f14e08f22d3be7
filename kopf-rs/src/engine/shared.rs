//! What all workers share: the queue, the limits, what is counted and said once.
//!
//! Must not know what a worker does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::engine::attempt::attempt;
use crate::engine::calls_in_flight::CallsInFlight;
use crate::engine::children::ChildApplier;
use crate::engine::duplicates::DuplicateOperators;
use crate::engine::failures::Failures;
use crate::engine::indexing::Indexing;
use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::key::Key;
use crate::engine::last_errors::LastErrors;
use crate::engine::lost_outcomes::LostOutcomes;
use crate::engine::mailbox::Mailbox;
use crate::engine::memory::Memory;
use crate::engine::memory::Version;
use crate::engine::noted_calls::NotedCalls;
use crate::engine::queue::{Queue, WorkerStart};
use crate::engine::reconcile_slots::ReconcileSlots;
use crate::engine::report::{report, report_about};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::running_calls::RunningCalls;
use crate::engine::targets::Targets;
use crate::engine::turns::Turns;
use crate::handler::definition::HandlerCall;
use crate::handler::extensions::Extensions;
use crate::handler::index::erased::Indices;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::outcome::Outcome;
use crate::handler::stopped::StopReason;
use crate::happening::Happening;
use crate::happening::duplicates::Severity;
use crate::happening::handling::Handling;
use crate::happening::leasing::Leasing;
use crate::happening::meter::SharedMeter;
use crate::object::outline::Outline;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::fast_path::FastPath;
use crate::reaction::input::Policy;
use crate::rt::clock::{Clock, WallClock};
use crate::rt::gate::Gate;
use crate::rt::rng::Rng;
use crate::state::Persistence;
use crate::state::trace::{Evidence, Places, Trace};

/// Everything the workers share, given by the operator.
pub(crate) struct Setup {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    pub(crate) persistence: Persistence,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) extensions: Arc<Extensions>,
    /// What handlers apply for their objects.
    pub(crate) children: Arc<ChildApplier>,
    /// The runtime of async handlers, where they have one of their own.
    pub(crate) handlers: Option<Handle>,
    /// Where calls in flight are kept, if somebody may ask for them.
    pub(crate) calls: Option<CallsInFlight>,
    /// Where the last errors of objects are kept, if somebody may ask for them.
    pub(crate) last_errors: Option<LastErrors>,
    /// Where calls are noted should the operator have ended abruptly.
    pub(crate) notes: Option<Arc<NotedCalls>>,
    /// The operator's memo; every object starts with a copy of it.
    pub(crate) memo: Memo,
    /// The operator is to end when nothing is left to do.
    pub(crate) once: bool,
    /// Who makes figures of what happens, if somebody wants them.
    pub(crate) meter: SharedMeter,
}

/// How much at a time, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Objects in handlers or requests at a time; `None`: no limit.
    pub(crate) workers: Option<usize>,
    /// Blocking handlers at a time.
    pub(crate) blocking: usize,
    /// Calls of level-triggered handlers at a time, for each kind.
    pub(crate) reconciles: usize,
    /// First and longest pause after a failed request.
    pub(crate) backoff: (Duration, Duration),
    /// How long running handlers may go on when the operator stops.
    pub(crate) exit: Duration,
}

/// What every worker can reach.
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(crate) queue: Queue,
    pub(crate) invoker: Invoker,
    pub(super) indexing: Indexing,
    /// Closed when the operator stops: no new cycles, no retries, no sleeping.
    pub(crate) gate: Gate,
    /// How far the wall clock is ahead by now.
    pub(super) wall: WallClock,
    workers: Option<Arc<Semaphore>>,
    pub(super) turns: Turns,
    pub(super) tasks: TaskTracker,
    /// Objects that handlers refer to.
    pub(super) targets: Targets,
    /// For calls of level-triggered handlers.
    pub(super) reconcile_slots: Arc<ReconcileSlots>,
    /// Daemons and timers that run.
    pub(super) running: RunningCalls,
    /// Their tasks, and those that see to their end.
    pub(super) calls: TaskTracker,
    /// The engine's own runtime: its workers run there, whoever starts them.
    pub(super) home: Handle,
    /// Starts a worker.
    pub(super) start_worker: fn(&Arc<Shared>, WorkerStart),
    /// Everything ends now.
    pub(super) ended: CancellationToken,
    /// Another instance may be at work: calls that have begun before are cut off.
    term_over: Mutex<CancellationToken>,
    pub(super) failures: Failures,
    pub(super) lost_outcomes: LostOutcomes,
    duplicates: DuplicateOperators,
    /// Kinds whose handlers change their objects again and again: said of them.
    self_triggered: Mutex<BTreeSet<u32>>,
    /// What an operator that is to end has given up.
    gave_up: Mutex<BTreeSet<String>>,
}

impl Shared {
    pub(super) fn new(setup: Setup, start_worker: fn(&Arc<Self>, WorkerStart)) -> Self {
        let limits = &setup.limits;
        let indices = setup.extensions.get::<Indices>();
        let indices = indices.map(|it| Indices::clone(&it)).unwrap_or_default();
        Self {
            indexing: Indexing::new(indices, setup.memo.clone()),
            queue: Queue::default(),
            invoker: Invoker::new(setup.clock, limits.blocking, setup.handlers.clone())
                .metered(setup.meter.clone()),
            gate: Gate::default(),
            wall: WallClock::default(),
            workers: limits.workers.map(places),
            turns: Turns::new(),
            targets: Targets::default(),
            reconcile_slots: ReconcileSlots::new(limits.reconciles),
            tasks: TaskTracker::new(),
            running: RunningCalls::default(),
            calls: TaskTracker::new(),
            home: Handle::current(),
            start_worker,
            ended: CancellationToken::new(),
            term_over: Mutex::default(),
            failures: Failures::new(setup.once),
            lost_outcomes: LostOutcomes::default(),
            duplicates: DuplicateOperators::default(),
            self_triggered: Mutex::default(),
            gave_up: Mutex::default(),
            setup,
        }
    }

    pub(crate) fn rng(&self) -> &Rng {
        self.setup.cluster.rng()
    }

    /// Whether this state of an object leaves nothing to do for handlers of changes.
    pub(crate) fn is_already_handled(
        &self,
        kind: &ResourceHandlers,
        memory: &Memory,
        raw: &Raw,
    ) -> bool {
        self.fast_path(kind, memory).is_already_handled(raw)
    }

    fn fast_path<'a>(&'a self, kind: &'a ResourceHandlers, memory: &'a Memory) -> FastPath<'a> {
        FastPath {
            handlers: &kind.handlers,
            persistence: &self.setup.persistence,
            resource: &kind.resource,
            seen: &memory.seen,
        }
    }

    /// Whether another call may begin for an object that is worked on already.
    pub(crate) fn may_call(&self, key: &Key) -> bool {
        let is_unwatched = || self.queue.peek(key, Mailbox::is_unwatched);
        self.gate.is_open() && is_unwatched() != Some(true)
    }

    /// Why daemons and timers of an object that is not watched any more end.
    pub(super) fn why_unwatched(&self) -> StopReason {
        if self.queue.is_paused() {
            StopReason::OPERATOR_PAUSING
        } else {
            StopReason::RESOURCE_UNWATCHED
        }
    }

    /// Report what has happened to an object.
    pub(crate) fn report(&self, logger: &Logger, about: &Reference, happening: &Happening) {
        if let Some(errors) = &self.setup.last_errors {
            errors.note(about, happening, self.setup.clock.now());
        }
        self.meter_happening(happening);
        report(logger, happening);
    }

    /// Tell of it for figures.
    pub(super) fn meter_happening(&self, happening: &Happening) {
        if let Some(meter) = &self.setup.meter {
            meter.happened(happening);
        }
    }

    /// One attempt of a handler of an object, and what is told of it while it runs.
    pub(crate) async fn invoke(
        &self,
        key: &Key,
        about: &Reference,
        cause: &HandlerCall,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let deletion = || self.is_deletion_waiting(key);
        let calls = self.setup.calls.as_ref();
        let _in_flight = calls.map(|it| {
            let version = &cause.body()["metadata"]["resourceVersion"];
            let version = Version::of(version.as_str().unwrap_or_default());
            it.begin(&cause.handler.id, about, version)
        });
        let called = attempt(
            &self.invoker,
            self.setup.clock,
            about,
            cause,
            patch,
            deletion,
        );
        if self.setup.cluster.term().is_none() {
            return called.await;
        }
        let over = self.term_over().clone();
        tokio::select! {
            biased;
            called = called => called,
            () = over.cancelled() => {
                let handler = cause.handler.to_string();
                report(cause.logger(), &Happening::Leasing(Leasing::CutOff { handler }));
                Err(Cancelled)
            }
        }
    }

    /// Another instance may be at work: what handlers are doing now is done again by that one.
    pub(super) fn end_term(&self) {
        std::mem::take(&mut *self.term_over()).cancel();
    }

    fn term_over(&self) -> MutexGuard<'_, CancellationToken> {
        self.term_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state that waits for the object says that it is to be deleted.
    fn is_deletion_waiting(&self, key: &Key) -> bool {
        let state = |mailbox: &Mailbox| {
            let state = mailbox.state()?;
            Some((state.is_deletion(), state.raw.clone()))
        };
        let waiting = self.queue.peek(key, state).flatten();
        waiting.is_some_and(|(is_deleted, raw)| {
            is_deleted || Outline::of(&raw).is_some_and(|outline| outline.is_deleting())
        })
    }

    /// Whether an object at rest may stay so. Its trace is remembered then.
    pub(super) fn may_rest(&self, kind: &ResourceHandlers, memory: &mut Memory, raw: &Raw) -> bool {
        let Some(outline) = Outline::of(raw) else {
            return false;
        };
        let trace = self.places_of(kind).map(|places| places.trace(&outline));
        if memory.trace.is_some() && memory.trace != trace {
            return false;
        }
        let quiet = self.fast_path(kind, memory).is_already_handled_as(&outline);
        if quiet {
            memory.trace = trace;
            let unchanged = Happening::Handling(Handling::Unchanged);
            report_about(&kind.resource, raw.facts(), &unchanged);
        }
        quiet
    }

    pub(super) fn trace(&self, kind: &ResourceHandlers, raw: &Raw) -> Option<Trace> {
        Some(self.places_of(kind)?.trace(&Outline::of(raw)?))
    }

    /// Nothing where handlers of changes have nothing to keep, or keep it where others decide.
    pub(super) fn places_of<'a>(&'a self, kind: &'a ResourceHandlers) -> Option<Places<'a>> {
        let persistence = &self.setup.persistence;
        Some(Places {
            prefix: persistence.prefix()?,
            finalizer: persistence.finalizer.as_ref(),
            names: kind.names.as_ref()?,
        })
    }

    /// What is to be said of another operator of this name, of which there is evidence for a kind.
    pub(super) fn note_duplicate(
        &self,
        kind: u32,
        evidence: Evidence,
        readded_finalizers: u8,
    ) -> Option<Severity> {
        self.duplicates
            .note(kind, evidence, readded_finalizers, Instant::now())
    }

    /// A place for one object in handlers or requests.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        match &self.workers {
            Some(places) => places.clone().acquire_owned().await.ok(),
            None => None,
        }
    }

    /// Whether it is news that handlers of this kind change their objects again and again.
    pub(crate) fn is_first_self_triggered(&self, kind: u32) -> bool {
        let self_triggered = self.self_triggered.lock();
        self_triggered
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind)
    }

    /// Give something up, since the operator is to end.
    pub(crate) fn give_up(&self, what: String) {
        let gave_up = self.gave_up.lock();
        let mut gave_up = gave_up.unwrap_or_else(PoisonError::into_inner);
        gave_up.insert(what);
    }

    /// What was given up: one line each, for people.
    pub(super) fn gave_up(&self) -> Vec<String> {
        let gave_up = self.gave_up.lock();
        let gave_up = gave_up.unwrap_or_else(PoisonError::into_inner);
        gave_up.iter().cloned().collect()
    }

    pub(crate) fn failed(&self, handler: &str, object: &Reference) {
        self.failures.add(handler, object);
    }
}

/// Places for so many objects: at least one, or nothing would ever be handled.
fn places(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_worker_limit_leaves_a_place() {
        assert_eq!(places(0).available_permits(), 1);
        assert_eq!(places(3).available_permits(), 3);
        assert_eq!(
            places(usize::MAX).available_permits(),
            Semaphore::MAX_PERMITS
        );
    }
}
