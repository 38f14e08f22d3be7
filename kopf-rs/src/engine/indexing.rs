//! Holds the indices, and makes handlers wait for them: all handlers until the objects of the start are indexed, and those of an object
//! until its newest known state is.
//!
//! Handlers wait here before they ask for a permit of any limit, and index functions need none of these permits, so the wait cannot
//! deadlock. Must not know how index functions are called.

pub(crate) mod late_readers;
mod leftovers;
pub(crate) mod objects;

use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::indexing::late_readers::{IndexedVersion, LateReader};
use crate::engine::indexing::objects::facts::IndexFacts;
use crate::engine::indexing::objects::{IndexedObjects, Readiness};
use crate::engine::object_table::StreamId;
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::turns::Turns;
use crate::handler::index::erased::Indices;
use crate::handler::memo::Memo;
use crate::happening::serving::Serving;
use crate::object::key::Key;

/// The indices and their contents.
pub(crate) struct Indexing {
    objects: Mutex<IndexedObjects>,
    /// At least one index is declared; otherwise no object is ever added.
    is_used: bool,
    /// Cancelled as soon as handlers may be called.
    ready: CancellationToken,
    /// Notified whenever that may have become true.
    changed: Notify,
    /// Limits how many objects are held as trees at a time while async functions are called for them.
    pub(super) turns: Turns,
}

impl Indexing {
    pub(crate) fn new(indices: Indices, memo: Memo) -> Self {
        let is_used = !indices.is_empty();
        let ready = CancellationToken::new();
        if !is_used {
            ready.cancel();
        }
        Self {
            objects: Mutex::new(IndexedObjects::new(indices, memo)),
            is_used,
            ready,
            changed: Notify::new(),
            turns: Turns::new(),
        }
    }

    pub(crate) fn open(&self, stream: StreamId, kind: &Arc<ResourceHandlers>, replaces: Option<StreamId>) {
        self.change(|objects| objects.open(stream, kind, replaces));
    }

    /// Forgets a watch that has ended, except for objects that still have a worker (`has_worker`).
    pub(crate) fn close(&self, stream: StreamId, has_worker: impl Fn(&Key) -> bool) {
        self.change(|objects| objects.close(stream, has_worker));
    }

    /// Notes that all watches of the start-up have begun.
    pub(crate) fn are_watched(&self) {
        self.change(IndexedObjects::are_watched);
    }

    /// Lets handlers be called once all objects of the start are indexed.
    pub(crate) async fn look_after_readiness(&self) -> Infallible {
        while !self.ready.is_cancelled() {
            let changed = self.changed.notified();
            let readiness = self.objects.lock().readiness(Instant::now());
            match readiness {
                Readiness::Ready(missing) => {
                    report_of_operator(&if missing.is_empty() {
                        Serving::Indexed
                    } else {
                        Serving::IndexedInPart { missing }
                    });
                    self.ready.cancel();
                }
                Readiness::Wait(None) => changed.await,
                Readiness::Wait(Some(at)) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
        std::future::pending().await
    }

    /// Waits until handlers may be called at all, and until the newest known state of this object is indexed.
    pub(super) async fn indexed(&self, key: &Key) {
        if !self.ready.is_cancelled() {
            // Boxed, as is the other wait, because a waiting worker must be small.
            Box::pin(self.ready.cancelled()).await;
        }
        self.object_indexed(key).await;
    }

    /// Returns whether the newest known state of this object is not indexed yet.
    pub(super) fn is_behind(&self, key: &Key) -> bool {
        self.objects.lock().waiting(key).is_some()
    }

    /// Registers a handler that is about to be called for a state. If an index of its kind lacks that state, the handler is called again
    /// later.
    pub(super) fn is_read(&self, state: &IndexedVersion, reader: LateReader) {
        self.objects.lock().is_read(state, reader);
    }

    /// Takes the handlers that have to be called again.
    pub(super) fn take_late_readers(&self) -> Vec<LateReader> {
        self.objects.lock().take_late_readers()
    }

    /// Returns the state of each index.
    pub(super) fn facts(&self) -> Vec<IndexFacts> {
        self.objects.lock().facts()
    }

    /// Waits until the newest known state of this object is indexed.
    pub(super) async fn object_indexed(&self, key: &Key) {
        let waiting = self.objects.lock().waiting(key);
        if let Some(waiting) = waiting {
            Box::pin(waiting.end()).await;
        }
    }

    /// Returns the memo of an object that has a worker. `own` is the memo that the worker kept while idle.
    pub(super) fn memo(&self, key: &Key, own: Option<Memo>) -> Memo {
        self.objects.lock().memo(key, own)
    }

    /// Stores the memo of an idle worker. Returns the memo if the worker has to keep it itself.
    pub(super) fn rest(&self, key: &Key, memo: Memo) -> Option<Memo> {
        let kept = self.objects.lock().rest(key, memo);
        kept.filter(|memo| !memo.is_idle())
    }

    /// Forgets an object that is deleted or no longer watched, after its worker has ended.
    pub(super) fn forget(&self, key: &Key) {
        self.change(|objects| objects.forget(key));
    }

    /// Changes the indexed objects, and notifies the handlers that may wait for the change.
    pub(super) fn change<T: Default>(&self, change: impl FnOnce(&mut IndexedObjects) -> T) -> T {
        if !self.is_used {
            return T::default();
        }
        let mut objects = self.objects.lock();
        let changed = change(&mut objects);
        let leftovers = objects.take_leftovers();
        drop(objects);
        leftovers.see_to();
        if !self.ready.is_cancelled() {
            self.changed.notify_one();
        }
        changed
    }
}
