//! Runs one mailbox and one worker per object.
//!
//! Watches feed the mailboxes, `reaction` decides what to do, workers call the handlers and send one PATCH per cycle. Must not name `kube`.

pub(crate) mod admission;
pub(crate) mod attempt;
mod background_call;
mod caller;
pub(crate) mod calls_in_flight;
pub(crate) mod children;
mod context;
pub(crate) mod conversion;
mod crash_notes;
pub(crate) mod failures;
pub(crate) mod follower;
pub(crate) mod indexing;
pub(crate) mod invoke;
pub(crate) mod last_lines;
mod lost_outcomes;
mod mailbox;
pub(crate) mod memory;
pub(crate) mod metered;
pub(crate) mod noted_calls;
pub(crate) mod object_table;
pub(crate) mod owners;
pub(crate) mod posting;
pub(crate) mod queue;
mod reconcile_slots;
pub(crate) mod report;
pub(crate) mod resource_handlers;
mod rewritten;
pub(crate) mod running_calls;
pub(crate) mod shared;
mod spare_pages;
mod stopped;
mod targets;
mod timers;
mod transform;
pub(crate) mod triggers;
mod turns;
mod unsure_writes;
pub(crate) mod watchdog;
pub(crate) mod worker;
mod writer;

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio_util::sync::DropGuard;

use crate::cluster::watch::WatchEvent;
use crate::engine::calls_in_flight::{CallInFlight, CallsInFlight, WaitingCall};
use crate::engine::failures::Failure;
use crate::engine::follower::{EngineWatch, Follower};
use crate::engine::indexing::late_readers::{IndexReader, IndexedVersion};
use crate::engine::indexing::objects::facts::IndexFacts;
use crate::engine::last_lines::{LastLine, LastLines};
use crate::engine::memory::{Memory, Version};
use crate::engine::queue::WorkerStart;
use crate::engine::queue::facts::{ObjectFacts, QueueFacts};
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::running_calls::RunningCall;
use crate::engine::shared::{Setup, Shared};
use crate::engine::targets::Surroundings;
use crate::engine::triggers::Fired;
use crate::handler::stopped::StopReason;
use crate::happening::working::Working;
use crate::object::collection::Collection;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::rt::flow::Flow;
use crate::rt::task;

/// Handles the objects of an operator. Clones share all state.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Shared>);

impl Engine {
    pub(crate) fn new(setup: Setup) -> Self {
        let shared = Arc::new(Shared::new(setup));
        let (queue, ended) = (shared.queue.clone(), shared.ended.clone());
        let weak = Arc::downgrade(&shared);
        task::spawn(ended.run_until_cancelled_owned(async move {
            loop {
                queue.ready().await;
                weak.upgrade().iter().for_each(start_workers);
            }
        }));
        Self(shared)
    }

    /// Registers a watch that is about to start and that may replace another watch. Workers keep the objects of the replaced watch.
    ///
    /// The returned [`Flow`] lets a listing wait until the queue has room for it. With indices, the flow never holds a listing back:
    /// handlers wait for the complete listing, so holding it back would be a deadlock.
    pub(crate) fn open(&self, watch: &EngineWatch, replaces: Option<&EngineWatch>) -> Flow {
        if let Some(former) = replaces {
            former.end();
        }
        let of = &watch.collection;
        let replaces = replaces.map(|it| it.stream);
        match &watch.follower {
            Follower::Children { is_read } => self.0.setup.children.open(watch, *is_read, replaces),
            Follower::Targets(handlers) => {
                self.0.targets.open(watch.stream, of.clone(), handlers.clone(), replaces);
            }
            Follower::Workers(kind) => {
                self.0.indexing.open(watch.stream, kind, replaces);
                let flow = self.0.queue.open(watch.stream, kind.clone(), replaces);
                if self.index_facts().is_empty() {
                    return flow;
                }
            }
        }
        Flow::default()
    }

    /// Processes one event of a watch, unless the watch was closed or replaced. Never blocks.
    pub(crate) fn feed(&self, watch: &EngineWatch, event: WatchEvent) {
        let Some(_feeding) = watch.feeding() else {
            return;
        };
        match &watch.follower {
            Follower::Children { .. } => self.0.setup.children.on_event(watch, &event),
            Follower::Targets(_) => self.on_target(watch, &event),
            Follower::Workers(_) if self.0.gate.is_open() => self.feed_workers(watch, event),
            Follower::Workers(_) => {}
        }
    }

