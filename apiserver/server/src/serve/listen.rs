//! The TCP transport: TLS, the administrator's token, kubeconfig.
//!
//! Offers only what clients with a kubeconfig need. Must not depend on Kubernetes beyond the kubeconfig.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::ApiService;
use super::body::is_closed;
use super::shared::{Core, Nobody};
use super::tls::{self, TlsError};
use crate::access::User;
use crate::clock;

/// The time that open connections have to finish during a shutdown.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The server failed to bind the address.
    #[error("failed to listen on {addr}: {source}")]
    Bind {
        /// The requested address.
        addr: SocketAddr,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[from] TlsError),
    /// The server's identity could not be written to its data directory.
    #[error("failed to write {}: {source}", .path.display())]
    Keep {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl From<Nobody> for ListenError {
    fn from(nobody: Nobody) -> Self {
        match nobody {
            Nobody::Tls(error) => Self::Tls(error),
            Nobody::Keep { path, source } => Self::Keep { path, source },
        }
    }
}

/// A listening server. Dropping it stops accepting connections and closes the open ones.
pub struct Listening {
    addr: SocketAddr,
    token: Arc<str>,
    authority_pem: String,
    closing: watch::Sender<bool>,
    acceptor: Option<JoinHandle<()>>,
}

// === impl Listening ===

impl fmt::Debug for Listening {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Listening {
    pub(crate) async fn start(core: Arc<Core>, addr: SocketAddr) -> Result<Self, ListenError> {
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            Ok((listener, addr))
        };
        let (listener, addr) = bound
            .await
            .map_err(|source| ListenError::Bind { addr, source })?;
        let now = clock::real_seconds();
        let identity = core.identify(now, Some(addr.port()))?;
        let tls = tls::serving(addr.ip(), now, &identity.authority_key)?;
        let token: Arc<str> = identity.token.into();
        {
            let mut store = core.store();
            store.address = addr.to_string();
            store.access.add_token(token.to_string(), User::admin());
        }
        let (closing, closed) = watch::channel(false);
        let service = ApiService::new(core).guarded(closed.clone());
        let acceptor = Acceptor {
            listener,
            tls: TlsAcceptor::from(tls),
            service,
            closed,
        };
        Ok(Self {
            addr,
            token,
            authority_pem: identity.authority,
            closing,
            acceptor: Some(tokio::spawn(acceptor.run())),
        })
    }

    /// Returns the address on which the server listens, with the actual port even if 0 was requested.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL for clients; if the server listens on all interfaces, it is a loopback URL.
    #[must_use]
    pub fn url(&self) -> String {
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(match addr {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("https://{addr}")
    }

    /// Returns the bearer token of the administrator, to whom everything is permitted.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the certificate of the authority that clients must trust, as PEM.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Returns a kubeconfig for kubectl and other clients, as YAML.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let authority = STANDARD.encode(&self.authority_pem);
        let (url, token) = (self.url(), &self.token);
        format!(
            "apiVersion: v1
kind: Config
current-context: kopf-rs
clusters:
- name: kopf-rs
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: kopf-rs
  context:
    cluster: kopf-rs
    user: kopf-rs
    namespace: default
users:
- name: kopf-rs
  user:
    token: {token}
"
        )
    }

    /// Stops accepting connections, ends watches and lets running requests finish; waits a limited time for this.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        if let Some(acceptor) = self.acceptor.take() {
            // If the acceptor panicked, it has stopped accepting as well.
            let _stopped = acceptor.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.closing.send_replace(true);
    }
}

struct Acceptor {
    listener: TcpListener,
    tls: TlsAcceptor,
    service: ApiService,
    closed: watch::Receiver<bool>,
}

// === impl Acceptor ===

impl Acceptor {
    async fn run(self) {
        let mut connections = JoinSet::new();
        let mut closed = self.closed.clone();
        loop {
            tokio::select! {
                () = is_closed(Some(&mut closed)) => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.connection(stream));
                    }
                    // Most likely, the process has no file descriptors left; wait until other connections end.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // Dropping the set aborts connections that have not finished in time.
        let _ended = tokio::time::timeout(PATIENCE, all).await;
    }

    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let (tls, service, mut closed) =
            (self.tls.clone(), self.service.clone(), self.closed.clone());
        async move {
            // Latency matters more than the number of packets; the connection works without this option, too.
            let _nodelay = stream.set_nodelay(true);
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                .with_upgrades();
            tokio::pin!(connection);
            tokio::select! {
                // The client sees an error of its connection itself.
                _ended = connection.as_mut() => return,
                () = is_closed(Some(&mut closed)) => {}
            }
            connection.as_mut().graceful_shutdown();
            let _ended = connection.await;
        }
    }
}
