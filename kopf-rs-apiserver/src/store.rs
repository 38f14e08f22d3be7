//! The objects, one revision counter for all of them, and the changes watchers have yet to see.
//!
//! Promise: a write is visible to reads and watches at once and in one order; nothing here waits.
//! Must not know rules of kinds or verbs: it keeps what it is given.

pub(crate) mod feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::kind::{CollectionId, Kinds, builtin};
use crate::managed::Kept;
use crate::object::{Body, Stored, meta_text, metadata_mut};
use feed::{Change, Event, Feed};

/// How many changes of a kind are kept for watchers that come back or are slow.
const HISTORY: usize = 50_000;

/// The objects of one kind, by `namespace/name` or `name`.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) objects: BTreeMap<String, Arc<Stored>>,
    pub(crate) feed: Arc<Feed>,
    api_version: String,
    kind: String,
}

/// Everything the server remembers.
#[derive(Debug)]
pub(crate) struct Store {
    /// Where clients are told to find the server.
    pub(crate) address: String,
    pub(crate) clock: Clock,
    pub(crate) kinds: Kinds,
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
            clock,
            kinds: Kinds::default(),
            revision: 1,
            compacted: 0,
            published: Arc::new(AtomicU64::new(1)),
            collections: HashMap::new(),
            dependents: HashMap::new(),
            uids: HashMap::new(),
        };
        for kind in kinds.iter() {
            store.collections.entry(kind.collection).or_insert_with(|| {
                Collection::new(kind.api_version(), kind.kind.clone(), &store.published)
            });
        }
        store.kinds = kinds;
        store
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// From here on, earlier revisions are gone for new reads and watches.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// The oldest revision that can still be asked for in a collection.
    pub(crate) fn oldest(&self, id: CollectionId) -> u64 {
        let lost = self.collections.get(&id).map_or(0, |c| c.feed.lost());
        self.compacted.max(lost)
    }

    /// Keep objects of a new kind.
    pub(crate) fn open(&mut self, id: CollectionId, api_version: String, kind: String) {
        let collection = Collection::new(api_version, kind, &self.published);
        self.collections.insert(id, collection);
    }

    /// Keep existing objects under another version from now on.
    pub(crate) fn retype(&mut self, id: CollectionId, api_version: String, kind: String) {
        let Some(collection) = self.collections.get_mut(&id) else {
            return;
        };
        if collection.api_version == api_version && collection.kind == kind {
            return;
        }
        for stored in collection.objects.values_mut() {
            let revision = stored.slim.revision;
            let kept = stored.kept.clone();
            let names = (api_version.as_str(), kind.as_str());
            *stored = Arc::new(Stored::new(&stored.body(), kept, names, revision));
        }
        collection.api_version = api_version;
        collection.kind = kind;
    }

    /// Forget a kind; its watchers end after what they have yet to see.
    pub(crate) fn close(&mut self, id: CollectionId) {
        if let Some(collection) = self.collections.remove(&id) {
            collection.feed.end();
        }
    }

    pub(crate) fn collection(&self, id: CollectionId) -> Option<&Collection> {
        self.collections.get(&id)
    }

    pub(crate) fn get(&self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        self.collections.get(&id)?.objects.get(key).cloned()
    }

    /// All objects of a kind whose key begins so.
    pub(crate) fn under(&self, id: CollectionId, prefix: &str) -> Vec<Arc<Stored>> {
        self.collections
            .get(&id)
            .map(|collection| collection.under(prefix).cloned().collect())
            .unwrap_or_default()
    }

    /// Replace; who manages what stays as it was.
    pub(crate) fn put(&mut self, id: CollectionId, body: Body) -> Arc<Stored> {
        let namespace = Some(meta_text(&body, "namespace")).filter(|name| !name.is_empty());
        let before = self.get(id, &key(namespace, meta_text(&body, "name")));
        let kept = before.map(|found| found.kept.clone()).unwrap_or_default();
        self.put_kept(id, body, kept)
    }

    /// Create or replace; the resourceVersion is set here.
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
        let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
        let before = self
            .collections
            .get_mut(&id)
            .and_then(|found| found.objects.insert(key.clone(), stored.clone()));
        match &before {
            Some(before) => self.forget_owners(id, &key, before),
            None => drop(self.uids.insert(stored.slim.uid.clone(), (id, key.clone()))),
        }
        for owner in &stored.slim.owners {
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.insert((id, key.clone()));
        }
        let event = if before.is_some() {
            Event::Modified
        } else {
            Event::Added
        };
        self.announce(id, Change::new(event, revision, stored.clone(), before));
        stored
    }

    /// Remove; what comes back is the last state with the revision of the removal.
    pub(crate) fn remove(&mut self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        let collection = self.collections.get_mut(&id)?;
        let before = collection.objects.remove(key)?;
        self.revision += 1;
        let revision = self.revision;
        let mut body = before.body();
        metadata_mut(&mut body).insert("resourceVersion".to_owned(), revision.to_string().into());
        let names = (collection.api_version.as_str(), collection.kind.as_str());
        let last = Stored::new(&body, before.kept.clone(), names, revision);
        let last = Arc::new(last);
        self.forget_owners(id, key, &before);
        self.uids.remove(&before.slim.uid);
        self.announce(
            id,
            Change::new(Event::Deleted, revision, last.clone(), Some(before)),
        );
        Some(last)
    }

    /// What names this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(CollectionId, String)> {
        self.dependents
            .get(uid)
            .map(|found| found.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Where the object with this uid is.
    pub(crate) fn place_of(&self, uid: &str) -> Option<&(CollectionId, String)> {
        self.uids.get(uid)
    }

    /// Whether any collection holds an object of that namespace.
    pub(crate) fn anything_in(&self, namespace: &str) -> bool {
        let prefix = format!("{namespace}/");
        self.collections
            .values()
            .any(|collection| collection.under(&prefix).next().is_some())
    }

    /// Everything in a namespace.
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
        let revision = change.revision;
        let feed = self.collections.get(&id).map(|found| found.feed.clone());
        if let Some(feed) = &feed {
            feed.push(change);
        }
        // Bookmarks may name this revision only once its change is in the feed.
        self.published.store(revision, Ordering::Release);
        if let Some(feed) = feed {
            feed.wake();
        }
    }
}

// === impl Collection ===

impl Collection {
    fn new(api_version: String, kind: String, published: &Arc<AtomicU64>) -> Self {
        Self {
            objects: BTreeMap::new(),
            feed: Arc::new(Feed::new(HISTORY, published.clone())),
            api_version,
            kind,
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

    /// The objects as they were at a revision, undoing what came after it.
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

/// Where an object is kept in its collection; sorts as etcd sorts.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
