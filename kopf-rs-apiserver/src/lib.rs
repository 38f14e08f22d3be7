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
//! What no real server can do: [`ApiServer::fault`] lets requests fail on demand, [`ApiServer::journal`] tells what was asked and what
//! came of it, [`ApiServer::jump_clock`] and [`ApiServer::compact`] let time and history pass. [`ApiServer::open`] keeps a cluster between
//! runs. The README of this crate shows each of these at work.

#![forbid(unsafe_code)]

mod access;
mod admission;
mod call;
mod cascade;
mod cel;
mod clock;
mod convert;
mod disk;
mod fault;
#[cfg(test)]
mod fuzz;
mod given;
mod journal;
mod keep;
mod kind;
mod later;
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
mod valid;
mod verb;
mod workloads;
mod write;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::net::SocketAddr;
use std::sync::Arc;

pub use access::User;
pub use call::Verb;
pub use disk::{DataDir, OpenError, Recovered};
pub use fault::{Fault, FaultHandle};
pub use journal::{Effect, Entry, Journal};
pub use serve::body::{ApiBody, Reset};
pub use serve::listen::{ListenError, Listening};
pub use serve::tls::TlsError;
pub use serve::{ApiService, Dropped};
pub use workloads::WorkloadOptions;

use clock::Clock;
use disk::identity::Passport;
use serve::shared::Core;
use store::Store;

/// A Kubernetes API server. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    core: Arc<Core>,
    recovered: Option<Recovered>,
}

// === impl ApiServer ===

impl ApiServer {
    /// A server in memory, empty but for the namespaces every cluster has.
    #[must_use]
    pub fn new() -> Self {
        let mut store = Store::new(Clock::new());
        verb::seed(&mut store);
        kind::registration::seed(&mut store);
        access::bootstrap::seed(&mut store);
        // In memory, nothing can be in the way.
        let _kept = store.commit();
        Self {
            core: Arc::new(Core::new(store)),
            recovered: None,
        }
    }

    /// A server that keeps its objects in a directory, and goes on from what it finds there. What was answered is there again,
    /// however the last one ended; watches from before are answered 410, as after a compaction.
    ///
    /// # Errors
    ///
    /// If the directory is in use, cannot be read or written, or is damaged.
    pub fn open(dir: impl Into<DataDir>) -> Result<Self, OpenError> {
        let dir = dir.into();
        let mut store = Store::new(Clock::new());
        let (disk, recovered) = disk::load(&dir, &mut store)?;
        let passport = Passport::of(&dir);
        let identity = passport.read()?;
        store.keep_on(disk);
        let core = Core::new(store).with_passport(passport, identity);
        // Before the first change: where there are changes, it is missed if it is gone.
        core.settle()?;
        {
            let mut store = core.store();
            verb::seed(&mut store);
            kind::registration::seed(&mut store);
            access::bootstrap::seed(&mut store);
            store.commit()?;
        }
        Ok(Self {
            core: Arc::new(core),
            recovered: Some(recovered),
        })
    }

    /// What was found in the data directory, if there is one.
    #[must_use]
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// The port on which a server with this data directory listened last.
    #[must_use]
    pub fn last_port(&self) -> Option<u16> {
        self.core.last_port()
    }

    /// From now on requests with this bearer token are that user's; RBAC says what they may do.
    pub fn add_user(&self, token: impl Into<String>, user: User) {
        self.core.store().access.add_token(token.into(), user);
    }

    /// Tell the server where a Service is, so that admission webhooks that name it can be called. There is no network of
    /// Services here: others are not found, as in a cluster where they have no endpoints.
    pub fn place_service(&self, namespace: &str, name: &str, at: SocketAddr) {
        let mut store = self.core.store();
        store.admission.place_service(namespace, name, at);
    }

    /// The server as a [`tower::Service`], for clients in the same process. Requests without a token are the
    /// administrator's, who may do everything; see [`ApiService::as_user`].
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.core.clone())
    }

    /// Listen on TCP with TLS. [`Listening::token`] is the administrator's, those of [`ApiServer::add_user`] and of service
    /// accounts count too, and requests without any are anonymous. Port 0 picks a free one.
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

    /// Let the clock of the server jump by so many seconds, back if negative: what it stamps from now on is later or earlier.
    pub fn jump_clock(&self, seconds: i64) {
        self.core.jump_clock(seconds);
    }

    /// From now on, do what the controllers and the nodes of a cluster do, without running anything: Deployments make
    /// `ReplicaSets` make Pods, Pods become ready after a while, Jobs complete, Services get endpoints.
    ///
    /// A Pod whose image name contains `missing` never starts; a container whose command is `false` fails. Off unless asked for.
    pub fn workloads(&self, options: WorkloadOptions) {
        workloads::begin(&mut self.core.store(), options);
        keep::Keeper::start(&self.core);
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
