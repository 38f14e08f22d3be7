//! Reports the state of the indices to status pages.
//!
//! Iterates over all objects while some are not indexed yet, so the operator itself must not call it.

use std::sync::Arc;

use crate::cluster::error::ClusterError;
use crate::engine::indexing::objects::{IndexedObjects, Stream};
use crate::engine::queue::StreamId;
use crate::handler::index::erased::AnyIndex;
use crate::object::resource::Resource;

/// The state of one index.
#[derive(Clone, Debug)]
pub(crate) struct IndexFacts {
    /// The name of the index.
    pub(crate) index: Arc<str>,
    /// The number of its keys.
    pub(crate) keys: usize,
    /// Why the index is not filled yet.
    pub(crate) lack: Option<IndexLack>,
}

/// Why an index is not filled yet.
#[derive(Clone, Debug)]
pub(crate) enum IndexLack {
    /// No kind of the index is watched yet.
    Unwatched,
    /// No kind of the index is served.
    Unserved,
    /// This kind is still being listed.
    Listing(Arc<Resource>),
    /// This kind cannot be listed.
    Unlisted(Arc<Resource>, ClusterError),
    /// The number of objects of this kind that its function has not processed yet.
    Unindexed(Arc<Resource>, usize),
}

impl IndexedObjects {
    /// Returns the state of all indices.
    pub(crate) fn facts(&self) -> Vec<IndexFacts> {
        let names = self.indices.names();
        let facts = names.map(|index| IndexFacts {
            index: index.clone(),
            keys: self.indices.get(index).map_or(0, AnyIndex::keys),
            lack: self.lack(index),
        });
        facts.collect()
    }

    fn lack(&self, index: &Arc<str>) -> Option<IndexLack> {
        let is_fed_by = |stream: &Stream| stream.kind.indexers.iter().any(|it| it.id == *index);
        let streams = self.streams.iter().filter(|(_, it)| is_fed_by(it));
        let mut is_fed = false;
        let mut lack = None;
        for (id, stream) in streams {
            is_fed = true;
            let found = self.lack_of(*id, stream);
            // Prefers the problem that a person has to solve.
            if lack.is_none() || matches!(found, Some(IndexLack::Unlisted(..))) {
                lack = found.or(lack);
            }
        }
        match (is_fed, self.watched) {
            (true, _) => lack,
            (false, true) => Some(IndexLack::Unserved),
            (false, false) => Some(IndexLack::Unwatched),
        }
    }

    fn lack_of(&self, id: StreamId, stream: &Stream) -> Option<IndexLack> {
        let resource = stream.kind.resource.clone();
        if !stream.synced {
            return Some(match &stream.trouble {
                Some((_, error)) => IndexLack::Unlisted(resource, error.clone()),
                None => IndexLack::Listing(resource),
            });
        }
        if self.unindexed == 0 {
            return None;
        }
        let of_stream = self.records.values().filter(|it| it.stream == id);
        let awaited = of_stream.filter(|it| it.work.as_ref().is_some_and(|work| work.is_awaited));
        let objects = awaited.count();
        (objects > 0).then_some(IndexLack::Unindexed(resource, objects))
    }
}
