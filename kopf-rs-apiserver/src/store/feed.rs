//! The changes of one kind, kept for watchers.
//!
//! Promise: a reader that keeps its position sees each later change once, in order, or is told that it fell behind.
//! Must not know who reads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::object::Stored;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Added,
    Modified,
    Deleted,
}

/// One change, with the state before it for selectors and for old revisions.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) event: Event,
    pub(crate) revision: u64,
    pub(crate) now: Arc<Stored>,
    pub(crate) before: Option<Arc<Stored>>,
    /// The watch line most watchers want, made once.
    pub(crate) line: OnceLock<Bytes>,
}

/// A reader fell behind, or the kind is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Changes after the reader's position were dropped.
    Behind,
    /// The kind is gone and everything was read.
    Ended,
}

/// The changes of one kind.
#[derive(Debug)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    signal: watch::Sender<()>,
    limit: usize,
    published: Arc<AtomicU64>,
    /// How often readers were sent away.
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct Ring {
    changes: VecDeque<Arc<Change>>,
    lost: u64,
    ended: bool,
}

// === impl Event ===

impl Event {
    /// As watches call it.
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
    pub(crate) fn new(limit: usize, published: Arc<AtomicU64>) -> Self {
        Self {
            ring: Mutex::default(),
            signal: watch::Sender::new(()),
            limit,
            published,
            epoch: AtomicU64::new(0),
        }
    }

    /// A receiver that is woken by every later change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.signal.subscribe()
    }

    /// The revision every change up to which is in its feed.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The newest change that was dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.ring().lost
    }

    /// The changes after a position, at most so many.
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

    /// All changes after a revision.
    pub(crate) fn since(&self, revision: u64) -> Vec<Arc<Change>> {
        self.after(revision, usize::MAX).unwrap_or_default()
    }

    pub(crate) fn push(&self, change: Arc<Change>) {
        let mut ring = self.ring();
        if ring.changes.len() >= self.limit
            && let Some(dropped) = ring.changes.pop_front()
        {
            ring.lost = dropped.revision;
        }
        ring.changes.push_back(change);
    }

    pub(crate) fn wake(&self) {
        self.signal.send_replace(());
    }

    /// Send those away who read now, once they have read what there is; others may come.
    pub(crate) fn interrupt(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Changes whenever readers are sent away.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ring().ended = true;
        self.wake();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic elsewhere leaves the ring whole: every change to it is a single push or pop.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
