//! What the parts of one object's worker share: which object it is, its place in the worker limit and among the turns, its pauses, its log.
//!
//! Promises that nobody holds a place while it pauses, and that a pause ends when the operator stops or the object is deleted. Must not
//! know what is done in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::engine::key::Key;
use crate::engine::mailbox::Mailbox;
use crate::engine::noted_calls::SuspectsTurn;
use crate::engine::shared::Shared;
use crate::engine::turns::TurnPermit;
use crate::handler::definition::Handler;
use crate::handler::event_sink::OperatorSink;
use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::happening::abrupt_end::AbruptEnd;
use crate::object::reference::Reference;
use crate::reaction::suspension::Suspension;

/// There are no terms, since there is no Lease.
const NO_TERM: u64 = u64::MAX;

/// One object that has a worker.
pub(super) struct WorkerContext {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    pub(super) about: Arc<Reference>,
    /// Told whenever a letter comes in.
    wake: Arc<Notify>,
    logger: Logger,
    place: Place,
    /// What a turn needs beside the place.
    turn: TurnPermit,
    /// Where a call for the object may have ended the operator abruptly: its turn.
    suspect: Option<SuspectsTurn>,
    /// The term of the Lease in which the last turn has begun, or [`NO_TERM`]: thousands of these wait.
    term: u64,
}

/// The place in the worker limit.
#[derive(Debug)]
enum Place {
    /// None is held.
    Left,
    /// One is held, or there is no limit.
    Taken {
        _permit: Option<OwnedSemaphorePermit>,
    },
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
    pub(super) fn new(
        shared: Arc<Shared>,
        key: Key,
        about: Arc<Reference>,
        wake: Arc<Notify>,
    ) -> Self {
        let sink = shared.setup.extensions.get::<OperatorSink>();
        Self {
            logger: Logger::of(about.clone()).posting_to(sink.as_deref()),
            shared,
            key,
            about,
            wake,
            place: Place::Left,
            turn: TurnPermit::default(),
            suspect: None,
            term: NO_TERM,
        }
    }

    /// Wait for a place to begin something. `false` where nothing is to begin any more.
    pub(super) async fn begin(&mut self) -> bool {
        let Self {
            shared,
            key,
            about,
            place,
            turn,
            suspect,
            ..
        } = self;
        let ready = async {
            shared.indexing.indexed(key).await;
            if let (None, Some(notes)) = (&*suspect, &shared.setup.notes) {
                *suspect = notes.turn(&about.uid).await;
            }
            place.take(shared).await;
            // After the place, and both are left together: nobody has a turn who waits for a place.
            shared.turns.begin(turn).await;
            if let Some(notes) = &shared.setup.notes {
                notes.begin_turn(suspect);
            }
        };
        let may_begin = shared.gate.admit(ready).await.is_some();
        if may_begin {
            self.term = shared.setup.cluster.term().unwrap_or(NO_TERM);
        }
        may_begin
    }

    /// The term that what is done in this turn belongs to, where there are terms.
    pub(super) fn term(&self) -> Option<u64> {
        Some(self.term).filter(|it| *it != NO_TERM)
    }

    /// Wait until what has come in meanwhile is indexed, without anything that others wait for. `false` where nothing is to begin any more.
    pub(super) async fn is_indexed(&mut self) -> bool {
        if !self.shared.indexing.is_behind(&self.key) {
            return self.shared.gate.is_open();
        }
        self.leave_place();
        self.begin().await
    }

    /// Begin anew where the place, or what else a turn needs, was left since. `false` where nothing is to begin any more.
    pub(super) async fn begin_again(&mut self) -> bool {
        if self.turn.is_held() {
            return self.shared.gate.is_open();
        }
        self.begin().await
    }

    /// Wait for a place to end what has begun: the gate is not asked.
    pub(super) async fn go_on(&mut self) {
        self.place.take(&self.shared).await;
    }

