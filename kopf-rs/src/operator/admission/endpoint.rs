//! The HTTPS endpoint that the API server calls: connections, their certificates, and limits for requests.
//!
//! Guarantees that a client that sends nothing, or too much, does not keep others from being answered, and that each accepted request is
//! answered before the endpoint ends. Must not know what a review is.

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::conversion::graph::PATH;
use crate::operator::admission::endpoint::bodies::{ALL_BODIES, Refused, Rooms, Share};
use crate::rt::places::{Place, Places};
use crate::rt::task;
use crate::rt::tls::Identity;

mod bodies;

/// The maximum number of connections: an API server keeps 25 idle ones for each host, and opens more when it needs them. One more connection
/// replaces the one that has been idle longest; clients that have not sent a valid request yet are replaced first.
const CONNECTIONS: usize = 1024;
/// The time limit for a handshake, and for the head of the first request after its first byte.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for an idle connection: longer than the 90 seconds of API servers, because otherwise their requests would race with our
/// close. It also applies before the first request: API servers open spare connections, and do not repeat a request that fails on one of them.
const IDLE: Duration = Duration::from_secs(180);
/// The time for which accepted requests may continue while the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(30);
/// The message that ends an idle connection. API servers do not repeat a request whose connection closes without an answer. If a request is
/// on its way, this is its answer, and the API server repeats it; otherwise the API server logs a response that it did not ask for.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// The time limit for sending that message and for the client to close the connection. Closing it earlier could discard the message.
const CLOSING: Duration = Duration::from_secs(1);
/// The safety margin before the API server gives up, because it rounds the timeout that it sends up to whole seconds.
const MARGIN: Duration = Duration::from_secs(1);
/// The minimum time for an answer.
const LEAST: Duration = Duration::from_millis(200);
/// The longest timeout of API servers. Other clients may send any number.
const LONGEST: Duration = Duration::from_secs(30);
/// The timeout of an API server that does not send one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request.
#[derive(Debug)]
pub(crate) struct Question {
    /// The path below the root of the endpoint.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(String, String)>,
    /// The client certificate, if one was presented.
    pub(crate) sslpeer: Option<Value>,
    /// The deadline for the answer.
    pub(crate) within: Duration,
}

/// An answer in JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// The function that answers requests.
pub(crate) type Responder = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The running endpoint. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Makes each answer announce the end of its connection. Connections are not closed between requests, because API servers do not repeat
    /// a request that they have just sent.
    leaving: CancellationToken,
    /// Ends connections after their pending requests are answered.
    ending: CancellationToken,
    connections: TaskTracker,
    accepting: AbortOnDropHandle<()>,
    cut: CancellationToken,
}

struct Shared {
    identity: Identity,
    root: String,
    /// Refuse clients without a certificate.
    demands_certificate: bool,
    responder: Responder,
    rooms: Rooms,
    leaving: CancellationToken,
    ending: CancellationToken,
}

impl Endpoint {
    /// Starts to answer requests whose paths begin with `root`: empty, or with a single `/` at its beginning. Must be called within a tokio
    /// runtime.
    pub(crate) fn start(
        socket: TcpListener,
        identity: Identity,
        root: String,
        demands_certificate: bool,
        responder: Responder,
    ) -> std::io::Result<Self> {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let [leaving, ending, cut] = std::array::from_fn(|_| CancellationToken::new());
        let shared = Arc::new(Shared {
            identity,
            root,
            demands_certificate,
            responder,
            rooms: Rooms::new(ALL_BODIES),
            leaving: leaving.clone(),
            ending: ending.clone(),
        });
        let connections = TaskTracker::new();
        let accepting = accept(socket, shared, connections.clone(), cut.clone());
        Ok(Self {
            leaving,
            ending,
            connections,
            accepting: AbortOnDropHandle::new(task::spawn(accepting)),
            cut,
        })
    }

