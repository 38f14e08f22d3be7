//! Starts the server of a cluster: a fresh one in the process, or the shared real one with a fresh namespace.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use http::HeaderValue;
use http::header::USER_AGENT;
use kopf_rs_apiserver::{ApiServer, User};
use kopf_rs_apiserver_tests::{RealServer, Served};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tower::ServiceExt as _;

use super::TestCluster;
use crate::lines::Lines;
use crate::play::Server;

/// The server behind a cluster, which the cluster keeps alive.
#[derive(Debug)]
pub(super) enum Backend {
    Memory(ApiServer),
    Tcp { server: ApiServer, over_tls: Served },
    Real { server: &'static RealServer, kubeconfig: PathBuf },
}

impl Backend {
    async fn start(server: Server) -> Self {
        match server {
            Server::Memory => Self::Memory(ApiServer::new()),
            Server::Tcp => {
                let server = ApiServer::new();
                let over_tls = Served::start(&server, &std::env::temp_dir()).await;
                Self::Tcp { server, over_tls }
            }
            Server::Real => {
                let shared =
                    tokio::task::spawn_blocking(RealServer::shared).await.expect("the start does not panic");
                let server = shared.unwrap_or_else(|error| panic!("{error}"));
                Self::Real { server, kubeconfig: server.kubeconfig() }
            }
        }
    }

    pub(super) fn kubeconfig(&self) -> Option<&Path> {
        match self {
            Self::Memory(_) => None,
            Self::Tcp { over_tls, .. } => Some(over_tls.kubeconfig()),
            Self::Real { kubeconfig, .. } => Some(kubeconfig),
        }
    }

    /// Adds a user with the bearer token `NAME-token` to the in-process server.
    pub(super) fn add_user(&self, name: &str) {
        if let Some(server) = self.in_process() {
            server.add_user(format!("{name}-token"), User::new(name).uid(name));
        }
    }

    pub(super) async fn client_of(&self, user: &str) -> kube::Client {
        match self {
            Self::Memory(server) => kube::Client::new(server.service().as_user(User::new(user)), "default"),
            Self::Tcp { over_tls, .. } => {
                let mut config = config_of(over_tls.kubeconfig()).await;
                config.auth_info.token = Some(format!("{user}-token").into());
                kube::Client::try_from(config).expect("a client can be built from a valid config")
            }
            Self::Real { server, .. } => server.client_of(user).await,
        }
    }

    pub(super) fn in_process(&self) -> Option<&ApiServer> {
        match self {
            Self::Memory(server) | Self::Tcp { server, .. } => Some(server),
            Self::Real { .. } => None,
        }
    }

    pub(super) fn real(&self) -> Option<&'static RealServer> {
        if let Self::Real { server, .. } = self { Some(server) } else { None }
    }

    /// Returns the operator's client and the cluster's own client.
    async fn clients(&self) -> (kube::Client, kube::Client) {
        let agent = HeaderValue::from_static(TestCluster::USER_AGENT);
        if let Self::Memory(server) = self {
            let own = server.service().map_request(move |mut request: http::Request<kube::client::Body>| {
                request.headers_mut().insert(USER_AGENT, agent.clone());
                request
            });
            return (kube::Client::new(server.service(), "default"), kube::Client::new(own, "default"));
        }
        let kubeconfig = self.kubeconfig().expect("a server with an address has a kubeconfig");
        let config = config_of(kubeconfig).await;
        let mut own = config.clone();
        own.headers.push((USER_AGENT, agent));
        let client =
            |config| kube::Client::try_from(config).expect("a client can be built from a valid config");
        (client(config), client(own))
    }
}

/// Reads the configuration of a kubeconfig, for clients that do not hide failures by retries.
async fn config_of(kubeconfig: &Path) -> kube::Config {
    let file = Kubeconfig::read_from(kubeconfig).expect("the server writes valid kubeconfigs");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the server writes complete kubeconfigs");
    config.default_retry = false;
    config
}

impl TestCluster {
    pub(crate) async fn with_lines(server: Server, lines: Lines) -> Self {
        let namespace = fresh_name();
        let backend = Backend::start(server).await;
        let (client, own) = backend.clients().await;
        let cluster = Self { server, backend, client, own, namespace, lines, known: Mutex::default() };
        cluster
            .create(
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}),
            )
            .await;
        cluster
    }
}

/// Returns a name that is unique in this process and between the processes of this machine.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
