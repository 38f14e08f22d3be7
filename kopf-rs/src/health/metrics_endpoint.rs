//! `/metrics`, at a port of its own or at that of the liveness endpoint.
//!
//! This module guarantees that a scrape gets a complete response or none, within a time limit. It must not depend on
//! the metrics.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use http::header::ACCEPT;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::engine::report::report_of_operator;
use crate::happening::operating::Health;
use crate::health::address::{Address, METRICS};
use crate::health::http::{Ends, Listener, Reply};
use crate::health::scrape::Scraper;
use crate::health::scrape_access::ScrapeAccess;
use crate::metrics::exposition::Format;
use crate::rt::tls::Identity;

/// The time limit for a scrape.
const BUDGET: Duration = Duration::from_secs(5);

/// The protection of an endpoint: none by default.
#[derive(Default)]
pub(crate) struct Protection {
    /// The certificate, and the task that renews it.
    pub(crate) tls: Option<(Identity, BoxFuture<'static, ()>)>,
    /// Decides which clients get metrics.
    pub(crate) access: Option<Arc<ScrapeAccess>>,
}

/// Starts to listen. The error describes the problem and the remedy.
pub(crate) fn listen(
    address: &Address,
    scraper: Arc<Scraper>,
    protection: Protection,
) -> Result<Listener, String> {
    let Protection { tls, access } = protection;
    let answer = move |request: Request<Incoming>, _: Ends| {
        let (scraper, access) = (scraper.clone(), access.clone());
        async move {
            if request.uri().path() != METRICS {
                return Reply::text(StatusCode::NOT_FOUND, "404: Not Found\n");
            }
            let refusal = OptionFuture::from(access.as_ref().map(|it| it.refusal(request.headers())));
            match refusal.await.flatten() {
                Some(refusal) => refusal,
                None => scraped(&scraper, &request).await,
            }
        }
        .boxed()
    };
    let (identity, renewal) = tls.unzip();
    let renewal = renewal.unwrap_or_else(|| pending().boxed());
    let (listener, chosen) = Listener::start(address, "kopf-metrics", Box::new(answer), identity, renewal)?;
    report_served(&chosen);
    Ok(listener)
}

/// Reports the URL of the metrics.
pub(crate) fn report_served(address: &Address) {
    report_of_operator(&Health::Served { what: "metrics", url: address.to_string() });
}

/// Builds the response outside of the serving thread, because iterating over all objects may take a while.
pub(super) async fn scraped(scraper: &Arc<Scraper>, request: &Request<Incoming>) -> Reply {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
    }
    let accepted = request.headers().get_all(ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|it| it.to_str().ok()).collect();
    let format = Format::accepted(&accepted.join(","));
    let scraper = scraper.clone();
    let text = tokio::task::spawn_blocking(move || scraper.text(format));
    match tokio::time::timeout(BUDGET, text).await {
        Ok(Ok(Ok(text))) => Reply { code: StatusCode::OK, kind: format.content_type(), text, headers: &[] },
        _ => Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the metrics could not be written in time\n"),
    }
}
