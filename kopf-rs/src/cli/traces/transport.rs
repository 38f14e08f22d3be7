//! Sends OTLP messages to a collector: over HTTP/1.1 or gRPC, and over TLS if the URL says so, on a thread of its own.
//!
//! Both protocols carry the same message. gRPC only puts it into a frame of HTTP/2 and returns its status in a trailer, so that the exporter
//! for HTTP serves both. This module must not know the content of messages.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use parking_lot::Mutex;
use percent_encoding::percent_decode;
use rustls::ClientConfig;
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::cluster::cause::chain;
use crate::cluster::error::first_words;
use crate::rt::tls::{provider, roots};

/// The method of the collector's gRPC service.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The prefix of a message in gRPC: a flag for compression, and the length.
const PREFIX: usize = 5;
/// The maximum length of an answer.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;

/// How to reach the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) is_grpc: bool,
    /// The file with the authorities to trust (PEM), in place of those of the machine.
    pub(super) authorities: Option<String>,
    /// The time limit for one request.
    pub(super) patience: Duration,
}

/// The last problem with the collector, in words. Clones share it.
pub(super) type LastProblem = Arc<Mutex<Option<String>>>;

/// A client of the collector.
#[derive(Debug)]
pub(super) struct Transport {
    runtime: Option<Runtime>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    route: Route,
    problem: LastProblem,
}

impl Transport {
    pub(super) fn new(route: Route, problem: LastProblem) -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("otlp").enable_all().build();
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(route.authorities.as_deref())?);
        let builder = builder.https_or_http();
        let connector =
            if route.is_grpc { builder.enable_http2().build() } else { builder.enable_http1().build() };
        let client = Client::builder(TokioExecutor::new()).http2_only(route.is_grpc).build(connector);
        Ok(Self { runtime: Some(runtime.map_err(|error| error.to_string())?), client, route, problem })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let runtime = self.runtime.as_ref().ok_or("the program ends")?;
        let (client, route) = (self.client.clone(), self.route.clone());
        let sending = async move {
            let sent = timeout(route.patience, exchange(&client, request, route.is_grpc)).await;
            sent.unwrap_or_else(|_| Err(format!("no answer within {} seconds", route.patience.as_secs_f64())))
        };
        // The exporter's thread has no runtime of its own.
        runtime.spawn(sending).await.map_err(|error| error.to_string())?
    }
}

impl HttpClient for Transport {
    fn send_bytes<'this, 'sent>(
        &'this self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'this: 'sent,
        Self: 'sent,
    {
        Box::pin(async move {
            let sent = self.send(request).await;
            *self.problem.lock() = match &sent {
                Ok(answer) => refusal(answer),
                Err(problem) => Some(problem.clone()),
            };
            sent.map_err(HttpError::from)
        })
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // A runtime must not be awaited on a thread of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the first words of an answer without success.
fn refusal(answer: &Response<Bytes>) -> Option<String> {
    (!answer.status().is_success()).then(|| first_words(&String::from_utf8_lossy(answer.body())))
}

async fn exchange(
    client: &Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: Request<Bytes>,
    is_grpc: bool,
) -> Result<Response<Bytes>, String> {
    let request = if is_grpc { framed(request)? } else { request };
    let answer = client.request(request.map(Full::new)).await.map_err(|error| chain(&error))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LONGEST_ANSWER).collect().await.map_err(|error| chain(&*error))?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let answer = Response::from_parts(head, body.to_bytes());
    Ok(if is_grpc { unframed(answer, &trailers) } else { answer })
}

/// Turns a request of OTLP over HTTP into a call of the gRPC method.
fn framed(request: Request<Bytes>) -> Result<Request<Bytes>, String> {
    let (mut head, message) = request.into_parts();
    let mut uri = head.uri.into_parts();
    uri.path_and_query = Some(http::uri::PathAndQuery::from_static(EXPORT));
    head.uri = Uri::from_parts(uri).map_err(|error| error.to_string())?;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    let length = u32::try_from(message.len()).map_err(|_| "the message is too long".to_owned())?;
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(0);
    frame.put_u32(length);
    frame.put(message);
    Ok(Request::from_parts(head, frame.freeze()))
}

/// Turns the answer to a gRPC call into one of OTLP over HTTP. Its code decides whether the exporter tries again.
fn unframed(answer: Response<Bytes>, trailers: &HeaderMap) -> Response<Bytes> {
    let (mut head, body) = answer.into_parts();
    let text = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name));
        value.map(|it| percent_decode(it.as_bytes()).decode_utf8_lossy().into_owned())
    };
    if !head.status.is_success() {
        return Response::from_parts(head, body);
    }
    let (status, body) = match text("grpc-status").as_deref() {
        Some("0") => (StatusCode::OK, body.slice(PREFIX.min(body.len())..)),
        status => {
            let number = status.unwrap_or("missing");
            let problem = format!("gRPC status {number}: {}", text("grpc-message").unwrap_or_default());
            let status = match number {
                // Cancelled, deadline exceeded, resource exhausted, aborted, out of range, unavailable, data loss.
                "1" | "4" | "8" | "10" | "11" | "14" | "15" => StatusCode::SERVICE_UNAVAILABLE,
                "7" => StatusCode::FORBIDDEN,
                "16" => StatusCode::UNAUTHORIZED,
                "12" => StatusCode::NOT_IMPLEMENTED,
                _ => StatusCode::BAD_REQUEST,
            };
            (status, problem.into())
        }
    };
    head.status = status;
    Response::from_parts(head, body)
}

