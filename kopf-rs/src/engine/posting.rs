//! Kubernetes Events: taken from handlers without waiting, kept in a queue of limited length, and posted by one task.
//!
//! Which of them are posted, counted or left out is decided in `reaction::event_series`. Where Events are off, there is no task and no queue.

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
use crate::happening::meter::SharedMeter;
use crate::happening::posting::{Posting, WhyLeftOut};
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
        Self {
            queue: Arc::new(EventQueue::new(clock)),
            task: Mutex::default(),
            meter,
        }
    }

    /// Where handlers post to.
    pub(crate) fn sink(&self) -> OperatorSink {
        OperatorSink(self.queue.clone())
    }

    /// Take Events from now on, and post them.
    pub(crate) fn start(&self, gates: PostingGates, setup: PosterSetup) {
        if self.queue.open(gates) {
            let poster = Poster::new(self.queue.clone(), setup, self.meter.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(poster.run()));
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
    }

    /// Post what waits, for so long at most. What is left then is told.
    pub(crate) async fn finish(&self, patience: Duration) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut task) = task else {
            return;
        };
        self.queue.close();
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            drop(task);
            let events = self.queue.left();
            let why = WhyLeftOut::Stop;
            let left_out = Happening::Posting(Posting::LeftOut { events, why });
            if let Some(meter) = &self.meter {
                meter.happened(&left_out);
            }
            report_of_operator(&left_out);
        }
    }
}
