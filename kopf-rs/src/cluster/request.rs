//! Performs one HTTP exchange: builds the request, reads the body once, and maps a refusal to our errors.
//!
//! This is the only place that sends. This module must not depend on the meaning of bodies.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::Cluster;
use crate::cluster::cause::chain;
use crate::cluster::error::{Asked, ClusterError, Status};
use crate::cluster::fence::Pass;
use crate::happening::meter::{Meter, SharedMeter};
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;

/// The number of quick attempts before the caller gets the error.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// If the server asks for a longer pause, the caller gets the error.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The address of one object of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectPath<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// The content type of objects and lists in full.
pub(super) const JSON: &str = "application/json";

/// A request that can be sent repeatedly.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// The path and the query.
    pub(super) target: String,
    pub(super) accept: &'static str,
    /// The content type and the content.
    pub(super) body: Option<(&'static str, Bytes)>,
    pub(super) asked: Asked<'a>,
}

impl<'a> Call<'a> {
    pub(super) fn get(target: String, asked: Asked<'a>) -> Self {
        Self { method: Method::GET, target, accept: JSON, body: None, asked }
    }

    /// Creates a request with a JSON value of this content type.
    pub(super) fn with(
        method: Method,
        target: String,
        (kind, body): (&'static str, &Value),
        asked: Asked<'a>,
    ) -> Self {
        Self { method, body: Some((kind, Bytes::from(body.to_string()))), ..Self::get(target, asked) }
    }

    /// Creates a request about one object.
    pub(super) fn on(
        method: Method,
        object: ObjectPath<'a>,
        body: (&'static str, &Value),
        verbs: &'static [&'static str],
    ) -> Self {
        let ObjectPath { resource, namespace, name } = object;
        let name = (method != Method::POST).then_some(name);
        let asked = Asked::of(resource, namespace, verbs);
        Self::with(method, resource.path(namespace, name, None), body, asked)
    }

    /// Returns the verb in RBAC terms.
    fn verb(&self) -> &'static str {
        match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if self.target.contains("?watch=true") => "watch",
            _ if self.asked.verbs.contains(&"list") => "list",
            _ => "get",
        }
    }

    fn content(&self) -> Bytes {
        let content = self.body.as_ref().map(|(_, content)| content.clone());
        content.unwrap_or_default()
    }

    fn request(&self, cluster: &Cluster, target: &str) -> Result<Request<Body>, ClusterError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(target)
            .header(ACCEPT, self.accept)
            .header(USER_AGENT, cluster.shared.agent.clone());
        let mut content = Body::empty();
        if let Some((kind, bytes)) = &self.body {
            request = request.header(CONTENT_TYPE, *kind);
            content = Body::from(bytes.clone());
        }
        request
            .body(content)
            .map_err(|error| ClusterError::Invalid(format!("no request can be made: {error}")))
    }
}