fn tls(authorities: Option<&str>) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let Some(file) = authorities else {
        let system = Verifier::new(provider());
        let system =
            system.map_err(|error| format!("the authorities of this machine cannot be used: {error}"))?;
        return Ok(config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(system))
            .with_no_client_auth());
    };
    let named = |why: String| format!("OTEL_EXPORTER_OTLP_CERTIFICATE is {file}: {why}");
    let pem = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let roots = roots(&pem).map_err(named)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::{Frame, Incoming};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::rt::tls::{TlsVersion, server_config};

    type Answer =
        StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

    /// Answers with the frames, as a collector does.
    async fn answer(
        request: Request<Incoming>,
        status: &'static str,
        seen: mpsc::UnboundedSender<(String, Bytes)>,
    ) -> Result<Response<Answer>, Infallible> {
        let kind = request.headers().get(CONTENT_TYPE).cloned();
        let line = format!(
            "{} {}",
            request.uri().path(),
            kind.as_ref().and_then(|it| it.to_str().ok()).unwrap_or("-")
        );
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        seen.send((line, body.unwrap_or_default())).expect("the test waits");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(status));
        trailers.insert("grpc-message", HeaderValue::from_static("not%20now%0A"));
        let frames = [Frame::data(Bytes::from_static(b"\0\0\0\0\x02ok")), Frame::trailers(trailers)];
        let frames = frames.map(Ok).into_iter().collect::<Vec<_>>();
        Ok(Response::new(StreamBody::new(futures_util::stream::iter(frames))))
    }

    /// A collector for gRPC over TLS: its URL, the file with its authority, and what it has seen.
    async fn collector(status: &'static str) -> (String, String, mpsc::UnboundedReceiver<(String, Bytes)>) {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let pem = made.cert.pem();
        let file = std::env::temp_dir().join(format!("kopf-rs-otlp-{}-{status}.pem", std::process::id()));
        std::fs::write(&file, &pem).expect("the temporary folder can be written to");
        let config = server_config(&pem, &made.signing_key.serialize_pem(), None, TlsVersion::V1_3);
        let mut config = (*config.expect("a certificate with its key")).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/v1/traces", listener.local_addr().expect("an address"));
        let (sender, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let sender = sender.clone();
                let service = service_fn(move |request| answer(request, status, sender.clone()));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        (url, file.to_string_lossy().into_owned(), seen)
    }

    fn transport(authorities: Option<String>) -> Transport {
        let route = Route { is_grpc: true, authorities, patience: Duration::from_secs(10) };
        Transport::new(route, LastProblem::default()).expect("a client")
    }

    fn request(url: &str) -> Request<Bytes> {
        let request = Request::post(url).header(CONTENT_TYPE, "application/x-protobuf");
        request.body(Bytes::from_static(b"spans")).expect("a request")
    }

    #[tokio::test]
    async fn a_message_is_sent_by_grpc_over_tls() {
        let (url, authority, mut seen) = collector("0").await;
        let transport = transport(Some(authority));
        let answer = transport.send_bytes(request(&url)).await.unwrap();
        assert_eq!((answer.status(), answer.body().as_ref()), (StatusCode::OK, &b"ok"[..]));
        let (line, body) = seen.recv().await.unwrap();
        assert_eq!(line, format!("{EXPORT} application/grpc"));
        assert_eq!(body, &b"\0\0\0\0\x05spans"[..]);
        // A certificate of an unknown authority is refused.
        let (_, other, _) = collector("14").await;
        let distrusting = self::transport(Some(other));
        assert!(distrusting.send_bytes(request(&url)).await.is_err());
        let problem = distrusting.problem.lock().clone().unwrap_or_default();
        assert!(problem.contains("certificate"), "{problem}");
    }

    #[test]
    fn foreign_answers_are_shortened() {
        let answer =
            |text: String| Response::builder().status(503).body(Bytes::from(text)).expect("an answer");
        assert_eq!(refusal(&answer("<html>\n  busy".to_owned())).as_deref(), Some("<html> busy"));
        assert!(refusal(&answer("a".repeat(LONGEST_ANSWER))).is_some_and(|it| it.len() < 1000));
    }

    #[tokio::test]
    async fn a_refusal_by_grpc_has_its_code_and_its_words() {
        let (url, authority, _seen) = collector("8").await;
        let transport = transport(Some(authority));
        let answer = transport.send_bytes(request(&url)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(transport.problem.lock().as_deref(), Some("gRPC status 8: not now"));
    }
}
