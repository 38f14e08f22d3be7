//! Metrics that are counted while the operator works.
//!
//! Each label combination that is known at startup exists from then on with the value 0, so that the first failure
//! shows as an increase.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::happening::meter::{CallEnd, Meter, WhyLeftOut};
use crate::metrics::{OTHER, Series, labels};
use crate::object::resource::Resource;

/// A handler as metrics know it from startup: its id, and all reasons of its calls.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredHandler {
    pub(crate) id: Arc<str>,
    pub(crate) reasons: Vec<&'static str>,
    /// True for admission handlers.
    pub(crate) is_webhook: bool,
}

type Counters = Family<Series, Counter>;
type Histograms = Family<Series, Histogram, fn() -> Histogram>;

/// Declares the metrics, in the order of the output.
macro_rules! metrics {
    (@register $registry:ident, $name:literal, $help:literal, $metric:expr) => {
        $registry.register($name, $help, $metric)
    };
    (@register $registry:ident, $name:literal, $help:literal, $metric:expr, $unit:expr) => {
        $registry.register_with_unit($name, $help, $unit, $metric)
    };
    ($($field:ident: $type:ty = $new:expr, $name:literal $(in $unit:expr)?, $help:literal;)+) => {
        #[derive(Debug)]
        struct Figures { $($field: $type),+ }

        impl Figures {
            fn registered(registry: &mut Registry) -> Self {
                $(
                    let $field: $type = $new;
                    metrics!(@register registry, $name, $help, $field.clone() $(, $unit)?);
                )+
                Self { $($field),+ }
            }
        }
    };
}

metrics! {
    attempts: Counters = Family::default(), "handler_attempts", "Ended attempts of handlers";
    durations: Histograms = histograms(), "handler_duration" in SECONDS, "Duration of attempts of handlers";
    retries: Counters = Family::default(), "handler_retries", "Failed attempts that will be repeated";
    failures: Counters = Family::default(), "handler_failures", "Permanent failures of handlers for an object";
    queue_wait: Histogram = histogram(), "queue_wait" in SECONDS, "Time that states of objects wait for a worker";
    handling: Histograms = histograms(), "handling_latency" in SECONDS,
        "Time from the first sight of a change until all its handlers are done";
    panics: Counter = Counter::default(), "panics", "Panics of the framework itself, which are defects";
    patches: Counters = Family::default(), "patches", "Patches of objects, by result";
    requests: Counters = Family::default(), "api_requests", "Requests to the API server, by the code of the answer";
    request_durations: Histograms = histograms(), "api_request_duration" in SECONDS,
        "Time until the API server begins to answer, without watches";
    requests_in_flight: Gauge = Gauge::default(), "api_inflight", "Requests without the beginning of an answer";
    throttled: Counter<f64, AtomicU64> = Counter::default(), "api_throttled" in SECONDS,
        "Total time for which the API server has asked for pauses";
    reviews: Counters = Family::default(), "webhook_requests", "Answered reviews of requests";
    review_durations: Histograms = histograms(), "webhook_duration" in SECONDS, "Duration of reviews of requests";
    events_posted: Counter = Counter::default(), "events_posted", "Posted Kubernetes Events";
    events_dropped: Counters = Family::default(), "events_dropped", "Dropped Kubernetes Events";
    lease_renewals: Histograms = histograms(), "lease_renew_duration" in SECONDS,
        "Time to acquire or renew the Lease";
    fenced: Counters = Family::default(), "fence_refusals", "Requests that were not sent because the term of this instance may be over";
}

/// All counted metrics.
#[derive(Debug)]
pub(crate) struct Counted {
    registry: Registry,
    figures: Figures,
    declared: Vec<DeclaredHandler>,
    handlers: BTreeSet<Arc<str>>,
    calls: Mutex<Calls>,
}

/// Calls that have started and not ended.
#[derive(Debug, Default)]
struct Calls {
    begun: BTreeMap<u64, (Arc<str>, Instant)>,
    next: u64,
}

/// The running calls of one handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningCalls {
    pub(crate) count: u32,
    pub(crate) oldest: Option<Instant>,
}

const SECONDS: Unit = Unit::Seconds;

