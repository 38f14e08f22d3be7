//! Metrics that are counted while the operator works.
//!
//! Each label combination that is known at startup exists from then on with the value 0, so that the first failure
//! shows as an increase.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::happening::meter::{CallEnd, Meter, WhyLeftOut};
use crate::metrics::{OTHER, Series};
use crate::object::resource::Resource;

/// A handler as metrics know it from startup: its id, and all reasons of its calls.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredHandler {
    pub(crate) id: Arc<str>,
    pub(crate) reasons: Vec<&'static str>,
    /// True for admission handlers.
    pub(crate) is_webhook: bool,
}

/// All counted metrics.
#[derive(Debug)]
pub(crate) struct Counted {
    registry: Registry,
    declared: Vec<DeclaredHandler>,
    handlers: BTreeSet<Arc<str>>,
    calls: Mutex<Calls>,
    attempts: Counters,
    durations: Histograms,
    retries: Counters,
    failures: Counters,
    queue_wait: Histogram,
    handling: Histograms,
    patches: Counters,
    requests: Counters,
    request_durations: Histograms,
    requests_in_flight: Gauge,
    throttled: Counter<f64, AtomicU64>,
    reviews: Counters,
    review_durations: Histograms,
    events_posted: Counter,
    events_dropped: Counters,
    lease_renewals: Histograms,
    fenced: Counters,
    panics: Counter,
}

type Counters = Family<Series, Counter>;
type Histograms = Family<Series, Histogram, fn() -> Histogram>;

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

/// Bucket limits from 5 milliseconds to 5 minutes.
const BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The possible results of writing an object.
const RESULTS: [&str; 6] = ["ok", "conflict", "invalid", "denied", "gone", "failed"];

const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

const DROPPED: [&str; 3] = ["queue_full", "too_many", "stop"];

/// The points at which a request is held back without leadership.
const FENCED: [&str; 2] = ["start", "send"];

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

fn histograms() -> Histograms {
    Family::new_with_constructor(histogram)
}

fn series<const N: usize>(labels: [(&'static str, Cow<'static, str>); N]) -> Series {
    labels.into()
}

impl Counted {
    pub(crate) fn new(declared: &[DeclaredHandler]) -> Self {
        let mut counted = Self {
            registry: Registry::with_prefix("kopf_rs"),
            declared: declared.to_vec(),
            handlers: declared.iter().map(|it| it.id.clone()).collect(),
            calls: Mutex::default(),
            attempts: Counters::default(),
            durations: histograms(),
            retries: Counters::default(),
            failures: Counters::default(),
            queue_wait: histogram(),
            handling: histograms(),
            patches: Counters::default(),
            requests: Counters::default(),
            request_durations: histograms(),
            requests_in_flight: Gauge::default(),
            throttled: Counter::default(),
            reviews: Counters::default(),
            review_durations: histograms(),
            events_posted: Counter::default(),
            events_dropped: Counters::default(),
            lease_renewals: histograms(),
            fenced: Counters::default(),
            panics: Counter::default(),
        };
        counted.register_work();
        counted.register_requests();
        counted.register_lease();
        counted.begin_at_zero(declared);
        counted
    }

