//! The HTTPS endpoint that the API server asks: connections, their certificates, and the bounds of what is taken.
//!
//! Promises that nobody who says nothing, or too much, keeps others from being answered, and that each request that was accepted is answered
//! before the endpoint ends. Must not know what a review is.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::conversion::graph::PATH;

/// Connections at a time: an API server keeps 25 idle ones for each host, and opens more when it needs them.
const CONNECTIONS: usize = 1024;
/// For a handshake, and then for the head of the first request.
const GREETING: Duration = Duration::from_secs(10);
/// For which a connection may rest: longer than the 90 seconds of API servers, or theirs would race with our end of it.
const IDLE: Duration = Duration::from_secs(180);
/// For the body of a request.
const BODY: Duration = Duration::from_secs(30);
/// The largest body: an object, its former state, and the options.
const LARGEST: usize = 7 * 1024 * 1024;
/// All bodies that have come and are not answered yet: read as objects, they take several times that.
const ALL_BODIES: usize = 64 * 1024 * 1024;
/// For which requests that were accepted may go on while the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(30);
/// The answer must be there so long before the API server gives up, which rounds the time that it tells up to whole seconds.
const MARGIN: Duration = Duration::from_secs(1);
/// The least time for an answer.
const LEAST: Duration = Duration::from_millis(200);
/// More than any API server waits for. Others may tell what they like.
const LONGEST: Duration = Duration::from_secs(300);
/// What the API server waits for, where it does not say so.
const UNSAID: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// Below the root of the endpoint.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(String, String)>,
    /// The certificate of whoever asks, where one was shown.
    pub(crate) sslpeer: Option<Value>,
    /// The answer must be there by then.
    pub(crate) within: Duration,
}

/// What is answered: JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Who answers.
pub(crate) type Responder = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The certificate that is shown to those who connect from now on. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Identity(Arc<RwLock<Shown>>);

#[derive(Debug)]
struct Shown {
    /// The certificate, as it was read.
    certificate: String,
    config: Arc<ServerConfig>,
}

/// What the endpoint is made of.
pub(crate) struct EndpointSetup {
    pub(crate) socket: TcpListener,
    pub(crate) identity: Identity,
    /// What the paths of requests begin with; empty, or with a `/` at its begin only.
    pub(crate) root: String,
    /// Refuse whoever shows no certificate.
    pub(crate) demands_certificate: bool,
    pub(crate) responder: Responder,
}

/// The endpoint at work. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Each answer says that the connection ends with it. None is closed while somebody may be about to ask: API servers do not repeat that.
    leaving: CancellationToken,
    /// Connections end, once what was asked is answered.
    ending: CancellationToken,
    connections: TaskTracker,
    accepting: AbortOnDropHandle<()>,
    cut: CancellationToken,
}

struct Shared {
    identity: Identity,
    root: String,
    demands_certificate: bool,
    responder: Responder,
    /// In bytes of bodies.
    room: Arc<Semaphore>,
    leaving: CancellationToken,
    ending: CancellationToken,
}

impl Identity {
    pub(crate) fn new(certificate: &str, config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(Shown {
            certificate: certificate.to_owned(),
            config,
        })))
    }

    /// Show this one to those who connect from now on: whether it is another one. Connections that are there go on.
    pub(crate) fn replace(&self, certificate: &str, config: Arc<ServerConfig>) -> bool {
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = shown.certificate != certificate;
        certificate.clone_into(&mut shown.certificate);
        shown.config = config;
        is_other
    }

    fn current(&self) -> Arc<ServerConfig> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.config.clone()
    }
}

impl Endpoint {
    /// Begin to answer. Must be called within a tokio runtime.
    pub(crate) fn start(setup: EndpointSetup) -> std::io::Result<Self> {
        let socket = tokio::net::TcpListener::from_std(setup.socket)?;
        let [leaving, ending, cut] = std::array::from_fn(|_| CancellationToken::new());
        let shared = Arc::new(Shared {
            identity: setup.identity,
            root: setup.root,
            demands_certificate: setup.demands_certificate,
            responder: setup.responder,
            room: Arc::new(Semaphore::new(ALL_BODIES)),
            leaving: leaving.clone(),
            ending: ending.clone(),
        });
        let connections = TaskTracker::new();
        let accepting = accept(socket, shared, connections.clone(), cut.clone());
        Ok(Self {
            leaving,
            ending,
            connections,
            accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
            cut,
        })
    }

