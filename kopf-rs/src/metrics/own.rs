//! User-defined metrics, written beside those of the framework.
//!
//! Any number of label values makes only a bounded number of series.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter as CounterSeries;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge as GaugeSeries;
use prometheus_client::metrics::histogram::Histogram as HistogramSeries;
use prometheus_client::registry::{Metric, Registry};

use crate::metrics::OTHER;

/// User-defined metrics, written beside the operator's own at `/metrics` if
/// [`Operator::metrics`](crate::Operator::metrics) or `--metrics` enables it. Handlers take it as `State<Metrics>`.
/// Each operator has one; a test creates its own. Clones share all metrics.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::Metrics;
///
/// #[on_create("orders")]
/// async fn create_order(metrics: State<Metrics>) -> HandlerResult {
///     let orders = metrics.counter("shop_orders", "Orders that were made", ["size"])?;
///     orders.inc(["large"]);
///     Ok(())
/// }
/// ```
///
/// The first request creates a metric; later requests return the same one. Each metric has at most 1,000 label
/// combinations: all others are counted under `__other__`, and `kopf_rs_metrics_overflow_total` counts how often.
/// Label values are truncated to 128 bytes. Labels with user input are therefore safe, but should be avoided, since
/// Prometheus stores a series for each combination.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Figures>>);

/// A value that only increases, such as "orders made". See [`Metrics::counter`].
#[derive(Clone, Debug)]
pub struct Counter<const N: usize>(Bounded<N, CounterSeries>);

/// A value that increases and decreases, such as "free places". See [`Metrics::gauge`].
#[derive(Clone, Debug)]
pub struct Gauge<const N: usize>(Bounded<N, GaugeSeries<f64, AtomicU64>>);

/// A distribution of values, such as "seconds per order". See [`Metrics::histogram`].
#[derive(Clone, Debug)]
pub struct Histogram<const N: usize>(Bounded<N, HistogramSeries, Buckets>);

/// The error for a metric that cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metric `{name}` cannot be made: {problem}")]
pub struct MetricError {
    name: String,
    problem: String,
}

/// The maximum number of series per metric.
const SERIES: usize = 1000;
/// The maximum length of a label value in bytes.
const LONGEST: usize = 128;
/// The prefixes of the framework's own metrics.
const RESERVED: [&str; 3] = ["kopf_rs_", "process_", "tokio_"];

#[derive(Debug)]
struct Figures {
    registry: Registry,
    known: BTreeMap<String, Known>,
    overflow: Family<Labels, CounterSeries>,
}

#[derive(Debug)]
struct Known {
    labels: Vec<&'static str>,
    /// A `Family`, whose parameters are those of its kind.
    family: Box<dyn Any + Send>,
    added: Arc<Mutex<usize>>,
}

type Labels = Vec<(&'static str, String)>;

/// The upper limits of a histogram's buckets.
#[derive(Clone, Debug)]
struct Buckets(Arc<[f64]>);

impl MetricConstructor<HistogramSeries> for Buckets {
    fn new_metric(&self) -> HistogramSeries {
        HistogramSeries::new(self.0.iter().copied())
    }
}

/// A metric family with a bounded number of series.
#[derive(Clone)]
struct Bounded<const N: usize, M, C = fn() -> M> {
    labels: [&'static str; N],
    family: Family<Labels, M, C>,
    /// The number of series so far.
    added: Arc<Mutex<usize>>,
    overflow: CounterSeries,
}

impl Metrics {
    /// Creates an empty set of metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counter with this name and these labels. The output appends `_total` to the name.
    ///
    /// # Errors
    /// Returns an error if the name or a label is invalid, or if another kind of metric has the name.
    pub fn counter<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> Result<Counter<N>, MetricError> {
        let name = name.strip_suffix("_total").unwrap_or(name);
        self.family(name, help, labels, Family::default).map(Counter)
    }

    /// Returns the gauge with this name and these labels.
    ///
    /// # Errors
    /// Returns an error if the name or a label is invalid, or if another kind of metric has the name.
    pub fn gauge<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> Result<Gauge<N>, MetricError> {
        self.family(name, help, labels, Family::default).map(Gauge)
    }

    /// Returns the histogram with this name and these labels; `buckets` are the upper limits of its buckets in
    /// ascending order.
    ///
    /// # Errors
    /// Returns an error if the name, a label or a bucket is invalid, or if another kind of metric has the name.
    pub fn histogram<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        buckets: &[f64],
    ) -> Result<Histogram<N>, MetricError> {
        let ascends = buckets.windows(2).all(|two| two[0] < two[1]);
        if buckets.is_empty() || !ascends || buckets.iter().any(|it| !it.is_finite()) {
            let problem = format!("its buckets are {buckets:?}: expected numbers that ascend");
            return Err(refused(name, problem));
        }
        self.family(name, help, labels, || Family::new_with_constructor(Buckets(buckets.into())))
            .map(Histogram)
    }

    fn family<const N: usize, M, C>(
        &self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        new: impl FnOnce() -> Family<Labels, M, C>,
    ) -> Result<Bounded<N, M, C>, MetricError>
    where
        Family<Labels, M, C>: Metric + Clone,
    {
        let mut figures = self.0.lock();
        if !figures.known.contains_key(name) {
            check(name, help, &labels)?;
            let family = new();
            figures.registry.register(name, help.trim_end_matches('.').replace('\n', " "), family.clone());
            let known = Known { labels: labels.to_vec(), family: Box::new(family), added: Arc::default() };
            figures.known.insert(name.to_owned(), known);
        }
        let known = &figures.known[name];
        if known.labels != labels {
            let problem = format!("it exists with the labels {:?}", known.labels);
            return Err(refused(name, problem));
        }
        let family: Option<&Family<Labels, M, C>> = known.family.downcast_ref();
        let other = || refused(name, "it exists as a metric of another type".to_owned());
        let overflow = vec![("family", name.to_owned())];
        Ok(Bounded {
            labels,
            family: family.ok_or_else(other)?.clone(),
            added: known.added.clone(),
            overflow: figures.overflow.get_or_create_owned(&overflow),
        })
    }

    /// Calls `read` with the metrics so far.
    pub(crate) fn with_registry<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.0.lock().registry)
    }
}

