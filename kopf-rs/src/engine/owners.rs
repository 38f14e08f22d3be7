//! Wakes the objects that a change of another object concerns: owners of a child, and objects whose handlers refer to it.
//!
//! Guarantees that handlers which read indices are called again once the indices have the state that they were called for. Must not know
//! handlers, nor how workers start.

use std::sync::Arc;

use crate::engine::children::child_table::ChildNews;
use crate::engine::indexing::Indexing;
use crate::engine::indexing::late_readers::{IndexReader, IndexedVersion};
use crate::engine::memory::Version;
use crate::engine::queue::Queue;
use crate::object::key::Key;
use crate::object::resource::Resource;

/// The objects to wake.
pub(crate) struct Owners {
    pub(super) queue: Arc<Queue>,
    pub(super) indexing: Arc<Indexing>,
}

/// A message for an owner.
pub(super) enum OwnerNews {
    /// A child has changed.
    Changed(ChildNews),
    /// The operator itself has written a child. No call is needed, but indices of its kind may still hold the former state.
    Written(ChildNews),
    /// Some children may be left over.
    LeftOver(String),
}

impl Owners {
    pub(super) fn new(indexing: Indexing) -> Self {
        Self { queue: Arc::default(), indexing: Arc::new(indexing) }
    }

    /// Wakes the owner of a child of this kind. Does nothing if the owner is unknown.
    pub(super) fn tell(&self, news: OwnerNews, kind: &Arc<Resource>) {
        let (ChildNews { owner, child }, calls) = match news {
            OwnerNews::Changed(news) => (news, true),
            OwnerNews::Written(news) => (news, false),
            OwnerNews::LeftOver(owner) => return self.queue.child_changed(&owner, kind),
        };
        let state = IndexedVersion {
            key: Key::of_uid(&child.uid),
            version: child.version.as_deref().map(Version::of),
        };
        let reader = IndexReader::Owner(owner);
        if calls {
            self.call_reader(reader, kind, Some(&state));
        } else {
            self.indexing.is_read(&state, (reader, kind.clone()));
        }
    }

    /// Calls a handler for a state of an object, and once more after the indices of its kind have that state.
    pub(super) fn call_reader(
        &self,
        reader: IndexReader,
        kind: &Arc<Resource>,
        state: Option<&IndexedVersion>,
    ) {
        // Registered first, so that a call which begins before the index has the state is followed by another one.
        if let Some(state) = state {
            self.indexing.is_read(state, (reader.clone(), kind.clone()));
        }
        match reader {
            IndexReader::Owner(owner) => self.queue.child_changed(&owner, kind),
            IndexReader::Concerned { handler, names } => {
                self.queue.target_changed(&handler, &names, kind);
            }
        }
    }

    /// Calls the handlers again that ran before the indices had the state they were called for.
    pub(super) fn call_late_readers(&self) {
        for (reader, kind) in self.indexing.take_late_readers() {
            self.call_reader(reader, &kind, None);
        }
    }
}
