//! Holds the children that watches have reported, for all watched kinds.
//!
//! Must not know who watches, nor what follows from a change.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::children::child_table::{AppliedState, ChildNews, ChildTable, ChildVersion, KnownBody};
use crate::engine::object_table::StreamId;
use crate::object::child::{ChildMarks, ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::resource::Resource;

/// The group, the kind, and the namespace; `None` stands for all namespaces.
type WatchedKind = (String, String, Option<String>);

/// The children that watches have reported.
#[derive(Default)]
pub(super) struct WatchedChildren(Mutex<State>);

#[derive(Default)]
struct State {
    children: ChildTable,
    watches: HashMap<WatchedKind, StreamId>,
    /// Children with a write in flight. Events of their watch are held until the write is answered, because only the answer shows which
    /// event is the echo of that write.
    writing: HashMap<ChildName, Held>,
    /// Sets of which children may be left over, with the kinds that are not listed yet, by the uid of the owner.
    unlisted: HashMap<String, Vec<(ChildSet, Vec<WatchedKind>)>>,
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

impl State {
    /// Returns the children of this watch that their set no longer contains.
    fn left_over<'a>(&'a self, watch: StreamId, set: &'a ChildSet) -> impl Iterator<Item = LeftOver> + 'a {
        let of = self.children.watch(watch).into_iter();
        let left_over = of.flat_map(move |of| {
            let resource = &of.collection.resource;
            let children = self.children.of_set(watch, &set.owner, &set.name);
            children.map(|sight| LeftOver {
                resource: resource.clone(),
                child: name_of(resource, sight.namespace.clone(), sight.name.clone()),
                uid: sight.uid.clone(),
                version: sight.version.clone(),
            })
        });
        left_over.filter(|it| !set.wanted.contains(&it.child))
    }

    /// Returns the owners of sets that waited for this watch and that have left-over children of it.
    fn listed(&mut self, watch: StreamId, kind: &WatchedKind) -> Vec<String> {
        let waited = self.without_unlisted(kind).into_iter();
        let with_more = waited.filter(|set| self.left_over(watch, set).next().is_some());
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

    /// Returns the watch that shows the child.
    fn watch(&self, child: &ChildName) -> Option<StreamId> {
        watch_of(&self.watches, child)
    }
}

impl WatchedChildren {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a watch that is about to begin. It takes over the children of the watch that it replaces.
    pub(super) fn open(
        &self,
        watch: StreamId,
        of: Arc<Collection>,
        is_read: bool,
        replaces: Option<StreamId>,
    ) {
        let mut state = self.lock();
        state.watches.insert(kind_of(&of), watch);
        state.children.open(watch, of, is_read, replaces);
    }

    /// Forgets a watch that has ended.
    pub(super) fn close(&self, watch: StreamId) {
        let mut state = self.lock();
        let Some(kind) = state.children.watch(watch).map(|it| kind_of(&it.collection)) else {
            return;
        };
        state.children.close(watch);
        state.watches.remove(&kind);
        state.without_unlisted(&kind);
    }

    /// Processes one event of a watch. Returns the messages for owners, and the uids of owners with left-over children.
    pub(super) fn on_event(
        &self,
        watch: StreamId,
        event: &WatchEvent,
        marks: &ChildMarks,
    ) -> (Vec<ChildNews>, Vec<String>) {
        let mut state = self.lock();
        let State { children, watches, writing, .. } = &mut *state;
        let news = children.on_event(watch, event, Instant::now());
        let Some((mut news, of)) = news.zip(children.watch(watch)) else {
            return (Vec::new(), Vec::new());
        };
        let kind = kind_of(&of.collection);
        match event {
            WatchEvent::Object(event, raw) => {
                let Ok(found) = serde_json::from_str::<Value>(raw.text()) else {
                    return (news, Vec::new());
                };
                let facts = raw.facts();
                let child = name_of(&of.collection.resource, facts.namespace.clone(), facts.name.clone());
                let sight = of.sight(ChildSight::of(&found, marks), &found);
                match writing.get_mut(&child) {
                    Some(held) => held.events.push((*event, sight)),
                    None => news = children.seen(watch, *event, sight),
                }
            }
            WatchEvent::Synced(listed) => {
                // Held states of a child that the listing lacks are older than the listing.
                let is_there = |sight: &ChildSight| listed.contains(&Key::of_uid(&sight.uid));
                let of_watch = writing.iter_mut();
                let of_watch = of_watch.filter(|(child, _)| watch_of(watches, child) == Some(watch));
                for (_, held) in of_watch {
                    held.events.retain(|(event, sight)| *event == EventType::Deleted || is_there(sight));
                }
            }
            _ => {}
        }
        let is_current_again = matches!(event, WatchEvent::Synced(_) | WatchEvent::Resumed);
        let is_current_again = is_current_again && children.is_current(watch);
        let with_more = if is_current_again { state.listed(watch, &kind) } else { Vec::new() };
        (news, with_more)
    }

    /// Returns whether the watch shows the child with this uid as it was applied.
    pub(super) fn shows(&self, uid: &str, applied: &AppliedState) -> bool {
        self.lock().children.is_intact(uid, applied)
    }

    /// Begins a term: the operator leads after another instance did.
    pub(super) fn begin_term(&self) {
        self.lock().children.begin_term();
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
        let mut woken = Vec::new();
        if let Some(watch) = state.watch(child) {
            for (event, sight) in held.events {
                woken.extend(state.children.seen(watch, event, sight));
            }
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
        let watch = state.watch(child);
        let Some((watch, of)) = watch.and_then(|it| Some((it, state.children.watch(it)?))) else {
            return Vec::new();
        };
        let sight = of.sight(sight, found);
        state.children.replied(watch, sight, changed, now)
    }

    /// Notes that the child with this uid is deleted, or is no child any more. Returns the owners that may read indices which still have it.
    pub(super) fn let_go(&self, child: &ChildName, uid: &str) -> Vec<ChildNews> {
        let mut state = self.lock();
        let watch = state.watch(child);
        watch.map(|it| state.children.let_go(it, uid)).unwrap_or_default()
    }

    /// Returns the version of the child with this uid as its watch shows it.
    pub(super) fn version(&self, uid: String) -> ChildVersion {
        let state = self.lock();
        let version = state.children.get(&uid).map(|it| it.version.clone());
        ChildVersion { uid, version }
    }

    /// Returns what the watch reports about the child with this uid, which was applied in this state.
    pub(super) fn known(&self, child: &ChildName, uid: &str, applied: Option<&AppliedState>) -> Known {
        let state = self.lock();
        let children = &state.children;
        if !state.watch(child).is_some_and(|it| children.is_current(it)) {
            return Known::Nothing;
        }
        match children.get(uid) {
            None => Known::Absent,
            Some(sight) if sight.terminating => Known::Terminating,
            Some(_) => Known::There { is_intact: applied.is_some_and(|it| children.is_intact(uid, it)) },
        }
    }

    /// Returns the uid and the version of the owner's child of this name, unless the child is being deleted.
    pub(super) fn version_of(&self, child: &ChildName, owner: &str) -> Option<(String, String)> {
        let state = self.lock();
        let watch = state.watch(child)?;
        let sight = state.children.named(watch, owner, child.namespace.as_deref(), &child.name)?;
        let is_sure = state.children.is_current(watch) && !sight.terminating;
        is_sure.then(|| (sight.uid.clone(), sight.version.clone()))
    }

    /// Takes the `managedFields` of a child that differs from its last apply.
    pub(super) fn take_managers(&self, uid: &str) -> Option<Value> {
        self.lock().children.take_managers(uid)
    }

    /// Returns a whole child of an owner, in the API version of `resource`.
    pub(super) fn body(&self, child: &ChildName, resource: &Resource, owner: &str) -> KnownBody {
        let state = self.lock();
        let watch = state.watch(child);
        let Some((watch, of)) = watch.and_then(|it| Some((it, state.children.watch(it)?))) else {
            return KnownBody::Unknown;
        };
        match state.children.body(watch, owner, child.namespace.as_deref(), &child.name) {
            KnownBody::There(_) if of.collection.resource.version != resource.version => KnownBody::Unknown,
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
        let mut left_over = Vec::new();
        let mut not_listed = Vec::new();
        for (kind, watch) in &state.watches {
            if state.children.is_current(*watch) {
                left_over.extend(state.left_over(*watch, set));
            } else {
                not_listed.push(kind.clone());
            }
        }
        if let Some(sets) = state.unlisted.get_mut(&set.owner) {
            sets.retain(|(it, _)| it.name != set.name);
        }
        if !not_listed.is_empty() {
            let sets = state.unlisted.entry(set.owner.clone()).or_default();
            sets.push((set.clone(), not_listed));
        }
        left_over.sort_by(|one, other| one.child.cmp(&other.child));
        left_over
    }
}

fn name_of(of: &Resource, namespace: Option<String>, name: String) -> ChildName {
    ChildName { group: of.group.clone(), kind: of.kind.clone(), namespace, name }
}

/// Returns the watch that shows the child: of its namespace, or else of all.
fn watch_of(watches: &HashMap<WatchedKind, StreamId>, child: &ChildName) -> Option<StreamId> {
    let mut kind = (child.group.clone(), child.kind.clone(), child.namespace.clone());
    if !watches.contains_key(&kind) {
        kind.2 = None;
    }
    watches.get(&kind).copied()
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

    fn config_maps() -> Arc<Collection> {
        let resource = Resource { kind: "ConfigMap".to_owned(), ..Resource::default() };
        Arc::new(Collection { resource: Arc::new(resource), namespace: None })
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
            watched.open(1, of.clone(), false, None);
            let set = ChildSet { owner: "o".to_owned(), name: "s".to_owned(), wanted: BTreeSet::new() };
            assert!(watched.left_over(&set).is_empty());
            if is_gone {
                watched.forget_owner("o");
            }
            assert_eq!(watched.lock().unlisted.is_empty(), is_gone);
            let listing = WatchEvent::Listing(Instant::now());
            watched.on_event(1, &listing, &marks);
            let added = WatchEvent::Object(EventType::Added, child.clone());
            watched.on_event(1, &added, &marks);
            let (_, with_more) = watched.on_event(1, &synced(&["c"]), &marks);
            let expected: &[&str] = if is_gone { &[] } else { &["o"] };
            assert_eq!(with_more, expected);
        }
    }

    #[test]
    fn a_child_that_is_listed_while_it_is_written_is_not_gone() {
        let (marks, of) = (marks(), config_maps());
        let watched = WatchedChildren::default();
        let tell = |event: &WatchEvent| watched.on_event(1, event, &marks).0;
        watched.open(1, of.clone(), false, None);
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
            let tell = |event: &WatchEvent| watched.on_event(1, event, &marks).0;
            watched.open(1, of.clone(), false, None);
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
        let tell = |event: &WatchEvent| watched.on_event(1, event, &marks).0;
        watched.open(1, of.clone(), false, None);
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
        watched.close(1);
        assert_eq!(watched.known(&child, "own", state), Known::Nothing);
    }
}