impl Default for Figures {
    fn default() -> Self {
        let overflow = Family::default();
        let mut registry = Registry::default();
        registry.register(
            "kopf_rs_metrics_overflow",
            "Values counted under __other__ because their metric has too many series",
            overflow.clone(),
        );
        Self { registry, known: BTreeMap::new(), overflow }
    }
}

impl<const N: usize, M: Clone, C: MetricConstructor<M>> Bounded<N, M, C> {
    fn at<V: Into<String>>(&self, values: [V; N]) -> M {
        let names = self.labels.into_iter();
        let values = values.into_iter().map(|value| cut(value.into()));
        let series: Labels = names.zip(values).collect();
        let known = self.family.get(&series).map(|known| known.clone());
        if let Some(known) = known {
            return known;
        }
        let mut added = self.added.lock();
        let is_known = self.family.get(&series).is_some();
        if is_known || *added < SERIES {
            *added += usize::from(!is_known);
            return self.family.get_or_create_owned(&series);
        }
        drop(added);
        self.overflow.inc();
        let others = self.labels.into_iter();
        let others: Labels = others.map(|label| (label, OTHER.to_owned())).collect();
        self.family.get_or_create_owned(&others)
    }
}

impl<const N: usize> Counter<N> {
    /// Increments the counter with these label values by one.
    pub fn inc<V: Into<String>>(&self, values: [V; N]) {
        self.add(values, 1);
    }

    /// Increments the counter with these label values by `count`.
    pub fn add<V: Into<String>>(&self, values: [V; N], count: u64) {
        self.0.at(values).inc_by(count);
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets the gauge with these label values.
    pub fn set<V: Into<String>>(&self, values: [V; N], value: f64) {
        self.0.at(values).set(value);
    }

    /// Adds `more`, which may be negative, to the gauge with these label values.
    pub fn add<V: Into<String>>(&self, values: [V; N], more: f64) {
        self.0.at(values).inc_by(more);
    }
}

impl<const N: usize> Histogram<N> {
    /// Records one value in the histogram with these label values.
    pub fn observe<V: Into<String>>(&self, values: [V; N], value: f64) {
        self.0.at(values).observe(value);
    }
}

impl<const N: usize, M, C> fmt::Debug for Bounded<N, M, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.labels.fmt(f)
    }
}

fn refused(name: &str, problem: String) -> MetricError {
    MetricError { name: name.to_owned(), problem }
}

