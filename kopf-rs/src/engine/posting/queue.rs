//! The queue between handlers and the task that posts their Events.
//!
//! Promises that nobody waits who puts something into it, and that it takes no more memory than its limits. Must not know requests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::handler::event_sink::{EventSink, PostingLevel};
use crate::object::posted_event::PostedEvent;
use crate::reaction::event_series::{EventSeries, SeriesUpdate, Verdict};
use crate::rt::clock::Clock;

/// So many Events wait for the server.
const QUEUE: usize = 1_000;
/// How often it is told at most that Events are left out.
const TELLING: Duration = Duration::from_secs(60);

/// Which Events are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingGates {
    pub(crate) level: PostingLevel,
    pub(crate) lines: bool,
}

/// Between handlers and the task that posts.
#[derive(Debug)]
pub(crate) struct EventQueue {
    clock: Clock,
    /// Set once Events are posted. Before that, and where they are off, none is taken.
    gates: OnceLock<PostingGates>,
    state: Mutex<State>,
    woken: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<PostedEvent>,
    is_posting: bool,
    series: EventSeries,
    left_out: LeftOut,
    /// When it was last told that some are left out.
    told: Option<Timestamp>,
}

/// How many were left out since that was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) queue_full: u64,
    pub(super) too_many: u64,
}

/// The next step of the task.
#[derive(Debug, PartialEq)]
pub(super) enum PostingStep {
    Post(PostedEvent),
    Count(SeriesUpdate),
    Tell(LeftOut),
    /// Until then, or until something comes in.
    Wait(Option<Timestamp>),
    End,
}

impl EventSink for EventQueue {
    fn is_enabled(&self) -> bool {
        self.gates.get().is_some()
    }

    fn takes(&self, level: PostingLevel) -> bool {
        self.gates.get().is_some_and(|gates| level >= gates.level)
    }

    fn takes_lines(&self) -> bool {
        self.gates.get().is_some_and(|gates| gates.lines)
    }

    fn post(&self, event: PostedEvent) {
        if event.regarding.is_event() {
            return;
        }
        let now = self.clock.now();
        let mut state = self.lock();
        match state.series.observe(&event, now) {
            Verdict::Post if state.waiting.len() >= QUEUE => {
                state.series.forget(event.key());
                state.left_out.queue_full += 1;
            }
            Verdict::Post => state.waiting.push_back(event),
            Verdict::Counted => {}
            Verdict::TooMany => state.left_out.too_many += 1,
        }
        drop(state);
        self.woken.notify_one();
    }
}

impl EventQueue {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            gates: OnceLock::new(),
            state: Mutex::default(),
            woken: Notify::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Take Events from now on. `false` where it does already.
    pub(super) fn open(&self, gates: PostingGates) -> bool {
        self.gates.set(gates).is_ok()
    }

    /// Takes no more Events: those that wait are the last ones.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next step. The step before counts as done.
    pub(super) fn next(&self) -> PostingStep {
        let (now, is_end) = (self.clock.now(), self.closing.is_cancelled());
        let mut state = self.lock();
        let event = state.waiting.pop_front();
        state.is_posting = event.is_some();
        if let Some(event) = event {
            return PostingStep::Post(event);
        }
        if let Some(update) = state.series.due(now, is_end) {
            return PostingStep::Count(update);
        }
        let some_are_left_out = state.left_out != LeftOut::default();
        let again = state.told.and_then(|told| told.checked_add(TELLING).ok());
        if some_are_left_out && (is_end || again.is_none_or(|at| at <= now)) {
            state.told = Some(now);
            return PostingStep::Tell(std::mem::take(&mut state.left_out));
        }
        if is_end {
            return PostingStep::End;
        }
        let telling = again.filter(|_| some_are_left_out);
        PostingStep::Wait(state.series.next_due().into_iter().chain(telling).min())
    }

    /// Until there may be something to do.
    pub(super) async fn wait(&self, until: Option<Timestamp>) {
        let due = async {
            match until {
                Some(at) => tokio::time::sleep_until(self.clock.instant(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            () = self.woken.notified() => {}
            () = due => {}
        }
    }

    /// A pause after a failed request: a short one where the operator ends.
    pub(super) async fn pause(&self, pause: Duration) {
        /// Nobody waits for longer when the operator stops.
        const SHORT: Duration = Duration::from_millis(500);
        tokio::select! {
            biased;
            () = self.closing.cancelled() => tokio::time::sleep(pause.min(SHORT)).await,
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// The server has the Event, under that name.
    pub(super) fn posted(&self, event: &PostedEvent, name: &str) {
        self.lock().series.posted(event.key(), name);
    }

    /// The server does not have it, or not any more.
    pub(super) fn forget(&self, key: u64) {
        self.lock().series.forget(key);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How many are not posted yet.
    pub(super) fn left(&self) -> u64 {
        let state = self.lock();
        let left = state.waiting.len() + usize::from(state.is_posting);
        u64::try_from(left).unwrap_or(u64::MAX)
    }
}
