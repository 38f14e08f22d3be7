//! All stored versions of the objects and of the Lease, in the order of the server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kopf_rs_tests::TestCluster;
use kube::Client;
use kube::api::WatchEvent;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The history; it follows the cluster until it is dropped.
pub(super) struct History {
    objects: Versions,
    leases: Versions,
    patience: Duration,
    tasks: [JoinHandle<()>; 2],
}

type Versions = Arc<Mutex<Vec<Version>>>;

struct Version {
    /// The resource version, which increases across all kinds.
    revision: u64,
    object: Value,
    seen: Instant,
}

/// The polling interval.
const PULSE: Duration = Duration::from_millis(20);

impl History {
    pub(super) async fn follow(cluster: &TestCluster) -> Self {
        let namespace = cluster.namespace();
        let [objects, leases] = [Versions::default(), Versions::default()];
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let of_leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let tasks = [
            follow(cluster.client(), maps, objects.clone()).await,
            follow(cluster.client(), of_leases, leases.clone()).await,
        ];
        Self { objects, leases, patience: cluster.server().patience(), tasks }
    }

    /// Waits until the Lease has a holder that `is` accepts.
    pub(super) async fn until_held<T>(&self, is: impl Fn(&str) -> Option<T>) -> T {
        self.until("a holder", || {
            let leases = locked(&self.leases);
            is(leases.last()?.holder())
        })
        .await
    }

    /// Waits until another process holds the Lease and has written an object.
    pub(super) async fn until_written_by_another(&self, name: &str) {
        let own = format!("{name}_");
        let another = |holder: &str| !holder.is_empty() && !holder.starts_with(&own);
        self.until_held(|holder| another(holder).then_some(())).await;
        let since = locked(&self.leases).last().map_or(0, |it| it.revision);
        self.until("a write of another instance", || {
            let objects = locked(&self.objects);
            let mut later = objects.iter().filter(|it| it.revision > since);
            later.any(|it| it.attempts().last().is_some_and(|it| !by(it, name))).then_some(())
        })
        .await;
    }

    /// Waits until this number of objects has the results of two attempts.
    pub(super) async fn until_handled(&self, count: usize) {
        self.until("all objects handled", || {
            let done = self.attempts();
            let done = done.values().filter(|it| it.len() >= 2).count();
            (done >= count).then_some(())
        })
        .await;
    }

    async fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            let waited = begun.elapsed();
            assert!(waited < self.patience, "there is not, after {waited:?}: {what}");
            sleep(PULSE).await;
        }
    }

    /// Returns the newest attempts of each object.
    pub(super) fn attempts(&self) -> BTreeMap<String, Vec<String>> {
        let objects = locked(&self.objects);
        let replicated = objects.iter().filter(|it| it.is_replicated());
        replicated.map(|it| (it.name(), it.attempts())).collect()
    }

    pub(super) fn terms(&self) -> usize {
        self.beginnings().len()
    }

    /// The revisions at which terms have begun.
    fn beginnings(&self) -> Vec<u64> {
        let leases = locked(&self.leases);
        let held = leases.iter().filter(|it| !it.holder().is_empty());
        let mut terms: Vec<_> = held.map(|it| (it.term(), it.revision)).collect();
        terms.dedup_by(|next, former| next.0 == former.0);
        terms.into_iter().map(|(_, revision)| revision).collect()
    }

    /// Asserts that each attempt was written by the holder of the Lease at that time.
    pub(super) fn assert_one_writer(&self) {
        let (objects, leases) = (locked(&self.objects), locked(&self.leases));
        assert!(leases.is_sorted_by_key(|it| it.revision));
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut looked_at = 0;
        for version in objects.iter().filter(|it| it.is_replicated()) {
            let former = known.insert(version.name(), version.attempts());
            let former = former.unwrap_or_default();
            let now = version.attempts();
            let added = now.strip_prefix(&*former);
            let added = added.unwrap_or_else(|| panic!("{}: {former:?} have become {now:?}", version.name()));
            let Some(attempt) = added.first() else {
                continue;
            };
            assert_eq!(added.len(), 1, "{}: {added:?}", version.name());
            let later = leases.partition_point(|it| it.revision < version.revision);
            let lease = later.checked_sub(1).map(|at| &leases[at]);
            let holder = lease.map_or("", Version::holder);
            let writer = attempt.split('/').next().unwrap_or_default();
            assert!(
                holder.starts_with(&format!("{writer}_")),
                "{}: {attempt} was stored while {holder:?} held the Lease",
                version.name()
            );
            looked_at += 1;
        }
        assert!(looked_at > 0, "nothing was written");
    }

    /// Returns the longest time without a written attempt, divided by the number of terms that began in it: a fault may hit the next holder before its
    /// first write.
    pub(super) fn longest_gap(&self) -> Duration {
        let (objects, beginnings) = (locked(&self.objects), self.beginnings());
        let written = objects.iter().filter(|it| !it.attempts().is_empty());
        let written: Vec<_> = written.map(|it| (it.revision, it.seen)).collect();
        let gaps = written.windows(2).map(|pair| {
            let [(before, since), (after, until)] = [pair[0], pair[1]];
            let begun = beginnings.iter().filter(|it| (before..after).contains(*it)).count();
            (until - since) / u32::try_from(begun.max(1)).expect("few terms")
        });
        gaps.max().unwrap_or_default()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Version {
    fn name(&self) -> String {
        let name = self.object["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }

    fn is_replicated(&self) -> bool {
        self.object["metadata"]["labels"]["replicated"] == "yes"
    }

    /// Returns the attempts as `instance/retry`, oldest first.
    fn attempts(&self) -> Vec<String> {
        let text = self.object["metadata"]["annotations"]["attempts"].as_str();
        let attempts = text.unwrap_or_default().split_whitespace();
        attempts.map(str::to_owned).collect()
    }

    fn holder(&self) -> &str {
        let holder = self.object["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default()
    }

    fn term(&self) -> (String, String) {
        let acquired = self.object["spec"]["acquireTime"].as_str();
        (self.holder().to_owned(), acquired.unwrap_or_default().to_owned())
    }
}

/// Returns whether that instance made the attempt.
fn by(attempt: &str, name: &str) -> bool {
    attempt.split('/').next() == Some(name)
}

async fn follow(client: Client, path: String, into: Versions) -> JoinHandle<()> {
    let get = |target: String| {
        let request = http::Request::get(target).body(Vec::new());
        request.expect("a valid request")
    };
    let list: Value = client.request(get(path.clone())).await.expect("a list");
    let mut version = list["metadata"]["resourceVersion"].as_str().expect("lists have one").to_owned();
    let following = async move {
        loop {
            let target = format!("{path}?watch=true&resourceVersion={version}");
            let watch = client.request_events::<Value>(get(target)).await;
            let mut watch = Box::pin(watch.expect("a watch begins"));
            while let Ok(Some(event)) = watch.try_next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                    continue;
                };
                let revision = object["metadata"]["resourceVersion"].as_str();
                revision.expect("objects have one").clone_into(&mut version);
                let revision = version.parse().expect("a number, on these servers");
                let seen = Instant::now();
                locked(&into).push(Version { revision, object, seen });
            }
        }
    };
    tokio::spawn(following)
}

fn locked(versions: &Versions) -> MutexGuard<'_, Vec<Version>> {
    versions.lock().unwrap_or_else(PoisonError::into_inner)
}
