//! What is to be done later about objects, in the order of time.
//!
//! Promise: tasks of the same moment keep the order they were planned in. Must not know what the tasks mean.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::kind::CollectionId;

/// Something to do about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Remove it, if nobody wrote it since that revision.
    Expire(u64),
    /// Delete it, if none of its owners is there.
    CheckOwners,
    /// Let controllers look at it again.
    Look,
}

/// Where an object is, and what to do about it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) collection: CollectionId,
    pub(crate) key: String,
    pub(crate) task: Task,
}

/// Tasks by the time they are due, in the order they were planned.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<(Timestamp, u64), Entry>,
    count: u64,
}

// === impl Agenda ===

impl Agenda {
    /// Plan a task; whether it is now the first.
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

    /// When the first task is due.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// The first task, if it is due.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Entry> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