    /// Make calls. What they come to is settled and written in a turn again, unless the operator stops: then it waits for nothing.
    pub(super) async fn call<T>(&self, calls: impl Future<Output = T>) -> T {
        let called = self.turn.held_for(TurnPermit::CALLS, calls).await;
        self.go_on_with_turn().await;
        called
    }

    /// Wait for a permit to go on with the turn, unless it is held still. `false` where the operator stops: then nothing is waited for.
    pub(super) async fn go_on_with_turn(&self) -> bool {
        let Shared { gate, turns, .. } = &*self.shared;
        gate.admit(turns.go_on(&self.turn)).await.is_some()
    }

    /// The permit for requests, to be held for a while only: others wait for it.
    pub(super) fn turn(&self) -> TurnPermit {
        self.turn.clone()
    }

    /// A request has failed and will be repeated: what waits for the object waits for the server.
    pub(super) fn is_held_up(&self) {
        self.shared.queue.is_held_up(&self.key);
    }

    /// Give the place to whoever waits for one.
    pub(super) fn leave_place(&mut self) {
        self.place = Place::Left;
        self.turn.give_back();
        self.suspect = None;
    }

    /// Sleep, unless the object is deleted or the operator stops meanwhile: then `false`.
    pub(super) async fn pause(&mut self, pause: Duration) -> bool {
        self.leave_place();
        let until = Instant::now() + pause;
        loop {
            if self.is_deleted() {
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

    /// Sleep until it is time, or a letter comes in, or the operator stops: `true` where it is time.
    pub(super) async fn sleep_until(&mut self, at: Instant) -> bool {
        self.leave_place();
        tokio::select! {
            biased;
            () = self.shared.gate.closed() => false,
            () = self.wake.notified() => false,
            () = tokio::time::sleep_until(at) => true,
        }
    }

    /// What wakes the worker.
    pub(super) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// Wait until a letter comes in, or one has come in since this was last awaited.
    pub(super) async fn letter(&mut self) {
        self.leave_place();
        self.woken().await;
    }

    /// The same, with the place kept.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Whether nothing can be written any more, since a deletion waits to be handled.
    pub(super) fn is_deleted(&self) -> bool {
        self.shared.queue.is_deleted(&self.key)
    }

    /// Whether the object is not watched any more.
    pub(super) fn is_unwatched(&self) -> bool {
        self.shared.queue.peek(&self.key, Mailbox::is_unwatched) == Some(true)
    }

    /// Whether a state waits to be looked at.
    pub(super) fn has_state(&self) -> bool {
        self.shared.queue.peek(&self.key, Mailbox::has_state) == Some(true)
    }

    /// Whether another call may begin within a turn that has begun already.
    pub(super) fn may_call(&self) -> bool {
        self.shared.may_call(&self.key)
    }

    /// The handlers that are not to be called for the object.
    pub(super) fn suspended(&self) -> Vec<Suspension> {
        let notes = self.shared.setup.notes.as_ref();
        notes.map_or_else(Vec::new, |notes| notes.suspended(&self.about.uid))
    }

    /// A handler is not called for the object as it is; a `deletion` that waits for it.
    pub(super) fn tell_suspended(&self, handler: &Arc<Handler>, deletion: bool) {
        let setup = &self.shared.setup;
        let notes = setup.notes.as_ref();
        let Some(crashes) = notes.and_then(|it| it.news(handler, &self.about.uid)) else {
            return;
        };
        let finalizer = deletion.then(|| setup.persistence.finalizer.clone());
        self.report(&Happening::AbruptEnd(AbruptEnd::HandlerSuspended {
            handler: handler.clone(),
            crashes,
            finalizer,
        }));
        if setup.once {
            let what = format!("{handler} is suspended for {}", self.about);
            self.shared.give_up(what);
        }
    }

    pub(super) fn logger(&self) -> &Logger {
        &self.logger
    }

    pub(super) fn report(&self, happening: &Happening) {
        self.shared.report(&self.logger, &self.about, happening);
    }
}
