//! The objects that the watches of one follower show.
//!
//! Guarantees the same rules for all followers: an object belongs to the watch that has shown it last, a watch that replaces another one
//! takes over its objects, and an object is missing if a complete listing of its watch lacks it. Must not know what followers keep of an
//! object, nor what follows from a change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::object::key::{Key, KeySet};

/// Identifies the watch that an event comes from.
pub(crate) type StreamId = u32;

/// The open watches with the facts `W` about each, and the objects with the facts `V` about each.
pub(crate) struct ObjectTable<W, V> {
    watches: BTreeMap<StreamId, Watch<W>>,
    /// A tree rather than a hash table: a tree grows and shrinks by a few entries at a time, while a table exists twice while it grows and
    /// does not shrink.
    objects: BTreeMap<Key, Shown<V>>,
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch<W> {
    pub(crate) of: W,
    /// When the last listing was requested.
    pub(crate) listing: Option<Instant>,
    /// A listing is complete.
    pub(crate) is_listed: bool,
    /// The present failure, and the time since which the watch fails.
    pub(crate) trouble: Option<(Instant, ClusterError)>,
}

/// An object, and the watch that has shown it last.
#[derive(Debug)]
pub(crate) struct Shown<V> {
    pub(crate) watch: StreamId,
    pub(crate) value: V,
}

/// An object's value, the watch that shows it, and the watch that has shown it before, if that is another one.
pub(crate) type Sighting<'a, W, V> = (&'a mut V, &'a Watch<W>, Option<&'a Watch<W>>);

// === impl ObjectTable ===

impl<W, V> ObjectTable<W, V> {
    /// Registers a watch that is about to start. Hands over each object of the watch that it replaces, with the facts about that watch and
    /// about the new one.
    pub(crate) fn open(
        &mut self,
        watch: StreamId,
        of: W,
        replaces: Option<StreamId>,
        mut hand_over: impl FnMut(&mut V, &W, &W),
    ) {
        let former = replaces.and_then(|id| Some((id, self.watches.remove(&id)?)));
        if let Some((id, former)) = former {
            for shown in self.objects.values_mut().filter(|it| it.watch == id) {
                shown.watch = watch;
                hand_over(&mut shown.value, &former.of, &of);
            }
        }
        self.watches.insert(watch, Watch::new(of));
    }

    /// Forgets a watch. The caller decides about its objects: see [`Self::shown_by`].
    pub(crate) fn close(&mut self, watch: StreamId) {
        self.watches.remove(&watch);
    }

    /// Processes the part of an event that concerns the watch. Returns the objects that a complete listing lacks; `None` if the watch is not
    /// open.
    pub(crate) fn on_event(&mut self, watch: StreamId, event: &WatchEvent, now: Instant) -> Option<Vec<Key>> {
        let found = self.watches.get_mut(&watch)?;
        match event {
            WatchEvent::Listing(requested) => found.listing = Some(*requested),
            WatchEvent::Synced(listed) => {
                (found.is_listed, found.trouble) = (true, None);
                return Some(self.missing(watch, listed));
            }
            WatchEvent::Trouble(error) => {
                let since = found.trouble.take().map_or(now, |(since, _)| since);
                found.trouble = Some((since, error.clone()));
            }
            WatchEvent::Resumed => found.trouble = None,
            WatchEvent::Object(..) | WatchEvent::Silent | WatchEvent::Bookmark => {}
        }
        Some(Vec::new())
    }

    fn missing(&self, watch: StreamId, listed: &KeySet) -> Vec<Key> {
        let mut missing = self.shown_by(watch);
        missing.retain(|key| !listed.contains(key));
        missing
    }

