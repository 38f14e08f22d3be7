//! Holds the children that watches have reported, for all watched kinds.
//!
//! Must not know who watches, nor what follows from a change.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::object::child::{ChildMarks, ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::Facts;
use crate::object::resource::Resource;
use crate::reaction::owned::{AppliedState, ChildNews, ChildVersion, KnownBody, OwnedObjects};

/// The group, the kind, and the namespace; `None` stands for all namespaces.
type WatchedKind = (String, String, Option<String>);

/// The children that watches have reported.
#[derive(Debug, Default)]
pub(super) struct WatchedChildren(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<WatchedKind, Watch>,
    /// Children with a write in flight. Events of their watch are held until the write is answered, because only the answer shows which
    /// event is the echo of that write.
    writing: HashMap<ChildName, Held>,
    /// Sets of which children may be left over, with the kinds that are not listed yet, by the uid of the owner.
    unlisted: HashMap<String, Vec<(ChildSet, Vec<WatchedKind>)>>,
}

#[derive(Debug)]
struct Watch {
    resource: Arc<Resource>,
    objects: OwnedObjects,
}

#[derive(Debug, Default)]
struct Held {
    writers: usize,
    events: Vec<(EventType, ChildSight)>,
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

impl Watch {
    fn left_over<'a>(&'a self, set: &'a ChildSet) -> impl Iterator<Item = LeftOver> + 'a {
        let children = self.objects.of_set(&set.owner, &set.name);
        let left_over = children.map(|sight| LeftOver {
            resource: self.resource.clone(),
            child: ChildName {
                group: self.resource.group.clone(),
                kind: self.resource.kind.clone(),
                namespace: sight.namespace.clone(),
                name: sight.name.clone(),
            },
            uid: sight.uid.clone(),
            version: sight.version.clone(),
        });
        left_over.filter(|it| !set.wanted.contains(&it.child))
    }
}

impl State {
    /// Returns the owners of sets that waited for this kind and that have left-over children of it.
    fn listed(&mut self, kind: &WatchedKind) -> Vec<String> {
        let waited = self.without_unlisted(kind);
        let Some(watch) = self.kinds.get(kind) else {
            return Vec::new();
        };
        let with_more = waited.into_iter().filter(|set| watch.left_over(set).next().is_some());
        with_more.map(|set| set.owner).collect()
    }

    /// Removes this kind from the sets that wait for it, and returns those sets.
    fn without_unlisted(&mut self, kind: &WatchedKind) -> Vec<ChildSet> {
        let mut waited = Vec::new();
        self.unlisted.retain(|_, sets| {
            sets.retain_mut(|(set, kinds)| {
                let before = kinds.len();
                kinds.retain(|it| it != kind);
                if kinds.len() < before {
                    waited.push(set.clone());
                }
                !kinds.is_empty()
            });
            !sets.is_empty()
        });
        waited
    }

    fn watch(&mut self, child: &ChildName) -> Option<&mut Watch> {
        let mut kind = (child.group.clone(), child.kind.clone(), child.namespace.clone());
        if !self.kinds.contains_key(&kind) {
            kind.2 = None;
        }
        self.kinds.get_mut(&kind)
    }
}

impl WatchedChildren {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a watch that is about to begin.
    pub(super) fn open(&self, of: &Collection, is_read: bool) {
        let watch = Watch { resource: of.resource.clone(), objects: OwnedObjects::new(is_read) };
        self.lock().kinds.insert(kind_of(of), watch);
    }

    /// Forgets a watch that has ended.
    pub(super) fn close(&self, of: &Collection) {
        let kind = kind_of(of);
        let mut state = self.lock();
        state.kinds.remove(&kind);
        state.without_unlisted(&kind);
    }

