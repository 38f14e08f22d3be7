//! Serves the endpoints of an operator: liveness, metrics, and the web page.

use std::sync::Arc;

#[cfg(feature = "metrics")]
use futures_util::FutureExt;
use tokio::runtime::Handle;

use crate::handler::subject::Activity;
use crate::health::address::Address;
use crate::health::http::Listener;
use crate::health::listener::{Asked, listen};
use crate::health::probes::Prober;
use crate::health::responder::Responder;
use crate::operator::endpoints::BadEndpoint;
#[cfg(feature = "metrics")]
use crate::operator::endpoints::Endpoints;
use crate::operator::run::{CheckedOperator, Operator, OperatorError};

#[cfg(feature = "metrics")]
use crate::health::metrics_endpoint::{self, Protection};
#[cfg(feature = "metrics")]
use crate::health::scrape::{Scraper, ScraperSetup};
#[cfg(feature = "metrics")]
use crate::health::scrape_access::ScrapeAccess;
#[cfg(feature = "metrics")]
use crate::operator::scrape_certificate::ScrapeCertificate;
#[cfg(feature = "metrics")]
use crate::operator::validation::bounded;

impl Operator {
    /// Serves the health of the operator over HTTP. This URL, such as `http://0.0.0.0:8080/healthz`, returns the results of probes
    /// (`#[on_probe]`). Further paths of the same host and port return
    ///
    /// - `/livez`: success if the threads respond, no watch has been silent for too long, and no object waits for too long;
    /// - `/readyz`: success if the objects of all resources are listed and watched, and all indices are filled; otherwise the causes;
    /// - `/readyz/webhooks`: success if admission webhooks are answered; for the readiness probe of a Pod behind a Service for webhooks;
    /// - `/statusz`: its present work, as JSON, for clients on the same machine (such as `kubectl port-forward`).
    ///
    /// `?verbose` lists the checks, and `?exclude=NAME` leaves one out, as in Kubernetes. [`Health`](crate::Health) has the limits. The
    /// endpoints have a thread of their own, and start before startup handlers are called. By default there are none.
    #[must_use]
    pub fn liveness(mut self, url: impl AsRef<str>) -> Self {
        self.endpoints.liveness = Address::parse(url.as_ref()).map(Some).map_err(BadEndpoint::Liveness);
        self
    }

    /// Serves metrics for Prometheus over HTTP: at `/metrics` of this host and port, such as `0.0.0.0:9090`, in the text format that the
    /// client accepts (`OpenMetrics` 1.0, else Prometheus' own). If it is the port of [`liveness`](Operator::liveness), one listener serves
    /// both. `https://0.0.0.0:9090` serves them over TLS; [`MetricsSettings`](crate::MetricsSettings) has the certificate and the authentication
    /// of clients. By default nothing is counted. [`Metrics`](crate::Metrics) adds metrics of your own; `docs/metrics.md` lists all others.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, address: impl AsRef<str>) -> Self {
        self.endpoints.metrics =
            Address::of_metrics(address.as_ref()).map(Some).map_err(BadEndpoint::Metrics);
        self
    }
}

impl From<BadEndpoint> for OperatorError {
    fn from(bad: BadEndpoint) -> Self {
        match bad {
            BadEndpoint::Liveness(bad) => bad.into(),
            #[cfg(feature = "metrics")]
            BadEndpoint::Metrics(bad) => bad.into(),
        }
    }
}

impl CheckedOperator {
    /// Starts the endpoints, which end when the listeners are dropped.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(clippy::unused_async, reason = "the same as with the feature")
    )]
    pub(super) async fn endpoints(self: &Arc<Self>) -> Result<Vec<Listener>, OperatorError> {
        #[cfg(feature = "metrics")]
        let (mut listeners, scraper) = self.metrics().await?;
        #[cfg(not(feature = "metrics"))]
        let mut listeners = Vec::new();
        let Some(board) = &self.board else {
            return Ok(listeners);
        };
        let prober = Prober::new(self.group_of(Activity::Probe));
        let responder = Responder::new(Handle::current(), board.clone(), prober);
        #[cfg(feature = "web")]
        listeners.extend(self.web_page(&responder)?);
        if let Some(address) = &self.endpoints.liveness {
            let asked = Asked {
                responder,
                handlers: self.handlers_on.clone(),
                #[cfg(feature = "metrics")]
                metrics: scraper,
            };
            listeners.push(listen(address, asked).map_err(OperatorError::Endpoint)?);
        }
        Ok(listeners)
    }

    /// Returns the listener of metrics if they have a port of their own, else the scraper that shares the liveness endpoint.
    #[cfg(feature = "metrics")]
    async fn metrics(&self) -> Result<(Vec<Listener>, Option<Arc<Scraper>>), OperatorError> {
        let Endpoints { metrics: Some(address), figures: Some(figures), liveness, .. } = &self.endpoints
        else {
            return Ok((Vec::new(), None));
        };
        let Some(board) = &self.board else {
            return Ok((Vec::new(), None));
        };
        // Checked for both ports, because the listener of the liveness endpoint serves neither TLS nor authentication.
        let protection = self.protection(address).await.map_err(OperatorError::Endpoint)?;
        let mut runtimes = vec![("operator", Handle::current())];
        runtimes.extend(self.handlers_on.clone().map(|it| ("handlers", it)));
        let scraper = Arc::new(Scraper::new(ScraperSetup {
            operator: self.name.clone(),
            counted: figures.counted.clone(),
            own: figures.own.clone(),
            board: board.clone(),
            runtimes,
        }));
        if liveness.as_ref().is_some_and(|it| it.is_at(address)) {
            metrics_endpoint::report_served(address);
            return Ok((Vec::new(), Some(scraper)));
        }
        let listener = metrics_endpoint::listen(address, scraper, protection);
        Ok((vec![listener.map_err(OperatorError::Endpoint)?], None))
    }

    /// Returns the certificate of the metrics endpoint and the check of its clients, as the address and the settings ask for it.
    #[cfg(feature = "metrics")]
    async fn protection(&self, address: &Address) -> Result<Protection, String> {
        let settings = bounded(self.settings.get());
        let is_checked = settings.metrics.authentication;
        if is_checked && !address.is_tls() {
            return Err(format!(
                "`metrics.authentication` is true, and the metrics are served at {address}: expected https, because tokens must not cross the \
                 network in plain text; use `--metrics https://HOST:PORT`"
            ));
        }
        let tls = if address.is_tls() {
            let certificate = ScrapeCertificate::first(&settings, address.host(), self.clock).await?;
            Some((certificate.identity(), certificate.renew().boxed()))
        } else {
            None
        };
        let access = is_checked.then(|| ScrapeAccess::new(self.cluster(&settings), Handle::current()));
        Ok(Protection { tls, access })
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use kopf_rs_apiserver::ApiServer;

    use super::*;
    use crate::cluster::Client;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::operator::settings::Settings;

    #[tokio::test]
    async fn authentication_is_not_lost_at_the_port_of_the_liveness_endpoint() {
        let registry = Registry::new().on_event("pods", handler("f", |_| async { Ok(()) }));
        let operator = Operator::new(registry)
            .name("op")
            .settings(Settings::with(|settings| settings.metrics.authentication = true))
            .liveness("http://127.0.0.1:8080/healthz")
            .metrics("127.0.0.1:8080");
        let client = Client::new(ApiServer::new().service(), "default");
        let operator = CheckedOperator::new(operator, "op".to_owned(), client).unwrap();
        let refused = operator.metrics().await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("expected https"), "{refused}");
    }
}
