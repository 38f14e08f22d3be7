//! The children of all watched kinds as observed by their watches: their owners, and the changes that affect these.
//!
//! A change affects the owners if it touches the fields that the operator has applied, its marks, the owner references, or the deletion. The
//! operator's entry in `managedFields` shows that without a comparison of values. The echo of an own apply wakes no owner. Pure data: no
//! clock, no waiting. Must not know requests or the desired state of an owner.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::memory::Version;
use crate::engine::object_table::{ObjectTable, StreamId, Watch};
use crate::object::child::{ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::resource::Resource;
use crate::reaction::children::AppliedFacts;

/// The maximum number of own applies per child that are remembered until the watch shows them. While a watch fails, there may be arbitrarily
/// many, and an unrecognised echo only costs a call.
const OWN: usize = 16;

/// The children that watches have shown, and those that the operator has applied itself.
#[derive(Default)]
pub(super) struct ChildTable {
    objects: ObjectTable<ChildWatch, Seen>,
    /// The children of each owner, by the owner's uid.
    by_owner: HashMap<String, BTreeSet<Key>>,
    watches: HashMap<WatchedKind, StreamId>,
    /// Children that the operator has released, until their watches show that.
    gone: BTreeMap<Key, StreamId>,
    /// The number of times that the operator has taken over from another instance.
    term: u32,
}

/// The group, the kind, and the namespace; `None` stands for all namespaces.
pub(super) type WatchedKind = (String, String, Option<String>);

/// A watch of children.
pub(super) struct ChildWatch {
    pub(super) collection: Arc<Collection>,
    /// True if handlers read complete objects: these are then kept, and owners are notified of every change.
    is_read: bool,
    /// The term in which the last complete listing began: objects that it lacks have not existed since.
    complete_in: Option<u32>,
    /// The term in which the last listing began.
    listed_in: u32,
}

#[derive(Debug)]
struct Seen {
    sight: ChildSight,
    /// The state after the last own apply.
    applied: Option<String>,
    /// True if another client may have applied other values since.
    is_doubted: bool,
    /// The versions of own applies that the watch has not shown yet.
    own: Vec<String>,
    /// True if the state is known from a response and not from the watch yet, and its writer is unknown.
    is_untold: bool,
    /// When the server answered the last own apply: a listing that was requested before may lack the object.
    answered: Option<Instant>,
    /// The object is at least as new as the beginning of this term.
    term: u32,
}

/// The state of a child after an own apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    /// The digest of its owner-related metadata.
    pub(crate) state: String,
    pub(crate) version: String,
}

/// A notification for an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChildNews {
    /// The owner's uid.
    pub(crate) owner: String,
    pub(crate) child: ChildVersion,
}

/// A version of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChildVersion {
    pub(crate) uid: String,
    /// `None` if the child is gone.
    pub(crate) version: Option<String>,
}

/// A complete child, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnownBody {
    /// It must be read from the server.
    Unknown,
    Absent,
    There(Arc<str>),
}

/// The state of a child as the watch of its kind reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The kind is not watched, or its watch is not up to date.
    Nothing,
    /// No object with this uid and the label exists.
    Absent,
    Terminating,
    /// The child exists; `is_intact` says that it is as the last apply left it.
    There {
        is_intact: bool,
    },
}

/// All children that a handler wants for one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChildSet {
    /// The uid of the owner.
    pub(super) owner: String,
    /// The name of the set.
    pub(super) name: String,
    pub(super) wanted: BTreeSet<ChildName>,
}

/// A child that its set no longer contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOver {
    pub(super) resource: Arc<Resource>,
    pub(super) child: ChildName,
    pub(super) uid: String,
    pub(super) version: String,
}

// === impl ===

impl AppliedState {
    pub(super) fn of(facts: &AppliedFacts) -> Self {
        Self { state: facts.state.clone(), version: facts.resource_version.clone() }
    }
}

impl Seen {
    fn of(sight: ChildSight, term: u32) -> Self {
        Self {
            sight,
            applied: None,
            is_doubted: false,
            own: Vec::new(),
            is_untold: false,
            answered: None,
            term,
        }
    }
}

