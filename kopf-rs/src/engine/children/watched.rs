//! Holds the children that watches have reported, for all watched kinds.
//!
//! Must not know who watches, nor what follows from a change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::children::child_table::{ChildNews, ChildSet, ChildTable, LeftOver, WatchedKind, kind_of};
use crate::engine::object_table::StreamId;
use crate::object::child::{ChildMarks, ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::Key;

/// The children that watches have reported.
#[derive(Default)]
pub(super) struct WatchedChildren {
    pub(super) table: ChildTable,
    /// Children with a write in flight. Events of their watch are held until the write is answered, because only the answer shows which
    /// event is the echo of that write.
    writing: HashMap<ChildName, Held>,
    /// Sets of which children may be left over, with the kinds that are not listed yet, by the uid of the owner.
    unlisted: HashMap<String, Vec<(ChildSet, Vec<WatchedKind>)>>,
}

/// The same for all tasks.
pub(super) type SharedChildren = Mutex<WatchedChildren>;

#[derive(Debug, Default)]
struct Held {
    writers: usize,
    events: Vec<(EventType, ChildSight)>,
}

impl WatchedChildren {
    /// Returns the owners of sets that waited for this watch and that have left-over children of it.
    fn listed(&mut self, watch: StreamId, kind: &WatchedKind) -> Vec<String> {
        let waited = self.without_unlisted(kind).into_iter();
        let with_more = waited.filter(|set| self.table.left_over(set).any(|(id, _)| id == watch));
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

    /// Registers a watch that is about to begin. It takes over the children of the watch that it replaces.
    pub(super) fn open(
        &mut self,
        watch: StreamId,
        of: Arc<Collection>,
        is_read: bool,
        replaces: Option<StreamId>,
    ) {
        let former = replaces.and_then(|it| Some(kind_of(&self.table.watch(it)?.of.collection)));
        if let Some(former) = former.filter(|it| *it != kind_of(&of)) {
            self.without_unlisted(&former);
        }
        self.table.open(watch, of, is_read, replaces);
    }

    /// Forgets a watch that has ended.
    pub(super) fn close(&mut self, watch: StreamId) {
        if let Some(kind) = self.table.close(watch) {
            self.without_unlisted(&kind);
        }
    }

    /// Processes one event of a watch. Returns the messages for owners, and the uids of owners with left-over children; `None` if the watch is
    /// not open.
    pub(super) fn on_event(
        &mut self,
        watch: StreamId,
        event: &WatchEvent,
        marks: &ChildMarks,
    ) -> Option<(Vec<ChildNews>, Vec<String>)> {
        let Self { table, writing, .. } = self;
        let mut news = table.on_event(watch, event, Instant::now())?;
        let found = table.watch(watch)?;
        let (of, is_current) = (&found.of, found.is_current());
        let kind = kind_of(&of.collection);
        match event {
            WatchEvent::Object(event, raw) => {
                let shown = serde_json::from_str::<Value>(raw.text()).ok()?;
                let facts = raw.facts();
                let child = of.child(facts.namespace.clone(), facts.name.clone());
                let sight = of.sight(ChildSight::of(&shown, marks), &shown);
                match writing.get_mut(&child) {
                    Some(held) => held.events.push((*event, sight)),
                    None => news = table.seen(watch, *event, sight),
                }
            }
            WatchEvent::Synced(listed) => {
                // Held states of a child that the listing lacks are older than the listing.
                let is_there = |sight: &ChildSight| listed.contains(&Key::of_uid(&sight.uid));
                let of_watch = writing.iter_mut();
                let of_watch =
                    of_watch.filter(|(child, _)| table.watch_of(child).is_some_and(|it| it.0 == watch));
                for (_, held) in of_watch {
                    held.events.retain(|(event, sight)| *event == EventType::Deleted || is_there(sight));
                }
            }
            _ => {}
        }
        let is_again = is_current && matches!(event, WatchEvent::Synced(_) | WatchEvent::Resumed);
        let with_more = if is_again { self.listed(watch, &kind) } else { Vec::new() };
        Some((news, with_more))
    }

    /// Notes that a write of the child is about to be sent.
    pub(super) fn begin(&mut self, child: &ChildName) {
        self.writing.entry(child.clone()).or_default().writers += 1;
    }

    /// Notes that the write has ended. Returns the messages for owners from the events that were held meanwhile.
    pub(super) fn end(&mut self, child: &ChildName) -> Vec<ChildNews> {
        let Some(held) = self.writing.get_mut(child) else {
            return Vec::new();
        };
        held.writers -= 1;
        if held.writers > 0 {
            return Vec::new();
        }
        let held = self.writing.remove(child).unwrap_or_default();
        let mut woken = Vec::new();
        if let Some((watch, _)) = self.table.watch_of(child) {
            for (event, sight) in held.events {
                woken.extend(self.table.seen(watch, event, sight));
            }
        }
        woken
    }

    /// Forgets an owner that is gone or that no handler serves any more.
    pub(super) fn forget_owner(&mut self, owner: &str) {
        self.unlisted.remove(owner);
    }

    /// Returns the children that the set no longer contains. Kinds whose listing is not complete are examined after it is; then the owner is
    /// woken.
    pub(super) fn left_over(&mut self, set: &ChildSet) -> Vec<LeftOver> {
        let mut left_over: Vec<LeftOver> = self.table.left_over(set).map(|(_, it)| it).collect();
        let not_listed = self.table.watches().filter(|(_, it)| !it.is_current());
        let not_listed: Vec<WatchedKind> = not_listed.map(|(_, it)| kind_of(&it.of.collection)).collect();
        if let Some(sets) = self.unlisted.get_mut(&set.owner) {
            sets.retain(|(it, _)| it.name != set.name);
        }
        if !not_listed.is_empty() {
            let sets = self.unlisted.entry(set.owner.clone()).or_default();
            sets.push((set.clone(), not_listed));
        }
        left_over.sort_by(|one, other| one.child.cmp(&other.child));
        left_over
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::engine::children::child_table::{AppliedState, Known};
    use crate::object::raw::Raw;
    use crate::object::resource::Resource;

    impl WatchedChildren {
        fn told(&mut self, event: &WatchEvent) -> Vec<ChildNews> {
            self.on_event(1, event, &marks()).unwrap().0
        }
    }

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
            let mut watched = WatchedChildren::default();
            watched.open(1, of.clone(), false, None);
            let set = ChildSet { owner: "o".to_owned(), name: "s".to_owned(), wanted: BTreeSet::new() };
            assert!(watched.left_over(&set).is_empty());
            if is_gone {
                watched.forget_owner("o");
            }
            assert_eq!(watched.unlisted.is_empty(), is_gone);
            let listing = WatchEvent::Listing(Instant::now());
            watched.on_event(1, &listing, &marks);
            let added = WatchEvent::Object(EventType::Added, child.clone());
            watched.on_event(1, &added, &marks);
            let (_, with_more) = watched.on_event(1, &synced(&["c"]), &marks).unwrap();
            let expected: &[&str] = if is_gone { &[] } else { &["o"] };
            assert_eq!(with_more, expected);
        }
    }

    #[test]
    fn a_child_that_is_listed_while_it_is_written_is_not_gone() {
        let of = config_maps();
        let mut watched = WatchedChildren::default();
        watched.open(1, of.clone(), false, None);
        for is_written in [false, true] {
            if is_written {
                watched.begin(&child());
            }
            watched.told(&WatchEvent::Listing(Instant::now()));
            assert!(watched.told(&object(EventType::Listed, "own")).is_empty());
            assert!(watched.told(&synced(&["own"])).is_empty());
            let known = watched.table.known(&child(), "own", None);
            assert_eq!(known, Known::There { is_intact: false });
        }
        assert!(watched.end(&child()).is_empty());
    }

    #[test]
    fn a_held_state_of_a_child_that_is_gone_by_the_next_listing_does_not_count() {
        let of = config_maps();
        for listed in [&[][..], &["own"]] {
            let mut watched = WatchedChildren::default();
            watched.open(1, of.clone(), false, None);
            watched.told(&WatchEvent::Listing(Instant::now()));
            watched.told(&synced(&[]));
            watched.begin(&child());
            watched.told(&object(EventType::Added, "own"));
            watched.told(&WatchEvent::Listing(Instant::now()));
            watched.told(&synced(listed));
            watched.end(&child());
            let expected = if listed.is_empty() { Known::Absent } else { Known::There { is_intact: false } };
            assert_eq!(watched.table.known(&child(), "own", None), expected);
        }
    }

    #[test]
    fn what_is_told_of_a_child_under_way_waits_for_the_answer() {
        let (marks, of) = (marks(), config_maps());
        let mut watched = WatchedChildren::default();
        watched.open(1, of.clone(), false, None);
        watched.told(&WatchEvent::Listing(Instant::now()));
        watched.told(&synced(&[]));
        let child = child();
        let added = |uid| object(EventType::Added, uid);
        watched.begin(&child);
        assert!(watched.told(&added("own")).is_empty());
        let sight = ChildSight::of(&metadata("own"), &marks);
        let (state, version) = (sight.state.clone(), sight.version.clone());
        let state = Some(&AppliedState { state, version });
        watched.table.replied(&child, (sight, &metadata("own")), true, Instant::now());
        assert!(watched.end(&child).is_empty());
        let intact = Known::There { is_intact: true };
        assert_eq!(watched.table.known(&child, "own", state), intact);
        assert_eq!(watched.table.known(&child, "none", state), Known::Absent);
        watched.begin(&child);
        assert!(watched.told(&added("other")).is_empty());
        let told = watched.end(&child);
        assert_eq!(told.first().map(|it| &*it.owner), Some("o"));
        watched.close(1);
        assert_eq!(watched.table.known(&child, "own", state), Known::Nothing);
    }
}