    /// Makes clients reconnect for their next request.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    /// Stops accepting connections, answers the pending requests, and ends.
    pub(crate) async fn finish(self) {
        self.accepting.abort();
        self.leave();
        self.ending.cancel();
        self.connections.close();
        let _ = timeout(LAST_ANSWERS, self.connections.wait()).await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}

async fn accept(
    socket: tokio::net::TcpListener,
    shared: Arc<Shared>,
    connections: TaskTracker,
    cut: CancellationToken,
) {
    let places = Places::new(CONNECTIONS);
    loop {
        // The process is probably out of file descriptors, of which some become free after a while.
        let Ok((stream, _)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (shared, cut) = (shared.clone(), cut.clone());
        let place = Arc::new(places.take().await);
        let serving = async move {
            tokio::select! {
                () = serve_connection(stream, shared, &place) => {}
                () = place.lost() => {}
                () = cut.cancelled() => {}
            }
        };
        connections.spawn(serving.boxed());
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>, place: &Arc<Place>) {
    // An answer is one small piece.
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(shared.identity.current());
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let sslpeer = certificates
        .and_then(<[_]>::first)
        .map(|certificate| json!({"certificate": STANDARD.encode(certificate.as_ref())}));
    // Reads one byte, because a connection without any request is a spare one, and one with half a head is a stranger's.
    let mut stream = BufReader::with_capacity(1, stream);
    tokio::select! {
        begun = timeout(IDLE, stream.fill_buf()) => if !matches!(begun, Ok(Ok(_))) {
            return;
        },
        () = shared.ending.cancelled() => return refuse_and_close(stream).await,
    }
    // Each request holds a clone until its answer is written.
    let pending = Arc::new(());
    let greeted = Arc::new(Notify::new());
    let service = service_fn(|request: Request<Incoming>| {
        greeted.notify_one();
        let (shared, sslpeer, place) = (shared.clone(), sslpeer.clone(), place.clone());
        let pending = pending.clone();
        let answer =
            async move { Ok::<_, Infallible>(shared.answer(request, sslpeer, &place, pending).await) };
        answer.boxed()
    });
    let mut http = http1::Builder::new();
    // Writes an answer without copying it, so that it is dropped as soon as it is written.
    http.timer(TokioTimer::new()).header_read_timeout(IDLE).writev(true);
    let mut conversation = http.serve_connection(TokioIo::new(stream), service);
    let first = timeout(HANDSHAKE_TIMEOUT, greeted.notified());
    tokio::select! {
        _ = &mut conversation => return,
        greeted = first => if greeted.is_err() {
            return;
        },
    }
    tokio::select! {
        _ = &mut conversation => return,
        () = shared.ending.cancelled() => {}
    }
    if Arc::strong_count(&pending) > 1 {
        Pin::new(&mut conversation).graceful_shutdown();
        // An error means that the client has hung up.
        let _ = conversation.await;
    } else {
        refuse_and_close(conversation.into_parts().io.into_inner()).await;
    }
}

/// Closes a connection without a pending request, and refuses a request that may be on its way.
async fn refuse_and_close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let closed = async {
        stream.write_all(REFUSAL).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(CLOSING, closed).await;
}

impl Shared {
    async fn answer(
        &self,
        request: Request<Incoming>,
        sslpeer: Option<Value>,
        place: &Arc<Place>,
        pending: Arc<()>,
    ) -> Response<Full<Bytes>> {
        // If no certificate is demanded, a valid request is the only sign that distinguishes API servers from strangers.
        let may_prove = sslpeer.is_some() || !self.demands_certificate;
        let (status, body) = match self.question(request, sslpeer).await {
            Ok((question, share)) => {
                let room = self.rooms.of(&question.path);
                let working = place.work();
                let answer = (self.responder)(question).await;
                drop(working);
                if answer.status == 200 && may_prove {
                    place.prove();
                }
                let body = room.answer(answer.body, (share, pending), place.losing());
                (answer.status, body)
            }
            Err((status, message)) => {
                let answer = refusal(status, &message);
                (answer.status, answer.body.into())
            }
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A retry over another connection may reach an instance that can answer.
        if self.leaving.is_cancelled() || [401, 503].contains(&status) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == 503 {
            // API servers repeat such a request within the remaining time.
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    async fn question(
        &self,
        request: Request<Incoming>,
        sslpeer: Option<Value>,
    ) -> Result<(Question, Share), Refused> {
        let (head, body) = request.into_parts();
        let refused = |status, message: &str| Err((status, message.to_owned()));
        if head.method != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered");
        }
        let path = head.uri.path().strip_prefix(self.root.as_str());
        // API servers present no certificate when they ask for conversions.
        let may_be_bare = path.is_some_and(|it| it.starts_with(PATH));
        if self.demands_certificate && sslpeer.is_none() && !may_be_bare {
            return refused(
                StatusCode::UNAUTHORIZED,
                "this webhook wants the API server to show a client certificate, and it has shown none",
            );
        }
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            return refused(StatusCode::NOT_FOUND, "there is no webhook at this path");
        };
        if head.headers.contains_key(CONTENT_ENCODING) {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a compressed body is not read");
        }
        let (body, share) = self.rooms.of(path).whole(&head.headers, body).await?;
        let question = Question {
            path: path.to_owned(),
            within: within(head.uri.query().unwrap_or_default()),
            headers: listed(&head.headers),
            body,
            sslpeer,
        };
        Ok((question, share))
    }
}

fn listed(headers: &HeaderMap) -> Vec<(String, String)> {
    let headers = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    headers.collect()
}

/// Returns the time limit for an answer, from the query of the API server.
fn within(query: &str) -> Duration {
    let mut parts = query.split('&');
    let asked = parts.find_map(|part| part.strip_prefix("timeout="));
    let asked = asked.and_then(seconds).filter(|it| !it.is_zero());
    let asked = asked.unwrap_or(DEFAULT_TIMEOUT).min(LONGEST);
    asked.saturating_sub(MARGIN).max(LEAST)
}

/// Parses a duration in the format of Go: `1m30s`.
fn seconds(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| it != '.' && !it.is_ascii_digit())?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let end = unit.find(|it: char| it.is_ascii_digit());
        let (unit, others) = unit.split_at(end.unwrap_or(unit.len()));
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = others;
    }
    Duration::try_from_secs_f64(total).ok()
}

/// Builds a refusal in the format that the API server reads and passes on.
fn refusal(status: StatusCode, message: &str) -> Answer {
    let code = status.as_u16();
    let reason = match code {
        401 => "Unauthorized",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        503 => "ServiceUnavailable",
        _ => "BadRequest",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    Answer { status: code, body: status.to_string().into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_comes_before_the_api_server_gives_up() {
        for (query, expected) in [
            ("timeout=10s", 9.0),
            ("a=b&timeout=0m25s", 24.0),
            ("timeout=30s", 29.0),
            // Not sent by API servers; no value overflows.
            ("timeout=1m30s", 29.0),
            ("timeout=99999999999999h", 29.0),
            ("timeout=1s", 0.2),
            ("timeout=500ms", 0.2),
            ("timeout=", 9.0),
            ("timeout=soon", 9.0),
            ("", 9.0),
        ] {
            let within = within(query).as_secs_f64();
            assert!((within - expected).abs() < 1e-6, "{query}: {within}");
        }
    }
}
