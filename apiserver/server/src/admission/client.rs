//! Calls a webhook: one HTTPS request over a new connection.
//!
//! Guarantees an answer, or an error in kube-apiserver's words, within the timeout. Must not depend on webhook rules.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::response::Parts;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::real_time::TimeHold;
use super::trust::{handshake, trust};
use crate::call::go;

/// The maximum size of an answer.
const LIMIT: usize = 3 * 1024 * 1024;

/// The maximum number of concurrent questions per request.
const AT_A_TIME: usize = 16;

/// A request to a webhook.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The URL, with the timeout as its query.
    pub(crate) url: String,
    /// Overrides the address in the URL; an error if the Service is unreachable.
    pub(crate) address: Option<Result<SocketAddr, String>>,
    /// The trusted certificates: PEM, in base64.
    pub(crate) authority: String,
    pub(crate) timeout: Duration,
    pub(crate) body: Value,
}

/// Sends a question; the error completes the text "failed to call webhook: ".
pub(crate) async fn ask(query: &Query) -> Result<Value, String> {
    let url = &query.url;
    let hold = TimeHold::begin();
    let asked = tokio::time::timeout(query.timeout, exchange(query)).await;
    let unsent = |why: &str| format!("Post {url:?}: {why}{}", hold.hint());
    match asked {
        Err(_) => Err(unsent("context deadline exceeded")),
        Ok(Err(Failure::Sending(why))) => Err(unsent(&why)),
        Ok(Err(Failure::Answer(why))) => Err(why),
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// Sends several questions, a limited number at a time.
pub(crate) async fn ask_all(queries: Vec<Query>) -> Vec<Result<Value, String>> {
    let asking = queries
        .into_iter()
        .map(|query| async move { ask(&query).await });
    futures_util::stream::iter(asking)
        .buffered(AT_A_TIME)
        .collect()
        .await
}

enum Failure {
    /// The request was not delivered.
    Sending(String),
    /// The answer is invalid.
    Answer(String),
}

async fn exchange(query: &Query) -> Result<Value, Failure> {
    let uri: Uri = query
        .url
        .parse()
        .map_err(|why: http::uri::InvalidUri| Failure::Sending(why.to_string()))?;
    let host = uri.host().unwrap_or_default().to_owned();
    let host = host.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(443);
    let stream = match &query.address {
        Some(Ok(address)) => TcpStream::connect(address).await,
        Some(Err(why)) => return Err(Failure::Sending(why.clone())),
        None => TcpStream::connect((host, port)).await,
    };
    let stream = stream.map_err(|why| Failure::Sending(dialled(&why, host, port)))?;
    let name =
        ServerName::try_from(host.to_owned()).map_err(|why| Failure::Sending(why.to_string()))?;
    let connector = TlsConnector::from(trust(&query.authority).map_err(Failure::Sending)?);
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|why| Failure::Sending(handshake(&why)))?;
    let sending = |why: hyper::Error| Failure::Sending(why.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(sending)?;
    let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(
            header::HOST,
            uri.authority().map_or(host, |found| found.as_str()),
        )
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(query.body.to_string())))
        .map_err(|why| Failure::Sending(why.to_string()))?;
    // The task drives the connection until the request ends, successfully or not.
    let driver = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await.map_err(sending)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LIMIT).collect().await;
        let body = body.map_err(|why| Failure::Answer(why.to_string()))?;
        Ok::<_, Failure>((head, body.to_bytes()))
    };
    let answered = answered.await;
    driver.abort();
    let (head, bytes) = answered?;
    read(&head, &bytes).map_err(Failure::Answer)
}

/// Returns the answer as JSON, or the reason why it is invalid.
fn read(head: &Parts, bytes: &Bytes) -> Result<Value, String> {
    if !head.status.is_success() {
        if let Some(message) = failure(bytes) {
            return Err(message);
        }
        let said = String::from_utf8_lossy(bytes);
        let said = Some(said.trim()).filter(|_| is_text(head));
        return Err(refused(head.status.as_u16(), said));
    }
    let unread = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
    match go::parse(bytes) {
        Ok(answer @ Value::Object(_)) => Ok(answer),
        Ok(other) => {
            let found = crate::rules::go_type(&other);
            Err(unread(&format!(
                "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )))
        }
        Err(why) => Err(unread(&why)),
    }
}

/// Returns the message of a `Status` failure, which Go's client prefers to its own.
fn failure(bytes: &Bytes) -> Option<String> {
    let answer = go::parse(bytes).ok()?;
    let says = |field: &str, wanted: &str| match answer.get(field) {
        None => true,
        Some(found) => found == wanted,
    };
    let is_failure = answer.get("status").is_some_and(|it| it == "Failure");
    let is_status = is_failure && says("kind", "Status") && says("apiVersion", "v1");
    let message = answer["message"].as_str().unwrap_or_default();
    is_status.then(|| message.to_owned())
}

/// Returns whether the content type of an answer is text.
fn is_text(head: &Parts) -> bool {
    let kind = head.headers.get(header::CONTENT_TYPE);
    kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/"))
}

/// Returns the message of Go's client for an HTTP error.
fn refused(code: u16, said: Option<&str>) -> String {
    let said = said.unwrap_or("unknown");
    let words = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        _ => {
            return format!(
                "an error on the server ({said:?}) has prevented the request from succeeding"
            );
        }
    };
    words.to_owned()
}

fn dialled(why: &io::Error, host: &str, port: u16) -> String {
    match why.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        _ if host.parse::<std::net::IpAddr>().is_err() => {
            format!("dial tcp: lookup {host}: no such host")
        }
        _ => format!("dial tcp {host}:{port}: {why}"),
    }
}
