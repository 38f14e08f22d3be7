//! State that the parts of one object's worker share: the object's identity, its worker permit and cycle permit, its pauses, its logger.
//!
//! Guarantees that a worker holds no permit while it pauses, and that every wait (for a pause, a retry, a read, a permit) ends when the
//! operator stops, when the mailbox says that the object is no longer watched, and when another instance may lead. Pauses also end when the
//! object is deleted. A PATCH in flight is awaited to its end, because only the answer shows whether it was executed; its timeout bounds
//! that wait. Must not know what the worker does between the waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::engine::mailbox::Mailbox;
use crate::engine::noted_calls::QuarantinePermit;
use crate::engine::shared::Shared;
use crate::engine::turns::TurnPermit;
use crate::handler::definition::Handler;
use crate::handler::event_sink::OperatorSink;
use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::happening::calls::AbruptEnd;
use crate::object::key::Key;
use crate::object::reference::Reference;
use crate::reaction::input::Suspension;

pub(super) mod own_thread;

/// The value of [`WorkerContext`]'s term if there is no Lease and hence no terms.
const NO_TERM: u64 = u64::MAX;

/// The context of one object's worker.
pub(super) struct WorkerContext {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    pub(super) about: Arc<Reference>,
    /// Notified whenever a message arrives.
    wake: Arc<Notify>,
    logger: Logger,
    place: Place,
    /// The permits of a cycle, in addition to the worker permit.
    turn: TurnPermit,
    /// The quarantine permit, held if a call for the object may have crashed the operator.
    suspect: Option<QuarantinePermit>,
    /// The worker knows that the object is no longer watched and does its last work, which that fact must not interrupt again.
    pub(super) is_ending: bool,
    /// The term of the Lease in which the last cycle has begun (before the first cycle: in which the worker was started), or [`NO_TERM`].
    /// Not an `Option`, to save memory: thousands of contexts wait.
    term: u64,
}

/// The worker permit.
#[derive(Debug)]
enum Place {
    /// No permit is held.
    Left,
    /// A permit is held, or there is no limit.
    Taken { _permit: Option<OwnedSemaphorePermit> },
}

impl Place {
    async fn take(&mut self, shared: &Shared) {
        if matches!(self, Self::Left) {
            let permit = shared.place().await;
            *self = Self::Taken { _permit: permit };
        }
    }
}

impl WorkerContext {
    pub(super) fn new(shared: Arc<Shared>, key: Key, about: Arc<Reference>, wake: Arc<Notify>) -> Self {
        let sink = shared.setup.extensions.get::<OperatorSink>();
        let term = shared.setup.cluster.term().unwrap_or(NO_TERM);
        Self {
            logger: Logger::of(about.clone()).posting_to(sink.as_deref()),
            shared,
            key,
            about,
            wake,
            place: Place::Left,
            turn: TurnPermit::default(),
            suspect: None,
            is_ending: false,
            term,
        }
    }

    /// Waits for the permits to begin a cycle. Returns `false` if no cycle may begin: the operator stops, or the object is no longer
    /// watched, which needs no permit to be handled.
    pub(super) async fn begin(&mut self) -> bool {
        let Self { shared, key, about, wake, place, turn, suspect, is_ending, .. } = self;
        // Pinned here because a future that is moved into another one is stored twice, and a waiting worker must be small.
        let mut ready = pin!(async {
            shared.indexing.indexed(key).await;
            if suspect.is_none() {
                *suspect = shared.setup.notes.turn(&about.uid).await;
            }
            place.take(shared).await;
            // After the worker permit, and both are released together: a worker that waits for a worker permit never holds a cycle permit,
            // which avoids a deadlock.
            shared.turns.begin(turn).await;
            shared.setup.notes.begin_turn(suspect);
        });
        let may_begin = tokio::select! {
            biased;
            () = shared.gate.closed() => false,
            () = &mut ready => true,
            // Boxed on the first poll, which happens only if the worker has to wait.
            () = async { Box::pin(wait_until_unwatched(shared, key, wake, *is_ending)).await } => false,
        };
        if may_begin {
            self.term = shared.setup.cluster.term().unwrap_or(NO_TERM);
        }
        may_begin
    }

    /// Returns the term of the Lease that this cycle belongs to; `None` without a Lease.
    pub(super) fn term(&self) -> Option<u64> {
        Some(self.term).filter(|it| *it != NO_TERM)
    }

    /// Waits until the newest known state is indexed, without holding permits that others need, and starts over if it has released its own.
    /// Returns `false` if no cycle may begin.
    pub(super) async fn is_indexed(&mut self) -> bool {
        if self.shared.indexing.is_behind(&self.key) {
            self.leave_place();
        }
        self.begin_again().await
    }

    /// Starts over if the worker has released its permits. Returns `false` if no cycle may begin.
    pub(super) async fn begin_again(&mut self) -> bool {
        if self.turn.is_held() {
            return self.goes_on();
        }
        self.begin().await
    }

    fn goes_on(&self) -> bool {
        self.shared.gate.is_open() && !self.is_interrupted()
    }

    /// Waits for a worker permit to finish work that has begun, even while the operator stops. Returns `false` if the wait is interrupted.
    pub(super) async fn go_on(&mut self) -> bool {
        if matches!(self.place, Place::Taken { .. }) {
            return true;
        }
        let Self { shared, key, wake, place, is_ending, .. } = self;
        tokio::select! {
            biased;
            () = place.take(shared) => true,
            () = async { Box::pin(wait_until_unwatched(shared, key, wake, *is_ending)).await } => false,
        }
    }

