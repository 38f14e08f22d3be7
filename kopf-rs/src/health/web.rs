//! The web page of an operator: its activity as HTML and JSON, for a browser on the same machine.
//!
//! Guarantees that only clients on this machine get an answer, that no page of another origin can read it, and that nothing can be
//! changed. All texts of the cluster are untrusted: `html` escapes them, and the browser runs no script but the page's own. The pages
//! are complete without a script, which only refreshes them. Must not know how an object is explained.

mod asked;
mod declared;
mod graph;
mod html;
mod object;
mod page;
mod values;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::happening::operating::Health;
use crate::health::address::Address;
use crate::health::http::{Ends, Listener, Reply};
use crate::health::local::is_from_here;
use crate::health::pulse::Pulse;
use crate::health::responder::Responder;
use crate::health::web::asked::AskedObject;

/// Returns the explanation of an object, which is named in kubectl's notation, and its history, as JSON.
pub(crate) type Explain = Box<dyn Fn(String) -> BoxFuture<'static, Value> + Send + Sync>;

/// The sources of the page's facts.
pub(crate) struct Shown {
    pub(crate) responder: Arc<Responder>,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) explain: Explain,
}

/// The time limit for an explanation, which sends requests to the API server.
const PATIENCE: Duration = Duration::from_secs(20);
/// The maximum number of explanations at a time.
const EXPLANATIONS: usize = 2;

/// The headers of all answers: the page contains nothing inline and nothing of other origins, and no other page can embed or read it.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const STYLE: &str = include_str!("web/page.css");
const SCRIPT: &str = include_str!("web/page.js");

/// Starts to listen. The error describes the problem and the remedy.
pub(crate) fn listen(address: &Address, shown: Shown) -> Result<Listener, String> {
    let (pulse, beating) = Pulse::of(shown.responder.runtime.clone());
    let server = Arc::new(Server { shown, pulse, explanations: Semaphore::new(EXPLANATIONS) });
    let answer = move |request: Request<Incoming>, ends| {
        let server = server.clone();
        async move {
            let reply = server.reply(&request, ends).await;
            Reply { headers: HEADERS, ..reply }
        }
        .boxed()
    };
    let (listener, chosen) = Listener::start(address, "kopf-web", Box::new(answer), None, beating)?;
    report_of_operator(&Health::Served { what: "the web page", url: chosen.to_string() });
    Ok(listener)
}

struct Server {
    shown: Shown,
    pulse: Pulse,
    explanations: Semaphore,
}

impl Server {
    async fn reply(&self, request: &Request<Incoming>, ends: Ends) -> Reply {
        if request.method() != Method::GET {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
        }
        if !is_from_here(request.headers(), ends) {
            let text = "the page is for this machine only: use kubectl port-forward\n";
            return Reply::text(StatusCode::FORBIDDEN, text);
        }
        if is_of_other_origin(request.headers()) {
            let text =
                "requests from other web pages are refused: type the address of this page into a new tab\n";
            return Reply::text(StatusCode::FORBIDDEN, text);
        }
        let asked = AskedObject::parse(request.uri().query().unwrap_or_default());
        match request.uri().path() {
            "/" => self.page(|status| html(page::page(status))).await,
            "/status.json" => self.page(|status| Reply::json(format!("{status:#}\n"))).await,
            "/object" => self.object(&asked, html).await,
            "/object.json" => self.object_json(&asked).await,
            "/page.css" => of_kind("text/css; charset=utf-8", STYLE.to_owned()),
            "/page.js" => of_kind("text/javascript; charset=utf-8", SCRIPT.to_owned()),
            _ => Reply::text(StatusCode::NOT_FOUND, "404: Not Found\n"),
        }
    }

    async fn page(&self, write: fn(&Value) -> Reply) -> Reply {
        match self.status().await {
            Ok(status) => write(&status),
            Err(trouble) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        }
    }

    async fn object(&self, asked: &AskedObject, write: fn(String) -> Reply) -> Reply {
        let status = match self.status().await {
            Ok(status) => status,
            Err(trouble) => return Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        };
        let explained = self.explained(asked).await;
        write(object::page(&status, asked, &explained))
    }

    async fn object_json(&self, asked: &AskedObject) -> Reply {
        Reply::json(format!("{:#}\n", self.explained(asked).await))
    }

    /// Returns the operator's activity, and its declared handlers.
    async fn status(&self) -> Result<Value, String> {
        let handlers = self.shown.handlers.clone();
        let status = self.shown.responder.ask(move |responder| {
            let mut status = responder.status(None);
            status["handlers"] = declared::handlers(&handlers, responder);
            status
        });
        match self.pulse.unless_stuck(self.shown.responder.board.bounds().beat, status).await {
            Ok(status) => status.ok_or_else(|| "the operator has ended".to_owned()),
            Err(stuck) => Err(format!("the operator's own thread is blocked: {}", stuck.words())),
        }
    }

    /// Returns the explanation of an object, or the problem.
    async fn explained(&self, asked: &AskedObject) -> Value {
        let problem = |problem: &str| json!({"problem": problem});
        let object = match asked.notation() {
            Ok(object) => object,
            Err(text) => return problem(text),
        };
        let explained = async {
            let _permit = self.explanations.acquire().await.ok()?;
            let explaining = (self.shown.explain)(object);
            AbortOnDropHandle::new(self.shown.responder.runtime.spawn(explaining)).await.ok()
        };
        match timeout(PATIENCE, explained).await {
            Ok(explained) => explained.unwrap_or_else(|| problem("the operator has ended")),
            Err(_) => problem("the API server has not answered in time: try again"),
        }
    }
}

fn html(text: String) -> Reply {
    of_kind("text/html; charset=utf-8", text)
}

fn of_kind(kind: &'static str, text: String) -> Reply {
    Reply { code: StatusCode::OK, kind, text, headers: &[] }
}

/// Returns whether a page of another origin has caused the request, as far as the browser tells.
fn is_of_other_origin(headers: &HeaderMap) -> bool {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let is_other_site = headers.get(SITE).is_some_and(|site| site != "same-origin" && site != "none");
    let host = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let is_other = |origin: &[u8]| origin.strip_prefix(b"http://") != Some(host);
    is_other_site || headers.get(ORIGIN).is_some_and(|origin| is_other(origin.as_bytes()))
}

#[cfg(test)]
mod tests;
