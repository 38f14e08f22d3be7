//! State that all workers share: the queue, the limits, counters, and reports that are made only once.
//!
//! Must not know what a worker does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::engine::calls_in_flight::CallsInFlight;
use crate::engine::children::ChildApplier;
use crate::engine::failures::Failures;
use crate::engine::indexing::Indexing;
use crate::engine::invoke::Invoker;
use crate::engine::last_lines::LastLines;
use crate::engine::lost_outcomes::LostOutcomes;
use crate::engine::mailbox::Mailbox;
use crate::engine::memory::Memory;
use crate::engine::noted_calls::NotedCalls;
use crate::engine::owners::Owners;
use crate::engine::queue::Queue;
use crate::engine::reconcile_slots::ReconcileSlots;
use crate::engine::report::{about, report_counted};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::running_calls::RunningCalls;
use crate::engine::targets::Targets;
use crate::engine::triggers::Triggers;
use crate::engine::turns::Turns;
use crate::handler::extensions::Extensions;
use crate::handler::index::erased::Indices;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::stopped::StopReason;
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::happening::meter::SharedMeter;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::fast_path::is_already_handled;
use crate::reaction::input::Policy;
use crate::rt::clock::{Clock, WallClock};
use crate::rt::gate::Gate;
use crate::rt::rng::Rng;
use crate::state::Persistence;

mod background_calls;
mod index_looks;

/// The parts that the operator gives to the workers.
pub(crate) struct Setup {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    pub(crate) persistence: Persistence,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) extensions: Arc<Extensions>,
    /// Applies children on behalf of handlers.
    pub(crate) children: Arc<ChildApplier>,
    /// Collects the objects that triggers fire for.
    pub(crate) triggers: Arc<Triggers>,
    /// The separate runtime of async handlers, if there is one.
    pub(crate) handlers: Option<Handle>,
    /// Records running calls, if a status page may ask for them.
    pub(crate) calls: Option<CallsInFlight>,
    /// Records the most recent lines about objects, if a status page may ask for them.
    pub(crate) last_lines: Option<LastLines>,
    /// The crash notes.
    pub(crate) notes: Arc<NotedCalls>,
    /// The operator's memo; every object starts with a copy of it.
    pub(crate) memo: Memo,
    /// The operator ends when no work is left.
    pub(crate) once: bool,
    /// Receives metrics, if they are enabled.
    pub(crate) meter: SharedMeter,
}

/// Limits of concurrency and time.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Objects in handlers or requests at a time; `None`: no limit.
    pub(crate) workers: Option<usize>,
    /// Blocking handlers at a time.
    pub(crate) blocking: usize,
    /// Calls of level-triggered handlers at a time, for each kind.
    pub(crate) reconciles: usize,
    /// The first and the longest back-off after a failed request.
    pub(crate) backoff: (Duration, Duration),
    /// The time for which running handlers may continue when the operator stops.
    pub(crate) exit: Duration,
    /// The time for which daemons may continue when a term of leadership ends: no longer than writes of that term are sent.
    pub(crate) handover: Duration,
}

/// State that every worker can reach.
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(crate) queue: Arc<Queue>,
    pub(crate) invoker: Invoker,
    pub(super) indexing: Arc<Indexing>,
    pub(super) owners: Arc<Owners>,
    /// Closed when the operator stops: no new cycles, no retries, no sleeping.
    pub(crate) gate: Gate,
    /// The present offset of the wall clock from the steady one.
    pub(super) wall: WallClock,
    workers: Option<Arc<Semaphore>>,
    pub(super) turns: Turns,
    pub(super) tasks: TaskTracker,
    /// The objects that handlers refer to.
    pub(super) targets: Targets,
    /// Limits calls of level-triggered handlers.
    pub(super) reconcile_slots: Arc<ReconcileSlots>,
    /// The running daemons and timers.
    pub(super) running: RunningCalls,
    /// Their tasks, and the tasks that end them.
    pub(super) calls: TaskTracker,
    /// The engine's own runtime, on which all workers run.
    pub(super) home: Handle,
    /// Aborts everything.
    pub(super) ended: CancellationToken,
    /// Cancelled when another instance may lead, which cuts off the calls begun before.
    pub(super) term_over: Mutex<CancellationToken>,
    pub(super) failures: Failures,
    pub(super) lost_outcomes: LostOutcomes,
    /// The kinds for which self-triggered changes have been reported.
    self_triggered: Mutex<BTreeSet<u32>>,
    /// The work that an operator with `once` has given up.
    gave_up: Mutex<BTreeSet<String>>,
}