    fn register_work(&mut self) {
        let registry = &mut self.registry;
        registry.register("handler_attempts", "Attempts of handlers that have ended", self.attempts.clone());
        registry.register_with_unit(
            "handler_duration",
            "How long attempts of handlers take",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "handler_retries",
            "Attempts that have failed and will be repeated",
            self.retries.clone(),
        );
        registry.register(
            "handler_failures",
            "Handlers that have failed for good for an object",
            self.failures.clone(),
        );
        registry.register_with_unit(
            "queue_wait",
            "How long states of objects wait until they are looked at",
            Unit::Seconds,
            self.queue_wait.clone(),
        );
        registry.register_with_unit(
            "handling_latency",
            "From the first sight of a change of an object until all its handlers are done",
            Unit::Seconds,
            self.handling.clone(),
        );
        registry.register("panics", "Panics of the framework itself, which are defects", self.panics.clone());
    }

    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("patches", "Patches of objects, by what has come of them", self.patches.clone());
        registry.register(
            "api_requests",
            "Requests to the API server, by the code of the answer",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "api_request_duration",
            "How long the API server takes until it begins to answer, watches aside",
            Unit::Seconds,
            self.request_durations.clone(),
        );
        registry.register(
            "api_inflight",
            "Requests to which the API server has not begun to answer",
            self.requests_in_flight.clone(),
        );
        registry.register_with_unit(
            "api_throttled",
            "For how long in all the API server has asked to be left alone",
            Unit::Seconds,
            self.throttled.clone(),
        );
        registry.register("webhook_requests", "Reviews of requests that were answered", self.reviews.clone());
        registry.register_with_unit(
            "webhook_duration",
            "How long reviews of requests take",
            Unit::Seconds,
            self.review_durations.clone(),
        );
        registry.register("events_posted", "Kubernetes Events that were posted", self.events_posted.clone());
        registry.register(
            "events_dropped",
            "Kubernetes Events that were left out",
            self.events_dropped.clone(),
        );
    }

    fn register_lease(&mut self) {
        self.registry.register_with_unit(
            "lease_renew_duration",
            "How long it takes to take the Lease, or to renew it",
            Unit::Seconds,
            self.lease_renewals.clone(),
        );
        self.registry.register(
            "fence_refusals",
            "Requests that were not sent, since the term of this instance may be over",
            self.fenced.clone(),
        );
    }

    fn begin_at_zero(&self, declared: &[DeclaredHandler]) {
        let ends = [
            CallEnd::Success,
            CallEnd::Temporary,
            CallEnd::Permanent,
            CallEnd::Error,
            CallEnd::Timeout,
            CallEnd::Cancelled,
        ];
        for handler in declared.iter().filter(|it| !it.reasons.is_empty()) {
            for reason in &handler.reasons {
                let denied = handler.is_webhook.then_some(CallEnd::Denied);
                for end in ends.into_iter().chain(denied) {
                    let labels = attempt_labels(&handler.id, reason, end);
                    drop(self.attempts.get_or_create(&labels));
                }
            }
            let labels = handler_label(&handler.id);
            drop(self.durations.get_or_create(&labels));
            drop(self.retries.get_or_create(&labels));
            drop(self.failures.get_or_create(&labels));
            if handler.is_webhook {
                let labels = webhook_label(&handler.id);
                drop(self.review_durations.get_or_create(&labels));
                for (allowed, code) in [(true, 200), (false, 422), (false, 500)] {
                    let labels = review_labels(&handler.id, allowed, code);
                    drop(self.reviews.get_or_create(&labels));
                }
            }
        }
        for verb in VERBS.into_iter().filter(|verb| *verb != "watch") {
            drop(self.request_durations.get_or_create(&verb_label(verb)));
        }
        for reason in DROPPED {
            let labels = series([("reason", reason.into())]);
            drop(self.events_dropped.get_or_create(&labels));
        }
    }

    /// Initializes the metrics of a resource with 0 when it is served.
    pub(crate) fn serves(&self, resource: &Resource) {
        let name = resource.group_resource();
        let labels = series([("resource", name.clone().into())]);
        drop(self.handling.get_or_create(&labels));
        for result in RESULTS {
            let labels = patch_labels(&name, "", result);
            drop(self.patches.get_or_create(&labels));
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
        for (id, since) in self.calls().begun.values() {
            let calls = running.entry(id.clone()).or_insert(none.clone());
            calls.count += 1;
            calls.oldest = Some(calls.oldest.map_or(*since, |oldest| oldest.min(*since)));
        }
        running
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut calls = self.calls();
        calls.next += 1;
        let number = calls.next;
        calls.begun.insert(number, (handler, now));
        number
    }

    fn call_ends_at(&self, number: u64, reason: &'static str, end: Option<CallEnd>, now: Instant) {
        let Some((handler, since)) = self.calls().begun.remove(&number) else {
            return;
        };
        let Some(end) = end else { return };
        let labels = attempt_labels(&handler, reason, end);
        self.attempts.get_or_create(&labels).inc();
        let took = now.saturating_duration_since(since);
        let durations = self.durations.get_or_create(&handler_label(&handler));
        durations.observe(took.as_secs_f64());
    }
}

impl Meter for Counted {
    fn handler_retries(&self, handler: &str) {
        let labels = handler_label(&self.counted_as(handler));
        self.retries.get_or_create(&labels).inc();
    }

    fn handler_fails(&self, handler: &str) {
        let labels = handler_label(&self.counted_as(handler));
        self.failures.get_or_create(&labels).inc();
    }