impl ChildTable {
    /// Registers a watch that is about to begin. It takes over the children of the watch that it replaces.
    pub(super) fn open(
        &mut self,
        watch: StreamId,
        collection: Arc<Collection>,
        is_read: bool,
        replaces: Option<StreamId>,
    ) {
        // A definition that was created again may have another kind of the same plural name.
        self.watches.retain(|_, id| Some(*id) != replaces);
        self.watches.insert(kind_of(&collection), watch);
        let of = ChildWatch { collection, is_read, complete_in: None, listed_in: self.term };
        self.objects.open(watch, of, replaces, |_, _, _| ());
        for of in self.gone.values_mut().filter(|of| Some(**of) == replaces) {
            *of = watch;
        }
    }

    /// Forgets a watch that has ended, with its children. Returns its kind.
    pub(super) fn close(&mut self, watch: StreamId) -> Option<WatchedKind> {
        let kind = kind_of(&self.watch(watch)?.of.collection);
        self.watches.remove(&kind);
        for key in self.objects.shown_by(watch) {
            self.take(&key);
        }
        self.gone.retain(|_, of| *of != watch);
        self.objects.close(watch);
        Some(kind)
    }

    pub(super) fn watch(&self, watch: StreamId) -> Option<&Watch<ChildWatch>> {
        self.objects.watch(watch)
    }

    pub(super) fn watches(&self) -> impl Iterator<Item = (StreamId, &Watch<ChildWatch>)> {
        self.objects.watches()
    }

    /// Returns the watch that shows the child: of its namespace, or else of all.
    pub(super) fn watch_of(&self, child: &ChildName) -> Option<(StreamId, &Watch<ChildWatch>)> {
        let mut kind = (child.group.clone(), child.kind.clone(), child.namespace.clone());
        let of_namespace = self.watches.get(&kind);
        kind.2 = None;
        let id = *of_namespace.or_else(|| self.watches.get(&kind))?;
        Some((id, self.watch(id)?))
    }

    /// Begins a term: the operator has taken over from another instance, whose writes the watches may not have shown yet.
    pub(super) fn begin_term(&mut self) {
        self.term += 1;
    }

    /// Processes the part of an event that concerns the watch. Returns notifications about children that a complete listing lacks; `None` if the
    /// watch is not open.
    pub(super) fn on_event(
        &mut self,
        watch: StreamId,
        event: &WatchEvent,
        now: Instant,
    ) -> Option<Vec<ChildNews>> {
        let missing = self.objects.on_event(watch, event, now)?;
        let requested = self.objects.watch(watch)?.listing;
        let of = self.objects.watch_mut(watch)?;
        let mut woken = BTreeSet::new();
        match event {
            WatchEvent::Listing(_) => of.listed_in = self.term,
            WatchEvent::Synced(listed) => {
                of.complete_in = Some(of.listed_in);
                self.gone.retain(|key, of| *of != watch || listed.contains(key));
                let of_listing = Version::of(&listed.version);
                for key in missing {
                    // The listing may be older than an own apply, unless its version shows that it is newer.
                    let is_gone = |seen: &Seen| {
                        seen.answered < requested || of_listing.covers(&Version::of(&seen.sight.version))
                    };
                    if self.objects.get(&key).is_some_and(is_gone) {
                        let former = self.take(&key);
                        woken.extend(former.into_iter().flat_map(when_gone));
                    }
                }
            }
            _ => {}
        }
        Some(woken.into_iter().collect())
    }

    /// Records a child as shown by the watch, and returns notifications for the affected owners.
    pub(super) fn seen(&mut self, watch: StreamId, event: EventType, sight: ChildSight) -> Vec<ChildNews> {
        let key = Key::of_uid(&sight.uid);
        if event == EventType::Deleted {
            return self.left(&key, &sight);
        }
        let Some(found) = self.objects.watch(watch).filter(|_| !self.gone.contains_key(&key)) else {
            return Vec::new();
        };
        let (was_listed, listing) = (found.is_listed, found.listing);
        let ChildWatch { is_read, listed_in, .. } = found.of;
        let Some(mut known) = self.take(&key) else {
            // At first, owners are called for themselves and apply their children. But the state that they have read may be older than this
            // listing.
            let woken = if was_listed || is_read { both(None, &sight) } else { Vec::new() };
            self.put(watch, Seen::of(sight, listed_in));
            return woken;
        };
        let is_echo = known.own.contains(&sight.version);
        known.own.retain(|own| *own != sight.version && !is_older(own, &sight.version));
        // A foreign write that preceded an own one, whose response arrived first.
        let is_older = is_older(&sight.version, &known.sight.version);
        if is_older && event == EventType::Listed && known.answered < listing {
            // The listing has begun later: the server was restored from a backup, and later writes are lost.
            let woken = both(Some(&known), &sight);
            self.put(watch, Seen { applied: known.applied, is_doubted: true, ..Seen::of(sight, listed_in) });
            return woken;
        }
        let is_gap = event == EventType::Listed;
        let is_doubtful = !is_older && sight.hides_an_apply(&known.sight, is_gap);
        let is_news = sight.version != known.sight.version || known.is_untold;
        let is_other = is_older || is_doubtful || sight.state != known.sight.state || is_read && is_news;
        let woken = if is_other && !is_echo { both(Some(&known), &sight) } else { Vec::new() };
        if !is_older {
            (known.sight, known.is_untold) = (sight, false);
            known.is_doubted |= is_doubtful;
            // Late watch events may be older than the term. A listing is as new as its beginning, and the following events are newer.
            known.term = known.term.max(listed_in);
        }
        self.put(watch, known);
        woken
    }

