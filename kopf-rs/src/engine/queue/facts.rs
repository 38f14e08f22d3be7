//! Reports the present contents of the queue to status pages.
//!
//! Iterates over all objects, so the operator itself must not call it.

use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::memory::Version;
use crate::engine::object_table::StreamId;
use crate::engine::queue::{Queue, Slot, State, Work};
use crate::object::key::Key;

/// The contents of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueFacts {
    /// The number of known objects.
    pub(crate) objects: usize,
    /// The number of known objects by resource (`plural.group`).
    pub(crate) kinds: BTreeMap<String, usize>,
    /// The number of objects with a worker.
    pub(crate) busy: usize,
    /// The number of objects with an unhandled state.
    pub(crate) waiting: usize,
    /// The object that has waited longest.
    pub(crate) oldest: Option<Waiting>,
    /// The objects that have waited longest, including that one.
    pub(crate) longest: Vec<Waiting>,
    /// The object that has waited longest although the server does not keep it waiting.
    pub(crate) stuck: Option<Waiting>,
    /// The number of watch events so far.
    pub(crate) events: u64,
    /// The number of idle objects that will be due.
    pub(crate) timers: usize,
    /// The first of these, with their times.
    pub(crate) next: Vec<(QueuedObject, Duration)>,
}

/// An object with an unhandled state.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) object: QueuedObject,
    pub(crate) uid: String,
    pub(crate) since: Instant,
    /// Requests about it fail and are repeated.
    pub(crate) is_held_up: bool,
}

/// The queue's knowledge of one object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFacts {
    pub(crate) object: QueuedObject,
    /// It has a worker.
    pub(crate) is_busy: bool,
    /// Since when a state waits, and the version of that state.
    pub(crate) waits: Option<(Instant, Version)>,
    /// Requests about it fail and are repeated.
    pub(crate) is_held_up: bool,
    /// It is idle until then.
    pub(crate) due: Option<Instant>,
}

/// An object as the queue knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedObject {
    /// The resource as in log lines; empty if it is no longer watched.
    pub(crate) resource: String,
    /// `namespace/name`, or the name alone.
    pub(crate) name: String,
}

/// The number of scheduled objects, and of waiting ones, that are listed by name.
const NAMED: usize = 10;

impl Queue {
    /// Returns the facts of one object; `None` if it is unknown.
    pub(crate) fn object_facts(&self, uid: &str) -> Option<ObjectFacts> {
        let state = self.state.lock();
        let key = Key::of_uid(uid);
        let slot = state.objects.get(&key)?;
        let waits = slot.waits_since();
        Some(ObjectFacts {
            object: state.named(&key, slot),
            is_busy: !slot.is_at_rest(),
            is_held_up: waits.as_ref().is_some_and(|it| it.1.is_some()),
            waits: waits.map(|(since, _, version)| (since, version)),
            due: slot.due(),
        })
    }

    /// Returns the present contents. States for which `is_handled` holds do not count as waiting.
    pub(crate) fn facts(&self, is_handled: impl Fn(&str, &Version) -> bool) -> QueueFacts {
        let state = self.state.lock();
        let mut facts = QueueFacts {
            objects: state.objects.len(),
            busy: state.busy,
            events: state.events,
            ..QueueFacts::default()
        };
        let mut stuck: Option<Oldest<'_>> = None;
        let (mut next, mut longest) = (BinaryHeap::new(), BinaryHeap::new());
        let mut streams: BTreeMap<StreamId, usize> = BTreeMap::new();
        for (key, shown) in state.objects.iter() {
            let slot = &shown.value;
            *streams.entry(shown.watch).or_default() += 1;
            if let Some(due) = slot.due() {
                facts.timers += 1;
                next.push((due, key));
                if next.len() > NAMED {
                    next.pop();
                }
            }
            let Some((since, held_up, version)) = slot.waits_since() else {
                continue;
            };
            if is_handled(&key.uid(), &version) {
                continue;
            }
            facts.waiting += 1;
            let is_held_up = held_up.is_some();
            longest.push((since, key, is_held_up));
            if longest.len() > NAMED {
                longest.pop();
            }
            let since = held_up.map_or(since, |held_up| since.max(held_up));
            keep_older(&mut stuck, (since, is_held_up, key, slot));
        }
        let named = |(since, is_held_up, key, slot): Oldest<'_>| Waiting {
            object: state.named(key, slot),
            uid: key.uid(),
            since,
            is_held_up,
        };
        facts.kinds = state.kinds(streams);
        let longest = longest.into_sorted_vec().into_iter();
        let longest = longest.filter_map(|(since, key, is_held_up)| {
            Some(named((since, is_held_up, key, state.objects.get(key)?)))
        });
        facts.longest = longest.collect();
        facts.oldest = facts.longest.first().cloned();
        facts.stuck = stuck.map(named);
        let now = Instant::now();
        let next = next.into_sorted_vec().into_iter();
        let next = next.filter_map(|(at, key)| {
            let slot = state.objects.get(key)?;
            Some((state.named(key, slot), at.saturating_duration_since(now)))
        });
        facts.next = next.collect();
        facts
    }
}

/// A waiting object: since when, and whether requests about it fail.
type Oldest<'a> = (Instant, bool, &'a Key, &'a Slot);

fn keep_older<'a>(oldest: &mut Option<Oldest<'a>>, found: Oldest<'a>) {
    if oldest.is_none_or(|(first, ..)| found.0 < first) {
        *oldest = Some(found);
    }
}

impl State {
    /// Counts the objects of streams by resource.
    fn kinds(&self, streams: BTreeMap<StreamId, usize>) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for (stream, objects) in streams {
            if let Some(watch) = self.objects.watch(stream) {
                let name = watch.of.kind.resource.group_resource();
                *kinds.entry(name).or_default() += objects;
            }
        }
        kinds
    }

    fn named(&self, key: &Key, slot: &Slot) -> QueuedObject {
        let kind = self.kind_of(key);
        QueuedObject {
            resource: kind.map_or_else(String::new, |it| it.resource.to_string()),
            name: slot.name.trim_start_matches('/').to_owned(),
        }
    }
}

impl Slot {
    /// Returns since when a state waits, when the server last kept it waiting, and its version.
    fn waits_since(&self) -> Option<(Instant, Option<Instant>, Version)> {
        let Work::Busy(busy) = &self.work else {
            return None;
        };
        let state = busy.mailbox.state()?;
        let version = Version::of(&state.raw.facts().resource_version);
        Some((state.arrived, busy.held_up, version))
    }
}