    fn events_dropped(&self, events: u64, why: WhyLeftOut) {
        let reason = match why {
            WhyLeftOut::QueueFull => DROPPED[0],
            WhyLeftOut::TooMany => DROPPED[1],
            WhyLeftOut::Stop => DROPPED[2],
        };
        let labels = series([("reason", reason.into())]);
        self.events_dropped.get_or_create(&labels).inc_by(events);
    }

    fn worker_panicked(&self) {
        self.panics.inc();
    }

    fn call_begins(&self, handler: &str) -> u64 {
        self.call_begins_at(handler, Instant::now())
    }

    fn call_ends(&self, number: u64, reason: &'static str, end: Option<CallEnd>) {
        self.call_ends_at(number, reason, end, Instant::now());
    }

    fn state_taken(&self, waited: Duration) {
        self.queue_wait.observe(waited.as_secs_f64());
    }

    fn change_handled(&self, resource: &Resource, took: Duration) {
        let labels = series([("resource", resource.group_resource().into())]);
        let latency = self.handling.get_or_create(&labels);
        latency.observe(took.as_secs_f64());
    }

    fn review_ends(&self, handler: &str, allowed: bool, code: u16, took: Duration) {
        let handler = self.counted_as(handler);
        let labels = review_labels(&handler, allowed, code);
        self.reviews.get_or_create(&labels).inc();
        let durations = self.review_durations.get_or_create(&webhook_label(&handler));
        durations.observe(took.as_secs_f64());
    }

    fn request_begins(&self) {
        self.requests_in_flight.inc();
    }

    fn request_ends(
        &self,
        verb: &'static str,
        (resource, subresource): (Option<&Resource>, Option<&str>),
        code: Option<u16>,
        took: Duration,
    ) {
        self.requests_in_flight.dec();
        let resource = resource.map_or_else(String::new, Resource::group_resource);
        let subresource = subresource.unwrap_or_default();
        if verb == "patch" {
            let labels = patch_labels(&resource, subresource, result_of(code));
            self.patches.get_or_create(&labels).inc();
        }
        let resource = match subresource {
            "" => resource,
            sub => format!("{resource}/{sub}"),
        };
        let code = code.map_or_else(|| "none".into(), |code| Cow::Owned(code.to_string()));
        let labels = series([("verb", verb.into()), ("resource", resource.into()), ("code", code)]);
        self.requests.get_or_create(&labels).inc();
        if verb != "watch" {
            let durations = self.request_durations.get_or_create(&verb_label(verb));
            durations.observe(took.as_secs_f64());
        }
    }

    fn throttled(&self, pause: Duration) {
        self.throttled.inc_by(pause.as_secs_f64());
    }

    fn event_posted(&self) {
        self.events_posted.inc();
    }

    fn leased(&self, lease: &str) {
        drop(self.lease_renewals.get_or_create(&lease_label(lease)));
        for point in FENCED {
            drop(self.fenced.get_or_create(&point_label(point)));
        }
    }

    fn lease_renewed(&self, lease: &str, took: Duration) {
        let renewals = self.lease_renewals.get_or_create(&lease_label(lease));
        renewals.observe(took.as_secs_f64());
    }

    fn fenced(&self, point: &'static str) {
        self.fenced.get_or_create(&point_label(point)).inc();
    }
}

fn attempt_labels(handler: &Arc<str>, reason: &'static str, end: CallEnd) -> Series {
    series([
        ("handler", handler.to_string().into()),
        ("reason", reason.into()),
        ("outcome", end.word().into()),
    ])
}

fn handler_label(handler: &Arc<str>) -> Series {
    series([("handler", handler.to_string().into())])
}

fn webhook_label(handler: &Arc<str>) -> Series {
    series([("webhook", handler.to_string().into())])
}

fn review_labels(handler: &Arc<str>, allowed: bool, code: u16) -> Series {
    let allowed = if allowed { "true" } else { "false" };
    series([
        ("webhook", handler.to_string().into()),
        ("allowed", allowed.into()),
        ("code", code.to_string().into()),
    ])
}

fn patch_labels(resource: &str, subresource: &str, result: &'static str) -> Series {
    series([
        ("resource", resource.to_owned().into()),
        ("subresource", subresource.to_owned().into()),
        ("result", result.into()),
    ])
}

fn verb_label(verb: &'static str) -> Series {
    series([("verb", verb.into())])
}

fn lease_label(lease: &str) -> Series {
    series([("lease", lease.to_owned().into())])
}

fn point_label(point: &'static str) -> Series {
    series([("point", point.into())])
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
