//! Tasks around the heart: one mailbox and one worker per object.
//!
//! Watches feed it, `reaction` decides, handlers are called, one PATCH goes out per cycle. Must not name `kube`.

pub(crate) mod admission;
pub(crate) mod attempt;
mod background;
mod background_call;
mod background_writes;
mod beside_calls;
pub(crate) mod calls_in_flight;
pub(crate) mod children;
mod context;
pub(crate) mod conversion;
mod crash_notes;
mod duplicate_detection;
mod duplicates;
pub(crate) mod failures;
mod index_looks;
pub(crate) mod indexing;
pub(crate) mod invoke;
pub(crate) mod key;
pub(crate) mod last_errors;
mod last_writes;
mod lost_outcomes;
mod mailbox;
pub(crate) mod memory;
pub(crate) mod metered;
mod missing;
pub(crate) mod noted_calls;
pub(crate) mod overdue;
mod own_thread;
mod planned_calls;
mod planning;
pub(crate) mod posting;
pub(crate) mod queue;
mod reconcile_slots;
pub(crate) mod report;
pub(crate) mod resource_handlers;
pub(crate) mod running_calls;
pub(crate) mod shared;
mod spare_pages;
mod stopped;
pub(crate) mod subhandler_run;
mod targets;
mod timers;
mod transform;
mod turns;
pub(crate) mod watchdog;
pub(crate) mod worker;
pub(crate) mod write;
mod writer;

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio_util::sync::DropGuard;

use crate::cluster::watch::WatchEvent;
use crate::engine::calls_in_flight::{CallInFlight, CallsInFlight};
use crate::engine::failures::Failure;
use crate::engine::indexing::objects::facts::IndexFacts;
use crate::engine::key::Key;
use crate::engine::last_errors::{LastError, LastErrors};
use crate::engine::memory::{Memory, Version};
use crate::engine::queue::facts::{ObjectFacts, QueueFacts};
use crate::engine::queue::{StreamId, WorkerStart};
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::running_calls::RunningCall;
use crate::engine::shared::{Setup, Shared};
use crate::engine::targets::Surroundings;
use crate::handler::definition::Handler;
use crate::handler::stopped::StopReason;
use crate::happening::Happening;
use crate::object::collection::Collection;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// Handles objects. Clones share everything.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Shared>);

impl Engine {
    pub(crate) fn new(setup: Setup) -> Self {
        let children = setup.children.clone();
        let shared = Arc::new(Shared::new(setup, start_worker));
        let weak = Arc::downgrade(&shared);
        children.wakes(move |owner, kind| {
            if let Some(shared) = weak.upgrade() {
                shared.child_changed(owner, kind);
            }
        });
        Self(shared)
    }

    /// A watch that is about to start, maybe in place of another one.
    pub(crate) fn open(
        &self,
        stream: StreamId,
        kind: Arc<ResourceHandlers>,
        replaces: Option<StreamId>,
    ) {
        self.0.indexing.open(stream, &kind, replaces);
        self.0.queue.open(stream, kind, replaces);
    }

    /// Take in what a watch tells. Never blocks.
    pub(crate) fn feed(&self, stream: StreamId, event: WatchEvent) {
        if self.0.gate.is_open() {
            self.0.index_event(stream, &event);
            let quiet = |kind: &ResourceHandlers, memory: &mut Memory, raw: &Raw| {
                self.0.may_rest(kind, memory, raw)
            };
            let queue = &self.0.queue;
            let gone = queue.feed(stream, event, quiet, |start| start_worker(&self.0, start));
            for key in gone {
                self.0.indexing.forget(&key);
            }
        }
    }

    /// Another instance is at work from now on: calls of handlers are cut off, daemons and timers end as for a pause, watches and indices go on.
    pub(crate) fn stand_by(&self) {
        for start in self.0.queue.stand_by() {
            start_worker(&self.0, start);
        }
        self.0.end_term();
    }

    /// This instance is at work from now on.
    pub(crate) fn take_over(&self) {
        for start in self.0.queue.take_over() {
            start_worker(&self.0, start);
        }
    }

