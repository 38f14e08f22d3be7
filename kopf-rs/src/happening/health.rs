//! What happens to the endpoints that say how the operator is.
//!
//! Must not know any wording.

/// Something that has happened to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Probes are answered there.
    Served { url: String },
    /// Figures are there to be scraped.
    #[cfg(feature = "metrics")]
    MetricsServed { url: String },
    /// Asked, it has said that something is wrong: what, and why. Before, nothing was.
    Fails {
        endpoint: String,
        failing: Vec<String>,
    },
    /// Nothing is wrong any more.
    Passes { endpoint: String },
}
