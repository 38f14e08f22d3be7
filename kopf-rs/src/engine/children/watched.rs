//! The children of all kinds that are watched.
//!
//! Must not know who watches, nor what follows from a change.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cluster::watch::WatchEvent;
use crate::object::child::{ChildMarks, ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::raw::Facts;
use crate::object::resource::Resource;
use crate::reaction::owned::{KnownBody, OwnedObjects};

/// Group, kind, and the namespace, or all.
type WatchedKind = (String, String, Option<String>);

/// What is known of children by watches.
#[derive(Debug, Default)]
pub(super) struct WatchedChildren(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<WatchedKind, Watch>,
    /// Children with a write under way. Events of their watch are kept until the write is answered: the answer tells which event is the
    /// echo of that write.
    writing: HashMap<ChildName, Held>,
    /// Sets of which some children may be left over, of kinds that are not listed yet.
    unlisted: Vec<(WatchedKind, ChildSet)>,
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

/// What the watch of a child's kind says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its kind is not watched, or not for now.
    Nothing,
    /// Nothing with this uid and the label is there.
    Absent,
    Terminating,
    /// It is as it was after the last apply, or not.
    There {
        is_intact: bool,
    },
}

/// All children that a handler wants of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChildSet {
    /// Its uid.
    pub(super) owner: String,
    /// The name of the set.
    pub(super) name: String,
    pub(super) wanted: BTreeSet<ChildName>,
}

/// A child that its set has no more.
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
    /// The owners of sets that have waited for the children of this kind, and of which some are left over.
    fn listed(&mut self, kind: &WatchedKind) -> Vec<String> {
        let Some(watch) = self.kinds.get(kind) else {
            return Vec::new();
        };
        let mut owners = Vec::new();
        self.unlisted.retain(|(of, set)| {
            if of == kind && watch.left_over(set).next().is_some() {
                owners.push(set.owner.clone());
            }
            of != kind
        });
        owners
    }

    fn watch(&mut self, child: &ChildName) -> Option<&mut Watch> {
        let mut kind = (
            child.group.clone(),
            child.kind.clone(),
            child.namespace.clone(),
        );
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

    /// A watch is about to begin.
    pub(super) fn open(&self, of: &Collection, is_read: bool) {
        let watch = Watch {
            resource: of.resource.clone(),
            objects: OwnedObjects::new(is_read),
        };
        self.lock().kinds.insert(kind_of(of), watch);
    }

    /// A watch is ended.
    pub(super) fn close(&self, of: &Collection) {
        let kind = kind_of(of);
        let mut state = self.lock();
        state.kinds.remove(&kind);
        state.unlisted.retain(|(of, _)| *of != kind);
    }

    /// What a watch tells: the uids of the owners that it concerns.
    pub(super) fn on_event(
        &self,
        of: &Collection,
        event: &WatchEvent,
        marks: &ChildMarks,
    ) -> Vec<String> {
        let kind = kind_of(of);
        let mut state = self.lock();
        let State { kinds, writing, .. } = &mut *state;
        let Some(Watch { objects, .. }) = kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        match event {
            WatchEvent::Listing(_) => objects.listing(),
            WatchEvent::Object(event, raw) => {
                let Ok(found) = serde_json::from_str::<Value>(raw.text()) else {
                    return Vec::new();
                };
                let sight = sight(&found, marks, objects);
                match writing.get_mut(&name_of(of, raw.facts())) {
                    Some(held) => held.events.push((*event, sight)),
                    None => return objects.seen(*event, sight),
                }
            }
            WatchEvent::Synced => {
                objects.trouble(false);
                woken = objects.synced();
                woken.extend(state.listed(&kind));
            }
            WatchEvent::Trouble(_) => objects.trouble(true),
            WatchEvent::Resumed => {
                objects.trouble(false);
                if objects.is_current() {
                    woken = state.listed(&kind);
                }
            }
            WatchEvent::Bookmark | WatchEvent::Silent => {}
        }
        woken
    }

    /// Whether a watch shows the child with this uid in this state.
    pub(super) fn shows(&self, of: &Collection, uid: &str, state: &str) -> bool {
        let watched = self.lock();
        let watch = watched.kinds.get(&kind_of(of));
        let sight = watch.and_then(|it| it.objects.get(uid));
        sight.is_some_and(|it| it.state == state)
    }

    /// A write of the child is about to be sent.
    pub(super) fn begin(&self, child: &ChildName) {
        let mut state = self.lock();
        state.writing.entry(child.clone()).or_default().writers += 1;
    }

    /// It has ended: the uids of the owners that something concerns that was told meanwhile.
    pub(super) fn end(&self, child: &ChildName) -> Vec<String> {
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

    /// The answer to a write.
    pub(super) fn replied(
        &self,
        child: &ChildName,
        found: &Value,
        changed: bool,
        marks: &ChildMarks,
    ) {
        if let Some(watch) = self.lock().watch(child) {
            let sight = sight(found, marks, &watch.objects);
            watch.objects.replied(sight, changed);
        }
    }

    /// The child with this uid is deleted, or is a child no more.
    pub(super) fn let_go(&self, child: &ChildName, uid: &str) {
        if let Some(watch) = self.lock().watch(child) {
            watch.objects.let_go(uid);
        }
    }

    /// What is known of the child with this uid, which was in this state.
    pub(super) fn known(&self, child: &ChildName, uid: &str, state: &str) -> Known {
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
            Some(sight) => Known::There {
                is_intact: sight.state == state,
            },
        }
    }

    /// The uid and the version of the owner's child of this name, unless it is being deleted.
    pub(super) fn version_of(&self, child: &ChildName, owner: &str) -> Option<(String, String)> {
        let mut state = self.lock();
        let objects = &state.watch(child)?.objects;
        let namespace = child.namespace.as_deref();
        let sight = objects.named(owner, namespace, &child.name)?;
        let is_sure = objects.is_current() && !sight.terminating;
        is_sure.then(|| (sight.uid.clone(), sight.version.clone()))
    }

    /// The managers of a child that is not as it was applied.
    pub(super) fn take_managers(&self, child: &ChildName, uid: &str) -> Option<Value> {
        let mut state = self.lock();
        state.watch(child)?.objects.take_managers(uid)
    }

    /// A whole child of an owner, in the version of its resource.
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

    /// The children that the set has no more. Kinds that are not listed for now are looked at once they are: then the owner is told.
    pub(super) fn left_over(&self, set: &ChildSet) -> Vec<LeftOver> {
        let mut state = self.lock();
        let State {
            kinds, unlisted, ..
        } = &mut *state;
        unlisted.retain(|(_, it)| it.owner != set.owner || it.name != set.name);
        let mut left_over = Vec::new();
        for (kind, watch) in kinds {
            if watch.objects.is_current() {
                left_over.extend(watch.left_over(set));
            } else {
                unlisted.push((kind.clone(), set.clone()));
            }
        }
        left_over.sort_by(|one, other| one.child.cmp(&other.child));
        left_over
    }
}

