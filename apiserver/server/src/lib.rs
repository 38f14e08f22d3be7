//! A Kubernetes API server in the process.
//!
//! It starts in milliseconds, keeps everything in memory, and gives the same replies as kube-apiserver in all that operators and
//! their users can observe; the file `FIDELITY.md` beside this crate lists every known difference. It does not depend on an
//! operator framework: use it to test any Kubernetes client.
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
//! Beyond a real server: [`ApiServer::fault`] makes requests fail on demand, [`ApiServer::journal`] records requests and their effects,
//! and [`ApiServer::jump_clock`] and [`ApiServer::compact`] simulate the passing of time and the loss of history. [`ApiServer::open`]
//! stores a cluster between runs. The README of this crate demonstrates each of these.

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

/// A Kubernetes API server. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    core: Arc<Core>,
    recovered: Option<Recovered>,
}

// === impl ApiServer ===

impl ApiServer {
    /// Creates a server in memory, with only the namespaces and other objects that every cluster has.
    #[must_use]
    pub fn new() -> Self {
        let mut store = Store::new(Clock::new());
        verb::seed(&mut store);
        kind::registration::seed(&mut store);
        access::bootstrap::seed(&mut store);
        // A commit in memory cannot fail.
        let _kept = store.commit();
        Self {
            core: Arc::new(Core::new(store)),
            recovered: None,
        }
    }

    /// Opens a server that stores its objects in a directory, and continues from the content of the directory. All answered writes are
    /// there again, however the last run ended; watches from before get 410, as after a compaction.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory is in use, cannot be read or written, or is damaged.
    pub fn open(dir: impl Into<DataDir>) -> Result<Self, OpenError> {
        let dir = dir.into();
        let mut store = Store::new(Clock::new());
        let (disk, recovered) = disk::load(&dir, &mut store)?;
        let passport = Passport::of(&dir);
        let identity = passport.read()?;
        store.keep_on(disk);
        let core = Core::new(store).with_passport(passport, identity);
        // Write the identity before the first change, because a directory with changes but no identity counts as damaged.
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

    /// Returns the state that was loaded from the data directory, if the server has one.
    #[must_use]
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Returns the port on which a server with this data directory listened last.
    #[must_use]
    pub fn last_port(&self) -> Option<u16> {
        self.core.last_port()
    }

    /// Accepts a bearer token for a user; RBAC decides what the user may do.
    pub fn add_user(&self, token: impl Into<String>, user: User) {
        self.core.store().access.add_token(token.into(), user);
    }

    /// Sets the address of a Service, so that admission webhooks that name it can be called. There is no Service network:
    /// calls to other Services fail, as they do in a cluster for a Service without endpoints.
    pub fn place_service(&self, namespace: &str, name: &str, at: SocketAddr) {
        let mut store = self.core.store();
        store.admission.place_service(namespace, name, at);
    }

    /// Returns the server as a [`tower::Service`], for clients in the same process. Requests without a token belong to the
    /// administrator, who may do everything; see [`ApiService::as_user`].
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.core.clone())
    }

    /// Listens on TCP with TLS. Accepts [`Listening::token`], which is the administrator's, the tokens of [`ApiServer::add_user`]
    /// and those of service accounts; requests without a token are anonymous. Port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is not available or TLS cannot be set up.
    pub async fn listen(&self, addr: SocketAddr) -> Result<Listening, ListenError> {
        Listening::start(self.core.clone(), addr).await
    }

    /// Returns the journal of answered requests.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.core.journal.clone()
    }

    /// Makes requests fail until the handle is dropped.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.core.faults.arm(fault)
    }

    /// Moves the clock of the server by `seconds`, back if negative; later timestamps include the jump.
    pub fn jump_clock(&self, seconds: i64) {
        self.core.jump_clock(seconds);
    }

    /// Simulates the controllers and nodes of a cluster from now on, without running anything: Deployments create
    /// `ReplicaSets`, which create Pods; Pods become ready after a while, Jobs complete, and Services get endpoints.
    ///
    /// A Pod whose image name contains `missing` never starts; a container whose command is `false` fails. Off by default.
    pub fn workloads(&self, options: WorkloadOptions) {
        workloads::begin(&mut self.core.store(), options);
        keep::Keeper::start(&self.core);
    }

    /// Discards the history of changes: lists and watches from older resource versions get 410 from now on.
    /// Open watches continue.
    pub fn compact(&self) {
        self.core.store().compact();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}
