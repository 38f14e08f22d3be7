//! The queue between handlers and the task that posts their Events.
//!
//! Guarantees that posting never waits, and that memory stays within the limits. Must not know requests.

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

/// The maximum number of waiting Events.
const QUEUE: usize = 1_000;
/// The minimum interval between two reports of dropped Events.
const TELLING: Duration = Duration::from_secs(60);

/// The filters for Events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingGates {
    pub(crate) level: PostingLevel,
    pub(crate) lines: bool,
}

/// The queue between handlers and the posting task.
#[derive(Debug)]
pub(crate) struct EventQueue {
    clock: Clock,
    /// Set when posting starts. Before that, and if Events are disabled, no Event is accepted.
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
    /// When dropped Events were last reported.
    told: Option<Timestamp>,
}

/// The number of Events dropped since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) queue_full: u64,
    pub(super) too_many: u64,
}

/// The next step of the posting task.
#[derive(Debug, PartialEq)]
pub(super) enum PostingStep {
    Post(PostedEvent),
    Count(SeriesUpdate),
    Tell(LeftOut),
    /// Wait until this time, or until an Event arrives.
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

    /// Accepts Events from now on. Returns `false` if it was open already.
    pub(super) fn open(&self, gates: PostingGates) -> bool {
        self.gates.set(gates).is_ok()
    }

    /// Accepts no more Events; the waiting ones are the last.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next step. The call implies that the former step is done.
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

    /// Waits until there may be another step.
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

    /// Pauses after a failed request; shortly if the operator ends.
    pub(super) async fn pause(&self, pause: Duration) {
        /// The limit of a pause while the operator stops.
        const SHORT: Duration = Duration::from_millis(500);
        tokio::select! {
            biased;
            () = self.closing.cancelled() => tokio::time::sleep(pause.min(SHORT)).await,
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// Notes that the server has the Event, under this name.
    pub(super) fn posted(&self, event: &PostedEvent, name: &str) {
        self.lock().series.posted(event.key(), name);
    }

    /// Notes that the server does not have the Event, or no longer has it.
    pub(super) fn forget(&self, key: u64) {
        self.lock().series.forget(key);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the number of Events not posted yet.
    pub(super) fn left(&self) -> u64 {
        let state = self.lock();
        let left = state.waiting.len() + usize::from(state.is_posting);
        u64::try_from(left).unwrap_or(u64::MAX)
    }
}