impl Shared {
    pub(super) fn new(setup: Setup) -> Self {
        let limits = &setup.limits;
        let indices = setup.extensions.get::<Indices>();
        let indices = indices.map(|it| Indices::clone(&it)).unwrap_or_default();
        let owners = Owners::new(Indexing::new(indices, setup.memo.clone()));
        let owners = Arc::new(owners);
        setup.children.wakes(&owners);
        Self {
            indexing: owners.indexing.clone(),
            queue: owners.queue.clone(),
            owners,
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
            ended: CancellationToken::new(),
            term_over: Mutex::default(),
            failures: Failures::new(setup.once),
            lost_outcomes: LostOutcomes::default(),
            self_triggered: Mutex::default(),
            gave_up: Mutex::default(),
            setup,
        }
    }

    pub(crate) fn rng(&self) -> &Rng {
        self.setup.cluster.rng()
    }

    /// Returns whether this state of an object leaves nothing to do for handlers of changes.
    pub(crate) fn is_already_handled(&self, kind: &ResourceHandlers, memory: &Memory, raw: &Raw) -> bool {
        is_already_handled(raw, &kind.resource, &kind.handlers, &memory.seen, &self.setup.persistence)
    }

    /// Returns whether another call may begin for an object that has a worker.
    pub(crate) fn may_call(&self, key: &Key) -> bool {
        let is_unwatched = || self.queue.peek(key, Mailbox::is_unwatched);
        self.gate.is_open() && is_unwatched() != Some(true)
    }

    /// Returns the stop reason for daemons and timers of an object that is no longer watched.
    pub(super) fn why_unwatched(&self) -> StopReason {
        if self.queue.is_paused() { StopReason::OPERATOR_PAUSING } else { StopReason::RESOURCE_UNWATCHED }
    }

    /// Reports a happening about an object.
    pub(crate) fn report(&self, logger: &Logger, about: &Reference, happening: &dyn Happening) {
        if let Some(lines) = &self.setup.last_lines {
            lines.note(about, happening, self.setup.clock.now());
        }
        report_counted(self.invoker.meter(), logger, happening);
    }

    /// Cuts off the calls of handlers of changes that have begun in this term.
    pub(super) fn cut_off_calls(&self) {
        std::mem::take(&mut *self.term_over.lock()).cancel();
    }

    /// Returns whether an idle object may stay idle with this state.
    pub(super) fn may_rest(&self, kind: &ResourceHandlers, memory: &Memory, raw: &Raw) -> bool {
        let quiet = self.is_already_handled(kind, memory, raw);
        if quiet && tracing::level_enabled!(Handling::Unchanged.level()) {
            let about = Arc::new(about(&kind.resource, raw.facts()));
            self.report(&Logger::of(about.clone()), &about, &Handling::Unchanged);
        }
        quiet
    }

    /// Waits for a worker permit; `None` without a limit.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        match &self.workers {
            Some(places) => places.clone().acquire_owned().await.ok(),
            None => None,
        }
    }

    /// Returns whether self-triggered changes of this kind have not been reported yet.
    pub(crate) fn is_first_self_triggered(&self, kind: u32) -> bool {
        self.self_triggered.lock().insert(kind)
    }

    /// Records work that is given up because the operator runs with `once`.
    pub(crate) fn give_up(&self, what: String) {
        self.gave_up.lock().insert(what);
    }

    /// Returns the work that was given up, one line of text for each item.
    pub(super) fn gave_up(&self) -> Vec<String> {
        self.gave_up.lock().iter().cloned().collect()
    }
}

/// Creates the worker permits: at least one, or no object would ever be handled.
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
        assert_eq!(places(usize::MAX).available_permits(), Semaphore::MAX_PERMITS);
    }
}
