//! The task that posts Events, one after the other. It repeats a failed request a few times, then logs and drops the Event.
//!
//! Must not know where Events come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::engine::posting::queue::{EventQueue, LeftOut, PostingStep};
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::meter::{SharedMeter, WhyLeftOut};
use crate::happening::operating::Posting;
use crate::object::posted_event::{PostedEvent, Reporter, series_patch};
use crate::reaction::event_series::SeriesUpdate;
use crate::rt::backoff::Backoff;

/// The maximum number of attempts for one request.
const TRIES: u32 = 9;
/// The time for which the task posts nothing to a namespace after a denial.
const FORBIDDEN: Duration = Duration::from_secs(60);

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

/// Posts Events.
pub(super) struct Poster {
    queue: Arc<EventQueue>,
    setup: PosterSetup,
    meter: SharedMeter,
    /// The missing RBAC rules that have been reported.
    told: BTreeSet<String>,
    /// Namespaces that deny Events, with the end of the pause.
    forbidden: BTreeMap<String, Instant>,
}

/// One request.
#[derive(Clone, Copy)]
enum Request<'a> {
    Post(&'a Value),
    Patch { name: &'a str, patch: &'a Value },
}

impl Poster {
    pub(super) fn new(queue: Arc<EventQueue>, setup: PosterSetup, meter: SharedMeter) -> Self {
        Self { queue, setup, meter, told: BTreeSet::new(), forbidden: BTreeMap::new() }
    }

    /// Runs until the operator ends and no Event waits.
    pub(super) async fn run(mut self) {
        loop {
            match self.queue.next() {
                PostingStep::Post(event) => self.post(&event).await,
                PostingStep::Count(update) => self.count(&update).await,
                PostingStep::Tell(left_out) => self.tell(left_out),
                PostingStep::Wait(until) => self.queue.wait(until).await,
                PostingStep::End => return,
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
        match self.send(namespace, Request::Post(&body)).await {
            Some(Ok(())) => {
                if let Some(meter) = &self.meter {
                    meter.event_posted();
                }
                self.queue.posted(event, &name);
            }
            Some(Err(error)) => {
                self.queue.forget(event.key());
                self.tell_refused(namespace, &error);
            }
            None => self.queue.forget(event.key()),
        }
    }

    async fn count(&mut self, update: &SeriesUpdate) {
        let patch = series_patch(update.count, update.last_observed);
        let (namespace, name) = (&*update.namespace, &*update.name);
        let patch = &patch;
        if let Some(Err(error)) = self.send(namespace, Request::Patch { name, patch }).await {
            if matches!(error, ClusterError::NotFound(_)) {
                self.queue.forget(update.key);
            }
            self.tell_refused(namespace, &error);
        }
    }

    /// Sends a request, and repeats it a few times. Returns `None` if the namespace is known to deny Events.
    async fn send(&mut self, namespace: &str, request: Request<'_>) -> Option<Result<(), ClusterError>> {
        self.forbidden.retain(|_, until| *until > Instant::now());
        if self.forbidden.contains_key(namespace) {
            return None;
        }
        let cluster = &self.setup.cluster;
        let (first, longest) = self.setup.backoff;
        let mut backoff = Backoff::new(first, longest);
        for tries in 1.. {
            let sent = match request {
                Request::Post(event) => cluster.post_event(namespace, event).await,
                Request::Patch { name, patch } => cluster.patch_event(namespace, name, patch).await,
            };
            let Err(error) = sent else {
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

    fn tell_refused(&mut self, namespace: &str, error: &ClusterError) {
        let posting = match error {
            ClusterError::Denied { message, rule } if !rule.is_empty() => {
                let until = Instant::now() + FORBIDDEN;
                self.forbidden.insert(namespace.to_owned(), until);
                // The first line names the namespace; without it, the rule is the same for all namespaces and is reported once.
                let what = rule.split_once('\n').map_or(&**rule, |(_, what)| what);
                if !self.told.insert(what.to_owned()) {
                    return;
                }
                Posting::Forbidden { error: message.clone(), rule: rule.clone() }
            }
            ClusterError::Denied { .. } | ClusterError::NotFound(_) => {
                Posting::Vain { error: error.to_string() }
            }
            _ => Posting::Refused { error: error.to_string() },
        };
        report_of_operator(&posting);
    }

    fn tell(&self, left_out: LeftOut) {
        let counts = [(left_out.queue_full, WhyLeftOut::QueueFull), (left_out.too_many, WhyLeftOut::TooMany)];
        for (events, why) in counts.into_iter().filter(|(events, _)| *events > 0) {
            let left_out = Posting::LeftOut { events, why };
            if let Some(meter) = &self.meter {
                left_out.count(&**meter);
            }
            report_of_operator(&left_out);
        }
    }
}
