//! The parts of the engine that follow watches.
//!
//! Guarantees that no event of a watch follows its end. Must not know what followers do with events.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::cluster::watch::ObjectForm;
use crate::engine::object_table::StreamId;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::handler::definition::Handler;
use crate::object::collection::Collection;
use crate::object::resource::Resource;

/// A watch that feeds the engine. Clones are the same watch.
#[derive(Clone)]
pub(crate) struct EngineWatch {
    /// Distinguishes the watch from all others.
    pub(crate) stream: StreamId,
    pub(crate) collection: Arc<Collection>,
    pub(crate) follower: Follower,
    /// The watch was closed or replaced. Locked while the watch feeds the engine.
    is_over: Arc<Mutex<bool>>,
}

/// The receiver of the events of a watch.
#[derive(Clone)]
pub(crate) enum Follower {
    /// The tables of children. With `is_read`, handlers read the children, so their owners are woken by every change and not only by changes
    /// to fields that they applied.
    Children { is_read: bool },
    /// These handlers, which refer to the objects.
    Targets(Vec<Arc<Handler>>),
    /// The workers of the objects, and their indices.
    Workers(Arc<ResourceHandlers>),
}

impl EngineWatch {
    pub(crate) fn new(stream: StreamId, collection: Arc<Collection>, follower: Follower) -> Self {
        Self { stream, collection, follower, is_over: Arc::default() }
    }

    pub(crate) fn is_of_workers(&self) -> bool {
        matches!(self.follower, Follower::Workers(_))
    }

    /// Lets the caller feed an event, unless the watch is over. Its end waits until the returned guard is dropped.
    pub(super) fn feeding(&self) -> Option<MutexGuard<'_, bool>> {
        Some(self.is_over.lock()).filter(|is_over| !**is_over)
    }

    /// Notes that the watch is over.
    pub(super) fn end(&self) {
        *self.is_over.lock() = true;
    }
}

impl Follower {
    /// Returns the parts of objects that the follower needs. Of Secrets, functions need no values to find the objects concerned.
    pub(crate) fn form(&self, resource: &Resource) -> ObjectForm {
        let is_secret = resource.group.is_empty() && resource.kind == "Secret";
        match self {
            Self::Children { is_read: true } => ObjectForm::Whole,
            Self::Children { is_read: false } => ObjectForm::Metadata,
            Self::Targets(_) if is_secret => ObjectForm::Metadata,
            Self::Targets(_) | Self::Workers(_) => ObjectForm::Object,
        }
    }

    /// Returns whether a watch for one also serves the other. The handlers that refer to a kind never change while the operator runs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Children { is_read: one }, Self::Children { is_read: other }) => one == other,
            (Self::Workers(one), Self::Workers(other)) => one.is_same(other),
            _ => true,
        }
    }

    /// Adds the wishes of another follower for the same watch.
    pub(crate) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Children { is_read }, Self::Children { is_read: more }) => *is_read |= more,
            (Self::Targets(handlers), Self::Targets(more)) => handlers.extend_from_slice(more),
            _ => {}
        }
    }
}
