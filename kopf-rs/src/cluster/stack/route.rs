//! The route to a server: direct, or through a proxy.
//!
//! A server behind TLS is reached through a tunnel, so that TLS runs end to end. For a server without TLS, an HTTP
//! proxy receives each request itself. This module must not depend on the content of requests.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt as _};

use crate::cluster::access::header::basic;
use crate::cluster::proxy::{ProxyKind, ProxyUrl};
use crate::cluster::server_url::Login;

/// Connects to an HTTP proxy, with TLS if its URL asks for it.
type ToProxy = HttpsConnector<HttpConnector>;

/// Connects to the server, without TLS to the server itself.
#[derive(Clone)]
pub(super) enum Route {
    Straight(HttpConnector),
    Tunnel(Tunnel<ToProxy>),
    /// The proxy receives the requests themselves.
    Forward(ToProxy, Uri),
    Socks(SocksV5<HttpConnector>),
}

impl Route {
    pub(super) fn through(
        proxy: &ProxyUrl,
        server: &Uri,
        tcp: HttpConnector,
        to_proxy: impl FnOnce(HttpConnector) -> ToProxy,
    ) -> Result<Self, String> {
        let address = proxy.address.clone();
        let is_http = server.scheme() == Some(&Scheme::HTTP);
        Ok(match proxy.kind {
            ProxyKind::Http if is_http => Self::Forward(to_proxy(tcp), address),
            ProxyKind::Http => {
                let tunnel = Tunnel::new(address, to_proxy(tcp));
                Self::Tunnel(match proxy.login.as_ref().and_then(basic) {
                    Some(basic) => tunnel.with_auth(basic),
                    None => tunnel,
                })
            }
            ProxyKind::Socks => {
                let socks = SocksV5::new(address, tcp);
                Self::Socks(match proxy.login.clone() {
                    Some(Login { user, password }) if user.len().max(password.len()) > 255 => {
                        return Err(format!(
                            "the user or password of the proxy {proxy} is longer than the 255 bytes that SOCKS 5 allows"
                        ));
                    }
                    Some(Login { user, password }) => socks.with_auth(user, password),
                    None => socks,
                })
            }
        })
    }
}

impl Service<Uri> for Route {
    type Response = Line;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Line, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let route = self.clone();
        Box::pin(async move {
            Ok(match route {
                Self::Straight(tcp) => Line::plain(tcp.oneshot(server).await?),
                Self::Tunnel(tunnel) => Line { stream: tunnel.oneshot(server).await?, is_forwarded: false },
                Self::Forward(to_proxy, proxy) => {
                    Line { stream: to_proxy.oneshot(proxy).await?, is_forwarded: true }
                }
                Self::Socks(socks) => Line::plain(socks.oneshot(with_port(server)).await?),
            })
        })
    }
}

/// Adds the default port of `http`, because the SOCKS connector would otherwise use 443.
fn with_port(server: Uri) -> Uri {
    if server.port().is_some() || server.scheme() != Some(&Scheme::HTTP) {
        return server;
    }
    let authority = format!("{}:80", server.host().unwrap_or_default()).parse();
    let mut parts = server.clone().into_parts();
    parts.authority = authority.ok();
    Uri::from_parts(parts).unwrap_or(server)
}

/// A connection to the server or to the proxy in front of it.
pub(super) struct Line {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    is_forwarded: bool,
}

impl Line {
    fn plain(tcp: TokioIo<TcpStream>) -> Self {
        Self { stream: MaybeHttpsStream::Http(tcp), is_forwarded: false }
    }
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_forwarded)
    }
}

impl Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}
