//! Asking a webhook: one HTTPS request, over a connection of its own.
//!
//! Promise: an answer or an error in kube-apiserver's words, within the time that is given. Must not know webhooks' rules.
//! Time is the real one: under paused time a timeout may come before the answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::call::go;

/// The largest answer that is read.
const LIMIT: usize = 3 * 1024 * 1024;

/// How many questions of one request are under way at the same time.
const AT_A_TIME: usize = 16;

/// A question on its way.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// With the timeout as its query.
    pub(crate) url: String,
    /// Where to connect to, if not where the URL says; an error if that is nowhere.
    pub(crate) address: Option<Result<SocketAddr, String>>,
    /// The certificates that are trusted: PEM, in base64.
    pub(crate) authority: String,
    pub(crate) timeout: Duration,
    pub(crate) body: Value,
}

/// Ask; the error finishes "failed to call webhook: ".
pub(crate) async fn ask(query: &Query) -> Result<Value, String> {
    let url = &query.url;
    let asked = tokio::time::timeout(query.timeout, exchange(query)).await;
    let unsent = |why: &str| format!("Post {url:?}: {why}");
    match asked {
        Err(_) => Err(unsent("context deadline exceeded")),
        Ok(Err(Failure::Sending(why))) => Err(unsent(&why)),
        Ok(Err(Failure::Answer(why))) => Err(why),
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// Ask several questions, a few of them at a time.
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
    /// The question did not arrive.
    Sending(String),
    /// The answer is no good.
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
    // It ends with the request, whatever becomes of that.
    let driver = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await.map_err(sending)?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), LIMIT).collect().await;
        let body = body.map_err(|why| Failure::Answer(why.to_string()))?;
        Ok::<_, Failure>((code, body.to_bytes()))
    };
    let answered = answered.await;
    driver.abort();
    let (code, bytes) = answered?;
    read(code, &bytes).map_err(Failure::Answer)
}

/// The answer as JSON, if it is a good one.
fn read(code: u16, bytes: &Bytes) -> Result<Value, String> {
    if !(200..300).contains(&code) {
        return Err(refused(code).to_owned());
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

/// What Go's client says of an answer of that code.
fn refused(code: u16) -> &'static str {
    match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => "unknown",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        _ => "an error on the server (\"unknown\") has prevented the request from succeeding",
    }
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

fn handshake(why: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    let error = why
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let start = "tls: failed to verify certificate: x509: ";
    match error {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{start}certificate signed by unknown authority")
        }
        Some(Error::InvalidCertificate(other)) => format!("{start}{other}"),
        _ => why.to_string(),
    }
}

/// Trust the certificates of a bundle, and nothing else.
fn trust(authority: &str) -> Result<Arc<rustls::ClientConfig>, String> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = STANDARD.decode(authority).map_err(|why| why.to_string())?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|why| why.to_string())?;
        roots.add(certificate).map_err(|why| why.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