impl Cluster {
    /// Sends once, and returns a 2xx response with its body still unread. A write needs a pass if there is a gate.
    pub(super) async fn open(
        &self,
        call: &Call<'_>,
        pass: Option<&Pass>,
    ) -> Result<Response<Body>, ClusterError> {
        let metering = Metering::begin(&self.shared.meter, call);
        let request = match pass {
            None => call.request(self, &call.target)?,
            Some(pass) => {
                let request = call.request(self, &pass.limited(&call.target))?;
                pass.guard(request, call.content()).await
            }
        };
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| {
            if let Some(why) = pass.and_then(Pass::why_kept_back) {
                return why;
            }
            self.shared.reach.unanswered();
            no_answer(&error)
        })?;
        self.shared.reach.answered();
        metering.answered(answer.status());
        if answer.status().is_success() {
            return Ok(answer);
        }
        let code = answer.status().as_u16();
        let retry_after = retry_after(answer.headers());
        if let (429, Some(seconds), Some(meter)) = (code, retry_after, &self.shared.meter) {
            meter.throttled(Duration::from_secs(seconds));
        }
        let body = read(answer.into_body()).await.unwrap_or_default();
        Err(Status::read(code, &body).into_error(&call.asked, retry_after))
    }

    /// Sends once, and returns the whole body of a 2xx response.
    pub(super) async fn exchange(&self, call: &Call<'_>) -> Result<Bytes, ClusterError> {
        Ok(self.exchange_coded(call, None).await?.1)
    }

    /// Like `exchange`, but also returns the status code. A write belongs to the term with that number, or to any current term if `None`.
    async fn exchange_coded(&self, call: &Call<'_>, term: Option<u64>) -> Result<(u16, Bytes), ClusterError> {
        let is_write = call.method != Method::GET;
        let fence = self.fence.as_ref().filter(|_| is_write);
        let pass = fence.map(|it| it.pass(term)).transpose()?;
        let exchange = async {
            let answer = self.open(call, pass.as_ref()).await?;
            let code = answer.status().as_u16();
            let reply = read(answer.into_body()).await?;
            if reply.trim_ascii_start().starts_with(b"{") {
                return Ok((code, reply));
            }
            // A proxy before the server answers with a page of its own.
            let start = String::from_utf8_lossy(&reply[..reply.len().min(40)]);
            Err(ClusterError::Unreachable(format!(
                "the reply is not an object, but begins with {start:?} (does a proxy or another server answer at the address of the API server?)"
            )))
        };
        let patience = self.shared.request_timeout;
        let patience = pass.as_ref().map_or(patience, |it| patience.min(it.patience));
        timeout(patience, exchange).await.unwrap_or_else(|_| {
            let seconds = patience.as_secs_f64();
            Err(ClusterError::Unreachable(format!("no complete answer within {seconds} seconds")))
        })
    }

    /// Like [`Cluster::exchange`], with a few quick retries if the server is busy or cannot be reached.
    ///
    /// Meant for discovery and manifests, and only for requests that are safe to repeat. Callers that write and read objects have their own
    /// retries.
    pub(super) async fn persist(&self, call: &Call<'_>) -> Result<Bytes, ClusterError> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for _ in 1..TRIES {
            let error = match self.exchange_in_turn(call).await {
                Err(error) if error.is_transient() => error,
                done => return done,
            };
            let asked_for = error.retry_after().unwrap_or_default();
            if asked_for > LONGEST_RETRY_AFTER {
                return Err(error);
            }
            tracing::debug!("{} {} will be repeated: {error}", call.method, call.target);
            sleep(backoff.next_pause_after(asked_for, self.rng())).await;
        }
        self.exchange_in_turn(call).await
    }

    /// Like `exchange`, but writes wait for a slot. The slot is released during pauses.
    pub(super) async fn exchange_in_turn(&self, call: &Call<'_>) -> Result<Bytes, ClusterError> {
        Ok(self.exchange_in_turn_coded(call, None).await?.1)
    }

    /// Like `exchange_in_turn`, but also returns the status code. A write belongs to the term with that number, or to any current term if
    /// `None`.
    pub(super) async fn exchange_in_turn_coded(
        &self,
        call: &Call<'_>,
        term: Option<u64>,
    ) -> Result<(u16, Bytes), ClusterError> {
        if call.method == Method::GET {
            return self.exchange_coded(call, None).await;
        }
        let slot = self.shared.writes.acquire().await;
        let answer = self.exchange_coded(call, term).await;
        drop(slot);
        answer
    }
}

/// The metrics of a request in flight. A dropped request counts as unanswered.
struct Metering<'a> {
    meter: Option<&'a dyn Meter>,
    /// The verb in RBAC terms.
    verb: &'static str,
    asked: Asked<'a>,
    begun: Instant,
}

impl<'a> Metering<'a> {
    fn begin(meter: &'a SharedMeter, call: &'a Call<'_>) -> Self {
        let meter = meter.as_deref();
        if let Some(meter) = meter {
            meter.request_begins();
        }
        Self { meter, verb: call.verb(), asked: call.asked, begun: Instant::now() }
    }

    fn answered(mut self, code: StatusCode) {
        self.end(Some(code.as_u16()));
    }

    fn end(&mut self, code: Option<u16>) {
        if let Some(meter) = self.meter.take() {
            let asked = (self.asked.resource, self.asked.subresource);
            meter.request_ends(self.verb, asked, code, self.begun.elapsed());
        }
    }
}

impl Drop for Metering<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Escapes a value for a query.
pub(super) fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text
}

async fn read(body: Body) -> Result<Bytes, ClusterError> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(no_answer(&error)),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

fn no_answer(error: &kube::Error) -> ClusterError {
    let reasons = error.source().map_or_else(|| error.to_string(), chain);
    if matches!(error, kube::Error::Auth(_)) {
        return ClusterError::Unauthorized(format!("no credentials: {reasons}"));
    }
    let hint = hint(&reasons);
    ClusterError::Unreachable(format!("{reasons}{hint}"))
}

/// Returns a hint about what the user can do.
fn hint(reasons: &str) -> &'static str {
    let knows = |words: &str| reasons.contains(words);
    if knows("UnknownIssuer") || knows("SelfSigned") || knows("certificate: BadSignature") {
        " (the server's certificate is not signed by the authority in the kubeconfig: check certificate-authority)"
    } else if knows("NotValidForName") || knows("not valid for name") {
        " (the server's certificate is for another host name: check the server in the kubeconfig, or set tls-server-name)"
    } else if knows("Expired") {
        " (the server's certificate has expired, or the clock of this machine is wrong)"
    } else if knows("InvalidContentType") || knows("corrupt message") || knows("handshake eof") {
        " (the server does not speak TLS there: is it http:// rather than https://?)"
    } else if knows("CertificateRequired") || knows("BadCertificate") {
        " (the server does not accept our client certificate)"
    } else if knows("dns error") || knows("failed to lookup address") {
        " (the host name of the server is not known: check the server in the kubeconfig)"
    } else if knows("Connection refused") {
        " (nothing listens there: is the cluster running?)"
    } else {
        ""
    }
}
