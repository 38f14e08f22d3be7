//! The queue between handlers and the task that posts their Events.
//!
//! Guarantees that posting never waits, and that memory stays within the limits. Must not know requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::OptionFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::report::report_of_operator;
use crate::handler::event_sink::{EventSink, PostingGates};
use crate::happening::meter::{SharedMeter, WhyLeftOut};
use crate::happening::operating::Posting;
use crate::object::posted_event::PostedEvent;
use crate::reaction::event_series::{EventSeries, SeriesUpdate, Verdict};
use crate::rt::clock::Clock;

/// The maximum number of waiting Events.
const QUEUE: usize = 1_000;
/// The minimum interval between two reports of dropped Events.
const TELLING: Duration = Duration::from_secs(60);

/// The queue between handlers and the posting task.
#[derive(Debug)]
pub(crate) struct EventQueue {
    clock: Clock,
    /// Set when posting starts. Before that, and if Events are disabled, no Event is accepted.
    gates: OnceLock<PostingGates>,
    state: Mutex<State>,
    woken: Notify,
    closing: CancellationToken,
    meter: SharedMeter,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<PostedEvent>,
    is_posting: bool,
    series: EventSeries,
    /// The number of Events dropped since the last report.
    left_out: BTreeMap<WhyLeftOut, u64>,
    /// When dropped Events were last reported.
    told: Option<Timestamp>,
}

/// The next work of the posting task.
#[derive(Debug, PartialEq)]
pub(super) enum PostingWork {
    Post(PostedEvent),
    Count(SeriesUpdate),
}

impl EventSink for EventQueue {
    fn gates(&self) -> Option<PostingGates> {
        self.gates.get().copied()
    }

    fn post(&self, event: PostedEvent) {
        if event.regarding.is_event() {
            return;
        }
        let now = self.clock.now();
        let mut state = self.state.lock();
        match state.series.observe(&event, now) {
            Verdict::Post if state.waiting.len() >= QUEUE => {
                state.series.forget(event.key());
                *state.left_out.entry(WhyLeftOut::QueueFull).or_default() += 1;
            }
            Verdict::Post => state.waiting.push_back(event),
            Verdict::Counted => {}
            Verdict::TooMany => *state.left_out.entry(WhyLeftOut::TooMany).or_default() += 1,
        }
        drop(state);
        self.woken.notify_one();
    }
}

impl EventQueue {
    pub(super) fn new(clock: Clock, meter: SharedMeter) -> Self {
        Self {
            clock,
            gates: OnceLock::new(),
            state: Mutex::default(),
            woken: Notify::new(),
            closing: CancellationToken::new(),
            meter,
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

    /// Waits for the next work; `None` at the end. The call implies that the former work is done. Reports dropped Events in between.
    pub(super) async fn next(&self) -> Option<PostingWork> {
        loop {
            let (left_out, until) = {
                let (now, is_end) = (self.clock.now(), self.closing.is_cancelled());
                let mut state = self.state.lock();
                let event = state.waiting.pop_front();
                state.is_posting = event.is_some();
                if let Some(event) = event {
                    return Some(PostingWork::Post(event));
                }
                if let Some(update) = state.series.due(now, is_end) {
                    return Some(PostingWork::Count(update));
                }
                let again = state.told.and_then(|told| told.checked_add(TELLING).ok());
                let again = again.filter(|at| !is_end && *at > now);
                let left_out = match again {
                    None if !state.left_out.is_empty() => {
                        state.told = Some(now);
                        std::mem::take(&mut state.left_out)
                    }
                    _ => BTreeMap::new(),
                };
                if is_end && left_out.is_empty() {
                    return None;
                }
                let again = again.filter(|_| !state.left_out.is_empty());
                (left_out, state.series.next_due().into_iter().chain(again).min())
            };
            if left_out.is_empty() {
                self.wait(until).await;
            }
            for (why, events) in left_out {
                self.report_left_out(events, why);
            }
        }
    }

    async fn wait(&self, until: Option<Timestamp>) {
        let due = until.map(|at| tokio::time::sleep_until(self.clock.instant(at)));
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            () = self.woken.notified() => {}
            Some(()) = OptionFuture::from(due) => {}
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
        if let Some(meter) = &self.meter {
            meter.event_posted();
        }
        self.state.lock().series.posted(event.key(), name);
    }

    /// Notes that the server does not have the Event, or no longer has it.
    pub(super) fn forget(&self, key: u64) {
        self.state.lock().series.forget(key);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the number of Events not posted yet.
    pub(super) fn left(&self) -> u64 {
        let state = self.state.lock();
        let left = state.waiting.len() + usize::from(state.is_posting);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    pub(super) fn report_left_out(&self, events: u64, why: WhyLeftOut) {
        if let Some(meter) = &self.meter {
            meter.events_dropped(events, why);
        }
        report_of_operator(&Posting::LeftOut { events, why });
    }
}
