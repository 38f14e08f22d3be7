//! Metrics that are read on each scrape, as data, and their encoding.
//!
//! This module does not know where the values come from.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::Series;

/// One metric with all its series.
#[derive(Debug)]
pub(crate) struct Reading {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    is_counter: bool,
    series: Vec<(Series, f64)>,
}

/// A set of metrics that were read at the same time.
#[derive(Debug, Default)]
pub(crate) struct Readings(Vec<Reading>);

impl Reading {
    /// Creates a gauge. `name` includes the unit.
    pub(crate) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, unit: None, is_counter: false, series: Vec::new() }
    }

    /// Creates a counter, whose name the output extends by `_total`.
    pub(crate) fn counter(name: &'static str, help: &'static str) -> Self {
        Self { is_counter: true, ..Self::gauge(name, help) }
    }

    /// Sets the unit, which the output appends to the name.
    pub(crate) fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(crate) fn put(&mut self, labels: Series, value: f64) {
        self.series.push((labels, value));
    }

    /// Adds one series without labels.
    pub(crate) fn of(mut self, value: f64) -> Self {
        self.put(Series::new(), value);
        self
    }
}

impl Readings {
    pub(crate) fn add(&mut self, reading: Reading) {
        self.0.push(reading);
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
        for reading in &self.0 {
            let kind = if reading.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let unit = reading.unit.as_ref();
            let mut metric = encoder.encode_descriptor(reading.name, reading.help, unit, kind)?;
            for (labels, value) in &reading.series {
                // Without labels, the output has no braces.
                if labels.is_empty() {
                    encode(&mut metric, reading.is_counter, *value)?;
                } else {
                    encode(&mut metric.encode_family(labels)?, reading.is_counter, *value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(
    metric: &mut prometheus_client::encoding::MetricEncoder<'_>,
    is_counter: bool,
    value: f64,
) -> fmt::Result {
    if is_counter {
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    } else {
        metric.encode_gauge(&value)
    }
}
