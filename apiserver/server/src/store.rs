//! The objects, a revision counter for all of them, and the changes for watchers.
//!
//! Guarantees that reads see a write at once, and that watches see it in one order as soon as it is committed.
//! Must not know the rules of kinds or verbs: it stores whatever it is given.

pub(crate) mod agenda;
pub(crate) mod batch;
pub(crate) mod feed;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::access::Access;
use crate::admission::Admission;
use crate::cascade::Steps;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::given;
use crate::kind::{CollectionId, Kinds, Resource, builtin};
use crate::later;
use crate::managed::Kept;
use crate::object::{Body, Stored, meta_text, metadata, metadata_mut, owners, text};
use crate::workloads::Workloads;
use agenda::{Agenda, Task};
use batch::Batch;
use feed::{Change, Event, Feed, Limit};

/// The history that is kept per kind for slow or returning watchers.
const HISTORY: Limit = Limit {
    changes: 50_000,
    bytes: 64 * 1024 * 1024,
};

/// The objects of one kind, by `namespace/name` or `name`.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) objects: BTreeMap<String, Arc<Stored>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) of: Arc<Resource>,
    api_version: String,
    kind: String,
    /// The parts of the kind's definition that affect its watches.
    definition: String,
    /// The original objects, as last written, of those that were converted to a newer stored version since.
    originals: BTreeMap<String, Arc<Stored>>,
}

/// The collections whose changes have consequences for other objects.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    events: CollectionId,
    pods: CollectionId,
    services: CollectionId,
    claims: CollectionId,
}

/// The whole state of the server.
#[derive(Debug)]
pub(crate) struct Store {
    /// The address of the server for clients.
    pub(crate) address: String,
    pub(crate) access: Access,
    pub(crate) admission: Admission,
    pub(crate) clock: Clock,
    pub(crate) kinds: Kinds,
    /// Receives all changes before anyone can observe them; `None` if the server is in memory only.
    disk: Option<Disk>,
    batch: Batch,
    /// A panic interrupted a change, so the state is inconsistent.
    torn: bool,
    /// The pending consequences of removals.
    pub(crate) steps: Steps,
    /// The tasks that become due later.
    pub(crate) agenda: Agenda,
    /// The simulated controllers, if they are enabled.
    pub(crate) workloads: Option<Workloads>,
    /// Wakes the task that runs due work.
    pub(crate) signal: Arc<Notify>,
    places: Places,
    /// The addresses and ports that are allocated to Services.
    taken: HashSet<String>,
    revision: u64,
    compacted: u64,
    published: Arc<AtomicU64>,
    collections: HashMap<CollectionId, Collection>,
    dependents: HashMap<String, BTreeSet<(CollectionId, String)>>,
    uids: HashMap<String, (CollectionId, String)>,
}

// === impl Store ===