fn histogram() -> Histogram {
    /// From 5 milliseconds to 5 minutes.
    const BUCKETS: [f64; 14] =
        [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
    Histogram::new(BUCKETS)
}

fn histograms() -> Histograms {
    Family::new_with_constructor(histogram)
}

/// Creates a series with its initial value.
fn begin<M, C: MetricConstructor<M>>(family: &Family<Series, M, C>, labels: &Series) {
    drop(family.get_or_create(labels));
}

impl Counted {
    pub(crate) fn new(declared: &[DeclaredHandler]) -> Self {
        let mut registry = Registry::with_prefix("kopf_rs");
        let counted = Self {
            figures: Figures::registered(&mut registry),
            registry,
            declared: declared.to_vec(),
            handlers: declared.iter().map(|it| it.id.clone()).collect(),
            calls: Mutex::default(),
        };
        counted.begin_at_zero();
        counted
    }

    fn begin_at_zero(&self) {
        let figures = &self.figures;
        for handler in &self.declared {
            let id = &handler.id;
            begin(&figures.retries, &labels![handler = id]);
            begin(&figures.failures, &labels![handler = id]);
            if handler.reasons.is_empty() {
                continue;
            }
            for reason in &handler.reasons {
                let ends = CallEnd::ALL.into_iter();
                for end in ends.filter(|end| handler.is_webhook || *end != CallEnd::Denied) {
                    begin(&figures.attempts, &labels![handler = id, reason: reason, outcome: end.word()]);
                }
            }
            begin(&figures.durations, &labels![handler = id]);
            if handler.is_webhook {
                begin(&figures.review_durations, &labels![webhook = id]);
                for (allowed, code) in [("true", "200"), ("false", "422"), ("false", "500")] {
                    begin(&figures.reviews, &labels![webhook = id, allowed: allowed, code: code]);
                }
            }
        }
        for verb in ["get", "list", "create", "update", "patch", "delete"] {
            begin(&figures.request_durations, &labels![verb: verb]);
        }
        for why in [WhyLeftOut::QueueFull, WhyLeftOut::TooMany, WhyLeftOut::Stop] {
            begin(&figures.events_dropped, &labels![reason: why.word()]);
        }
    }

    /// Initializes the metrics of a resource with 0 when it is served.
    pub(crate) fn serves(&self, resource: &Resource) {
        let name = resource.group_resource();
        begin(&self.figures.handling, &labels![resource = &name]);
        for result in ["ok", "conflict", "invalid", "denied", "gone", "failed"] {
            begin(&self.figures.patches, &labels![resource = &name, subresource: "", result: result]);
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the handlers that have this reason.
    pub(crate) fn handlers_for(&self, reason: &str) -> impl Iterator<Item = &Arc<str>> {
        let declared = self.declared.iter();
        let of_reason = declared.filter(move |it| it.reasons.contains(&reason));
        of_reason.map(|it| &it.id)
    }

    /// Returns the running calls by handler: all declared handlers, plus undeclared ones with running calls.
    pub(crate) fn running(&self) -> BTreeMap<Arc<str>, RunningCalls> {
        let none = RunningCalls { count: 0, oldest: None };
        let declared = self.handlers.iter();
        let mut running: BTreeMap<_, _> = declared.map(|id| (id.clone(), none.clone())).collect();
        for (id, since) in self.calls.lock().begun.values() {
            let calls = running.entry(id.clone()).or_insert(none.clone());
            calls.count += 1;
            calls.oldest = Some(calls.oldest.map_or(*since, |oldest| oldest.min(*since)));
        }
        running
    }

    /// Returns the handler id under which metrics count a handler. Sub-handlers count under their parents, since
    /// their ids would make the cardinality unbounded.
    fn counted_as(&self, id: &str) -> Arc<str> {
        let mut counted = id;
        loop {
            if let Some(known) = self.handlers.get(counted) {
                return known.clone();
            }
            match counted.rfind('/') {
                Some(end) => counted = &counted[..end],
                None => return OTHER.into(),
            }
        }
    }

    fn call_begins_at(&self, handler: &str, now: Instant) -> u64 {
        let handler = self.counted_as(handler);
        let mut calls = self.calls.lock();
        calls.next += 1;
        let number = calls.next;
        calls.begun.insert(number, (handler, now));
        number
    }

    fn call_ends_at(&self, number: u64, reason: &'static str, end: Option<CallEnd>, now: Instant) {
        let Some((handler, since)) = self.calls.lock().begun.remove(&number) else {
            return;
        };
        let Some(end) = end else { return };
        let labels = labels![handler = handler, reason: reason, outcome: end.word()];
        self.figures.attempts.get_or_create(&labels).inc();
        let took = now.saturating_duration_since(since);
        let durations = self.figures.durations.get_or_create(&labels![handler = handler]);
        durations.observe(took.as_secs_f64());
    }
}

impl Meter for Counted {
    fn handler_retries(&self, handler: &str) {
        let handler = self.counted_as(handler);
        self.figures.retries.get_or_create(&labels![handler = handler]).inc();
    }

    fn handler_fails(&self, handler: &str) {
        let handler = self.counted_as(handler);
        self.figures.failures.get_or_create(&labels![handler = handler]).inc();
    }

    fn events_dropped(&self, events: u64, why: WhyLeftOut) {
        self.figures.events_dropped.get_or_create(&labels![reason: why.word()]).inc_by(events);
    }

    fn worker_panicked(&self) {
        self.figures.panics.inc();
    }

    fn call_begins(&self, handler: &str) -> u64 {
        self.call_begins_at(handler, Instant::now())
    }

    fn call_ends(&self, number: u64, reason: &'static str, end: Option<CallEnd>) {
        self.call_ends_at(number, reason, end, Instant::now());
    }

    fn state_taken(&self, waited: Duration) {
        self.figures.queue_wait.observe(waited.as_secs_f64());
    }

    fn change_handled(&self, resource: &Resource, took: Duration) {
        let labels = labels![resource = resource.group_resource()];
        self.figures.handling.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn review_ends(&self, handler: &str, allowed: bool, code: u16, took: Duration) {
        let handler = self.counted_as(handler);
        let labels = labels![webhook = handler, allowed = allowed, code = code];
        self.figures.reviews.get_or_create(&labels).inc();
        let durations = self.figures.review_durations.get_or_create(&labels![webhook = handler]);
        durations.observe(took.as_secs_f64());
    }

    fn request_begins(&self) {
        self.figures.requests_in_flight.inc();
    }

    fn request_ends(
        &self,
        verb: &'static str,
        (resource, subresource): (Option<&Resource>, Option<&str>),
        code: Option<u16>,
        took: Duration,
    ) {
        let figures = &self.figures;
        figures.requests_in_flight.dec();
        let resource = resource.map_or_else(String::new, Resource::group_resource);
        let subresource = subresource.unwrap_or_default();
        if verb == "patch" {
            let result = result_of(code);
            let labels = labels![resource = resource, subresource = subresource, result: result];
            figures.patches.get_or_create(&labels).inc();
        }
        let resource = match subresource {
            "" => resource,
            sub => format!("{resource}/{sub}"),
        };
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        figures.requests.get_or_create(&labels![verb: verb, resource = resource, code = code]).inc();
        if verb != "watch" {
            let durations = figures.request_durations.get_or_create(&labels![verb: verb]);
            durations.observe(took.as_secs_f64());
        }
    }

    fn throttled(&self, pause: Duration) {
        self.figures.throttled.inc_by(pause.as_secs_f64());
    }

    fn event_posted(&self) {
        self.figures.events_posted.inc();
    }

    fn leased(&self, lease: &str) {
        begin(&self.figures.lease_renewals, &labels![lease = lease]);
        for point in ["start", "send"] {
            begin(&self.figures.fenced, &labels![point: point]);
        }
    }

    fn lease_renewed(&self, lease: &str, took: Duration) {
        let renewals = self.figures.lease_renewals.get_or_create(&labels![lease = lease]);
        renewals.observe(took.as_secs_f64());
    }

    fn fenced(&self, point: &'static str) {
        self.figures.fenced.get_or_create(&labels![point: point]).inc();
    }
}

fn result_of(code: Option<u16>) -> &'static str {
    match code {
        Some(200..=299) => "ok",
        Some(409) => "conflict",
        Some(400 | 415 | 422) => "invalid",
        Some(401 | 403) => "denied",
        Some(404 | 410) => "gone",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests;
