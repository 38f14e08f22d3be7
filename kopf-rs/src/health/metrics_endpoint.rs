//! `/metrics`, at a port of its own or at that of the liveness endpoint.
//!
//! Guarantees that a scrape gets a complete response or none, within a time limit. Must not know the metrics.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::engine::report::report_of_operator;
use crate::happening::operating::Health;
use crate::health::address::{Address, METRICS};
use crate::health::http::{Answers, Ends, Listener, Reply, accept_all};
use crate::health::scrape::Scraper;
use crate::metrics::exposition::Format;

/// The time limit for a scrape.
const BUDGET: Duration = Duration::from_secs(5);

struct Server(Arc<Scraper>);

/// Starts to listen. The error describes the problem and the remedy.
pub(crate) fn listen(address: &Address, scraper: Arc<Scraper>) -> Result<Listener, String> {
    let what = format!("the metrics endpoint {address}");
    let sockets = address.bind()?;
    let url = address.chosen(&sockets).to_string();
    let listener = Listener::start(&what, "kopf-metrics", move |runtime, stop| {
        serve(runtime, sockets, scraper, stop);
    })?;
    told(url);
    Ok(listener)
}

/// Reports the URL of the metrics.
pub(crate) fn told(url: String) {
    report_of_operator(&Health::Served { what: "metrics", url });
}

fn serve(runtime: &Runtime, sockets: Vec<TcpListener>, scraper: Arc<Scraper>, stop: &CancellationToken) {
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = accept_all(sockets, Arc::new(Server(scraper))) => {}
        }
    });
}

impl Answers for Server {
    fn answer(self: Arc<Self>, request: Request<Incoming>, _: Ends) -> BoxFuture<'static, Reply> {
        async move {
            if request.uri().path() == METRICS {
                scraped(&self.0, &request).await
            } else {
                Reply::text(StatusCode::NOT_FOUND, "404: Not Found\n")
            }
        }
        .boxed()
    }
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
        Ok(Ok(Ok(text))) => Reply { code: StatusCode::OK, kind: format.content_type(), text },
        _ => Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the metrics could not be written in time\n"),
    }
}