    /// Notes that a watch shows an object. Adds an unknown object if `make` returns its value; otherwise returns `None`.
    pub(crate) fn show(
        &mut self,
        watch: StreamId,
        key: &Key,
        make: impl FnOnce(&W) -> Option<V>,
    ) -> Option<Sighting<'_, W, V>> {
        let found = self.watches.get(&watch)?;
        let shown = match self.objects.entry(key.clone()) {
            Entry::Occupied(shown) => shown.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Shown { watch, value: make(&found.of)? }),
        };
        let former = std::mem::replace(&mut shown.watch, watch);
        let former = if former == watch { None } else { self.watches.get(&former) };
        Some((&mut shown.value, found, former))
    }

    pub(crate) fn watch(&self, id: StreamId) -> Option<&Watch<W>> {
        self.watches.get(&id)
    }

    pub(crate) fn watch_mut(&mut self, id: StreamId) -> Option<&mut W> {
        self.watches.get_mut(&id).map(|it| &mut it.of)
    }

    /// Returns the open watches in the order in which they were opened.
    pub(crate) fn watches(&self) -> impl Iterator<Item = (StreamId, &Watch<W>)> {
        self.watches.iter().map(|(id, watch)| (*id, watch))
    }

    /// Returns the watch that has shown the object last, if that is still open.
    pub(crate) fn watch_of(&self, key: &Key) -> Option<&Watch<W>> {
        self.watches.get(&self.objects.get(key)?.watch)
    }

    /// Returns an object with the watch that has shown it last, if that is still open.
    pub(crate) fn shown(&self, key: &Key) -> Option<(StreamId, &Watch<W>, &V)> {
        let shown = self.objects.get(key)?;
        Some((shown.watch, self.watches.get(&shown.watch)?, &shown.value))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.objects.get(key).map(|it| &it.value)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.objects.get_mut(key).map(|it| &mut it.value)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Shown<V>> {
        self.objects.remove(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Shown<V>)> {
        self.objects.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut V)> {
        self.objects.iter_mut().map(|(key, it)| (key, &mut it.value))
    }

    /// Returns the objects that this watch has shown last.
    pub(crate) fn shown_by(&self, watch: StreamId) -> Vec<Key> {
        let shown = self.objects.iter().filter(|(_, it)| it.watch == watch);
        shown.map(|(key, _)| key.clone()).collect()
    }
}

// === impl Watch ===

impl<W> Watch<W> {
    fn new(of: W) -> Self {
        Self { of, listing: None, is_listed: false, trouble: None }
    }

    /// Returns true if all objects of the watch are known, except for events in transit.
    pub(crate) fn is_current(&self) -> bool {
        self.is_listed && self.trouble.is_none()
    }
}

impl<W, V> Default for ObjectTable<W, V> {
    fn default() -> Self {
        Self { watches: BTreeMap::new(), objects: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table = ObjectTable<&'static str, u32>;

    fn table() -> Table {
        let mut table = Table::default();
        table.open(1, "one", None, |_, _, _| ());
        table.open(2, "two", None, |_, _, _| ());
        for (watch, uid) in [(1, "a"), (1, "b"), (2, "c")] {
            assert!(table.show(watch, &Key::of_uid(uid), |_| Some(0)).is_some());
        }
        table
    }

    fn keys(uids: &[&str]) -> Vec<Key> {
        uids.iter().map(|uid| Key::of_uid(uid)).collect()
    }

    fn synced(table: &mut Table, watch: StreamId, listed: &[&str]) -> Option<Vec<Key>> {
        let listed = WatchEvent::Synced(keys(listed).into_iter().collect());
        table.on_event(watch, &listed, Instant::now())
    }

    #[test]
    fn a_listing_lacks_only_objects_that_its_own_watch_has_shown_last() {
        let mut table = table();
        assert_eq!(synced(&mut table, 1, &["a"]), Some(keys(&["b"])));
        let (_, _, former) = table.show(2, &Key::of_uid("b"), |_| None).unwrap();
        assert_eq!(former.map(|it| it.of), Some("one"));
        assert_eq!(synced(&mut table, 1, &[]), Some(keys(&["a"])));
        assert_eq!(synced(&mut table, 3, &[]), None);
    }

    #[test]
    fn a_watch_takes_over_the_objects_of_the_one_that_it_replaces() {
        let mut table = table();
        table.open(3, "three", Some(1), |value, former, new| {
            assert_eq!((*former, *new), ("one", "three"));
            *value += 1;
        });
        let values = ["a", "b", "c"].map(|uid| *table.get(&Key::of_uid(uid)).unwrap());
        assert_eq!(values, [1, 1, 0]);
        assert_eq!(synced(&mut table, 1, &[]), None, "it is replaced");
        assert_eq!(synced(&mut table, 3, &["b"]), Some(keys(&["a"])));
    }

    #[test]
    fn objects_of_a_closed_watch_are_not_missing() {
        let mut table = table();
        table.close(1);
        assert_eq!(synced(&mut table, 2, &[]), Some(keys(&["c"])));
        assert_eq!(table.shown_by(1), keys(&["a", "b"]));
        assert!(table.watch_of(&Key::of_uid("a")).is_none());
        assert!(table.show(1, &Key::of_uid("d"), |_| Some(0)).is_none());
    }

    #[test]
    fn a_failure_lasts_until_the_watch_works_again() {
        let mut table = table();
        let begin = Instant::now();
        let fails = |text: &str| WatchEvent::Trouble(ClusterError::Unreachable(text.to_owned()));
        for end in [WatchEvent::Resumed, WatchEvent::Synced(KeySet::default())] {
            for (text, later) in [("one", 0), ("two", 1)] {
                let now = begin + std::time::Duration::from_secs(later);
                table.on_event(1, &fails(text), now);
                let trouble = table.watch(1).and_then(|it| it.trouble.as_ref());
                assert!(
                    trouble.is_some_and(|(since, error)| *since == begin && error.to_string().contains(text))
                );
            }
            table.on_event(1, &end, begin);
            assert!(table.watch(1).is_some_and(|it| it.trouble.is_none()));
        }
        assert!(
            table.watch(1).is_some_and(|it| it.is_listed) && table.watch(2).is_some_and(|it| !it.is_listed)
        );
    }
}
