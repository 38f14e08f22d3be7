//! A minimal HTTP server for health endpoints: one request per connection, with limits on connections and time.
//!
//! This module must not depend on the endpoints.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join, join_all};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::dispatcher;

use crate::health::address::Address;
use crate::rt::places::{Place, Places};
use crate::rt::task;
use crate::rt::tls::Identity;

/// The maximum number of connections. A further one replaces the longest-silent one.
const CONNECTIONS: usize = 64;
/// The time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The time limit for a connection.
const CONNECTION: Duration = Duration::from_secs(60);

/// A thread that listens. Dropping this ends the thread and frees the port.
#[derive(Debug)]
pub(crate) struct Listener {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The addresses of a connection: the client's and the server's.
pub(super) type Ends = [Option<SocketAddr>; 2];

/// Answers requests.
pub(super) type Answers = dyn Fn(Request<Incoming>, Ends) -> BoxFuture<'static, Reply> + Send + Sync;

/// A response.
pub(super) struct Reply {
    pub(super) code: StatusCode,
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// Further headers.
    pub(super) headers: &'static [(&'static str, &'static str)],
}

impl Listener {
    /// Listens at `address`, and serves on a thread with that name until the listener is dropped, over TLS if there is a certificate. `beside`
    /// runs on the same thread. The error describes the problem and the remedy.
    pub(super) fn start(
        address: &Address,
        name: &str,
        answers: Box<Answers>,
        tls: Option<Identity>,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(Self, Address), String> {
        let failed = |error| format!("the {} endpoint {address} cannot be served: {error}", address.noun());
        let sockets = address.bind()?;
        let chosen = address.chosen(&sockets);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let lines = dispatcher::get_default(Clone::clone);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let serving = async move {
            tokio::select! {
                biased;
                () = until.cancelled() => {}
                _ = join(beside, accept_all(sockets, answers.into(), tls)) => {}
            }
        };
        let thread = thread.spawn(move || dispatcher::with_default(&lines, || runtime.block_on(serving)));
        let listener = Self { stop, thread: Some(thread.map_err(failed)?) };
        Ok((listener, chosen))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // Code on that thread never blocks, and a restart needs the port.
            let _ = thread.join();
        }
    }
}

/// Accepts and serves connections forever.
async fn accept_all(sockets: Vec<std::net::TcpListener>, answers: Arc<Answers>, tls: Option<Identity>) {
    let places = Places::new(CONNECTIONS);
    let sockets = sockets.into_iter().filter_map(|socket| {
        let socket = tokio::net::TcpListener::from_std(socket).ok()?;
        Some(accept(socket, places.clone(), answers.clone(), tls.clone()))
    });
    join_all(sockets).await;
}

async fn accept(
    socket: tokio::net::TcpListener,
    places: Places,
    answers: Arc<Answers>,
    tls: Option<Identity>,
) {
    loop {
        // The usual reason is a lack of file descriptors, some of which are freed after a while.
        let Ok((stream, peer)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (answers, place) = (answers.clone(), Arc::new(places.take().await));
        let acceptor = tls.as_ref().map(|tls| TlsAcceptor::from(tls.current()));
        task::spawn(async move {
            let conversation = async {
                let ends = [Some(peer), stream.local_addr().ok()];
                let Some(acceptor) = acceptor else {
                    return serve_connection(stream, ends, (&*answers, &place)).await;
                };
                if let Ok(Ok(stream)) = timeout(HEAD, acceptor.accept(stream)).await {
                    serve_connection(stream, ends, (&*answers, &place)).await;
                }
            };
            tokio::select! {
                _ = timeout(CONNECTION, conversation) => {}
                () = place.lost() => {}
            }
        });
    }
}

/// Serves one request, because kubelets open a connection for each.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ends: Ends,
    (answers, place): (&Answers, &Arc<Place>),
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (reply, working) = (answers(request, ends), place.work());
        async move {
            let reply = reply.await;
            drop(working);
            Ok::<_, Infallible>(reply.response())
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    // A client that has disconnected gets no response.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

impl Reply {
    pub(super) fn text(code: StatusCode, text: impl Into<String>) -> Self {
        Self { code, kind: "text/plain; charset=utf-8", text: text.into(), headers: &[] }
    }

    pub(super) fn json(text: String) -> Self {
        Self { code: StatusCode::OK, kind: "application/json; charset=utf-8", text, headers: &[] }
    }

    fn response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.text));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for (name, value) in self.headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if self.code == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
