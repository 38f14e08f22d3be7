//! All communication with Kubernetes. This is the only module that uses `kube`.
//!
//! It hides paging, re-lists, 410 responses, bookmarks, back-off and the status subresource. It must not depend on
//! causes, nor on the purpose of a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::cluster::fence::Fence;
use crate::cluster::pruned::Pruned;
use crate::cluster::reach::Reachability;
use crate::happening::meter::SharedMeter;
use crate::object::resource::Resource;
use crate::rt::outage::Outages;
use crate::rt::rng::Rng;

mod access;
pub(crate) mod cause;
pub(crate) mod child;
#[cfg(feature = "cli")]
pub(crate) mod connect;
pub(crate) mod credentials;
mod crypto;
pub(crate) mod definition;
pub(crate) mod discover;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod fence;
#[cfg(feature = "embedded")]
pub(crate) mod installing;
pub(crate) mod keep;
pub(crate) mod lease;
pub(crate) mod login;
#[cfg(any(feature = "cli", test))]
pub(crate) mod manifest;
pub(crate) mod migration;
pub(crate) mod observed;
mod pod;
mod proxy;
pub(crate) mod pruned;
mod reach;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod rights;
mod server_url;
mod stack;
#[cfg(test)]
mod tests;
#[cfg(feature = "metrics")]
pub(crate) mod token_review;
pub(crate) mod typed;
pub(crate) mod watch;
pub(crate) mod write;

/// The Kubernetes client for handlers and embedding programs.
pub use kube::Client;

/// A connection to one cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    shared: Arc<Shared>,
    /// The leadership check that all its writes must pass.
    fence: Option<Fence>,
}

/// The operator's identity for the server, and the limits on requests.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSettings {
    /// The operator's name: the field manager of its writes, and its user agent.
    pub(crate) operator: String,
    /// The maximum number of concurrent writes. Each of them needs a connection.
    pub(crate) writes: usize,
    /// Measured until the last byte of a response.
    pub(crate) request_timeout: Duration,
    /// Random numbers that spread requests over time.
    pub(crate) rng: Arc<Rng>,
    /// Receives measurements of requests, if metrics are enabled.
    pub(crate) meter: SharedMeter,
}

/// The state that all clones share.
struct Shared {
    operator: String,
    agent: HeaderValue,
    writes: Semaphore,
    request_timeout: Duration,
    /// Limits reads of single objects, because timers of thousands of objects may be due at the same time.
    reads: Semaphore,
    rng: Arc<Rng>,
    meter: SharedMeter,
    reach: Reachability,
    outages: Outages,
    /// API groups whose server has rejected a streaming list.
    unstreamable: Notes,
    /// Fields of our writes that the schemas of resources have pruned.
    pruned: Pruned,
    /// Resources that have lost their status subresource, for which a warning was logged.
    statusless: Notes,
    /// For resources without a status subresource in discovery: whether the server still serves its path.
    status_paths: Mutex<BTreeMap<String, bool>>,
    /// Group versions whose discovery has failed, for which a warning was logged.
    broken: Notes,
    /// Kinds whose objects we may not read, for which a warning was logged.
    unreadable: Notes,
    /// Collections that we may list, but whose single objects we may not read.
    ungettable: Notes,
    /// Kinds that we have defined ourselves by applying a CRD.
    #[cfg(any(feature = "cli", test))]
    defined: Notes,
    /// The resources found by the last discovery.
    discovered: Mutex<Vec<Resource>>,
    /// The versions that the last discovery found but could not read.
    unknown: Mutex<BTreeSet<String>>,
}

/// The maximum number of concurrent reads of single objects.
const READS: usize = 32;

/// A set of names, for events that should be reported only once.
#[derive(Default)]
struct Notes(Mutex<BTreeSet<String>>);

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            operator: "kopf-rs".to_owned(),
            writes: 16,
            // More than 60 s, after which the server itself gives up.
            request_timeout: Duration::from_secs(65),
            rng: Arc::new(Rng::new()),
            meter: None,
        }
    }
}

impl Cluster {
    /// Creates a connection with default settings.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn new(client: Client) -> Self {
        Self::with_settings(client, &ClusterSettings::default())
    }

    pub(crate) fn with_settings(client: Client, settings: &ClusterSettings) -> Self {
        let agent = format!("kopf-rs/{} ({})", env!("CARGO_PKG_VERSION"), settings.operator);
        Self {
            client,
            fence: None,
            shared: Arc::new(Shared {
                operator: settings.operator.clone(),
                agent: HeaderValue::from_str(&agent).unwrap_or_else(|_| HeaderValue::from_static("kopf-rs")),
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

    /// Returns the same connection with all writes subject to this leadership check, and bound to the resource
    /// version of the object they are made for.
    pub(crate) fn fenced(&self, fence: Option<Fence>) -> Self {
        Self { fence, ..self.clone() }
    }

    /// Returns the current term of leadership, or zero without leadership; `None` if writes need no leadership.
    pub(crate) fn term(&self) -> Option<u64> {
        Some(self.fence.as_ref()?.term().unwrap_or_default())
    }

    /// Returns whether this instance may begin a call, by the clocks and its term, if it needs one.
    pub(crate) fn may_begin(&self) -> bool {
        self.fence.as_ref().is_none_or(Fence::may_begin)
    }

    /// Returns the operator's source of random numbers.
    pub(crate) fn rng(&self) -> &Rng {
        &self.shared.rng
    }

    /// Returns whether this reason for failing reads is reported for the first time.
    pub(crate) fn is_first_unreadable(&self, outage: &str) -> bool {
        self.shared.unreadable.add(outage)
    }

    /// Returns the outages, which merge failures that many objects share, so that each is reported once.
    pub(crate) fn outages(&self) -> &Outages {
        &self.shared.outages
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("operator", &self.shared.operator).finish_non_exhaustive()
    }
}

impl Notes {
    /// Adds `note`; returns whether it is new.
    fn add(&self, note: &str) -> bool {
        let mut notes = self.0.lock();
        !notes.contains(note) && notes.insert(note.to_owned())
    }
    fn has(&self, note: &str) -> bool {
        self.0.lock().contains(note)
    }
    /// Removes `note`; returns whether it existed.
    fn remove(&self, note: &str) -> bool {
        self.0.lock().remove(note)
    }
}
