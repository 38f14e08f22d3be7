//! Tasks around the heart: one mailbox and one worker per object.
//!
//! Watches feed it, `reaction` decides, handlers are called, one PATCH goes out per cycle. Must not name `kube`.

mod context;
mod crash_notes;
pub(crate) mod failures;
pub(crate) mod invoke;
pub(crate) mod key;
pub(crate) mod kind;
mod mailbox;
pub(crate) mod memory;
mod missing;
pub(crate) mod noted_calls;
pub(crate) mod overdue;
mod own_thread;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod rivals;
pub(crate) mod subhandler_run;
mod transform;
mod turns;
pub(crate) mod watchdog;
pub(crate) mod worker;
pub(crate) mod write;
mod writer;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::cluster::watch::WatchEvent;
use crate::engine::failures::{Failure, Failures};
use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::key::Key;
use crate::engine::kind::Kind;
use crate::engine::mailbox::Mailbox;
use crate::engine::memory::Memory;
use crate::engine::noted_calls::NotedCalls;
use crate::engine::overdue::told_while_running;
use crate::engine::queue::{Queue, StreamId, WorkerStart};
use crate::engine::report::report;
use crate::engine::rivals::Rivals;
use crate::engine::turns::Turns;
use crate::handler::definition::HandlerCall;
use crate::handler::extensions::Extensions;
use crate::handler::memo::Memo;
use crate::handler::outcome::Outcome;
use crate::happening::Happening;
use crate::object::outline::Outline;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::glance::Glance;
use crate::reaction::input::Policy;
use crate::rt::chance::Chance;
use crate::rt::clock::Clock;
use crate::rt::gate::Gate;
use crate::state::Persistence;

/// Everything the workers share, given by the operator.
pub(crate) struct Setup {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    pub(crate) persistence: Persistence,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) extensions: Arc<Extensions>,
    /// The runtime of async handlers, where they have one of their own.
    pub(crate) handlers: Option<Handle>,
    /// Where calls are noted should the operator have ended abruptly.
    pub(crate) notes: Option<Arc<NotedCalls>>,
    /// The operator's memo; every object starts with a copy of it.
    pub(crate) memo: Memo,
    /// The operator is to end when nothing is left to do.
    pub(crate) once: bool,
}

/// How much at a time, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Objects in handlers or requests at a time; `None`: no limit.
    pub(crate) workers: Option<usize>,
    /// Blocking handlers at a time.
    pub(crate) blocking: usize,
    /// First and longest pause after a failed request.
    pub(crate) backoff: (Duration, Duration),
    /// How long running handlers may go on when the operator stops.
    pub(crate) exit: Duration,
}

/// Handles objects. Clones share everything.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Shared>);

/// What every worker can reach.
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(crate) queue: Queue,
    pub(crate) invoker: Invoker,
    /// Closed when the operator stops: no new cycles, no retries, no sleeping.
    pub(crate) gate: Gate,
    workers: Option<Arc<Semaphore>>,
    turns: Turns,
    tasks: TaskTracker,
    /// Everything ends now.
    ended: CancellationToken,
    failures: Failures,
    rivals: Rivals,
    /// Kinds whose handlers change their objects again and again: said of them.
    self_triggered: Mutex<BTreeSet<u32>>,
    /// What an operator that is to end has given up.
    left: Mutex<BTreeSet<String>>,
}

impl Engine {
    pub(crate) fn new(setup: Setup) -> Self {
        let limits = &setup.limits;
        Self(Arc::new(Shared {
            queue: Queue::default(),
            invoker: Invoker::new(setup.clock, limits.blocking, setup.handlers.clone()),
            gate: Gate::default(),
            workers: limits.workers.map(places),
            turns: Turns::new(),
            tasks: TaskTracker::new(),
            ended: CancellationToken::new(),
            failures: Failures::new(setup.once),
            rivals: Rivals::default(),
            self_triggered: Mutex::default(),
            left: Mutex::default(),
            setup,
        }))
    }