    /// Processes one event of a watch. Returns the messages for owners, and the uids of owners with left-over children.
    pub(super) fn on_event(
        &self,
        of: &Collection,
        event: &WatchEvent,
        marks: &ChildMarks,
    ) -> (Vec<ChildNews>, Vec<String>) {
        let kind = kind_of(of);
        let mut state = self.lock();
        let State { kinds, writing, .. } = &mut *state;
        let Some(Watch { objects, .. }) = kinds.get_mut(&kind) else {
            return (Vec::new(), Vec::new());
        };
        let (mut news, mut with_more) = (Vec::new(), Vec::new());
        match event {
            WatchEvent::Listing(requested) => objects.listing(requested.into_std()),
            WatchEvent::Object(event, raw) => {
                let Ok(found) = serde_json::from_str::<Value>(raw.text()) else {
                    return (news, with_more);
                };
                let sight = with_body(ChildSight::of(&found, marks), &found, objects);
                match writing.get_mut(&name_of(of, raw.facts())) {
                    Some(held) => held.events.push((*event, sight)),
                    None => news = objects.seen(*event, sight),
                }
            }
            WatchEvent::Synced(listed) => {
                objects.trouble(false);
                news = objects.synced(listed);
                // Held states of a child that the listing lacks are older than the listing.
                let is_there = |sight: &ChildSight| listed.contains(&Key::of_uid(&sight.uid));
                let of_kind = writing.iter_mut().filter(|(child, _)| is_of(child, &kind));
                for (_, held) in of_kind {
                    held.events.retain(|(event, sight)| *event == EventType::Deleted || is_there(sight));
                }
                with_more = state.listed(&kind);
            }
            WatchEvent::Trouble(_) => objects.trouble(true),
            WatchEvent::Resumed => {
                objects.trouble(false);
                if objects.is_current() {
                    with_more = state.listed(&kind);
                }
            }
            WatchEvent::Bookmark | WatchEvent::Silent => {}
        }
        (news, with_more)
    }

    /// Returns whether the watch shows the child with this uid as it was applied.
    pub(super) fn shows(&self, of: &Collection, uid: &str, applied: &AppliedState) -> bool {
        let watched = self.lock();
        let watch = watched.kinds.get(&kind_of(of));
        watch.is_some_and(|it| it.objects.is_intact(uid, applied))
    }

    /// Begins a term: the operator leads after another instance did.
    pub(super) fn begin_term(&self) {
        for watch in self.lock().kinds.values_mut() {
            watch.objects.begin_term();
        }
    }

    /// Notes that a write of the child is about to be sent.
    pub(super) fn begin(&self, child: &ChildName) {
        let mut state = self.lock();
        state.writing.entry(child.clone()).or_default().writers += 1;
    }

    /// Notes that the write has ended. Returns the messages for owners from the events that were held meanwhile.
    pub(super) fn end(&self, child: &ChildName) -> Vec<ChildNews> {
        let mut state = self.lock();
        let Some(held) = state.writing.get_mut(child) else {
            return Vec::new();
        };
        held.writers -= 1;
        if held.writers > 0 {
            return Vec::new();
        }
        let held = state.writing.remove(child).unwrap_or_default();
        let Some(watch) = state.watch(child) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        for (event, sight) in held.events {
            woken.extend(watch.objects.seen(event, sight));
        }
        woken
    }

    /// Processes the answer to a write. Returns the owners that may read indices which do not have the change yet.
    pub(super) fn replied(
        &self,
        child: &ChildName,
        (sight, found): (ChildSight, &Value),
        changed: bool,
        now: Instant,
    ) -> Vec<ChildNews> {
        let mut state = self.lock();
        let Some(watch) = state.watch(child) else {
            return Vec::new();
        };
        let sight = with_body(sight, found, &watch.objects);
        watch.objects.replied(sight, changed, now.into_std())
    }

    /// Notes that the child with this uid is deleted, or is no child any more. Returns the owners that may read indices which still have it.
    pub(super) fn let_go(&self, child: &ChildName, uid: &str) -> Vec<ChildNews> {
        let mut state = self.lock();
        let watch = state.watch(child);
        watch.map(|it| it.objects.let_go(uid)).unwrap_or_default()
    }

    /// Returns the version of the child with this uid as its watch shows it.
    pub(super) fn version(&self, of: &Collection, uid: String) -> ChildVersion {
        let state = self.lock();
        let watch = state.kinds.get(&kind_of(of));
        let sight = watch.and_then(|it| it.objects.get(&uid));
        let version = sight.map(|it| it.version.clone());
        ChildVersion { uid, version }
    }

    /// Returns what the watch reports about the child with this uid, which was applied in this state.
    pub(super) fn known(&self, child: &ChildName, uid: &str, applied: Option<&AppliedState>) -> Known {
        let mut watched = self.lock();
        let Some(watch) = watched.watch(child) else {
            return Known::Nothing;
        };
        if !watch.objects.is_current() {
            return Known::Nothing;
        }
        match watch.objects.get(uid) {
            None => Known::Absent,
            Some(sight) if sight.terminating => Known::Terminating,
            Some(_) => Known::There { is_intact: applied.is_some_and(|it| watch.objects.is_intact(uid, it)) },
        }
    }