    /// Waits until the object is no longer watched; for ever if the worker knows that already.
    pub(super) async fn unwatched(&self) {
        Box::pin(wait_until_unwatched(&self.shared, &self.key, &self.wake, self.is_ending)).await;
    }

    /// Returns whether the object is no longer watched, which interrupts every wait.
    pub(super) fn is_interrupted(&self) -> bool {
        !self.is_ending && self.is_unwatched()
    }

    /// Awaits calls without a cycle permit, and takes it again to settle and write their outcomes. If the operator stops, it does not wait
    /// for the permit.
    pub(super) async fn call<T>(&self, calls: impl Future<Output = T>) -> T {
        let called = self.turn.held_for(TurnPermit::CALLS, calls).await;
        self.go_on_with_turn().await;
        called
    }

    /// Waits for the cycle permit unless it is held. Returns `false` without waiting if the operator stops.
    pub(super) async fn go_on_with_turn(&self) -> bool {
        let Shared { gate, turns, .. } = &*self.shared;
        gate.admit(turns.go_on(&self.turn)).await.is_some()
    }

    /// Returns the cycle permit. Hold it for short requests only, because others wait for it.
    pub(super) fn turn(&self) -> TurnPermit {
        self.turn.clone()
    }

    /// Notes that a request has failed and will be repeated, so that the waiting time counts as waiting for the server.
    pub(super) fn note_held_up(&self) {
        self.shared.queue.note_held_up(&self.key);
    }

    /// Releases the permits.
    pub(super) fn leave_place(&mut self) {
        self.place = Place::Left;
        self.turn.release();
        self.suspect = None;
    }

    /// Sleeps. Returns `false` as soon as the object is deleted or no longer watched, or the operator stops.
    pub(super) async fn pause(&mut self, pause: Duration) -> bool {
        self.leave_place();
        let until = Instant::now() + pause;
        loop {
            if self.is_deleted() || self.is_interrupted() {
                return false;
            }
            tokio::select! {
                biased;
                () = self.shared.gate.closed() => return false,
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(until) => return true,
            }
        }
    }

    /// Sleeps until the given time and returns `true`; or `false` as soon as a message arrives or the operator stops.
    pub(super) async fn sleep_until(&mut self, at: Instant) -> bool {
        self.leave_place();
        tokio::select! {
            biased;
            () = self.shared.gate.closed() => false,
            () = self.wake.notified() => false,
            () = tokio::time::sleep_until(at) => true,
        }
    }

    /// Returns the signal that wakes the worker.
    pub(super) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// Waits until a message arrives, or returns at once if one has arrived since the last wait. Returns at once, too, if calls have ended,
    /// because another wait may have consumed their signal.
    pub(super) async fn await_message(&mut self) {
        self.leave_place();
        if self.shared.queue.peek(&self.key, Mailbox::has_returned) == Some(true) {
            return;
        }
        self.woken().await;
    }

    /// Waits like [`Self::await_message`], but keeps the permits.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns whether a deletion waits to be handled, after which nothing can be written.
    pub(super) fn is_deleted(&self) -> bool {
        self.shared.queue.is_deleted(&self.key)
    }

    /// Returns whether the object is no longer watched.
    pub(super) fn is_unwatched(&self) -> bool {
        self.shared.queue.peek(&self.key, Mailbox::is_unwatched) == Some(true)
    }

    /// Returns whether a state waits in the mailbox.
    pub(super) fn has_state(&self) -> bool {
        self.shared.queue.peek(&self.key, Mailbox::has_state) == Some(true)
    }

    /// Returns whether another call may begin within the present cycle.
    pub(super) fn may_call(&self) -> bool {
        self.shared.may_call(&self.key)
    }

    /// Returns the handlers that are suspended for the object.
    pub(super) fn suspended(&self) -> Vec<Suspension> {
        self.shared.setup.notes.suspended(&self.about.uid)
    }

    /// Reports that a handler is suspended for the object; `deletion` says that a deletion waits for the handler.
    pub(super) fn tell_suspended(&self, handler: &Arc<Handler>, deletion: bool) {
        let setup = &self.shared.setup;
        let Some(crashes) = setup.notes.news(handler, &self.about.uid) else {
            return;
        };
        let finalizer = deletion.then(|| setup.persistence.finalizer.clone());
        self.report(&AbruptEnd::HandlerSuspended { handler: handler.clone(), crashes, finalizer });
        if setup.once {
            let what = format!("{handler} is suspended for {}", self.about);
            self.shared.give_up(what);
        }
    }

    pub(super) fn logger(&self) -> &Logger {
        &self.logger
    }

    pub(super) fn report(&self, happening: &dyn Happening) {
        self.shared.report(&self.logger, &self.about, happening);
    }
}

/// Waits until the mailbox says that the object is no longer watched. With `is_ending`, waits for ever.
async fn wait_until_unwatched(shared: &Shared, key: &Key, wake: &Notify, is_ending: bool) {
    if is_ending {
        return std::future::pending().await;
    }
    while shared.queue.peek(key, Mailbox::is_unwatched) != Some(true) {
        wake.notified().await;
    }
}