    /// A watch that is about to start, maybe in place of another one.
    pub(crate) fn open(&self, stream: StreamId, kind: Arc<Kind>, replaces: Option<StreamId>) {
        self.0.queue.open(stream, kind, replaces);
    }

    /// Take in what a watch tells. Never blocks.
    pub(crate) fn feed(&self, stream: StreamId, event: WatchEvent) {
        if self.0.gate.is_open() {
            let quiet =
                |kind: &Kind, memory: &mut Memory, raw: &Raw| self.0.may_rest(kind, memory, raw);
            let queue = &self.0.queue;
            queue.feed(stream, event, quiet, |start| self.start_worker(start));
        }
    }

    /// A watch that is ended: what it was for is not watched any more, and may well be there.
    pub(crate) fn close(&self, stream: StreamId) {
        self.0.queue.close(stream);
    }

    /// Dropping the guard ends all work at once: nothing more is called or written.
    pub(crate) fn guard(&self) -> DropGuard {
        self.0.ended.clone().drop_guard()
    }

    /// Wait until nothing is left to do, now or later.
    pub(crate) async fn settled(&self) {
        self.0.queue.settled().await;
    }

    /// Stop: no new cycles start, running handlers may end within the exit timeout, what they did is still written.
    pub(crate) async fn drain(&self) {
        let exit = self.0.setup.limits.exit;
        self.0.gate.close();
        self.0.tasks.close();
        if tokio::time::timeout(exit, self.0.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        self.0.invoker.cancel();
        if tokio::time::timeout(exit, self.0.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        let left = self.0.tasks.len();
        tracing::warn!("Unprocessed streams left for {left} object(s).");
        self.0.ended.cancel();
    }

    /// Which handlers have failed for good so far: all of an operator that is to end, else the last ones.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.0.failures.all()
    }

    /// What was given up, where the operator was to end: one line each, for people.
    pub(crate) fn left(&self) -> Vec<String> {
        let left = self.0.left.lock();
        let left = left.unwrap_or_else(PoisonError::into_inner);
        left.iter().cloned().collect()
    }

    fn start_worker(&self, start: WorkerStart) {
        let shared = self.0.clone();
        let ended = self.0.ended.clone();
        let key = start.key.clone();
        // Boxed: `select!` would store it twice, and thousands of objects may wait.
        let mut work =
            Box::pin(AssertUnwindSafe(worker::work(shared.clone(), start)).catch_unwind());
        self.0.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                worked = &mut work => if worked.is_err() {
                    tracing::error!("Event processing has failed: a defect of kopf-rs; the object waits for its next change.");
                    shared.queue.drop_worker(&key);
                },
            }
        });
    }
}

impl Shared {
    pub(crate) fn chance(&self) -> &Chance {
        self.setup.cluster.chance()
    }

    /// Whether this state of an object leaves nothing to do for handlers of changes.
    pub(crate) fn is_quiet(&self, kind: &Kind, memory: &Memory, raw: &Raw) -> bool {
        self.glance(kind, memory).is_quiet(raw)
    }

    fn glance<'a>(&'a self, kind: &'a Kind, memory: &'a Memory) -> Glance<'a> {
        Glance {
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

    /// One attempt of a handler of an object, and what is told of it while it runs.
    pub(crate) async fn invoke(
        &self,
        key: &Key,
        about: &Reference,
        cause: &HandlerCall,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let handler = || cause.handler.clone();
        report(cause.logger(), &Happening::Invoked { handler: handler() });
        let call = self.invoker.invoke(cause, about, patch);
        let deletion = || self.is_deletion_waiting(key);
        let outcome = told_while_running(cause, self.setup.clock, deletion, call).await;
        if outcome.is_err() {
            report(cause.logger(), &Happening::Cancelled { handler: handler() });
        }
        outcome
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
        let left = self.left.lock();
        left.unwrap_or_else(PoisonError::into_inner).insert(what);
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