    /// Records a child that was deleted or has left the selector of the watch.
    fn left(&mut self, key: &Key, sight: &ChildSight) -> Vec<ChildNews> {
        let was_let_go = self.gone.remove(key).is_some();
        let is_back = |known: &Seen| {
            is_older(&sight.version, &known.sight.version) && (known.is_untold || !known.own.is_empty())
        };
        // Its label was removed, and an own apply has restored it since.
        if self.objects.get(key).is_some_and(is_back) {
            return Vec::new();
        }
        let former = self.take(key);
        if was_let_go {
            return Vec::new();
        }
        let mut woken = both(former.as_ref(), sight);
        for news in &mut woken {
            news.child.version = None;
        }
        woken
    }

    /// Records the response to an own apply, and whether the apply has changed the child. Returns notifications for owners that may read the
    /// change in other ways.
    pub(super) fn replied(
        &mut self,
        child: &ChildName,
        (sight, found): (ChildSight, &Value),
        changed: bool,
        now: Instant,
    ) -> Vec<ChildNews> {
        let Some((watch, Watch { of, .. })) = self.watch_of(child) else {
            return Vec::new();
        };
        let (sight, is_news) = (of.sight(sight, found), changed && of.is_read);
        let news = if is_news { both(None, &sight) } else { Vec::new() };
        let key = Key::of_uid(&sight.uid);
        self.gone.remove(&key);
        let applied = Some(sight.state.clone());
        let term = self.term;
        let known = match self.take(&key) {
            Some(known) if is_older(&sight.version, &known.sight.version) => {
                self.put(watch, Seen { applied, answered: Some(now), term, ..known });
                return news;
            }
            known => known,
        };
        let mut own: Vec<String> = changed.then(|| sight.version.clone()).into_iter().collect();
        let is_told = |it: &Seen| it.sight.version == sight.version && !it.is_untold;
        let is_untold = !changed && !known.as_ref().is_some_and(is_told);
        own.extend(known.into_iter().flat_map(|seen| seen.own));
        own.truncate(OWN);
        self.put(watch, Seen { applied, answered: Some(now), own, is_untold, ..Seen::of(sight, term) });
        news
    }

    /// Records that the operator has deleted or released a child, which the watch may still show for a while. Returns notifications for
    /// owners that may still read it in other ways.
    pub(super) fn let_go(&mut self, child: &ChildName, uid: &str) -> Vec<ChildNews> {
        let key = Key::of_uid(uid);
        let former = self.take(&key);
        let Some((watch, found)) = self.watch_of(child) else {
            return Vec::new();
        };
        let (is_read, is_failing) = (found.of.is_read, found.trouble.is_some());
        // A failing watch may never recover. If it does, it may wake an owner unnecessarily.
        if !is_failing {
            self.gone.insert(key, watch);
        }
        let news = former.into_iter().filter(|_| is_read);
        news.flat_map(when_gone).collect()
    }

