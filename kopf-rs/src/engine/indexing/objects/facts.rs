//! Reports the state of the indices to status pages.
//!
//! Iterates over all objects while some are not indexed yet, so the operator itself must not call it.

use std::sync::Arc;

use crate::cluster::error::ClusterError;
use crate::engine::indexing::objects::IndexedObjects;
use crate::engine::object_table::{StreamId, Watch};
use crate::engine::resource_handlers::ResourceHandlers;
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
        let watches = self.objects.watches();
        let watches = watches.filter(|(_, watch)| watch.of.indexers.iter().any(|it| it.id == *index));
        let mut is_fed = false;
        let mut lack = None;
        for (id, watch) in watches {
            is_fed = true;
            let found = self.lack_of(id, watch);
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

    fn lack_of(&self, id: StreamId, watch: &Watch<Arc<ResourceHandlers>>) -> Option<IndexLack> {
        let resource = watch.of.resource.clone();
        if !watch.is_listed {
            return Some(match &watch.trouble {
                Some((_, error)) => IndexLack::Unlisted(resource, error.clone()),
                None => IndexLack::Listing(resource),
            });
        }
        if self.unindexed == 0 {
            return None;
        }
        let of_watch = self.objects.iter().filter(|(_, it)| it.watch == id);
        let awaited = of_watch.filter(|(_, it)| it.value.work.as_ref().is_some_and(|it| it.is_awaited));
        let objects = awaited.count();
        (objects > 0).then_some(IndexLack::Unindexed(resource, objects))
    }
}
