//! All speech with Kubernetes: the only module that names `kube`.
//!
//! Hides paging, re-lists, 410, bookmarks, back-off, the status subresource. Must not know causes, or why it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::Semaphore;

use crate::cluster::fence::Fence;
use crate::cluster::pruned::Pruned;
use crate::cluster::reach::Reachability;
use crate::happening::meter::SharedMeter;
use crate::object::resource::Resource;
use crate::rt::outage::Outages;
use crate::rt::rng::Rng;

pub(crate) mod child;
#[cfg(feature = "cli")]
pub(crate) mod connect;
pub(crate) mod credentials;
pub(crate) mod definition;
pub(crate) mod discover;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod fence;
pub(crate) mod keep;
pub(crate) mod lease;
pub(crate) mod login;
#[cfg(any(feature = "cli", test))]
pub(crate) mod manifest;
pub(crate) mod migration;
pub(crate) mod pruned;
mod reach;
pub(crate) mod read;
mod request;
mod server_url;
mod stack;
#[cfg(test)]
mod tests;
pub(crate) mod typed;
pub(crate) mod watch;
pub(crate) mod write;

/// The Kubernetes client handlers and embedding programs use.
pub use kube::Client;

/// A connection to one cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    shared: Arc<Shared>,
    /// What all its writes have to pass.
    fence: Option<Fence>,
}

/// How we appear to the server, and how hard we lean on it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSettings {
    /// The operator's name: field manager of its writes, and its user agent.
    pub(crate) operator: String,
    /// Writes under way at the same time. Every one of them is a connection of its own.
    pub(crate) writes: usize,
    /// Until the last byte of an answer.
    pub(crate) request_timeout: Duration,
    /// What spreads our requests.
    pub(crate) rng: Arc<Rng>,
    /// Who makes figures of them, if somebody wants them.
    pub(crate) meter: SharedMeter,
}

/// What all clones know together.
struct Shared {
    operator: String,
    agent: HeaderValue,
    writes: Semaphore,
    request_timeout: Duration,
    /// Reads of single objects: timers of thousands of them may be due at once.
    reads: Semaphore,
    rng: Arc<Rng>,
    meter: SharedMeter,
    reach: Reachability,
    outages: Outages,
    /// API groups whose server has refused a streaming list.
    unstreamable: Notes,
    /// What the schemas of resources have dropped of what we wrote.
    pruned: Pruned,
    /// Resources that have lost their status subresource, already warned of.
    statusless: Notes,
    /// Resources without a status subresource as far as discovery knows: whether there is something at its path.
    status_paths: Mutex<BTreeMap<String, bool>>,
    /// Group versions that could not be discovered, already warned of.
    broken: Notes,
    /// Kinds of which objects must not be read, as it was told.
    unreadable: Notes,
    /// Collections of which single objects must not be read, but listed.
    ungettable: Notes,
    /// Kinds that we have defined ourselves.
    #[cfg(any(feature = "cli", test))]
    defined: Notes,
    /// What the last discovery has found.
    discovered: Mutex<Vec<Resource>>,
    /// The versions of which it has found out nothing but that they exist.
    unknown: Mutex<BTreeSet<String>>,
}

/// So many single objects are read at the same time.
const READS: usize = 32;

/// Things noted once.
#[derive(Default)]
struct Notes(Mutex<BTreeSet<String>>);

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            operator: "kopf-rs".to_owned(),
            writes: 16,
            // The server itself gives up after 60 s.
            request_timeout: Duration::from_secs(65),
            rng: Arc::new(Rng::new()),
            meter: None,
        }
    }
}

impl Cluster {
    /// With default settings.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn new(client: Client) -> Self {
        Self::with_settings(client, &ClusterSettings::default())
    }

    pub(crate) fn with_settings(client: Client, settings: &ClusterSettings) -> Self {
        let agent = format!(
            "kopf-rs/{} ({})",
            env!("CARGO_PKG_VERSION"),
            settings.operator
        );
        Self {
            client,
            fence: None,
            shared: Arc::new(Shared {
                operator: settings.operator.clone(),
                agent: HeaderValue::from_str(&agent)
                    .unwrap_or_else(|_| HeaderValue::from_static("kopf-rs")),
                writes: Semaphore::new(settings.writes.max(1)),
                request_timeout: settings.request_timeout,
                reads: Semaphore::new(READS),
                rng: settings.rng.clone(),
                meter: settings.meter.clone(),
                reach: Reachability::default(),
                outages: Outages::default(),
                unstreamable: Notes::default(),
                pruned: Pruned::default(),
                statusless: Notes::default(),
                status_paths: Mutex::default(),
                broken: Notes::default(),
                unreadable: Notes::default(),
                ungettable: Notes::default(),
                #[cfg(any(feature = "cli", test))]
                defined: Notes::default(),
                discovered: Mutex::default(),
                unknown: Mutex::default(),
            }),
        }
    }

    /// The same connection, but all writes pass this gate, and are bound to the version of the object that they are made for.
    pub(crate) fn fenced(&self, fence: Option<Fence>) -> Self {
        Self {
            fence,
            ..self.clone()
        }
    }

    /// The number of the term that writes are made in, zero where there is none now; `None` where they need none.
    pub(crate) fn term(&self) -> Option<u64> {
        Some(self.fence.as_ref()?.term().unwrap_or_default())
    }

    /// The random numbers of the operator.
    pub(crate) fn rng(&self) -> &Rng {
        &self.shared.rng
    }

    /// Whether it is news that reads fail for the reason of that name.
    pub(crate) fn is_first_unreadable(&self, outage: &str) -> bool {
        self.shared.unreadable.add(outage)
    }

    /// What requests of many objects fail for at the same time: each is told once.
    pub(crate) fn outages(&self) -> &Outages {
        &self.shared.outages
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("operator", &self.shared.operator)
            .finish_non_exhaustive()
    }
}

impl Notes {
    /// Whether `note` is new.
    fn add(&self, note: &str) -> bool {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !notes.contains(note) && notes.insert(note.to_owned())
    }
    fn has(&self, note: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(note)
    }
    /// Whether `note` was there.
    fn remove(&self, note: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(note)
    }
}