    /// Tell whoever asks to connect anew for the next request.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    /// Take no connections any more, answer what was asked, and end.
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        // Out of file descriptors, mostly: some are freed in a while.
        let Ok((stream, _)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (shared, cut) = (shared.clone(), cut.clone());
        connections.spawn(async move {
            let _place = place;
            cut.run_until_cancelled(converse(stream, shared)).await;
        });
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    // An answer is one small piece.
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(shared.identity.current());
    let Ok(Ok(stream)) = timeout(GREETING, acceptor.accept(stream)).await else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let sslpeer = certificates
        .and_then(<[_]>::first)
        .map(|certificate| json!({"certificate": STANDARD.encode(certificate.as_ref())}));
    let greeted = Arc::new(Notify::new());
    let service = service_fn(|request: Request<Incoming>| {
        greeted.notify_one();
        let (shared, sslpeer) = (shared.clone(), sslpeer.clone());
        async move { Ok::<_, Infallible>(shared.answer(request, sslpeer).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let conversation = http.serve_connection(TokioIo::new(stream), service);
    let mut conversation = std::pin::pin!(conversation);
    let first = timeout(GREETING, greeted.notified());
    tokio::select! {
        _ = conversation.as_mut() => return,
        greeted = first => if greeted.is_err() {
            return;
        },
    }
    tokio::select! {
        _ = conversation.as_mut() => return,
        () = shared.ending.cancelled() => conversation.as_mut().graceful_shutdown(),
    }
    // Who hangs up hears nothing.
    let _ = conversation.await;
}

impl Shared {
    async fn answer(
        &self,
        request: Request<Incoming>,
        sslpeer: Option<Value>,
    ) -> Response<Full<Bytes>> {
        let answer = match self.question(request, sslpeer).await {
            Ok((question, share)) => {
                let answer = (self.responder)(question).await;
                drop(share);
                answer
            }
            Err((status, message)) => refusal(status, &message),
        };
        let mut response = Response::new(Full::from(answer.body));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.leaving.is_cancelled() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if answer.status == 503 {
            // API servers repeat what they have asked then, in the time that is left.
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    async fn question(
        &self,
        request: Request<Incoming>,
        sslpeer: Option<Value>,
    ) -> Result<(Question, OwnedSemaphorePermit), (StatusCode, String)> {
        let (head, body) = request.into_parts();
        let refused = |status, message: &str| Err((status, message.to_owned()));
        if head.method != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered");
        }
        let path = head.uri.path().strip_prefix(self.root.as_str());
        // API servers show none where they ask for conversions.
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
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a compressed body is not read",
            );
        }
        let (body, share) = whole(&head.headers, body, &self.room).await?;
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

/// The whole body, and its share of the room for all of them.
async fn whole<B>(
    headers: &HeaderMap,
    body: B,
    room: &Arc<Semaphore>,
) -> Result<(Bytes, OwnedSemaphorePermit), (StatusCode, String)>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if length.and_then(|it| it.parse().ok()) > Some(LARGEST) {
        return Err(too_large());
    }
    let read = timeout(BODY, pieces(Limited::new(body, LARGEST), room)).await;
    read.unwrap_or_else(|_| {
        let message = "the body does not come".to_owned();
        Err((StatusCode::REQUEST_TIMEOUT, message))
    })
}

/// What has come takes room, and what was announced does not: whoever sends nothing keeps nobody out.
async fn pieces<B>(
    body: Limited<B>,
    room: &Arc<Semaphore>,
) -> Result<(Bytes, OwnedSemaphorePermit), (StatusCode, String)>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let busy = || {
        let message = "too many requests are being answered: ask again in a second";
        (StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
    };
    let take = |bytes: usize| {
        let bytes = u32::try_from(bytes).map_err(|_| too_large())?;
        let taken = room.clone().try_acquire_many_owned(bytes);
        taken.map_err(|_| busy())
    };
    let mut share = take(0)?;
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let Ok(piece) = frame.into_data() else {
                    continue;
                };
                share.merge(take(piece.len())?);
                whole.extend_from_slice(&piece);
            }
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
            Err(error) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
        }
    }
    Ok((whole.freeze(), share))
}

fn too_large() -> (StatusCode, String) {
    let message = format!("the body is larger than {LARGEST} bytes");
    (StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn listed(headers: &HeaderMap) -> Vec<(String, String)> {
    let headers = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    headers.collect()
}

/// How long an answer may take, as the API server tells it.
fn within(query: &str) -> Duration {
    let mut parts = query.split('&');
    let told = parts.find_map(|part| part.strip_prefix("timeout="));
    let told = told.and_then(seconds).filter(|it| !it.is_zero());
    let told = told.unwrap_or(UNSAID).min(LONGEST);
    told.saturating_sub(MARGIN).max(LEAST)
}

/// A duration as Go writes it: `1m30s`.
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

/// A refusal as the API server reads and hands it on.
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
    Answer {
        status: code,
        body: status.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_comes_before_the_api_server_gives_up() {
        for (query, expected) in [
            ("timeout=10s", 9.0),
            ("a=b&timeout=1m30s", 89.0),
            // Of nobody who means it: no time overflows.
            ("timeout=99999999999999h", 299.0),
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

    #[tokio::test]
    async fn all_bodies_together_have_a_bound() {
        let room = Arc::new(Semaphore::new(10));
        let read = |text: &'static str| {
            let (headers, room) = (HeaderMap::new(), room.clone());
            async move { whole(&headers, Full::from(text), &room).await }
        };
        let (body, share) = read("12345678").await.unwrap();
        assert_eq!(body, "12345678");
        assert_eq!(read("12").await.unwrap().0, "12");
        let (status, message) = read("123").await.unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{message}");
        drop(share);
        assert_eq!(read("123").await.unwrap().0, "123");
        assert_eq!(room.available_permits(), 10);
    }
}
