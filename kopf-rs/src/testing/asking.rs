//! The requests of the test itself: sent as an administrator, exempt from faults, and distinguished from those of
//! operators by their user agent.
//!
//! This module does not interpret the requests.

use std::fmt;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use kopf_rs_apiserver::{ApiBody, ApiServer};
use serde_json::Value;
use tower::ServiceExt;

/// The user agent of the requests of the test itself.
pub(super) const USER_AGENT: &str = "kopf-rs-testing";

/// An error response of the server.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    message: String,
}

/// Sends a request; returns the response, or the error.
pub(super) async fn ask(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Refused> {
    let (code, answer) = send(server, method, path, body).await;
    let bytes = match answer.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => panic!("{method} {path}: {error}"),
    };
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if code < 400 {
        return Ok(answer);
    }
    let message = answer["message"].as_str().unwrap_or_default().to_owned();
    Err(Refused { code, message })
}

/// Sends a request and returns the response; panics on an error.
pub(super) async fn must(server: &ApiServer, method: &str, path: &str, body: Option<&Value>) -> Value {
    let answer = ask(server, method, path, body).await;
    answer.unwrap_or_else(|refused| {
        let sent = body.map(|it| format!("\n{it:#}")).unwrap_or_default();
        panic!("{method} {path}: {refused}{sent}")
    })
}

/// Returns the lines of a watch; `None` if the server rejects it.
pub(super) async fn watch(server: &ApiServer, path: &str) -> Option<ApiBody> {
    let (code, answer) = send(server, "GET", path, None).await;
    (code < 400).then_some(answer)
}

async fn send(server: &ApiServer, method: &str, path: &str, body: Option<&Value>) -> (u16, ApiBody) {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = body.map(ToString::to_string).unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .header("user-agent", USER_AGENT)
        .body(Full::new(Bytes::from(bytes)));
    let request = request.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    let answer = server.service().without_faults().oneshot(request).await;
    match answer {
        Ok(answer) => (answer.status().as_u16(), answer.into_body()),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