impl Store {
    pub(crate) fn new(clock: Clock) -> Self {
        let mut kinds = Kinds::default();
        builtin::add_all(&mut kinds);
        let mut store = Self {
            address: "127.0.0.1:443".to_owned(),
            access: Access::new(&kinds),
            admission: Admission::new(&kinds),
            clock,
            kinds: Kinds::default(),
            disk: None,
            batch: Batch::default(),
            torn: false,
            steps: Steps::default(),
            agenda: Agenda::default(),
            workloads: None,
            signal: Arc::default(),
            places: Places::of(&kinds),
            taken: HashSet::new(),
            revision: 1,
            compacted: 0,
            published: Arc::new(AtomicU64::new(1)),
            collections: HashMap::new(),
            dependents: HashMap::new(),
            uids: HashMap::new(),
        };
        for kind in kinds.iter() {
            store.collections.entry(kind.collection).or_insert_with(|| {
                let (of, names) = (kind.resource(), (kind.api_version(), kind.kind.clone()));
                Collection::new(of, names, &store.published)
            });
        }
        store.kinds = kinds;
        store
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Compacts the history: new reads and watches cannot use earlier revisions any more.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// Returns the oldest revision that is available in a collection.
    pub(crate) fn oldest(&self, id: CollectionId) -> u64 {
        let lost = self.collections.get(&id).map_or(0, |c| c.feed.lost());
        self.compacted.max(lost)
    }

    /// Creates the collection of a new kind with this `apiVersion` and kind.
    pub(crate) fn open(&mut self, id: CollectionId, of: Resource, names: (String, String)) {
        let collection = Collection::new(of, names, &self.published);
        self.collections.insert(id, collection);
    }

    /// Changes the stored version of a collection; existing objects get it when they are reshaped.
    pub(crate) fn retype(&mut self, id: CollectionId, api_version: String, kind: String) {
        let Some(collection) = self.collections.get_mut(&id) else {
            return;
        };
        if collection.api_version == api_version && collection.kind == kind {
            return;
        }
        collection.api_version = api_version;
        collection.kind = kind;
    }

    /// Stores the definition of a kind; if it changed, the kind's watches end.
    pub(crate) fn redefine(&mut self, id: CollectionId, definition: String) {
        let Some(collection) = self.collections.get_mut(&id) else {
            return;
        };
        if collection.definition == definition {
            return;
        }
        let before = std::mem::replace(&mut collection.definition, definition);
        if !before.is_empty() {
            collection.feed.interrupt();
        }
    }

    /// Converts all objects of a kind. The function `shape` gets the version in which an object was written, and returns whether the
    /// object has the stored version afterwards. Watchers are not notified.
    pub(crate) fn reshape(&mut self, id: CollectionId, shape: impl Fn(&str, &mut Body) -> bool) {
        let Some(collection) = self.collections.get_mut(&id) else {
            return;
        };
        let names = (collection.api_version.as_str(), collection.kind.as_str());
        for (key, stored) in &mut collection.objects {
            let original = collection.originals.get(key).unwrap_or(stored).clone();
            let before = original.body();
            let mut body = before.clone();
            let retyped = shape(original.api_version(), &mut body);
            let revision = original.slim.revision;
            let api_version = if retyped {
                names.0
            } else {
                original.api_version()
            };
            let names = (api_version, names.1);
            let fresh = Stored::new(&body, original.kept.clone(), names, revision);
            if fresh.json == original.json {
                *stored = original;
                collection.originals.remove(key);
            } else {
                *stored = Arc::new(fresh);
                collection.originals.insert(key.clone(), original);
            }
        }
    }

    /// Returns an object as it was written, if a converted one is shown instead.
    pub(crate) fn original(&self, id: CollectionId, key: &str) -> Option<&Arc<Stored>> {
        self.collections.get(&id)?.originals.get(key)
    }

    /// Records that an object was written in another shape than the shown one.
    pub(crate) fn note_original(&mut self, id: CollectionId, key: String, original: Stored) {
        if let Some(collection) = self.collections.get_mut(&id) {
            collection.originals.insert(key, Arc::new(original));
        }
    }

    /// Removes a kind; its watchers end after they have read the remaining changes.
    pub(crate) fn close(&mut self, id: CollectionId) {
        if let Some(collection) = self.collections.remove(&id) {
            self.batch.end(collection.feed);
        }
    }

    pub(crate) fn collection(&self, id: CollectionId) -> Option<&Collection> {
        self.collections.get(&id)
    }

    pub(crate) fn get(&self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        self.collections.get(&id)?.objects.get(key).cloned()
    }

    /// Returns all objects of a kind whose key has this prefix.
    pub(crate) fn under(&self, id: CollectionId, prefix: &str) -> Vec<Arc<Stored>> {
        self.collections
            .get(&id)
            .map(|collection| collection.under(prefix).cloned().collect())
            .unwrap_or_default()
    }

    /// Replaces an object; its managed fields stay.
    pub(crate) fn put(&mut self, id: CollectionId, body: Body) -> Arc<Stored> {
        let namespace = Some(meta_text(&body, "namespace")).filter(|name| !name.is_empty());
        let before = self.get(id, &key(namespace, meta_text(&body, "name")));
        let kept = before.map(|found| found.kept.clone()).unwrap_or_default();
        self.put_kept(id, body, kept)
    }

    /// Creates or replaces an object, and sets its resource version.
    pub(crate) fn put_kept(
        &mut self,
        id: CollectionId,
        mut body: Body,
        kept: Arc<Kept>,
    ) -> Arc<Stored> {
        self.revision += 1;
        let revision = self.revision;
        metadata_mut(&mut body).insert("resourceVersion".to_owned(), revision.to_string().into());
        let (api_version, kind) = match self.collections.get(&id) {
            Some(found) => (found.api_version.as_str(), found.kind.as_str()),
            None => ("", ""),
        };
        let stored = Arc::new(Stored::new(&body, kept, (api_version, kind), revision));
        let before = self.place(id, &stored);
        let event = if before.is_some() {
            Event::Modified
        } else {
            Event::Added
        };
        self.announce(id, Change::new(event, revision, stored.clone(), before));
        stored
    }

    /// Inserts an object and updates the indexes; returns the previous state.
    fn place(&mut self, id: CollectionId, stored: &Arc<Stored>) -> Option<Arc<Stored>> {
        let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
        let before = self.collections.get_mut(&id).and_then(|found| {
            found.originals.remove(&key);
            found.objects.insert(key.clone(), stored.clone())
        });
        if let Some(before) = &before {
            self.forget_owners(id, &key, before);
        }
        if before
            .as_ref()
            .is_none_or(|before| before.slim.uid != stored.slim.uid)
        {
            self.uids.insert(stored.slim.uid.clone(), (id, key.clone()));
        }
        for owner in &stored.slim.owners {
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.insert((id, key.clone()));
        }
        self.touch(id, &key);
        self.take(id, Some(stored), before.as_deref());
        self.plan_for(id, &key, stored, before.as_deref());
        self.rouse(id, &key, stored, before.as_deref());
        before
    }

    /// Removes an object and updates the indexes; returns it.
    fn displace(&mut self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        let collection = self.collections.get_mut(&id)?;
        collection.originals.remove(key);
        let before = collection.objects.remove(key)?;
        self.forget_owners(id, key, &before);
        self.uids.remove(&before.slim.uid);
        self.touch(id, key);
        self.take(id, None, Some(&before));
        self.rouse(id, key, &before, None);
        Some(before)
    }

    /// Marks the caches of roles and webhooks as stale.
    fn touch(&mut self, id: CollectionId, key: &str) {
        self.access.index.touch(id, key);
        self.admission.touch(id);
    }

    /// Removes an object; returns its last state with the revision of the removal.
    pub(crate) fn remove(&mut self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        let before = self.displace(id, key)?;
        let collection = self.collections.get(&id)?;
        self.revision += 1;
        let revision = self.revision;
        let mut body = before.body();
        metadata_mut(&mut body).insert("resourceVersion".to_owned(), revision.to_string().into());
        let names = (before.api_version(), collection.kind.as_str());
        let last = Stored::new(&body, before.kept.clone(), names, revision);
        let last = Arc::new(last);
        self.announce(
            id,
            Change::new(Event::Deleted, revision, last.clone(), Some(before)),
        );
        Some(last)
    }

    /// Returns whether a Service uses this address or port.
    pub(crate) fn is_taken(&self, what: &str) -> bool {
        self.taken.contains(what)
    }

    /// Updates the allocated addresses and ports of Services.
    fn take(&mut self, id: CollectionId, now: Option<&Arc<Stored>>, before: Option<&Stored>) {
        if id != self.places.services {
            return;
        }
        let had = before.map(|before| given::taken(&before.body()));
        for old in had.unwrap_or_default() {
            self.taken.remove(&old);
        }
        let has = now.map(|now| given::taken(&now.body()));
        self.taken.extend(has.unwrap_or_default());
    }

    /// Plans a task for an object.
    pub(crate) fn plan(&mut self, at: Timestamp, place: (CollectionId, &str), task: Task) {
        if self.agenda.plan(at, place, task) {
            self.signal.notify_one();
        }
    }

    /// Returns whether background work is pending.
    pub(crate) fn has_plans(&self) -> bool {
        self.workloads.is_some() || self.agenda.first().is_some()
    }

    /// Queues an object for the controllers, if they are enabled.
    pub(crate) fn note(&mut self, id: CollectionId, key: &str) {
        if let Some(workloads) = &mut self.workloads {
            workloads.note(id, key);
            self.signal.notify_one();
        }
    }

    /// Plans the tasks that follow from a write.
    fn plan_for(&mut self, id: CollectionId, key: &str, now: &Stored, before: Option<&Stored>) {
        if id == self.places.events {
            let end = self.clock.now().saturating_add(later::EVENT_TTL);
            if let Ok(end) = end {
                self.plan(end, (id, key), Task::Expire(now.slim.revision));
            }
        }
        let owners = &now.slim.owners;
        let known = before.is_some_and(|before| before.slim.owners == *owners);
        if !known && !owners.is_empty() && !self.has_true_owners(now) {
            let soon = self.clock.now().saturating_add(later::OWNER_GRACE);
            if let Ok(soon) = soon {
                self.plan(soon, (id, key), Task::CheckOwners);
            }
        }
    }

    /// Returns whether all owner references of an object match their owners.
    fn has_true_owners(&self, stored: &Stored) -> bool {
        let body = stored.body();
        let found = metadata(&body).map(owners).unwrap_or_default();
        found.into_iter().all(|owner| {
            let place = self.uids.get(text(owner, "uid"));
            let Some((id, key)) = place else {
                return false;
            };
            let (collection, found) = (self.collections.get(id), self.get(*id, key));
            collection.zip(found).is_some_and(|(collection, found)| {
                let namespace = &found.slim.namespace;
                collection.kind == text(owner, "kind")
                    && found.slim.name == text(owner, "name")
                    && (namespace.is_none() || *namespace == stored.slim.namespace)
            })
        })
    }

    /// Queues the objects that a change affects for the controllers.
    fn rouse(&mut self, id: CollectionId, key: &str, now: &Stored, before: Option<&Stored>) {
        if self.workloads.is_none() {
            return;
        }
        self.note(id, key);
        let old = before.map_or(&[][..], |before| before.slim.owners.as_slice());
        for uid in now.slim.owners.iter().chain(old) {
            if let Some((id, key)) = self.uids.get(uid).cloned() {
                self.note(id, &key);
            }
        }
        if id == self.places.pods {
            let prefix = key
                .split_once('/')
                .map_or("", |(namespace, _)| namespace)
                .to_owned()
                + "/";
            for followed in [self.places.services, self.places.claims] {
                let found = self.collections.get(&followed);
                let keys = found.map(|found| found.keys_under(&prefix).cloned().collect());
                let keys: Vec<String> = keys.unwrap_or_default();
                for key in keys {
                    self.note(followed, &key);
                }
            }
        }
    }

    /// Returns the objects that name this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(CollectionId, String)> {
        self.dependents
            .get(uid)
            .map(|found| found.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the place of the object with this uid.
    pub(crate) fn place_of(&self, uid: &str) -> Option<&(CollectionId, String)> {
        self.uids.get(uid)
    }

    /// Returns whether any object exists in a namespace.
    pub(crate) fn anything_in(&self, namespace: &str) -> bool {
        let prefix = format!("{namespace}/");
        self.collections
            .values()
            .any(|collection| collection.under(&prefix).next().is_some())
    }

    /// Returns all objects in a namespace.
    pub(crate) fn everything_in(&self, namespace: &str) -> Vec<(CollectionId, String)> {
        let prefix = format!("{namespace}/");
        let mut found: Vec<(CollectionId, String)> = self
            .collections
            .iter()
            .flat_map(|(id, collection)| {
                collection.keys_under(&prefix).map(|key| (*id, key.clone()))
            })
            .collect();
        found.sort();
        found
    }

    fn forget_owners(&mut self, id: CollectionId, key: &str, before: &Stored) {
        for owner in &before.slim.owners {
            if let Some(found) = self.dependents.get_mut(owner) {
                found.remove(&(id, key.to_owned()));
                if found.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    fn announce(&mut self, id: CollectionId, change: Change) {
        if let Some(found) = self.collections.get(&id) {
            self.batch
                .add(found.of.clone(), found.feed.clone(), Arc::new(change));
        }
    }
}

// === impl Places ===

impl Places {
    fn of(kinds: &Kinds) -> Self {
        let core = |plural: &str| {
            let kind = kinds.kind("", "v1", plural);
            kind.map(|kind| kind.collection).unwrap_or_default()
        };
        Self {
            events: core("events"),
            pods: core("pods"),
            services: core("services"),
            claims: core("persistentvolumeclaims"),
        }
    }
}

// === impl Collection ===

impl Collection {
    fn new(
        of: Resource,
        (api_version, kind): (String, String),
        published: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            objects: BTreeMap::new(),
            feed: Arc::new(Feed::new(HISTORY, published.clone())),
            of: Arc::new(of),
            api_version,
            kind,
            definition: String::new(),
            originals: BTreeMap::new(),
        }
    }

    fn keys_under(&self, prefix: &str) -> impl Iterator<Item = &String> {
        self.entries_under(prefix).map(|(key, _)| key)
    }

    fn under(&self, prefix: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.entries_under(prefix).map(|(_, stored)| stored)
    }

    pub(crate) fn entries_under(
        &self,
        prefix: &str,
    ) -> impl Iterator<Item = (&String, &Arc<Stored>)> {
        let from = Bound::Included(prefix.to_owned());
        let prefix = prefix.to_owned();
        self.objects
            .range((from, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// Returns the objects as of a revision, by undoing later changes.
    pub(crate) fn at(&self, revision: u64) -> BTreeMap<String, Arc<Stored>> {
        let mut objects = self.objects.clone();
        for change in self.feed.since(revision).iter().rev() {
            let key = key(change.now.slim.namespace.as_deref(), &change.now.slim.name);
            match &change.before {
                Some(before) => objects.insert(key, before.clone()),
                None => objects.remove(&key),
            };
        }
        objects
    }
}

/// Returns the key of an object in its collection; keys sort as in etcd.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