    /// A listing of a resource is complete, of one namespace or of all: what was called for objects that it lacks is accused no more.
    pub(crate) fn listed(&self, resource: &Resource, namespace: Option<&str>) {
        let Some(notes) = &self.0.setup.notes else {
            return;
        };
        notes.all_deleted(|object| {
            let is_of_resource = object.kind == resource.kind && object.group() == resource.group;
            let is_of_listing = namespace.is_none() || object.namespace.as_deref() == namespace;
            is_of_resource && is_of_listing && !self.0.queue.knows(&object.uid)
        });
    }

    /// The selector of the label that all children have.
    pub(crate) fn label_of_children(&self) -> String {
        self.0.setup.children.label()
    }

    /// Call before a watch of children starts. Where handlers read the children, their owners are told of every change, and not only of what
    /// concerns their own applies.
    pub(crate) fn open_children(&self, of: &Collection, is_read: bool) {
        self.0.setup.children.open(of, is_read);
    }

    /// A watch of children that is ended.
    pub(crate) fn close_children(&self, of: &Collection) {
        self.0.setup.children.close(of);
    }

    /// Take in what a watch of children tells. Never blocks.
    pub(crate) fn on_child(&self, of: &Collection, event: &WatchEvent) {
        for owner in self.0.setup.children.on_event(of, event) {
            self.0.child_changed(&owner, &of.resource);
        }
    }

    /// The operator is paused from now on: what [`Engine::suspend`] ends will be watched again.
    pub(crate) fn pause(&self) {
        self.0.setup.children.pause(true);
        self.0.queue.pause();
    }

    /// The pause is over.
    pub(crate) fn resume(&self) {
        self.0.setup.children.pause(false);
        self.0.queue.resume();
    }

    /// A watch that is ended for a pause: daemons and timers stop, and what is indexed stays until the watch that replaces it has listed.
    pub(crate) fn suspend(&self, stream: StreamId) {
        for start in self.0.queue.close(stream) {
            start_worker(&self.0, start);
        }
    }

    /// A watch of objects that these handlers refer to is about to start.
    pub(crate) fn open_targets(&self, of: &Collection, handlers: Vec<Arc<Handler>>) {
        self.0.targets.open(of, handlers);
    }

    /// Such a watch is ended.
    pub(crate) fn close_targets(&self, of: &Collection) {
        self.0.targets.close(of);
    }

    /// Take in what such a watch tells. Never blocks.
    pub(crate) fn on_target(&self, of: &Collection, event: &WatchEvent) {
        let with = Surroundings {
            clock: self.0.setup.clock,
            extensions: &self.0.setup.extensions,
        };
        for (handler, names) in self.0.targets.on_event(of, event, &with) {
            let started = self.0.queue.target_changed(&handler, &names, &of.resource);
            for start in started {
                start_worker(&self.0, start);
            }
        }
    }

    /// A watch that is ended: what it was for is not watched any more, and may well be there.
    pub(crate) fn close(&self, stream: StreamId) {
        let queue = &self.0.queue;
        let started = queue.close(stream);
        let has_worker = |key: &Key| queue.peek(key, |_| ()).is_some();
        self.0.indexing.close(stream, has_worker);
        for start in started {
            start_worker(&self.0, start);
        }
    }

    /// Dropping the guard ends all work at once: nothing more is called or written.
    pub(crate) fn guard(&self) -> DropGuard {
        self.0.ended.clone().drop_guard()
    }

    /// Give memory that bursts of events leave free back to the system. For a thread that has mimalloc.
    pub(crate) async fn give_back_memory(&self) -> Infallible {
        spare_pages::give_back_after_bursts(&self.0.queue).await
    }

    /// Call what is due of objects at rest.
    pub(crate) async fn look_after_timers(&self) -> Infallible {
        loop {
            for start in self.0.queue.due().await {
                start_worker(&self.0, start);
            }
        }
    }

    /// See whether the wall clock was set, or the machine suspended: timers with a schedule go by it.
    pub(crate) async fn look_after_clock(&self) -> Infallible {
        loop {
            self.0.setup.clock.wait_for_the_wall().await;
            if self.0.wall.has_moved(self.0.setup.clock) {
                for start in self.0.queue.look_at_schedules() {
                    start_worker(&self.0, start);
                }
            }
        }
    }

    /// All watches that there are to be at the start have begun.
    pub(crate) fn are_watched(&self) {
        self.0.indexing.are_watched();
    }

