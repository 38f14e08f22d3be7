//! Posts Kubernetes Events: takes them from handlers without waiting, keeps them in a bounded queue, and posts them in one task, one after the
//! other. A failed request is repeated a few times; then the Event is logged and dropped.
//!
//! `reaction::event_series` decides which Events are posted, counted or dropped. If Events are disabled, there is neither a task nor a
//! queue.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::engine::posting::queue::{EventQueue, PostingWork};
use crate::engine::report::report_of_operator;
use crate::handler::event_sink::{OperatorSink, PostingGates};
use crate::happening::meter::{SharedMeter, WhyLeftOut};
use crate::happening::operating::Posting;
use crate::object::posted_event::{PostedEvent, Reporter, series_patch};
use crate::reaction::event_series::SeriesUpdate;
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;
use crate::rt::task;

/// The maximum number of attempts for one request.
const TRIES: u32 = 9;
/// The time for which the task posts nothing to a namespace after a denial.
const FORBIDDEN: Duration = Duration::from_secs(60);

/// The Events of an operator.
#[derive(Debug)]
pub(crate) struct EventPosting {
    queue: Arc<EventQueue>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The parts that a poster needs.
#[derive(Debug)]
pub(crate) struct PosterSetup {
    pub(crate) cluster: Cluster,
    pub(crate) reporter: Reporter,
    /// The prefix of the names of Events.
    pub(crate) prefix: String,
    /// The first and the longest back-off after a failed request.
    pub(crate) backoff: (Duration, Duration),
}

/// The task that posts Events.
struct Poster {
    queue: Arc<EventQueue>,
    setup: PosterSetup,
    /// The missing RBAC rules that have been reported.
    told: BTreeSet<String>,
    /// Namespaces that deny Events, with the end of the pause.
    forbidden: BTreeMap<String, Instant>,
}

impl EventPosting {
    pub(crate) fn new(clock: Clock, meter: SharedMeter) -> Self {
        Self { queue: Arc::new(EventQueue::new(clock, meter)), task: Mutex::default() }
    }

    /// Returns the sink that handlers post to.
    pub(crate) fn sink(&self) -> OperatorSink {
        OperatorSink(self.queue.clone())
    }

    /// Accepts and posts Events from now on.
    pub(crate) fn start(&self, gates: PostingGates, setup: PosterSetup) {
        if self.queue.open(gates) {
            let (told, forbidden) = (BTreeSet::new(), BTreeMap::new());
            let poster = Poster { queue: self.queue.clone(), setup, told, forbidden };
            let task = AbortOnDropHandle::new(task::spawn(poster.run()));
            *self.task.lock() = Some(task);
        }
    }

    /// Posts the waiting Events within the time limit `patience`, and reports how many remain.
    pub(crate) async fn finish(&self, patience: Duration) {
        let task = self.task.lock().take();
        let Some(mut task) = task else {
            return;
        };
        self.queue.close();
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            drop(task);
            self.queue.report_left_out(self.queue.left(), WhyLeftOut::Stop);
        }
    }
}

impl Poster {
    /// Runs until the operator ends and no Event waits.
    async fn run(mut self) {
        while let Some(work) = self.queue.next().await {
            match work {
                PostingWork::Post(event) => self.post(&event).await,
                PostingWork::Count(update) => self.count(&update).await,
            }
        }
    }

    async fn post(&mut self, event: &PostedEvent) {
        let now = self.queue.now();
        // Unique, and sortable by time.
        let mark = self.setup.cluster.rng().next_f64() * f64::from(u16::MAX);
        let name = format!("{}{:x}-{mark:04.0}", self.setup.prefix, now.as_nanosecond());
        let body = event.body(&name, &self.setup.reporter, now);
        let namespace = event.regarding.namespace();
        match self.send(namespace, None, &body).await {
            Some(Ok(())) => self.queue.posted(event, &name),
            failed => {
                self.queue.forget(event.key());
                self.report_failure(namespace, failed);
            }
        }
    }

    async fn count(&mut self, update: &SeriesUpdate) {
        let patch = series_patch(update.count, update.last_observed);
        let sent = self.send(&update.namespace, Some(&update.name), &patch).await;
        if matches!(sent, Some(Err(ClusterError::NotFound(_)))) {
            self.queue.forget(update.key);
        }
        self.report_failure(&update.namespace, sent);
    }

    /// Creates an Event, or patches the one with that name. Repeats a failed request a few times. Returns `None` if the namespace is known
    /// to deny Events.
    async fn send(
        &mut self,
        namespace: &str,
        name: Option<&str>,
        body: &Value,
    ) -> Option<Result<(), ClusterError>> {
        self.forbidden.retain(|_, until| *until > Instant::now());
        if self.forbidden.contains_key(namespace) {
            return None;
        }
        let cluster = &self.setup.cluster;
        let (first, longest) = self.setup.backoff;
        let mut backoff = Backoff::new(first, longest);
        for tries in 1.. {
            let Err(error) = cluster.send_event(namespace, name, body).await else {
                return Some(Ok(()));
            };
            let may_pass = error.is_transient() || matches!(error, ClusterError::Unauthorized(_));
            if !may_pass || tries == TRIES {
                return Some(Err(error));
            }
            let at_least = error.retry_after().unwrap_or_default();
            let pause = backoff.next_pause_after(at_least, cluster.rng());
            self.queue.pause(pause).await;
        }
        None
    }

    fn report_failure(&mut self, namespace: &str, sent: Option<Result<(), ClusterError>>) {
        let Some(Err(error)) = sent else { return };
        let posting = match error {
            ClusterError::Denied { message, rule } if !rule.is_empty() => {
                let until = Instant::now() + FORBIDDEN;
                self.forbidden.insert(namespace.to_owned(), until);
                // The first line names the namespace; without it, the rule is the same for all namespaces and is reported once.
                let what = rule.split_once('\n').map_or(&*rule, |(_, what)| what);
                if !self.told.insert(what.to_owned()) {
                    return;
                }
                Posting::Forbidden { error: message, rule }
            }
            ClusterError::Denied { .. } | ClusterError::NotFound(_) => {
                Posting::Vain { error: error.to_string() }
            }
            _ => Posting::Refused { error: error.to_string() },
        };
        report_of_operator(&posting);
    }
}
