//! Prometheus metrics: counted from happenings and measurements, or read on each scrape, and written in both text
//! formats.
//!
//! Behind the feature `metrics`. All code here is pure; `health` provides the clock and the endpoint. No label
//! contains a name of an object, a message, or any other value of high cardinality.

pub(crate) mod counted;
pub(crate) mod exposition;
pub(crate) mod own;
pub(crate) mod reading;

use std::borrow::Cow;

/// The labels of one series.
pub(crate) type Series = Vec<(&'static str, Cow<'static, str>)>;

/// Creates the labels of one series: `name = value` writes any value, `name: word` borrows a constant.
macro_rules! labels {
    (@value = $value:expr) => { std::borrow::Cow::Owned($value.to_string()) };
    (@value : $word:expr) => { std::borrow::Cow::Borrowed($word) };
    ($($label:ident $kind:tt $value:expr),+) => {
        vec![$((stringify!($label), $crate::metrics::labels!(@value $kind $value))),+]
    };
}
pub(crate) use labels;

/// Replaces label values beyond the limit.
pub(crate) const OTHER: &str = "__other__";
