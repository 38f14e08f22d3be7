//! A Kubernetes API server in the process.
//!
//! It starts in milliseconds, keeps everything in memory, and answers as the real kube-apiserver does in what operators and
//! their users can observe; the file `FIDELITY.md` beside this crate lists every known difference. It knows nothing of any
//! operator framework: use it to test whatever talks to Kubernetes.
//!
//! In a test, in memory, with [`kube`](https://docs.rs/kube) and under tokio's paused time:
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client, api::PostParams};
//! use kopf_rs_apiserver::{ApiServer, Verb};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), kube::Error> {
//!     let server = ApiServer::new();
//!     let client = Client::new(server.service(), "default");
//!     let maps: Api<ConfigMap> = Api::default_namespaced(client);
//!
//!     let mut map = ConfigMap::default();
//!     map.metadata.name = Some("settings".to_owned());
//!     maps.create(&PostParams::default(), &map).await?;
//!
//!     assert_eq!(maps.list(&Default::default()).await?.items.len(), 1);
//!     assert_eq!(server.journal().writes()[0].verb, Verb::Create);
//!     Ok(())
//! }
//! ```
//!
//! Over TCP with TLS, for kubectl and any other client:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = kopf_rs_apiserver::ApiServer::new();
//! let listening = server.listen("127.0.0.1:0".parse()?).await?;
//! std::fs::write("kubeconfig", listening.kubeconfig())?;
//! # Ok(())
//! # }
//! ```
//!
//! What no real server can do: [`ApiServer::fault`] lets requests fail on demand, [`ApiServer::journal`] tells what was asked.

#![forbid(unsafe_code)]

mod call;
mod cascade;
mod clock;
mod fault;
mod journal;
mod kind;
mod managed;
mod object;
mod patch;
mod render;
mod rules;
mod schema;
mod selector;
mod serve;
mod status;
mod store;
mod table;
mod typed;
mod verb;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

pub use call::Verb;
pub use fault::{Fault, FaultHandle};
pub use journal::{Entry, Journal};
pub use serve::body::{ApiBody, Reset};
pub use serve::listen::{ListenError, Listening};
pub use serve::tls::TlsError;
pub use serve::{ApiService, Dropped};

use clock::Clock;
use serve::Core;
use store::Store;

/// A Kubernetes API server. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    core: Arc<Core>,
}

// === impl ApiServer ===

impl ApiServer {
    /// A server in memory, empty but for the namespaces every cluster has.
    #[must_use]
    pub fn new() -> Self {
        let mut store = Store::new(Clock::new());
        verb::seed(&mut store);
        Self {
            core: Arc::new(Core::new(store)),
        }
    }

    /// The server as a [`tower::Service`], for clients in the same process. Every request is allowed everything.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.core.clone())
    }

    /// Listen on TCP with TLS; every request needs the token of [`Listening::token`]. Port 0 picks a free one.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on, or TLS cannot be set up.
    pub async fn listen(&self, addr: SocketAddr) -> Result<Listening, ListenError> {
        Listening::start(self.core.clone(), addr).await
    }

    /// The requests that were answered.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.core.journal.clone()
    }

    /// Let requests fail, until the handle is dropped.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.core.faults.arm(fault)
    }

    /// Forget the history of changes: lists and watches from older resourceVersions answer 410 from now on.
    /// Watches that are open go on.
    pub fn compact(&self) {
        self.core.store().compact();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}
