//! Posts Kubernetes Events: takes them from handlers without waiting, keeps them in a bounded queue, and posts them in one task.
//!
//! `reaction::event_series` decides which Events are posted, counted or dropped. If Events are disabled, there is neither a task nor a
//! queue.

pub(crate) mod poster;
pub(crate) mod queue;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::engine::posting::poster::{Poster, PosterSetup};
use crate::engine::posting::queue::{EventQueue, PostingGates};
use crate::engine::report::report_of_operator;
use crate::handler::event_sink::OperatorSink;
use crate::happening::Happening;
use crate::happening::meter::{SharedMeter, WhyLeftOut};
use crate::happening::operating::Posting;
use crate::rt::clock::Clock;

/// The Events of an operator.
#[derive(Debug)]
pub(crate) struct EventPosting {
    queue: Arc<EventQueue>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
    meter: SharedMeter,
}

// === impl ===

impl EventPosting {
    pub(crate) fn new(clock: Clock, meter: SharedMeter) -> Self {
        Self { queue: Arc::new(EventQueue::new(clock)), task: Mutex::default(), meter }
    }

    /// Returns the sink that handlers post to.
    pub(crate) fn sink(&self) -> OperatorSink {
        OperatorSink(self.queue.clone())
    }

    /// Accepts and posts Events from now on.
    pub(crate) fn start(&self, gates: PostingGates, setup: PosterSetup) {
        if self.queue.open(gates) {
            let poster = Poster::new(self.queue.clone(), setup, self.meter.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(poster.run()));
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
    }

    /// Posts the waiting Events within the time limit `patience`, and reports how many remain.
    pub(crate) async fn finish(&self, patience: Duration) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else {
            return;
        };
        self.queue.close();
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            drop(task);
            let events = self.queue.left();
            let why = WhyLeftOut::Stop;
            let left_out = Posting::LeftOut { events, why };
            if let Some(meter) = &self.meter {
                left_out.count(&**meter);
            }
            report_of_operator(&left_out);
        }
    }
}