    fn take(&mut self, key: &Key) -> Option<Seen> {
        let seen = self.objects.remove(key)?.value;
        if let Some(owner) = &seen.sight.owner
            && let Some(children) = self.by_owner.get_mut(owner)
        {
            children.remove(key);
            if children.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(seen)
    }

    /// Adds a child that is not in the table.
    fn put(&mut self, watch: StreamId, mut seen: Seen) {
        let sight = &mut seen.sight;
        // The managers matter only for a child that differs from its applied state.
        if seen.applied.as_ref().is_none_or(|it| *it == sight.state) {
            sight.managers = None;
        }
        let (key, owner) = (Key::of_uid(&sight.uid), sight.owner.clone());
        let make = |of: &ChildWatch| {
            if !of.is_read {
                seen.sight.body = None;
            }
            Some(seen)
        };
        if self.objects.show(watch, &key, make).is_some()
            && let Some(owner) = owner
        {
            self.by_owner.entry(owner).or_default().insert(key);
        }
    }

    /// Returns what the watch reports about the child with this uid, which was applied in this state.
    pub(super) fn known(&self, child: &ChildName, uid: &str, applied: Option<&AppliedState>) -> Known {
        if !self.watch_of(child).is_some_and(|(_, it)| it.is_current()) {
            return Known::Nothing;
        }
        match self.get(uid) {
            None => Known::Absent,
            Some(sight) if sight.terminating => Known::Terminating,
            Some(_) => Known::There { is_intact: applied.is_some_and(|it| self.is_intact(uid, it)) },
        }
    }

    /// Returns the version of the child with this uid as its watch shows it.
    pub(super) fn version(&self, uid: String) -> ChildVersion {
        let version = self.get(&uid).map(|it| it.version.clone());
        ChildVersion { uid, version }
    }

    /// Returns a child if it is known.
    fn get(&self, uid: &str) -> Option<&ChildSight> {
        self.objects.get(&Key::of_uid(uid)).map(|seen| &seen.sight)
    }

    /// Returns true if a child is still in the state of an own apply, so that all applied fields have the same values. Observations from
    /// before another instance's term do not count.
    pub(super) fn is_intact(&self, uid: &str, applied: &AppliedState) -> bool {
        let seen = self.objects.get(&Key::of_uid(uid)).filter(|it| it.term == self.term);
        seen.is_some_and(|it| {
            let is_last = !it.is_doubted && it.applied.as_ref() == Some(&applied.state);
            it.sight.state == applied.state && (is_last || it.sight.version == applied.version)
        })
    }

    /// Returns the managers of a child that differs from its applied state.
    pub(super) fn take_managers(&mut self, uid: &str) -> Option<Value> {
        let seen = self.objects.get_mut(&Key::of_uid(uid))?;
        mem::take(&mut seen.sight.managers)
    }

    /// Returns the children that their set no longer contains, of watches that are up to date.
    pub(super) fn left_over<'a>(
        &'a self,
        set: &'a ChildSet,
    ) -> impl Iterator<Item = (StreamId, LeftOver)> + 'a {
        let current = self.of_owner(&set.owner).filter(|(_, watch, _)| watch.is_current());
        let children = current.map(|(id, watch, seen)| (id, &watch.of, &seen.sight));
        let of_set = children.filter(|(.., it)| it.set.as_deref() == Some(&*set.name) && !it.terminating);
        let left_over = of_set.map(|(id, of, sight)| {
            let found = LeftOver {
                resource: of.collection.resource.clone(),
                child: of.child(sight.namespace.clone(), sight.name.clone()),
                uid: sight.uid.clone(),
                version: sight.version.clone(),
            };
            (id, found)
        });
        left_over.filter(|(_, it)| !set.wanted.contains(&it.child))
    }

    /// Returns a whole child of an owner, in the API version of `resource`. It is never older than an own write, or than a write of the
    /// instance that was active before.
    pub(super) fn body(&self, child: &ChildName, resource: &Resource, owner: &str) -> KnownBody {
        let watch = self.watch_of(child).filter(|(_, it)| it.is_current());
        let Some((watch, Watch { of, .. })) = watch else {
            return KnownBody::Unknown;
        };
        let Some(seen) = self.child(watch, child, owner) else {
            return if of.complete_in == Some(self.term) { KnownBody::Absent } else { KnownBody::Unknown };
        };
        self.body_of(seen, of, resource).map_or(KnownBody::Unknown, KnownBody::There)
    }

    /// Returns the whole object, if it is certainly not older than an own write.
    fn body_of(&self, seen: &Seen, of: &ChildWatch, resource: &Resource) -> Option<Arc<str>> {
        if seen.term != self.term || of.collection.resource.version != resource.version {
            return None;
        }
        // Versions that are not numbers cannot be ordered.
        let is_told = seen.own.is_empty() && !seen.is_untold;
        let is_sure = is_told || matches!(Version::of(&seen.sight.version), Version::Number(_));
        seen.sight.body.clone().filter(|_| is_sure)
    }

    /// Returns all whole children of an owner in these watches, as [`Self::body`] returns one; `None` if they must be read from the server.
    pub(super) fn bodies(
        &self,
        watches: &[StreamId],
        resource: &Resource,
        owner: &str,
    ) -> Option<Vec<Arc<str>>> {
        let is_complete = |id: &StreamId| {
            let watch = self.watch(*id).filter(|it| it.is_current());
            watch.is_some_and(|it| it.of.complete_in == Some(self.term))
        };
        if watches.is_empty() || !watches.iter().all(is_complete) {
            return None;
        }
        let children = self.of_owner(owner).filter(|(id, ..)| watches.contains(id));
        children.map(|(_, watch, seen)| self.body_of(seen, &watch.of, resource)).collect()
    }

    /// Returns the watches of children of this kind, each with its namespace: all, or only those that cover a namespace.
    pub(super) fn watches_of(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Vec<(StreamId, Option<String>)> {
        let is_meant = |(group, kind, of): &WatchedKind| {
            let covers = namespace.is_none() || of.is_none() || of.as_deref() == namespace;
            *group == resource.group && *kind == resource.kind && covers
        };
        let watches = self.watches.iter().filter(|(of, _)| is_meant(of));
        watches.map(|(of, id)| (*id, of.2.clone())).collect()
    }

    /// Returns the uid and the version of the owner's child of this name, unless the child is being deleted.
    pub(super) fn version_of(&self, child: &ChildName, owner: &str) -> Option<(String, String)> {
        let (watch, _) = self.watch_of(child).filter(|(_, it)| it.is_current())?;
        let sight = &self.child(watch, child, owner)?.sight;
        (!sight.terminating).then(|| (sight.uid.clone(), sight.version.clone()))
    }

    fn child(&self, watch: StreamId, child: &ChildName, owner: &str) -> Option<&Seen> {
        let is_it = |it: &ChildSight| it.name == child.name && it.namespace == child.namespace;
        let mut children = self.of_owner(owner);
        children.find(|(id, _, it)| *id == watch && is_it(&it.sight)).map(|(.., it)| it)
    }

    /// Returns the children of an owner.
    fn of_owner(&self, owner: &str) -> impl Iterator<Item = (StreamId, &Watch<ChildWatch>, &Seen)> {
        let keys = self.by_owner.get(owner).into_iter().flatten();
        keys.filter_map(|key| self.objects.shown(key))
    }
}

