//! The log lines about the health endpoints.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::health::Health;

pub(super) fn level(health: &Health) -> Level {
    match health {
        Health::Served { .. } | Health::Passes { .. } => Level::INFO,
        #[cfg(feature = "metrics")]
        Health::MetricsServed { .. } => Level::INFO,
        Health::Fails { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, health: &Health) -> fmt::Result {
    match health {
        Health::Served { url } => write!(f, "Serving health status at {url}"),
        #[cfg(feature = "metrics")]
        Health::MetricsServed { url } => write!(f, "Serving metrics at {url}"),
        Health::Fails { endpoint, failing } => {
            write!(f, "{endpoint} fails: {}.", failing.join("; "))
        }
        Health::Passes { endpoint } => write!(f, "{endpoint} passes."),
    }
}
