//! The changes of one kind, kept for watchers.
//!
//! Guarantees that a reader sees each change after its position once and in order, or an error if it has fallen behind.
//! Must not depend on readers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::object::Stored;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Added,
    Modified,
    Deleted,
}

/// A change, with the previous state, which selectors and reads of old revisions need.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) event: Event,
    pub(crate) revision: u64,
    pub(crate) now: Arc<Stored>,
    pub(crate) before: Option<Arc<Stored>>,
    /// The watch line for the most common form, rendered once.
    pub(crate) line: OnceLock<Bytes>,
}

/// The reason why a reader cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Changes after the reader's position were dropped.
    Behind,
    /// The kind was removed and all its changes were read.
    Ended,
}

/// The changes of one kind.
#[derive(Debug)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    signal: watch::Sender<()>,
    limit: Limit,
    published: Arc<AtomicU64>,
    /// The number of interruptions.
    epoch: AtomicU64,
}

/// The capacity for slow and returning readers; the oldest changes are dropped first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) changes: usize,
    /// The total size of the objects after the changes.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct Ring {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    lost: u64,
    ended: bool,
}

// === impl Event ===

impl Event {
    /// Returns the event type in watches.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

// === impl Change ===

impl Change {
    pub(crate) fn new(
        event: Event,
        revision: u64,
        now: Arc<Stored>,
        before: Option<Arc<Stored>>,
    ) -> Self {
        Self {
            event,
            revision,
            now,
            before,
            line: OnceLock::new(),
        }
    }
}

// === impl Feed ===

impl Feed {
    pub(crate) fn new(limit: Limit, published: Arc<AtomicU64>) -> Self {
        Self {
            ring: Mutex::default(),
            signal: watch::Sender::new(()),
            limit,
            published,
            epoch: AtomicU64::new(0),
        }
    }

    /// Returns a receiver that every later change wakes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.signal.subscribe()
    }

    /// Returns the revision up to which all changes are in their feeds.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Returns the revision of the newest dropped change.
    pub(crate) fn lost(&self) -> u64 {
        self.ring().lost
    }

    /// Returns the changes after a position, at most `most`.
    pub(crate) fn after(&self, position: u64, most: usize) -> Result<Vec<Arc<Change>>, Lost> {
        let ring = self.ring();
        if position < ring.lost {
            return Err(Lost::Behind);
        }
        let from = ring
            .changes
            .partition_point(|change| change.revision <= position);
        let found: Vec<_> = ring.changes.range(from..).take(most).cloned().collect();
        if found.is_empty() && ring.ended {
            return Err(Lost::Ended);
        }
        Ok(found)
    }

    /// Returns all changes after a revision.
    pub(crate) fn since(&self, revision: u64) -> Vec<Arc<Change>> {
        self.after(revision, usize::MAX).unwrap_or_default()
    }

    pub(crate) fn push(&self, change: Arc<Change>) {
        let mut ring = self.ring();
        ring.bytes += change.now.json.len();
        ring.changes.push_back(change);
        // The newest change stays, however large it is.
        while ring.changes.len() > self.limit.changes.max(1)
            || ring.bytes > self.limit.bytes && ring.changes.len() > 1
        {
            let Some(dropped) = ring.changes.pop_front() else {
                break;
            };
            ring.bytes -= dropped.now.json.len();
            ring.lost = dropped.revision;
        }
    }

    pub(crate) fn wake(&self) {
        self.signal.send_replace(());
    }

    /// Ends the current readers after they have read the remaining changes; new readers may come.
    pub(crate) fn interrupt(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Returns a counter that each interruption increments.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ring().ended = true;
        self.wake();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic elsewhere leaves the ring consistent: every change to it is a single push or pop.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(revision: u64, text: &str) -> Arc<Change> {
        let body = json!({"data": text}).as_object().cloned();
        let stored = Stored::new(
            &body.unwrap_or_default(),
            Arc::default(),
            ("v1", "A"),
            revision,
        );
        Arc::new(Change::new(Event::Added, revision, Arc::new(stored), None))
    }

    #[test]
    fn changes_are_kept_within_a_number_and_a_size() {
        let kept = |limit: Limit, sizes: &[usize]| {
            let feed = Feed::new(limit, Arc::default());
            for (revision, size) in (1..).zip(sizes) {
                feed.push(change(revision, &"x".repeat(*size)));
            }
            let revisions: Vec<_> = feed
                .since(feed.lost())
                .iter()
                .map(|it| it.revision)
                .collect();
            revisions
        };
        let limit = Limit {
            changes: 3,
            bytes: 1000,
        };
        assert_eq!(kept(limit, &[10, 10, 10, 10]), [2, 3, 4]);
        assert_eq!(kept(limit, &[400, 400, 400]), [2, 3]);
        assert_eq!(kept(limit, &[10, 10, 5000]), [3]);
        assert_eq!(kept(limit, &[5000, 10, 10]), [2, 3]);
    }
}
