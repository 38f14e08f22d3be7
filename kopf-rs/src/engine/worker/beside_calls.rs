//! Serves the daemons and timers of an object while its handlers run, which may take hours.
//!
//! As in a cycle, it judges ended calls, writes their changes, starts timers and retries that are due, shows daemons the present object and
//! asks them to end. Guarantees that the call of the handlers continues and that the object keeps its worker permit. Must not know which
//! handler is called.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::engine::mailbox::{Mailbox, Pending};
use crate::engine::memory::Version;
use crate::engine::turns::TurnPermit;
use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::Written;
use crate::handler::stopped::StopReason;
use crate::rt::backoff::Backoff;

/// The minimum interval between two steps if only changes of the object ask for them.
const BETWEEN: Duration = Duration::from_millis(100);

/// The last step for daemons and timers.
struct LastLook {
    at: Instant,
    /// The version of the waiting state that was planned for.
    version: Version,
    is_unwatched: bool,
    /// The object is deleted.
    is_over: bool,
    /// The earliest time of the next write, after a failed one.
    write_at: Instant,
    failures: Backoff,
}

/// The time of the next plan or write.
#[derive(Default)]
struct NextLook {
    /// Act at once, without waiting for the indices.
    is_urgent: bool,
    /// When to plan for daemons and timers.
    plan_at: Option<Instant>,
    /// When to write their changes.
    write_at: Option<Instant>,
}

impl Worker {
    /// Awaits calls of handlers. The caller settles and writes their outcomes with a permit, as after `WorkerContext::call`.
    pub(super) async fn call_beside_background<T>(&mut self, calls: impl Future<Output = T>) -> T {
        if self.memory.background().is_none() && !self.kind.has_background() {
            return self.context.call(calls).await;
        }
        let turn = self.context.turn();
        let mut calls = pin!(turn.held_for(TurnPermit::CALLS, calls));
        let mut last = LastLook::new();
        let called = loop {
            tokio::select! {
                biased;
                called = &mut calls => break called,
                () = self.is_time_for_background(&last) => {}
            }
            // Boxed because few handlers take so long. Never dropped half-way, because a request may be in flight.
            let mut look = Box::pin(self.look_after_background(&mut last));
            let mut called = None;
            loop {
                tokio::select! {
                    biased;
                    ended = &mut calls, if called.is_none() => called = Some(ended),
                    () = &mut look => break,
                }
            }
            drop(look);
            if let Some(called) = called {
                break called;
            }
        };
        self.context.go_on_with_turn().await;
        called
    }

    /// Waits until daemons or timers need attention.
    async fn is_time_for_background(&self, last: &LastLook) {
        let gate = &self.shared().gate;
        loop {
            if last.is_over || !gate.is_open() {
                return pending().await;
            }
            let Some(next) = self.next_look(last) else {
                return pending().await;
            };
            if next.is_urgent {
                return;
            }
            let is_time_to_plan = async {
                time(next.plan_at).await;
                // Handlers see indexed states only. This wait holds no permit that other objects need.
                let indexing = &self.shared().indexing;
                indexing.object_indexed(&self.context.key).await;
            };
            tokio::select! {
                biased;
                () = gate.closed() => {}
                () = self.context.woken() => {}
                () = time(next.write_at) => return,
                () = is_time_to_plan => return,
            }
        }
    }

    /// Returns the time of the next plan or write as far as it is known now; `None` if the object is forgotten.
    fn next_look(&self, last: &LastLook) -> Option<NextLook> {
        let look = |mailbox: &Mailbox| {
            let is_urgent = mailbox.has_returned()
                || mailbox.is_deletion()
                || mailbox.is_unwatched() != last.is_unwatched;
            let is_new = |it: &Pending| Version::of(&it.raw.facts().resource_version) != last.version;
            (is_urgent, mailbox.change(&self.memory).is_some_and(is_new))
        };
        let (is_urgent, has_changed) = self.shared().queue.peek(&self.context.key, look)?;
        let mut next = NextLook { is_urgent, ..NextLook::default() };
        if !last.is_unwatched {
            let changed = has_changed.then(|| last.at + BETWEEN);
            let due = self.memory.due();
            next.plan_at = changed.into_iter().chain(due).min();
            let wanted = self.memory.seen.wanted_in_background();
            next.write_at = wanted.map(|_| last.write_at);
        }
        Some(next)
    }

    /// Serves daemons and timers once.
    async fn look_after_background(&mut self, last: &mut LastLook) {
        // The permit is held for this step only: the calls need none.
        if !self.context.go_on_with_turn().await {
            return;
        }
        self.background_went_on = true;
        self.take_returned();
        last.is_unwatched = self.context.is_unwatched();
        if self.context.is_deleted() {
            self.release_background(StopReason::RESOURCE_DELETED);
            last.is_over = true;
        } else if last.is_unwatched {
            self.end_background(self.shared().why_unwatched());
        } else {
            if Instant::now() >= last.write_at {
                let written = self.write_beside_calls().await;
                last.wrote(written.err(), self);
            }
            // If the indices lag behind, the next step waits for them and then plans.
            if !self.shared().indexing.is_behind(&self.context.key) {
                last.version = self.plan_for_background();
            }
        }
        last.at = Instant::now();
        self.context.turn().release();
    }

    /// Plans for daemons and timers with the newest state, and returns the version of that state.
    pub(super) fn plan_for_background(&mut self) -> Version {
        let state = self.waiting_change().unwrap_or_else(|| self.origin());
        if let Err(Due::Paused(at)) = self.run_background_plan(&state, false) {
            self.look_at_background_at(at);
        }
        Version::of(&state.raw.facts().resource_version)
    }
}

/// Waits until the given time; for ever if there is none.
async fn time(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

impl LastLook {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            at: now,
            version: Version::Unknown,
            is_unwatched: false,
            is_over: false,
            // Gives short calls the chance to be written together with the handlers' changes.
            write_at: now + BETWEEN,
            failures: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)),
        }
    }

    /// Notes the result of a write. A failed write is repeated by a later step, after a back-off.
    fn wrote(&mut self, failed: Option<Written>, worker: &Worker) {
        let now = Instant::now();
        let Some(failed) = failed else {
            self.failures.reset();
            self.write_at = now;
            return;
        };
        let error = match &failed {
            Written::GivenUp(error) => Some(error),
            _ => None,
        };
        let asked_for = error.and_then(ClusterError::retry_after);
        let rng = worker.shared().rng();
        let failed = self.failures.failures();
        let pause = self.failures.next_pause_after(asked_for.unwrap_or_default(), rng);
        self.write_at = now + pause;
        if let Some(error) = error {
            let failure = (&*worker.kind.resource, error);
            let context = &worker.context;
            worker.writer.report_given_up(context, failure, (failed, pause));
        }
    }
}
