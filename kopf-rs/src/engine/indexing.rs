//! What is indexed, and who waits for it: all handlers until the objects that are there at the start are indexed, and those of an object until
//! what has come in of it is.
//!
//! They wait before they ask for a place in any limit, and what they wait for needs none. Must not know how index functions are called.

mod leftovers;
pub(crate) mod objects;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::indexing::objects::facts::IndexFacts;
use crate::engine::indexing::objects::{IndexedObjects, Readiness};
use crate::engine::key::Key;
use crate::engine::queue::StreamId;
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::turns::Turns;
use crate::handler::index::erased::Indices;
use crate::handler::memo::Memo;
use crate::happening::Happening;
use crate::happening::serving::Serving;

/// The indices, and what has been put into them.
pub(crate) struct Indexing {
    objects: Mutex<IndexedObjects>,
    /// Whether there are any.
    is_used: bool,
    /// Handlers may be called.
    ready: CancellationToken,
    /// Told whenever that may be so by now.
    changed: Notify,
    /// How many objects are trees at a time while async functions are called for them.
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

    pub(crate) fn open(
        &self,
        stream: StreamId,
        kind: &Arc<ResourceHandlers>,
        replaces: Option<StreamId>,
    ) {
        self.change(|objects| objects.open(stream, kind, replaces));
    }

    /// A watch is ended. What `has_worker` is still worked on.
    pub(crate) fn close(&self, stream: StreamId, has_worker: impl Fn(&Key) -> bool) {
        self.change(|objects| objects.close(stream, has_worker));
    }

    /// All watches that there are to be at the start have begun.
    pub(crate) fn are_watched(&self) {
        self.change(IndexedObjects::are_watched);
    }

    /// Let handlers be called once all is indexed.
    pub(crate) async fn look_after_readiness(&self) -> Infallible {
        while !self.ready.is_cancelled() {
            let changed = self.changed.notified();
            let readiness = self.lock().readiness(Instant::now());
            match readiness {
                Readiness::Ready(missing) => {
                    report_of_operator(&Happening::Serving(Serving::Indexed { missing }));
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

    /// Wait until handlers may be called at all, and until all that has come in of this object is indexed.
    pub(super) async fn indexed(&self, key: &Key) {
        if self.is_used {
            if !self.ready.is_cancelled() {
                // Boxed, as is the other wait: a worker that waits must be small.
                Box::pin(self.ready.cancelled()).await;
            }
            self.object_indexed(key).await;
        }
    }

    /// Whether something that has come in of this object is not indexed yet.
    pub(super) fn is_behind(&self, key: &Key) -> bool {
        self.is_used && self.lock().waiting(key).is_some()
    }

    /// Which indices are filled.
    pub(super) fn facts(&self) -> Vec<IndexFacts> {
        if self.is_used {
            self.lock().facts()
        } else {
            Vec::new()
        }
    }

    /// Wait until all that has come in of this object is indexed.
    pub(super) async fn object_indexed(&self, key: &Key) {
        if self.is_used {
            let waiting = self.lock().waiting(key);
            if let Some(waiting) = waiting {
                Box::pin(waiting.end()).await;
            }
        }
    }

    /// The memo of an object that has a worker. `own` is what it has had at rest.
    pub(super) fn memo(&self, key: &Key, own: Option<Memo>, operators: &Memo) -> Memo {
        if self.is_used {
            return self.lock().memo(key, own);
        }
        own.unwrap_or_else(|| operators.copied())
    }

    /// The worker rests. The memo that it has to keep itself.
    pub(super) fn rest(&self, key: &Key, memo: Memo) -> Option<Memo> {
        let kept = if self.is_used {
            self.lock().rest(key, memo)
        } else {
            Some(memo)
        };
        kept.filter(|memo| !memo.is_idle())
    }

    /// The worker of an object that is deleted, or not watched any more, is done.
    pub(super) fn forget(&self, key: &Key) {
        self.change(|objects| objects.forget(key));
    }

    /// Change what is indexed, which may be what handlers wait for.
    pub(super) fn change<T: Default>(&self, change: impl FnOnce(&mut IndexedObjects) -> T) -> T {
        if !self.is_used {
            return T::default();
        }
        let mut objects = self.lock();
        let changed = change(&mut objects);
        let leftovers = objects.take_leftovers();
        drop(objects);
        leftovers.see_to();
        if !self.ready.is_cancelled() {
            self.changed.notify_one();
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, IndexedObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
