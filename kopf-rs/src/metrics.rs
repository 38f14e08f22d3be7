//! Figures for Prometheus: counted from happenings and measurements, or read when somebody asks, and written in both text formats.
//!
//! Behind the feature `metrics`. Everything here is a function of data: the edge is `health`, which has the clock and the endpoint. Promises that
//! no label holds a name of an object, a message, or anything else of which there may be many.

pub(crate) mod counted;
pub(crate) mod exposition;
pub(crate) mod own;
pub(crate) mod reading;

use std::borrow::Cow;

/// The labels of one series.
pub(crate) type Series = Vec<(&'static str, Cow<'static, str>)>;

/// Instead of values beyond a bound.
pub(crate) const OTHER: &str = "__other__";