impl ChildWatch {
    /// Adds the whole object if handlers read it.
    pub(super) fn sight(&self, sight: ChildSight, found: &Value) -> ChildSight {
        if self.is_read { sight.with_body(found) } else { sight }
    }

    /// Returns the identity of a child of this kind.
    pub(super) fn child(&self, namespace: Option<String>, name: String) -> ChildName {
        let Resource { group, kind, .. } = &*self.collection.resource;
        ChildName { group: group.clone(), kind: kind.clone(), namespace, name }
    }
}

/// Returns the notifications for the owners of a child that is gone.
fn when_gone(seen: Seen) -> impl Iterator<Item = ChildNews> {
    let ChildSight { uid, owners, .. } = seen.sight;
    owners
        .into_iter()
        .map(move |owner| ChildNews { owner, child: ChildVersion { uid: uid.clone(), version: None } })
}

pub(super) fn kind_of(collection: &Collection) -> WatchedKind {
    let Resource { group, kind, .. } = &*collection.resource;
    (group.clone(), kind.clone(), collection.namespace.clone())
}

/// Returns notifications for the former and current owners of a child.
fn both(former: Option<&Seen>, sight: &ChildSight) -> Vec<ChildNews> {
    let former = former.into_iter().flat_map(|seen| &seen.sight.owners);
    let owners: BTreeSet<&String> = former.chain(&sight.owners).collect();
    let news = |owner: &String| ChildNews {
        owner: owner.clone(),
        child: ChildVersion { uid: sight.uid.clone(), version: Some(sight.version.clone()) },
    };
    owners.into_iter().map(news).collect()
}

/// Returns true if one version is older than the other. Versions that are no numbers cannot be ordered.
fn is_older(one: &str, other: &str) -> bool {
    one != other && Version::of(other).covers(&Version::of(one))
}
