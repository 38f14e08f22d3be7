//! How a bed gets its server: a fresh one in the process, or the shared real one with a fresh namespace.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::Bed;
use crate::lines::Lines;
use crate::play::Server;
use crate::real::RealServer;

/// What stands behind a bed, kept alive by it.
#[derive(Debug)]
pub(super) struct Backend {
    /// Where the server has an address.
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) real: Option<&'static RealServer>,
}

impl Bed {
    pub(crate) async fn with_lines(server: Server, lines: Lines) -> Self {
        let backend = start(server).await;
        let (client, own) = clients(&backend).await;
        let bed = Self {
            server,
            backend,
            client,
            own,
            namespace: fresh_name(),
            lines,
            known: Mutex::default(),
        };
        bed.create(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bed.namespace}}),
        )
        .await;
        bed
    }
}

async fn start(server: Server) -> Backend {
    match server {
        Server::Real => {
            let shared = tokio::task::spawn_blocking(RealServer::shared)
                .await
                .expect("the start does not panic");
            let server = shared.unwrap_or_else(|error| panic!("{error}"));
            Backend {
                kubeconfig: Some(server.kubeconfig()),
                real: Some(server),
            }
        }
        Server::Memory | Server::Tcp => {
            panic!("the API server in the process is not wired to the harness yet")
        }
    }
}

/// The operator's client and the bed's own.
async fn clients(backend: &Backend) -> (kube::Client, kube::Client) {
    let kubeconfig = backend
        .kubeconfig
        .as_ref()
        .expect("a server with an address has a kubeconfig");
    let file = Kubeconfig::read_from(kubeconfig).expect("the harness writes valid kubeconfigs");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let config = config.expect("the harness writes complete kubeconfigs");
    let mut own = config.clone();
    own.headers
        .push((USER_AGENT, HeaderValue::from_static(Bed::USER_AGENT)));
    let client =
        |config| kube::Client::try_from(config).expect("a client can be built from a valid config");
    (client(config), client(own))
}

/// Namespaces differ within the process, and between processes that share a server.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "test-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}
