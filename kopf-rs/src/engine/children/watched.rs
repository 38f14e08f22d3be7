//! The children of all kinds that are watched.
//!
//! Must not know who watches, nor what follows from a change.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cluster::watch::WatchEvent;
use crate::object::child::{ChildMarks, ChildName, ChildSight};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::raw::Facts;
use crate::reaction::owned::OwnedObjects;

/// Group, kind, and the namespace, or all.
type WatchedKind = (String, String, Option<String>);

/// What is known of children by watches.
#[derive(Debug, Default)]
pub(super) struct WatchedChildren(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<WatchedKind, OwnedObjects>,
    /// Children that are being written. What watches tell of them waits for the answer, which says what is an echo.
    writing: HashMap<ChildName, Held>,
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

impl WatchedChildren {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch is about to begin.
    pub(super) fn open(&self, of: &Collection, is_read: bool) {
        let owned = OwnedObjects::new(is_read);
        self.lock().kinds.insert(kind_of(of), owned);
    }

    /// A watch is ended.
    pub(super) fn close(&self, of: &Collection) {
        self.lock().kinds.remove(&kind_of(of));
    }

    /// What a watch tells: the uids of the owners that it concerns.
    pub(super) fn on_event(
        &self,
        of: &Collection,
        event: &WatchEvent,
        marks: &ChildMarks,
    ) -> Vec<String> {
        let mut state = self.lock();
        let State { kinds, writing } = &mut *state;
        let Some(owned) = kinds.get_mut(&kind_of(of)) else {
            return Vec::new();
        };
        match event {
            WatchEvent::Listing(_) => owned.listing(),
            WatchEvent::Object(event, raw) => {
                let Ok(metadata) = serde_json::from_str::<Value>(raw.text()) else {
                    return Vec::new();
                };
                let sight = ChildSight::of(&metadata, marks);
                match writing.get_mut(&name_of(of, raw.facts())) {
                    Some(held) => held.events.push((*event, sight)),
                    None => return owned.seen(*event, sight),
                }
            }
            WatchEvent::Synced => {
                owned.trouble(false);
                return owned.synced();
            }
            WatchEvent::Trouble(_) => owned.trouble(true),
            WatchEvent::Resumed => owned.trouble(false),
            WatchEvent::Bookmark | WatchEvent::Silent => {}
        }
        Vec::new()
    }

    /// A write of the child is about to be sent.
    pub(super) fn begin(&self, child: &ChildName) {
        let mut state = self.lock();
        state.writing.entry(child.clone()).or_default().writers += 1;
    }

    /// It has ended: the uids of the owners that something concerns that was told meanwhile.
    pub(super) fn end(&self, child: &ChildName) -> Vec<String> {
        let events = {
            let mut state = self.lock();
            let Some(held) = state.writing.get_mut(child) else {
                return Vec::new();
            };
            held.writers -= 1;
            if held.writers > 0 {
                return Vec::new();
            }
            state.writing.remove(child).unwrap_or_default().events
        };
        let mut woken = Vec::new();
        self.with(child, |owned| {
            for (event, sight) in events {
                woken.extend(owned.seen(event, sight));
            }
        });
        woken
    }

    /// The answer to an apply.
    pub(super) fn replied(&self, child: &ChildName, sight: ChildSight, changed: bool) {
        self.with(child, |owned| owned.replied(sight, changed));
    }

    /// What is known of the child with this uid, which was in this state.
    pub(super) fn known(&self, child: &ChildName, uid: &str, state: &str) -> Known {
        let known = self.with(child, |owned| {
            if !owned.is_current() {
                return Known::Nothing;
            }
            match owned.get(uid) {
                None => Known::Absent,
                Some(sight) if sight.terminating => Known::Terminating,
                Some(sight) => Known::There {
                    is_intact: sight.state == state,
                },
            }
        });
        known.unwrap_or(Known::Nothing)
    }

    fn with<T>(&self, child: &ChildName, look: impl FnOnce(&mut OwnedObjects) -> T) -> Option<T> {
        let mut state = self.lock();
        let mut kind = (
            child.group.clone(),
            child.kind.clone(),
            child.namespace.clone(),
        );
        if !state.kinds.contains_key(&kind) {
            kind.2 = None;
        }
        state.kinds.get_mut(&kind).map(look)
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
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::object::raw::Raw;
    use crate::object::resource::Resource;

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
        let sight = ChildSight::of(&metadata("own"), &marks);
        let state = sight.state.clone();
        watched.replied(&child, sight, true);
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
