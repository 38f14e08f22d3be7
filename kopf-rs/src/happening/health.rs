//! Happenings of the health endpoints.
//!
//! This module contains no wording.

/// A happening of a health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// The endpoint for probes listens.
    Served { url: String },
    /// The endpoint for metrics listens.
    #[cfg(feature = "metrics")]
    MetricsServed { url: String },
    /// The endpoint has reported a failure for the first time. Carries the failing checks with their reasons.
    Fails {
        endpoint: String,
        failing: Vec<String>,
    },
    /// All checks pass again.
    Passes { endpoint: String },
}