fn sight(found: &Value, marks: &ChildMarks, of: &OwnedObjects) -> ChildSight {
    let sight = ChildSight::of(found, marks);
    if of.is_read() {
        sight.with_body(found)
    } else {
        sight
    }
}

fn name_of(of: &Collection, facts: &Facts) -> ChildName {
    ChildName {
        group: of.resource.group.clone(),
        kind: of.resource.kind.clone(),
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
    }
}

fn kind_of(collection: &Collection) -> WatchedKind {
    let resource = &collection.resource;
    (
        resource.group.clone(),
        resource.kind.clone(),
        collection.namespace.clone(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::raw::Raw;

    #[test]
    fn what_is_told_of_a_child_under_way_waits_for_the_answer() {
        let marks = ChildMarks {
            manager: "op.kopf.rs".to_owned(),
        };
        let of = Collection {
            resource: Arc::new(Resource {
                kind: "ConfigMap".to_owned(),
                ..Resource::default()
            }),
            namespace: None,
        };
        let watched = WatchedChildren::default();
        let tell = |event: &WatchEvent| watched.on_event(&of, event, &marks);
        watched.open(&of, false);
        tell(&WatchEvent::Listing(tokio::time::Instant::now()));
        tell(&WatchEvent::Synced);
        let metadata = |uid: &str| json!({"metadata": {"uid": uid, "name": "c", "namespace": "ns", "resourceVersion": "7", "ownerReferences": [{"uid": "o"}]}});
        let child = ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("ns".to_owned()),
            name: "c".to_owned(),
        };
        let added = |uid: &str| {
            let raw = Raw::parse_whole(&metadata(uid).to_string()).unwrap();
            WatchEvent::Object(EventType::Added, raw)
        };
        watched.begin(&child);
        assert!(tell(&added("own")).is_empty());
        let state = ChildSight::of(&metadata("own"), &marks).state;
        watched.replied(&child, &metadata("own"), true, &marks);
        assert!(watched.end(&child).is_empty());
        let intact = Known::There { is_intact: true };
        assert_eq!(watched.known(&child, "own", &state), intact);
        assert_eq!(watched.known(&child, "none", &state), Known::Absent);
        watched.begin(&child);
        assert!(tell(&added("other")).is_empty());
        assert_eq!(watched.end(&child), ["o"]);
        watched.close(&of);
        assert_eq!(watched.known(&child, "own", &state), Known::Nothing);
    }
}