    fn feed_workers(&self, watch: &EngineWatch, event: WatchEvent) {
        self.0.index_event(watch.stream, &event);
        let is_listed = matches!(event, WatchEvent::Synced(_));
        let quiet =
            |kind: &ResourceHandlers, memory: &mut Memory, raw: &Raw| self.0.may_rest(kind, memory, raw);
        for key in self.0.queue.feed(watch.stream, event, quiet) {
            self.0.indexing.forget(&key);
        }
        if is_listed {
            self.forget_crashes(&watch.collection);
        }
    }

    /// Ends a watch. The objects may still exist, but the operator no longer observes them. For a pause, indexed objects are kept until the
    /// replacing watch has listed.
    pub(crate) fn close(&self, watch: &EngineWatch, is_paused: bool) {
        watch.end();
        match &watch.follower {
            Follower::Children { .. } => self.0.setup.children.close(watch),
            Follower::Targets(_) => self.0.targets.close(watch.stream),
            Follower::Workers(_) => {
                let queue = &self.0.queue;
                queue.close(watch.stream);
                if !is_paused {
                    let has_worker = |key: &Key| queue.peek(key, |_| ()).is_some();
                    self.0.indexing.close(watch.stream, has_worker);
                }
            }
        }
    }

    /// Enters standby because another instance leads: cuts off calls of handlers and ends daemons and timers as for a pause. Watches and
    /// indices continue.
    pub(crate) fn stand_by(&self) {
        self.0.queue.stand_by();
        self.0.end_term();
        self.0.setup.calls.iter().for_each(CallsInFlight::end_waiting);
    }

    /// Leaves standby because this instance leads from now on.
    pub(crate) fn take_over(&self) {
        self.0.setup.children.begin_term();
        self.0.queue.take_over();
    }

    /// Removes the crash notes of objects that the complete listing of a collection lacks, so that their handlers are no longer suspected.
    fn forget_crashes(&self, of: &Collection) {
        let (resource, namespace) = (&of.resource, of.namespace.as_deref());
        self.0.setup.notes.all_deleted(|object| {
            let is_of_resource = object.kind == resource.kind && object.group() == resource.group;
            let is_of_listing = namespace.is_none() || object.namespace.as_deref() == namespace;
            is_of_resource && is_of_listing && !self.0.queue.knows(&object.uid)
        });
    }

    /// Returns the label selector that matches all children.
    pub(crate) fn label_of_children(&self) -> String {
        self.0.setup.children.label()
    }

    /// Pauses the operator. Objects of watches that are closed for it count as paused, since they will be watched again.
    pub(crate) fn pause(&self) {
        self.0.setup.children.pause(true);
        self.0.queue.pause();
    }

    /// Resumes after a pause.
    pub(crate) fn resume(&self) {
        self.0.setup.children.pause(false);
        self.0.queue.resume();
    }

    fn on_target(&self, watch: &EngineWatch, event: &WatchEvent) {
        let of = &watch.collection;
        let with = Surroundings { clock: self.0.setup.clock, extensions: &self.0.setup.extensions };
        let told = match event {
            WatchEvent::Object(event, raw) => Some(IndexedVersion::of(*event, raw, &of.resource)),
            _ => None,
        };
        for (handler, names) in self.0.targets.on_event(watch.stream, event, &with) {
            let reader = IndexReader::Concerned { handler, names };
            self.0.owners.call_reader(reader, &of.resource, told.as_ref());
        }
    }

    /// Returns a guard that aborts all work when it is dropped: no handler is called and nothing is written afterwards.
    pub(crate) fn guard(&self) -> DropGuard {
        self.0.ended.clone().drop_guard()
    }

    /// Returns memory that bursts of events have left free to the system. Works only on a thread that allocates with mimalloc.
    pub(crate) async fn return_memory_after_bursts(&self) -> Infallible {
        spare_pages::return_memory_after_bursts(&self.0.queue).await
    }

    /// Wakes idle objects whose timers or retries are due.
    pub(crate) async fn look_after_timers(&self) -> Infallible {
        self.0.queue.wake_due().await
    }

    /// Wakes the objects that triggers have fired for.
    pub(crate) async fn look_after_triggers(&self) -> Infallible {
        loop {
            let fired = self.0.setup.triggers.take().await;
            let known = self.0.queue.triggered(&fired);
            let unknown = fired.iter().flat_map(Fired::names).filter(|it| !known.contains(*it));
            let unknown: Vec<String> = unknown.map(|it| it.trim_start_matches('/').to_owned()).collect();
            if !unknown.is_empty() {
                report_of_operator(&Working::TriggersIgnored { unknown });
            }
        }
    }

