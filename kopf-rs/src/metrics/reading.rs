//! Metrics that are read on each scrape, as data, and their encoding.
//!
//! This module does not know where the values come from.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::Series;

/// A set of metrics that were read at the same time.
#[derive(Debug, Default)]
pub(crate) struct Readings(Vec<Reading>);

/// One metric with all its series.
#[derive(Debug)]
struct Reading {
    name: &'static str,
    help: &'static str,
    series: Vec<(Series, f64)>,
}

impl Readings {
    /// Adds a metric with its name in the output: that of a counter ends with `_total`, that of any other metric is a gauge's.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        series: impl IntoIterator<Item = (Series, f64)>,
    ) {
        self.0.push(Reading { name, help, series: series.into_iter().collect() });
    }

    /// Adds a metric with one series without labels, if there is a value.
    pub(crate) fn add_value(
        &mut self,
        name: &'static str,
        help: &'static str,
        value: impl Into<Option<f64>>,
    ) {
        if let Some(value) = value.into() {
            self.add(name, help, [(Series::new(), value)]);
        }
    }

    /// Converts the metrics into a registry for encoding.
    pub(crate) fn registry(self) -> Registry {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        registry
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Reading { name, help, series } in &self.0 {
            // The encoder appends these parts again.
            let (name, kind) = match name.strip_suffix("_total") {
                Some(name) => (name, MetricType::Counter),
                None => (*name, MetricType::Gauge),
            };
            let (name, unit) = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)]
                .into_iter()
                .find_map(|(end, unit)| Some((name.strip_suffix(end)?, Some(unit))))
                .unwrap_or((name, None));
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (labels, value) in series {
                // Without labels, the output has no braces.
                if labels.is_empty() {
                    encode(&mut metric, kind, *value)?;
                } else {
                    encode(&mut metric.encode_family(labels)?, kind, *value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    match kind {
        MetricType::Counter => metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => metric.encode_gauge(&value),
    }
}
