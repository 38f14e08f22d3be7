//! Tasks for objects that become due later.
//!
//! Guarantees that tasks of the same moment run in the order in which they were planned. Must not know the meaning of tasks.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::kind::CollectionId;

/// A task for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Removes the object, unless it was written after this revision.
    Expire(u64),
    /// Deletes the object if none of its owners exists.
    CheckOwners,
    /// Queues the object for the controllers.
    Look,
}

/// An object and a task for it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) collection: CollectionId,
    pub(crate) key: String,
    pub(crate) task: Task,
}

/// Tasks by due time and order of planning.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<(Timestamp, u64), Entry>,
    count: u64,
}

// === impl Agenda ===

impl Agenda {
    /// Plans a task; returns whether it is now the first one.
    pub(crate) fn plan(&mut self, at: Timestamp, place: (CollectionId, &str), task: Task) -> bool {
        self.count += 1;
        let entry = Entry {
            collection: place.0,
            key: place.1.to_owned(),
            task,
        };
        self.entries.insert((at, self.count), entry);
        self.first() == Some(at)
    }

    /// Returns the time when the first task is due.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// Removes and returns the first task if it is due.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Entry> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
