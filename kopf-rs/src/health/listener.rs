//! The HTTP endpoints, on a thread of their own: they respond even if the operator's other threads are blocked, and report that.
//!
//! This module guarantees limits for clients: on connections, on request heads, and on time. It must not depend on
//! the criteria for health.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{OptionFuture, join};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::engine::report::report_of_operator;
use crate::happening::operating::Health;
use crate::health::address::Address;
#[cfg(feature = "metrics")]
use crate::health::address::METRICS;
use crate::health::checks::{Check, Query, answer};
use crate::health::http::{Ends, Listener, Reply};
use crate::health::local::is_from_here;
#[cfg(feature = "metrics")]
use crate::health::metrics_endpoint::scraped;
use crate::health::pulse::Pulse;
use crate::health::responder::Responder;
#[cfg(feature = "metrics")]
use crate::health::scrape::Scraper;

/// The sources of the endpoints' facts.
pub(crate) struct Asked {
    pub(crate) responder: Arc<Responder>,
    /// The runtime of handlers, if it is separate.
    pub(crate) handlers: Option<Handle>,
    /// The metrics at the same port.
    #[cfg(feature = "metrics")]
    pub(crate) metrics: Option<Arc<Scraper>>,
}

/// Starts to listen. The error describes the problem and the remedy.
pub(crate) fn listen(address: &Address, asked: Asked) -> Result<Listener, String> {
    let (pulse, beating) = Pulse::of(asked.responder.runtime.clone());
    let (handlers, handlers_beat) = asked.handlers.map(Pulse::of).unzip();
    let server = Arc::new(Server {
        path: address.path.clone(),
        responder: asked.responder,
        pulse,
        handlers,
        failing: Mutex::new(BTreeSet::from([READYZ, WEBHOOKS].map(str::to_owned))),
        #[cfg(feature = "metrics")]
        metrics: asked.metrics,
    });
    let answer = move |request, ends| {
        let server = server.clone();
        async move { server.reply(&request, ends).await }.boxed()
    };
    let beating = join(beating, OptionFuture::from(handlers_beat)).map(|_| ());
    let (listener, chosen) = Listener::start(address, "kopf-health", Box::new(answer), None, beating)?;
    report_of_operator(&Health::Served { what: "health status", url: chosen.to_string() });
    Ok(listener)
}

const LIVEZ: &str = "/livez";
const READYZ: &str = "/readyz";
const WEBHOOKS: &str = "/readyz/webhooks";
const STATUSZ: &str = "/statusz";

struct Server {
    /// The path of users' probes.
    path: String,
    responder: Arc<Responder>,
    pulse: Pulse,
    handlers: Option<Pulse>,
    /// The endpoints that failed at their last request.
    failing: Mutex<BTreeSet<String>>,
    #[cfg(feature = "metrics")]
    metrics: Option<Arc<Scraper>>,
}

impl Server {
    async fn reply(&self, request: &Request<Incoming>, ends: Ends) -> Reply {
        #[cfg(feature = "metrics")]
        if let Some(scraper) = &self.metrics
            && request.uri().path() == METRICS
        {
            return scraped(scraper, request).await;
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
        }
        let asked = Query::parse(request.uri().query().unwrap_or_default());
        match request.uri().path() {
            LIVEZ => self.checked(LIVEZ, &self.asked(Responder::live).await, &asked),
            READYZ => self.checked(READYZ, &self.asked(Responder::ready).await, &asked),
            WEBHOOKS => self.checked(WEBHOOKS, &self.asked(Responder::webhooks).await, &asked),
            STATUSZ if is_from_here(request.headers(), ends) => self.status(asked.uid()).await,
            STATUSZ => forbidden("for this machine only: use kubectl port-forward"),
            path if path == self.path => self.probe(&asked).await,
            _ => Reply::text(StatusCode::NOT_FOUND, "404: Not Found\n"),
        }
    }

    /// Returns the checks from the operator's runtime, and checks that the runtimes respond.
    async fn asked(&self, checks_of: fn(&Responder) -> Vec<Check>) -> Vec<Check> {
        let mut checks = Vec::new();
        let (runtime, more) = match self.answered(self.responder.ask(checks_of)).await {
            Ok(more) => (None, more),
            Err(trouble) => (Some(trouble), Vec::new()),
        };
        checks.push(Check::new("runtime", runtime));
        if let Some(pulse) = &self.handlers {
            let stuck = pulse.stuck_beyond(self.responder.board.bounds().beat);
            let trouble = stuck.map(|stuck| format!("handlers block all their threads: {}", stuck.words()));
            checks.push(Check::new("handlers", trouble));
        }
        checks.extend(more);
        checks
    }

    async fn status(&self, uid: Option<&str>) -> Reply {
        if !self.responder.board.bounds().status {
            return forbidden("switched off by `health.status`");
        }
        let uid = uid.map(str::to_owned);
        let status = self.responder.ask(move |responder| responder.status(uid.as_deref()));
        match self.answered(status).await {
            Ok(status) => Reply::json(format!("{status:#}\n")),
            Err(trouble) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{trouble}\n")),
        }
    }

    async fn probe(&self, asked: &Query) -> Reply {
        let probed = match self.answered(self.responder.probes()).await {
            Ok(Some(probed)) => probed,
            Ok(None) => {
                let text = "startup handlers are called\n";
                return Reply::text(StatusCode::SERVICE_UNAVAILABLE, text);
            }
            Err(trouble) => {
                let checks = [Check::new("runtime", Some(trouble))];
                return self.checked(&self.path, &checks, asked);
            }
        };
        let reply = self.checked(&self.path, &probed.checks, asked);
        if reply.text == "ok" {
            let results = serde_json::to_string(&probed.results);
            return Reply::json(results.unwrap_or_else(|_| "{}".to_owned()));
        }
        reply
    }

    fn checked(&self, endpoint: &str, checks: &[Check], asked: &Query) -> Reply {
        self.report(endpoint, checks);
        let answer = answer(endpoint.trim_start_matches('/'), checks, asked);
        let code = if answer.is_well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        Reply::text(code, answer.text)
    }

    /// Reports an endpoint that starts or stops failing.
    fn report(&self, endpoint: &str, checks: &[Check]) {
        let failing = checks.iter().filter_map(|check| {
            let trouble = check.trouble.as_ref()?;
            Some(format!("{} ({trouble})", check.name))
        });
        let failing: Vec<_> = failing.collect();
        let mut known = self.failing.lock();
        let endpoint = endpoint.to_owned();
        let (is_news, health) = if failing.is_empty() {
            (known.remove(&endpoint), Health::Passes { endpoint })
        } else {
            let is_news = known.insert(endpoint.clone());
            (is_news, Health::Fails { endpoint, failing })
        };
        drop(known);
        if is_news {
            report_of_operator(&health);
        }
    }

    /// Waits for an answer of the responder, or returns the problem of the operator's runtime.
    async fn answered<T>(&self, answer: impl Future<Output = Option<T>>) -> Result<T, String> {
        match self.pulse.unless_stuck(self.responder.board.bounds().beat, answer).await {
            Ok(answer) => answer.ok_or_else(|| "the operator has ended".to_owned()),
            Err(stuck) => Err(format!("the operator's own thread is blocked: {}", stuck.words())),
        }
    }
}

fn forbidden(why: &str) -> Reply {
    Reply::text(StatusCode::FORBIDDEN, format!("{STATUSZ} is {why}\n"))
}