    /// Let handlers be called once all objects that are there at the start are indexed.
    pub(crate) async fn look_after_indices(&self) -> Infallible {
        self.0.indexing.look_after_readiness().await
    }

    /// Wait until nothing is left to do, now or later.
    pub(crate) async fn settled(&self) {
        self.0.queue.settled().await;
    }

    /// Stop: no new cycles start, running handlers may end within the exit timeout, what they did is still written.
    pub(crate) async fn drain(&self) {
        self.end_tasks().await;
        self.0.lost_outcomes.tell();
    }

    async fn end_tasks(&self) {
        let exit = self.0.setup.limits.exit;
        self.0.gate.close();
        self.0.tasks.close();
        self.0.calls.close();
        let longest = self.0.end_all_calls(StopReason::OPERATOR_EXITING);
        let ends = async {
            // Workers write what the calls come to.
            self.0.calls.wait().await;
            self.0.tasks.wait().await;
        };
        let mut ends = pin!(ends);
        if tokio::time::timeout(exit, &mut ends).await.is_ok() {
            return;
        }
        self.0.invoker.cancel();
        let patience = exit.max(longest);
        if tokio::time::timeout(patience, ends).await.is_ok() {
            return;
        }
        let left = self.0.tasks.len();
        report_of_operator(&Happening::StreamsLeft { objects: left });
        self.0.ended.cancel();
    }

    /// Which handlers have failed for good so far: all of an operator that is to end, else the last ones.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.0.failures.all()
    }

    /// The contents of the queue now. A state that one of the running `calls` was given does not wait: it is the echo of a write, or listed
    /// again.
    pub(crate) fn queue_facts(&self, calls: &[CallInFlight]) -> QueueFacts {
        let mut given: HashMap<&str, Vec<&Version>> = HashMap::new();
        for call in calls {
            given.entry(&call.uid).or_default().push(&call.version);
        }
        let is_handled = |uid: &str, version: &Version| {
            let versions = given.get(uid).into_iter().flatten();
            versions.into_iter().any(|it| it.covers(version))
        };
        self.0.queue.facts(is_handled)
    }

    /// What the queue knows of the object of that uid.
    pub(crate) fn object_facts(&self, uid: &str) -> Option<ObjectFacts> {
        self.0.queue.object_facts(uid)
    }

    /// Which indices are filled, and what the others lack.
    pub(crate) fn index_facts(&self) -> Vec<IndexFacts> {
        self.0.indexing.facts()
    }

    /// The calls of daemons and timers that run now.
    pub(crate) fn calls_in_background(&self) -> Vec<Arc<RunningCall>> {
        self.0.running.all()
    }

    /// The other calls of handlers of objects that run now, where they are kept.
    pub(crate) fn calls_in_flight(&self) -> Vec<CallInFlight> {
        let calls = self.0.setup.calls.as_ref();
        calls.map_or_else(Vec::new, CallsInFlight::all)
    }

    /// The last errors of objects, where they are kept.
    pub(crate) fn last_errors(&self) -> Vec<LastError> {
        let errors = self.0.setup.last_errors.as_ref();
        errors.map_or_else(Vec::new, LastErrors::all)
    }

    /// What was given up, where the operator was to end: one line each, for people.
    pub(crate) fn gave_up(&self) -> Vec<String> {
        self.0.gave_up()
    }
}

fn start_worker(shared: &Arc<Shared>, start: WorkerStart) {
    let of_worker = shared.clone();
    let ended = shared.ended.clone();
    let key = start.key.clone();
    // Boxed: `select!` would store it twice, and thousands of objects may wait.
    let mut work =
        Box::pin(AssertUnwindSafe(worker::work(of_worker.clone(), start)).catch_unwind());
    let worker = async move {
        tokio::select! {
            biased;
            () = ended.cancelled() => {}
            worked = &mut work => if worked.is_err() {
                of_worker.meter_happening(&Happening::WorkerPanicked);
                report_of_operator(&Happening::WorkerPanicked);
                of_worker.indexing.forget(&key);
                of_worker.queue.drop_worker(&key);
            },
        }
    };
    shared.tasks.spawn_on(worker, &shared.home);
}
