//! Simulates the controllers and kubelets of a cluster without running any containers.
//!
//! Guarantees level-triggered reconciliation in the order of changes, timed by the server's clock: Deployments create `ReplicaSets`,
//! which create Pods; Pods become ready after a delay, Jobs complete, Services get endpoints. Must not depend on requests or transports.

mod container;
mod cron_job;
mod daemon_set;
mod deployment;
mod failure;
mod furnish;
mod job;
mod lack;
mod node;
mod pod;
mod replica_set;
mod scheduler;
mod service;
mod stateful_set;
mod tell;
mod template;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::kind::{CollectionId, Kind};
use crate::object::Stored;
use crate::store::Store;

/// The timing of simulated workloads.
///
/// ```
/// use std::time::Duration;
/// use kopf_rs_apiserver::{ApiServer, WorkloadOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = ApiServer::new();
/// server.workloads(WorkloadOptions::new().ready_after(Duration::from_millis(100)));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadOptions {
    ready_after: Duration,
    job_time: Duration,
    stop_after: Duration,
}

/// The state of the simulation beside its objects.
#[derive(Debug)]
pub(crate) struct Workloads {
    options: WorkloadOptions,
    addresses: u32,
    waiting: VecDeque<(CollectionId, String)>,
    queued: BTreeSet<(CollectionId, String)>,
    /// Pods that cannot start yet because an object is missing or no node fits.
    held: BTreeSet<String>,
}

// === impl WorkloadOptions ===

impl WorkloadOptions {
    /// Returns the defaults: Pods become ready after one second, Jobs take two, Pods terminate within one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ready_after: Duration::from_secs(1),
            job_time: Duration::from_secs(2),
            stop_after: Duration::from_secs(1),
        }
    }

    /// Sets the time from the creation of a Pod until it is ready.
    #[must_use]
    pub fn ready_after(mut self, time: Duration) -> Self {
        self.ready_after = time;
        self
    }

    /// Sets the run time of Job Pods.
    #[must_use]
    pub fn job_time(mut self, time: Duration) -> Self {
        self.job_time = time;
        self
    }

    /// Sets the time that a deleted Pod takes to terminate; its grace period is the upper limit.
    #[must_use]
    pub fn stop_after(mut self, time: Duration) -> Self {
        self.stop_after = time;
        self
    }
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Workloads ===

impl Workloads {
    pub(crate) fn new(options: WorkloadOptions) -> Self {
        Self {
            options,
            addresses: 0,
            waiting: VecDeque::new(),
            queued: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    /// Queues an object for reconciliation, unless it is queued already.
    pub(crate) fn note(&mut self, collection: CollectionId, key: &str) {
        let place = (collection, key.to_owned());
        if self.queued.insert(place.clone()) {
            self.waiting.push_back(place);
        }
    }

    /// Returns whether objects are queued.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Marks a Pod as waiting for other objects.
    fn hold(&mut self, key: &str) {
        self.held.insert(key.to_owned());
    }

    /// Removes and returns the waiting Pods whose key has this prefix.
    fn release(&mut self, prefix: &str) -> Vec<String> {
        let is_meant = |key: &String| key.starts_with(prefix);
        let (meant, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(is_meant);
        self.held = kept;
        BTreeSet::into_iter(meant).collect()
    }

    /// Returns an IP address for a Pod.
    fn next_address(&mut self) -> String {
        self.addresses = self.addresses % 65_000 + 1;
        let [_, _, high, low] = (self.addresses + 1).to_be_bytes();
        format!("10.244.{high}.{low}")
    }
}

/// Starts the simulation; all existing objects are queued.
pub(crate) fn begin(store: &mut Store, options: WorkloadOptions) {
    store.workloads = Some(Workloads::new(options));
    node::create(store);
    let kinds: Vec<Arc<Kind>> = store.kinds.iter().cloned().collect();
    for kind in kinds.iter().filter(|kind| controller(kind).is_some()) {
        for stored in store.under(kind.collection, "") {
            store.note(kind.collection, &key_of(&stored));
        }
    }
}

/// Reconciles at most `most` queued objects; returns whether more are queued.
pub(crate) fn step(store: &mut Store, most: usize) -> bool {
    for _ in 0..most {
        let next = store.workloads.as_mut().and_then(|world| {
            let place = world.waiting.pop_front()?;
            world.queued.remove(&place);
            Some(place)
        });
        let Some((collection, key)) = next else {
            return false;
        };
        let kind = store.kinds.of_collection(collection).cloned();
        let Some(kind) = kind else {
            continue;
        };
        scheduler::wake(store, &kind, &key);
        let Some(stored) = store.get(collection, &key) else {
            continue;
        };
        if let Some(control) = controller(&kind) {
            control(store, &kind, &stored);
        }
    }
    store.workloads.as_ref().is_some_and(Workloads::is_waiting)
}

type Control = fn(&mut Store, &Kind, &Arc<Stored>);

/// Returns the controller for objects of a kind.
fn controller(kind: &Kind) -> Option<Control> {
    Some(match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => furnish::tend,
        ("", "pods") => pod::tend,
        ("", "services") => service::tend,
        ("", "persistentvolumeclaims") => node::bind_claim,
        ("apps", "deployments") => deployment::tend,
        ("apps", "replicasets") => replica_set::tend,
        ("apps", "statefulsets") => stateful_set::tend,
        ("apps", "daemonsets") => daemon_set::tend,
        ("batch", "jobs") => job::tend,
        ("batch", "cronjobs") => cron_job::tend,
        _ => return None,
    })
}

fn options(store: &Store) -> WorkloadOptions {
    let world = store.workloads.as_ref();
    world.map_or_else(WorkloadOptions::new, |world| world.options.clone())
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    at.saturating_add(time).unwrap_or(at)
}

fn key_of(stored: &Stored) -> String {
    crate::store::key(stored.slim.namespace.as_deref(), &stored.slim.name)
}
