//! Remembers handlers that ran for a state of an object before the indices of its kind had that state. They are called again afterwards.
//!
//! An index and a watch of children are fed by two watches of the same kind, and either may be ahead of the other. Pure data. Must not
//! know the indexed data, nor how handlers are called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::memory::Version;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// A state of an object.
#[derive(Clone, Debug)]
pub(crate) struct IndexedVersion {
    pub(crate) key: Key,
    /// `None` if the object is gone.
    pub(crate) version: Option<Version>,
}

/// The handlers that were called for a state and may have read the indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexReader {
    /// The handlers of the object with this uid.
    Owner(String),
    /// One handler, for the objects of these names.
    Concerned { handler: Arc<str>, names: BTreeSet<Box<str>> },
}

/// A reader, and the kind of the object that it has to be called for.
pub(crate) type LateReader = (IndexReader, Arc<Resource>);

/// All late readers.
#[derive(Debug, Default)]
pub(super) struct LateReaders {
    waiting: BTreeMap<Key, Waiting>,
    /// The readers that have to be called now.
    caught_up: Vec<LateReader>,
}

/// The readers that wait for one object to be indexed.
#[derive(Debug, Default)]
struct Waiting {
    version: Option<Version>,
    readers: Vec<LateReader>,
}

// === impl ===

impl IndexedVersion {
    /// Returns the state that a watch of this kind reports.
    pub(crate) fn of(event: EventType, raw: &Raw, kind: &Resource) -> Self {
        let version = Version::of(&raw.facts().resource_version);
        Self { key: Key::of(kind, raw.facts()), version: (event != EventType::Deleted).then_some(version) }
    }
}

impl LateReaders {
    /// Registers a reader that is called now, before this state is indexed, so that it is called again afterwards.
    pub(super) fn wait(&mut self, state: &IndexedVersion, reader: LateReader) {
        let waiting = self.waiting.entry(state.key.clone()).or_default();
        // A child that had left the selector of its watch may be back.
        waiting.version.clone_from(&state.version);
        if !waiting.readers.contains(&reader) {
            waiting.readers.push(reader);
        }
    }

    /// Notes that the state of this version is indexed.
    pub(super) fn indexed(&mut self, key: &Key, version: &Version) {
        let waiting = self.waiting.get(key);
        if waiting.is_some_and(|it| it.version.as_ref().is_some_and(|it| is_in(version, it))) {
            self.removed(key);
        }
    }

    /// Notes that the object is no longer in any index.
    pub(super) fn removed(&mut self, key: &Key) {
        let waiting = self.waiting.remove(key);
        self.caught_up.extend(waiting.into_iter().flat_map(|it| it.readers));
    }

    /// Notes that all objects of a kind are listed. Releases the readers that wait for an object which does not exist.
    pub(super) fn listed(&mut self, kind: &Resource, is_there: impl Fn(&Key) -> bool) {
        let is_of_kind = |it: &Waiting| it.readers.iter().any(|(_, of)| is_same(of, kind));
        let lacking = self.waiting.iter();
        let lacking = lacking.filter(|(key, it)| is_of_kind(it) && !is_there(key));
        for key in lacking.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.removed(&key);
        }
    }

    /// Takes the readers that have to be called.
    pub(super) fn take_caught_up(&mut self) -> Vec<LateReader> {
        std::mem::take(&mut self.caught_up)
    }
}

/// Returns whether an index that has one version of an object has the other one, too. Versions that are no numbers cannot be compared, and
/// count as included: a superfluous call does no harm.
pub(super) fn is_in(indexed: &Version, version: &Version) -> bool {
    match (indexed, version) {
        (Version::Number(_), Version::Number(_)) => indexed.covers(version),
        _ => true,
    }
}

pub(super) fn is_same(one: &Resource, other: &Resource) -> bool {
    one.identity() == other.identity()
}
