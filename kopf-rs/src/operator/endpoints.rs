//! The requested endpoints of an operator: liveness, metrics and the web page.
//!
//! Without the feature `metrics`, there are no metrics. Must not know the servers behind the endpoints.

use std::any::TypeId;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::extensions::Extensions;
use crate::happening::meter::SharedMeter;
use crate::health::address::{Address, BadLiveness};

#[cfg(feature = "metrics")]
use crate::engine::metered::reasons;
#[cfg(feature = "metrics")]
use crate::health::address::BadMetricsAddress;
#[cfg(feature = "metrics")]
use crate::metrics::counted::{Counted, DeclaredHandler};
#[cfg(feature = "metrics")]
use crate::metrics::own::Metrics;

/// Returns whether handlers may ask for a value of this type that the program has not given.
#[cfg(feature = "metrics")]
pub(super) fn is_given_by_itself(type_id: TypeId) -> bool {
    type_id == TypeId::of::<Metrics>()
}

/// Returns whether handlers may ask for a value of this type that the program has not given.
#[cfg(not(feature = "metrics"))]
pub(super) fn is_given_by_itself(_: TypeId) -> bool {
    false
}

/// The endpoints as requested, not checked yet.
#[derive(Clone, Debug)]
pub(super) struct WantedEndpoints {
    pub(super) liveness: Result<Option<Address>, BadEndpoint>,
    pub(super) metrics: Result<Option<Address>, BadEndpoint>,
    /// `None` without the feature `web`.
    pub(super) web: Option<Address>,
}

/// The checked endpoints.
pub(super) struct Endpoints {
    pub(super) liveness: Option<Address>,
    #[cfg_attr(
        not(any(feature = "metrics", feature = "cli", test)),
        expect(dead_code, reason = "other programs neither serve nor print it")
    )]
    pub(super) metrics: Option<Address>,
    pub(super) web: Option<Address>,
    /// Counts happenings.
    pub(super) meter: SharedMeter,
    #[cfg(feature = "metrics")]
    pub(super) figures: Option<Figures>,
}

/// The counters behind the metrics endpoint.
#[cfg(feature = "metrics")]
pub(super) struct Figures {
    pub(super) counted: Arc<Counted>,
    pub(super) own: Metrics,
}

/// An endpoint that cannot be served.
#[derive(Clone, Debug)]
pub(super) enum BadEndpoint {
    Liveness(BadLiveness),
    #[cfg(feature = "metrics")]
    Metrics(BadMetricsAddress),
}

impl Default for WantedEndpoints {
    fn default() -> Self {
        Self { liveness: Ok(None), metrics: Ok(None), web: None }
    }
}

impl WantedEndpoints {
    pub(super) fn check(&self) -> Result<(), BadEndpoint> {
        self.liveness.clone()?;
        self.metrics.clone()?;
        Ok(())
    }

    /// Checks the endpoints, and gives handlers access to metrics of their own.
    #[cfg(feature = "metrics")]
    pub(super) fn checked(
        self,
        handlers: &[Arc<Handler>],
        extensions: &mut Extensions,
    ) -> Result<Endpoints, BadEndpoint> {
        let given = extensions.get::<Metrics>();
        let own = given.map(|it| Metrics::clone(&it)).unwrap_or_default();
        extensions.insert(own.clone());
        let metrics = self.metrics?;
        let figures = metrics.is_some().then(|| {
            let declared = handlers.iter().map(|handler| DeclaredHandler {
                id: handler.id.clone(),
                reasons: reasons(handler),
                is_webhook: handler.admission().is_some(),
            });
            Figures { counted: Arc::new(Counted::new(&declared.collect::<Vec<_>>())), own }
        });
        let meter = figures.as_ref().map(|figures| figures.counted.clone() as _);
        Ok(Endpoints { liveness: self.liveness?, metrics, web: self.web, meter, figures })
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn checked(self, _: &[Arc<Handler>], _: &mut Extensions) -> Result<Endpoints, BadEndpoint> {
        Ok(Endpoints { liveness: self.liveness?, metrics: self.metrics?, web: self.web, meter: None })
    }
}

impl Endpoints {
    /// Returns whether any endpoint is requested.
    pub(super) fn are_wanted(&self) -> bool {
        self.liveness.is_some() || self.web.is_some() || self.meter.is_some()
    }
}