    /// Returns the uid and the version of the owner's child of this name, unless the child is being deleted.
    pub(super) fn version_of(&self, child: &ChildName, owner: &str) -> Option<(String, String)> {
        let mut state = self.lock();
        let objects = &state.watch(child)?.objects;
        let namespace = child.namespace.as_deref();
        let sight = objects.named(owner, namespace, &child.name)?;
        let is_sure = objects.is_current() && !sight.terminating;
        is_sure.then(|| (sight.uid.clone(), sight.version.clone()))
    }

    /// Takes the `managedFields` of a child that differs from its last apply.
    pub(super) fn take_managers(&self, child: &ChildName, uid: &str) -> Option<Value> {
        let mut state = self.lock();
        state.watch(child)?.objects.take_managers(uid)
    }

    /// Returns a whole child of an owner, in the API version of `resource`.
    pub(super) fn body(&self, child: &ChildName, resource: &Resource, owner: &str) -> KnownBody {
        let mut state = self.lock();
        let Some(watch) = state.watch(child) else {
            return KnownBody::Unknown;
        };
        let namespace = child.namespace.as_deref();
        match watch.objects.body(owner, namespace, &child.name) {
            KnownBody::There(_) if watch.resource.version != resource.version => KnownBody::Unknown,
            known => known,
        }
    }

    /// Forgets an owner that is gone or that no handler serves any more.
    pub(super) fn forget_owner(&self, owner: &str) {
        self.lock().unlisted.remove(owner);
    }