fn check(name: &str, help: &str, labels: &[&'static str]) -> Result<(), MetricError> {
    if !is_name(name, ":_") {
        let problem = "expected letters, digits and underscores, not beginning with a digit";
        return Err(refused(name, problem.to_owned()));
    }
    if let Some(prefix) = RESERVED.iter().find(|prefix| name.starts_with(*prefix)) {
        let problem = format!("names that begin with `{prefix}` are the framework's own");
        return Err(refused(name, problem));
    }
    if ["_total", "_bucket", "_sum", "_count", "_created", "_info"].iter().any(|it| name.ends_with(it)) {
        let problem = "its suffix is reserved for samples, such as `_sum`";
        return Err(refused(name, problem.to_owned()));
    }
    if help.is_empty() {
        let problem = "it has no help text";
        return Err(refused(name, problem.to_owned()));
    }
    for (at, label) in labels.iter().enumerate() {
        let is_reserved = label.starts_with("__") || ["le", "quantile"].contains(label);
        if !is_name(label, "_") || is_reserved {
            return Err(refused(name, format!("`{label}` cannot be a label")));
        }
        if labels[..at].contains(label) {
            return Err(refused(name, format!("it has the label `{label}` twice")));
        }
    }
    Ok(())
}

fn is_name(name: &str, more: &str) -> bool {
    let is_fit = |it: char| it.is_ascii_alphanumeric() || more.contains(it);
    !name.is_empty() && !name.starts_with(|it: char| it.is_ascii_digit()) && name.chars().all(is_fit)
}

fn cut(mut value: String) -> String {
    if value.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| value.is_char_boundary(*at));
        value.truncate(end.unwrap_or_default());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition::Format;

    fn text(metrics: &Metrics) -> String {
        let written = metrics.with_registry(|it| Format::OpenMetrics.write(&[it]));
        written.expect("it can be written")
    }

    #[test]
    fn figures_are_the_same_wherever_they_are_asked_for() {
        let metrics = Metrics::new();
        for name in ["orders", "orders_total"] {
            let orders = metrics.counter(name, "Orders", ["size"]).unwrap();
            orders.inc(["large"]);
        }
        let free = metrics.gauge("places", "Free places", []).unwrap();
        free.set::<&str>([], 2.5);
        free.add::<&str>([], -1.0);
        let took = metrics.histogram("took", "Seconds", [], &[0.5, 1.0]);
        took.unwrap().observe::<&str>([], 0.7);
        let text = text(&metrics);
        assert!(text.contains("orders_total{size=\"large\"} 2\n"), "{text}");
        assert!(text.contains("\nplaces 1.5\n") || text.contains("\nplaces{} 1.5\n"), "{text}");
        assert!(!text.contains("_total_total"), "{text}");
    }

    #[test]
    fn any_number_of_values_makes_a_bounded_number_of_series() {
        let metrics = Metrics::new();
        let orders = metrics.counter("orders", "Orders", ["customer"]).unwrap();
        for customer in 0..1_000_000 {
            orders.inc([format!("{customer}")]);
        }
        orders.inc(["ü".repeat(100)]);
        let text = text(&metrics);
        let series = text.lines().filter(|it| it.starts_with("orders_total"));
        assert_eq!(series.count(), SERIES + 1);
        assert!(text.contains("orders_total{customer=\"__other__\"} 999001\n"));
        let overflow = "kopf_rs_metrics_overflow_total{family=\"orders\"} 999001\n";
        assert!(text.contains(overflow), "{text}");
    }

    #[test]
    fn values_of_labels_are_cut_between_characters() {
        assert_eq!(cut("ü".repeat(100)).chars().count(), 64);
        assert_eq!(cut("a".repeat(128)).len(), 128);
        assert_eq!(cut(format!("a{}", "ü".repeat(100))).len(), 127);
    }

    #[test]
    fn problems_with_a_metric_are_named() {
        let metrics = Metrics::new();
        let counter = |name: &str| metrics.counter(name, "Help", ["a"]).map(drop);
        let said = |made: Result<(), MetricError>| made.unwrap_err().to_string();
        for (name, problem) in [
            ("", "expected letters"),
            ("1a", "expected letters"),
            ("a-b", "expected letters"),
            ("kopf_rs_mine", "names that begin with `kopf_rs_`"),
            ("a_sum", "its suffix is reserved for samples"),
        ] {
            assert!(said(counter(name)).contains(problem), "{name}");
        }
        counter("fine").unwrap();
        let twice = metrics.counter("twice", "Help", ["a", "a"]).map(drop);
        assert!(said(twice).contains("`a` twice"));
        let label = metrics.counter("label", "Help", ["le"]).map(drop);
        assert!(said(label).contains("`le` cannot be a label"));
        let other = metrics.gauge("fine", "Help", ["a"]).map(drop);
        assert!(said(other).contains("another type"));
        let labels = metrics.counter("fine", "Help", ["b"]).map(drop);
        assert!(said(labels).contains("with the labels [\"a\"]"));
        let buckets = metrics.histogram("h", "Help", [], &[2.0, 1.0]).map(drop);
        assert!(said(buckets).contains("expected numbers that ascend"));
        let help = metrics.counter("silent", "", []).map(drop);
        assert!(said(help).contains("it has no help text"));
    }
}