    /// Watches for jumps of the wall clock, by an administrator or by a suspended machine, because timers with a schedule follow the wall
    /// clock.
    pub(crate) async fn look_after_clock(&self) -> Infallible {
        loop {
            self.0.setup.clock.wait_for_the_wall().await;
            if self.0.wall.has_moved(self.0.setup.clock) {
                self.0.queue.look_at_schedules();
            }
        }
    }

    /// Notes that all watches of the start-up have begun.
    pub(crate) fn are_watched(&self) {
        self.0.indexing.are_watched();
    }

    /// Lets handlers run as soon as all objects that exist at the start are indexed.
    pub(crate) async fn look_after_indices(&self) -> Infallible {
        self.0.indexing.look_after_readiness().await
    }

    /// Waits until no work is left, neither now nor scheduled for later.
    pub(crate) async fn settled(&self) {
        self.0.queue.settled().await;
    }

    /// Shuts down: starts no new cycles, lets running handlers end within the exit timeout, and still writes their outcomes.
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
            // Calls first: workers write the outcomes of the calls.
            self.0.calls.wait().await;
            start_workers(&self.0);
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
        report_of_operator(&Working::StreamsLeft { objects: left });
        self.0.ended.cancel();
    }

    /// Returns the permanent failures of handlers so far: all of them if the operator ends on failures, else the most recent ones.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.0.failures.all()
    }

    /// Returns the present contents of the queue. A state that one of the running `calls` was given does not count as waiting: it is the
    /// echo of a write, or comes from a repeated listing.
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

    /// Returns what the queue knows about the object with this uid.
    pub(crate) fn object_facts(&self, uid: &str) -> Option<ObjectFacts> {
        self.0.queue.object_facts(uid)
    }

    /// Returns the state of each index: filled, or the watches that it still waits for.
    pub(crate) fn index_facts(&self) -> Vec<IndexFacts> {
        self.0.indexing.facts()
    }

    /// Returns the running calls of daemons and timers.
    pub(crate) fn calls_in_background(&self) -> Vec<Arc<RunningCall>> {
        self.0.running.all()
    }

    /// Returns the other running calls of handlers; empty unless the operator records them.
    pub(crate) fn calls_in_flight(&self) -> Vec<CallInFlight> {
        let calls = self.0.setup.calls.as_ref();
        calls.map_or_else(Vec::new, CallsInFlight::all)
    }

    /// Returns the handlers that wait for their next attempt, those that are due first in front; empty unless the operator records them.
    pub(crate) fn waiting_calls(&self) -> Vec<WaitingCall> {
        let calls = self.0.setup.calls.as_ref();
        calls.map_or_else(Vec::new, CallsInFlight::waiting)
    }

    /// Returns the most recent errors of objects; empty unless the operator records them.
    pub(crate) fn last_errors(&self) -> Vec<Arc<LastLine>> {
        let lines = self.0.setup.last_lines.as_ref();
        lines.map_or_else(Vec::new, LastLines::errors)
    }

    /// Returns the most recent lines about the object with this uid, the newest first; empty unless the operator records them.
    #[cfg(feature = "web")]
    pub(crate) fn history(&self, uid: &str) -> Vec<Arc<LastLine>> {
        let lines = self.0.setup.last_lines.as_ref();
        lines.map_or_else(Vec::new, |lines| lines.history(uid))
    }

    /// Returns the work that was given up at the end, one line of text for each item.
    pub(crate) fn gave_up(&self) -> Vec<String> {
        self.0.gave_up()
    }
}

fn start_workers(shared: &Arc<Shared>) {
    shared.queue.start_workers(|start| start_worker(shared, start));
}

fn start_worker(shared: &Arc<Shared>, start: WorkerStart) {
    let of_worker = shared.clone();
    let ended = shared.ended.clone();
    let key = start.key.clone();
    // Boxed because `select!` would store the future twice, and thousands of objects may wait.
    let mut work = Box::pin(AssertUnwindSafe(worker::work(of_worker.clone(), start)).catch_unwind());
    let worker = async move {
        tokio::select! {
            biased;
            () = ended.cancelled() => {}
            worked = &mut work => if worked.is_err() {
                if let Some(meter) = of_worker.invoker.meter() {
                    meter.worker_panicked();
                }
                report_of_operator(&Working::Panicked);
                of_worker.indexing.forget(&key);
                of_worker.queue.drop_worker(&key);
            },
        }
    };
    shared.tasks.spawn_on(worker, &shared.home);
}