    /// Returns the children that the set no longer contains. Kinds whose listing is not complete are examined after it is; then the owner is
    /// woken.
    pub(super) fn left_over(&self, set: &ChildSet) -> Vec<LeftOver> {
        let mut state = self.lock();
        let State { kinds, unlisted, .. } = &mut *state;
        let mut left_over = Vec::new();
        let mut not_listed = Vec::new();
        for (kind, watch) in kinds {
            if watch.objects.is_current() {
                left_over.extend(watch.left_over(set));
            } else {
                not_listed.push(kind.clone());
            }
        }
        if let Some(sets) = unlisted.get_mut(&set.owner) {
            sets.retain(|(it, _)| it.name != set.name);
        }
        if !not_listed.is_empty() {
            let sets = unlisted.entry(set.owner.clone()).or_default();
            sets.push((set.clone(), not_listed));
        }
        left_over.sort_by(|one, other| one.child.cmp(&other.child));
        left_over
    }
}

/// Adds the whole object if handlers read it.
fn with_body(sight: ChildSight, found: &Value, of: &OwnedObjects) -> ChildSight {
    if of.is_read() { sight.with_body(found) } else { sight }
}

fn name_of(of: &Collection, facts: &Facts) -> ChildName {
    ChildName {
        group: of.resource.group.clone(),
        kind: of.resource.kind.clone(),
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
    }
}

/// Returns whether the watch of this kind shows the child.
fn is_of(child: &ChildName, (group, kind, namespace): &WatchedKind) -> bool {
    let is_same = child.group == *group && child.kind == *kind;
    is_same && (namespace.is_none() || child.namespace == *namespace)
}

fn kind_of(collection: &Collection) -> WatchedKind {
    let resource = &collection.resource;
    (resource.group.clone(), resource.kind.clone(), collection.namespace.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::raw::Raw;

    fn marks() -> ChildMarks {
        ChildMarks { manager: "op.kopf.rs".to_owned() }
    }

    fn config_maps() -> Collection {
        Collection {
            resource: Arc::new(Resource { kind: "ConfigMap".to_owned(), ..Resource::default() }),
            namespace: None,
        }
    }

    fn child() -> ChildName {
        ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("ns".to_owned()),
            name: "c".to_owned(),
        }
    }

    fn metadata(uid: &str) -> Value {
        json!({"metadata": {"uid": uid, "name": "c", "namespace": "ns", "resourceVersion": "7", "ownerReferences": [{"uid": "o"}]}})
    }

    fn object(event: EventType, uid: &str) -> WatchEvent {
        let raw = Raw::parse_whole(&metadata(uid).to_string()).unwrap();
        WatchEvent::Object(event, raw)
    }

    fn synced(listed: &[&str]) -> WatchEvent {
        WatchEvent::Synced(listed.iter().map(|uid| Key::of_uid(uid)).collect())
    }

    /// Each set that waits costs time whenever a kind is listed.
    #[test]
    fn no_set_of_an_owner_that_is_gone_waits_for_its_children() {
        let (marks, of) = (marks(), config_maps());
        let metadata = json!({
            "uid": "c", "name": "c", "namespace": "ns", "resourceVersion": "7",
            "ownerReferences": [{"uid": "o", "controller": true}],
            "annotations": {"op.kopf.rs/set": "s"},
            "managedFields": [{"manager": "op.kopf.rs", "operation": "Apply"}],
        });
        let child = Raw::parse_whole(&json!({"metadata": metadata}).to_string()).unwrap();
        for is_gone in [false, true] {
            let watched = WatchedChildren::default();
            watched.open(&of, false);
            let set = ChildSet { owner: "o".to_owned(), name: "s".to_owned(), wanted: BTreeSet::new() };
            assert!(watched.left_over(&set).is_empty());
            if is_gone {
                watched.forget_owner("o");
            }
            assert_eq!(watched.lock().unlisted.is_empty(), is_gone);
            let listing = WatchEvent::Listing(Instant::now());
            watched.on_event(&of, &listing, &marks);
            let added = WatchEvent::Object(EventType::Added, child.clone());
            watched.on_event(&of, &added, &marks);
            let (_, with_more) = watched.on_event(&of, &synced(&["c"]), &marks);
            let expected: &[&str] = if is_gone { &[] } else { &["o"] };
            assert_eq!(with_more, expected);
        }
    }

    #[test]
    fn a_child_that_is_listed_while_it_is_written_is_not_gone() {
        let (marks, of) = (marks(), config_maps());
        let watched = WatchedChildren::default();
        let tell = |event: &WatchEvent| watched.on_event(&of, event, &marks).0;
        watched.open(&of, false);
        for is_written in [false, true] {
            if is_written {
                watched.begin(&child());
            }
            tell(&WatchEvent::Listing(Instant::now()));
            assert!(tell(&object(EventType::Listed, "own")).is_empty());
            assert!(tell(&synced(&["own"])).is_empty());
            let known = watched.known(&child(), "own", None);
            assert_eq!(known, Known::There { is_intact: false });
        }
        assert!(watched.end(&child()).is_empty());
    }

    #[test]
    fn a_held_state_of_a_child_that_is_gone_by_the_next_listing_does_not_count() {
        let (marks, of) = (marks(), config_maps());
        for listed in [&[][..], &["own"]] {
            let watched = WatchedChildren::default();
            let tell = |event: &WatchEvent| watched.on_event(&of, event, &marks).0;
            watched.open(&of, false);
            tell(&WatchEvent::Listing(Instant::now()));
            tell(&synced(&[]));
            watched.begin(&child());
            tell(&object(EventType::Added, "own"));
            tell(&WatchEvent::Listing(Instant::now()));
            tell(&synced(listed));
            watched.end(&child());
            let expected = if listed.is_empty() { Known::Absent } else { Known::There { is_intact: false } };
            assert_eq!(watched.known(&child(), "own", None), expected);
        }
    }

    #[test]
    fn what_is_told_of_a_child_under_way_waits_for_the_answer() {
        let (marks, of) = (marks(), config_maps());
        let watched = WatchedChildren::default();
        let tell = |event: &WatchEvent| watched.on_event(&of, event, &marks).0;
        watched.open(&of, false);
        tell(&WatchEvent::Listing(Instant::now()));
        tell(&synced(&[]));
        let child = child();
        let added = |uid| object(EventType::Added, uid);
        watched.begin(&child);
        assert!(tell(&added("own")).is_empty());
        let sight = ChildSight::of(&metadata("own"), &marks);
        let (state, version) = (sight.state.clone(), sight.version.clone());
        let state = Some(&AppliedState { state, version });
        watched.replied(&child, (sight, &metadata("own")), true, Instant::now());
        assert!(watched.end(&child).is_empty());
        let intact = Known::There { is_intact: true };
        assert_eq!(watched.known(&child, "own", state), intact);
        assert_eq!(watched.known(&child, "none", state), Known::Absent);
        watched.begin(&child);
        assert!(tell(&added("other")).is_empty());
        let told = watched.end(&child);
        assert_eq!(told.first().map(|it| &*it.owner), Some("o"));
        watched.close(&of);
        assert_eq!(watched.known(&child, "own", state), Known::Nothing);
    }
}
