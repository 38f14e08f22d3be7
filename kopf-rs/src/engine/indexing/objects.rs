//! The indexed objects: those of kinds that have index functions, and what each has contributed to the indices.
//!
//! Follows the same watches as the queue: a state that is not newer than the known one is skipped, an object that a complete listing lacks
//! counts as deleted, and objects of a closed watch are dropped. One state of an object is examined at a time, then the newest one. Pure data: no clock, no waiting. Guarantees that the indices always converge to the
//! newest states, whatever the order of events and of the ends of calls. Must not know how functions are called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::indexing::late_readers::{IndexedVersion, LateReader, LateReaders, is_in, is_same};
use crate::engine::indexing::leftovers::Leftovers;
use crate::engine::memory::Version;
use crate::engine::object_table::{ObjectTable, StreamId};
use crate::engine::resource_handlers::{IndexFunctions, ResourceHandlers};
use crate::handler::index::erased::Indices;
use crate::handler::index::table::Contribution;
use crate::handler::memo::Memo;
use crate::happening::serving::MissingIndex;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::reaction::indexing::{Effect, IndexAttempts};

pub(crate) mod facts;

/// The time limit for a listing that fails for a transient reason.
const PATIENCE: Duration = Duration::from_secs(60);

/// All objects of indexed kinds.
pub(crate) struct IndexedObjects {
    indices: Indices,
    /// The operator's memo.
    memo: Memo,
    /// The watches of indexed kinds, and their objects.
    objects: ObjectTable<Arc<ResourceHandlers>, Record>,
    /// The memos of objects that are deleted or no longer watched, until their workers have ended.
    memos_of_removed: BTreeMap<Key, Memo>,
    /// The number of the next object.
    next: u64,
    /// All watches of the start-up have begun.
    watched: bool,
    /// The number of listed objects that have not been examined yet.
    unindexed: usize,
    /// The values taken out since the last call of [`Self::take_leftovers`].
    leftovers: Leftovers,
    late_readers: LateReaders,
}

/// An object.
struct Record {
    /// A number that no other object has.
    object: u64,
    /// The newest known version.
    version: Version,
    /// When the server last answered a read or a write of the object.
    answered: Option<Instant>,
    /// One entry for each index of its kind.
    indexed: Box<[Indexed]>,
    /// Created when first needed; dropped again if it is empty and has no other owner.
    memo: Option<Memo>,
    work: Option<Box<Work>>,
}

/// The contribution of an object to one index.
#[derive(Default)]
struct Indexed {
    contribution: Contribution,
    attempts: IndexAttempts,
}

/// An examination that has begun.
struct Work {
    /// The number of the newest state.
    newest: u64,
    /// The newest state, if it is not the one under examination.
    next: Option<Raw>,
    /// The number of the last examined state.
    done: watch::Sender<u64>,
    /// Handlers wait for the end of this examination.
    is_awaited: bool,
}

/// A state of an object to examine.
pub(crate) struct IndexRun {
    pub(crate) key: Key,
    pub(crate) kind: Arc<ResourceHandlers>,
    pub(crate) raw: Raw,
    pub(crate) memo: Memo,
    /// One entry for each index of the kind.
    pub(crate) attempts: Vec<IndexAttempts>,
    object: u64,
    number: u64,
}

/// A handle to wait until the newest state of an object is indexed.
pub(crate) struct Waiting {
    done: watch::Receiver<u64>,
    newest: u64,
}

/// Says if handlers may be called yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// All objects are indexed, except for these indices.
    Ready(Vec<MissingIndex>),
    /// Not yet. With a time, ask again then, even if nothing changes.
    Wait(Option<Instant>),
}

// === impl IndexedObjects ===

impl IndexedObjects {
    pub(crate) fn new(indices: Indices, memo: Memo) -> Self {
        Self {
            indices,
            memo,
            objects: ObjectTable::default(),
            memos_of_removed: BTreeMap::new(),
            next: 0,
            watched: false,
            unindexed: 0,
            leftovers: Leftovers::default(),
            late_readers: LateReaders::default(),
        }
    }

    /// Takes the remains of changes. The caller must drop them without holding a lock.
    pub(crate) fn take_leftovers(&mut self) -> Leftovers {
        std::mem::take(&mut self.leftovers)
    }

    /// Registers a watch that is about to start. It takes over the objects of the watch that it replaces.
    pub(crate) fn open(
        &mut self,
        stream: StreamId,
        kind: &Arc<ResourceHandlers>,
        replaces: Option<StreamId>,
    ) {
        if kind.indexers.is_empty() {
            if let Some(former) = replaces {
                self.close(former, |_| false);
            }
            return;
        }
        let Self { objects, indices, leftovers, .. } = self;
        objects.open(stream, kind.clone(), replaces, |record, former, kind| {
            record.move_to(kind, former, indices, leftovers);
        });
    }

    /// Forgets a watch that has ended, with its objects. Objects that still have a worker (`has_worker`) keep their memo.
    pub(crate) fn close(&mut self, stream: StreamId, has_worker: impl Fn(&Key) -> bool) {
        for key in self.objects.shown_by(stream) {
            let memo = self.remove(&key);
            self.retain_memo(key, memo, &has_worker);
        }
        self.objects.close(stream);
    }

    /// Keeps the memo of a forgotten object if its worker still needs it.
    fn retain_memo(&mut self, key: Key, memo: Option<Memo>, has_worker: impl Fn(&Key) -> bool) {
        let Some(memo) = memo else {
            return;
        };
        if has_worker(&key) {
            self.memos_of_removed.insert(key, memo);
        } else {
            self.leftovers.keep_memo(memo);
        }
    }

    /// Processes one event of a watch. Returns the state that index functions have to examine, if there is one.
    pub(crate) fn on_event(
        &mut self,
        stream: StreamId,
        event: &WatchEvent,
        now: Instant,
    ) -> Option<IndexRun> {
        for key in self.objects.on_event(stream, event, now)? {
            self.delete(key);
        }
        let kind = &self.objects.watch(stream)?.of;
        match event {
            WatchEvent::Object(EventType::Deleted, raw) => {
                let key = Key::of(&kind.resource, raw.facts());
                self.delete(key);
            }
            WatchEvent::Object(event, raw) => return self.arrived(stream, *event, raw),
            WatchEvent::Synced(_) => {
                self.late_readers.listed(&kind.resource, |key| self.objects.contains(key));
            }
            _ => {}
        }
        None
    }

    /// Deletes an object. Keeps its memo for handlers of the deletion, if there are any.
    fn delete(&mut self, key: Key) {
        let watch = self.objects.watch_of(&key);
        let has_worker = watch.is_some_and(|watch| !watch.of.is_only_indexed());
        let memo = self.remove(&key);
        self.retain_memo(key, memo, |_| has_worker);
    }

    fn remove(&mut self, key: &Key) -> Option<Memo> {
        let removed = self.objects.remove(key)?;
        self.late_readers.removed(key);
        let mut record = removed.value;
        if let Some(watch) = self.objects.watch(removed.watch) {
            record.clear(&watch.of, &self.indices, &mut self.leftovers);
        }
        let is_awaited = record.work.is_some_and(|work| work.is_awaited);
        self.unindexed -= usize::from(is_awaited);
        record.memo
    }

    fn arrived(&mut self, stream: StreamId, event: EventType, raw: &Raw) -> Option<IndexRun> {
        let key = Key::of(&self.objects.watch(stream)?.of.resource, raw.facts());
        let version = Version::of(&raw.facts().resource_version);
        let mut is_new = false;
        let Self { objects, indices, leftovers, memos_of_removed, next, .. } = self;
        let make = |kind: &Arc<ResourceHandlers>| {
            is_new = true;
            let mut record = Record::new(*next, kind);
            // An object that is watched again before its worker has ended keeps its memo.
            record.memo = memos_of_removed.remove(&key);
            *next += 1;
            Some(record)
        };
        let (record, watch, former) = objects.show(stream, &key, make)?;
        if let Some(former) = former {
            record.move_to(&watch.of, &former.of, indices, leftovers);
        }
        let listing = watch.listing.filter(|_| event == EventType::Listed);
        if record.knows(&version, listing) {
            return None;
        }
        let is_awaited = is_new && event == EventType::Listed;
        self.unindexed += usize::from(is_awaited);
        self.announce(key, version, raw, is_awaited)
    }

    /// Processes the state of an object from the answer to the operator's own read or write. Returns the state to examine, if it is a newer
    /// one.
    pub(crate) fn answered(&mut self, key: &Key, raw: &Raw, now: Instant) -> Option<IndexRun> {
        let record = self.objects.get_mut(key)?;
        record.answered = Some(now);
        let version = Version::of(&raw.facts().resource_version);
        if record.knows(&version, None) {
            return None;
        }
        self.announce(key.clone(), version, raw, false)
    }

    fn announce(&mut self, key: Key, version: Version, raw: &Raw, is_awaited: bool) -> Option<IndexRun> {
        let record = self.objects.get_mut(&key)?;
        record.version = version;
        if let Some(work) = &mut record.work {
            work.newest += 1;
            work.next = Some(raw.clone());
            return None;
        }
        record.work = Some(Box::new(Work { newest: 1, next: None, done: watch::Sender::new(0), is_awaited }));
        self.run(key, raw.clone(), 1)
    }

    fn run(&mut self, key: Key, raw: Raw, number: u64) -> Option<IndexRun> {
        let kind = self.objects.watch_of(&key)?.of.clone();
        let record = self.objects.get_mut(&key)?;
        let memo = record.memo.get_or_insert_with(|| self.memo.copied());
        let attempts = record.indexed.iter_mut();
        Some(IndexRun {
            memo: memo.clone(),
            attempts: attempts.map(|it| std::mem::take(&mut it.attempts)).collect(),
            object: record.object,
            key,
            kind,
            raw,
            number,
        })
    }

    /// Ends an examination with its effect on each index of the kind. Returns the next state to examine.
    pub(crate) fn ended(&mut self, run: IndexRun, effects: Vec<Effect>) -> Option<IndexRun> {
        let IndexRun { key, number, .. } = run;
        let version = Version::of(&run.raw.facts().resource_version);
        let leftovers = &mut self.leftovers;
        let kind = self.objects.watch_of(&key).map(|it| it.of.clone());
        let record = self.objects.get_mut(&key);
        let Some(record) = record.filter(|record| record.object == run.object) else {
            leftovers.keep_effects(effects);
            leftovers.keep_memo(run.memo);
            return None;
        };
        let kind = kind?;
        if Arc::ptr_eq(&kind, &run.kind) || kind.is_same(&run.kind) {
            let functions = &run.kind.indexers;
            record.apply((effects, run.attempts), functions, &self.indices, leftovers);
        } else {
            // The kind has other functions by now, so the object is examined again.
            leftovers.keep_effects(effects);
        }
        drop(run.memo);
        record.memo.take_if(|memo| memo.is_idle());
        let work = record.work.as_mut()?;
        self.unindexed -= usize::from(std::mem::take(&mut work.is_awaited));
        work.done.send_replace(number);
        self.late_readers.indexed(&key, &version);
        let newest = work.newest;
        if let Some(raw) = work.next.take() {
            return self.run(key, raw, newest);
        }
        record.work = None;
        None
    }

    /// Returns a handle to wait until the newest state of the object is indexed; `None` if it is.
    pub(crate) fn waiting(&self, key: &Key) -> Option<Waiting> {
        let work = self.objects.get(key)?.work.as_ref()?;
        Some(Waiting { done: work.done.subscribe(), newest: work.newest })
    }

    /// Registers a handler that is about to be called for a state, if an index of its kind may lack that state.
    pub(crate) fn is_read(&mut self, state: &IndexedVersion, reader: LateReader) {
        let mut watches = self.objects.watches();
        if !watches.any(|(_, it)| is_same(&it.of.resource, &reader.1)) {
            return;
        }
        let record = self.objects.get(&state.key);
        let is_late = match &state.version {
            None => record.is_some(),
            Some(version) => record.is_none_or(|it| it.lacks(version)),
        };
        if is_late {
            self.late_readers.wait(state, reader);
        } else if record.is_none() {
            self.late_readers.removed(&state.key);
        }
    }

    /// Takes the handlers that were called too early and whose states are indexed by now.
    pub(crate) fn take_late_readers(&mut self) -> Vec<LateReader> {
        self.late_readers.take_caught_up()
    }

    // === memos ===

    /// Returns the memo of an object that has a worker. `own` is the memo that the worker kept while idle.
    pub(crate) fn memo(&mut self, key: &Key, own: Option<Memo>) -> Memo {
        let made = || own.unwrap_or_else(|| self.memo.copied());
        if let Some(record) = self.objects.get_mut(key) {
            return record.memo.get_or_insert_with(made).clone();
        }
        self.memos_of_removed.get(key).cloned().unwrap_or_else(made)
    }

    /// Stores the memo of an idle worker. Returns the memo if the worker has to keep it itself.
    pub(crate) fn rest(&mut self, key: &Key, memo: Memo) -> Option<Memo> {
        let Some(record) = self.objects.get_mut(key) else {
            return Some(memo);
        };
        record.memo.get_or_insert(memo);
        record.memo.take_if(|memo| memo.is_idle());
        None
    }

    /// Forgets the memo of a deleted object, after its worker has ended.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(memo) = self.memos_of_removed.remove(key) {
            self.leftovers.keep_memo(memo);
        }
    }

    // === readiness ===

    /// Notes that all watches of the start-up have begun.
    pub(crate) fn are_watched(&mut self) {
        self.watched = true;
    }

    /// Returns whether handlers may be called. Does not wait for a kind that cannot be listed: not at all if only other permissions or
    /// definitions can help, else for a limited time.
    pub(crate) fn readiness(&self, now: Instant) -> Readiness {
        if !self.watched || self.unindexed > 0 {
            return Readiness::Wait(None);
        }
        let mut missing = Vec::new();
        let mut again = None;
        for (_, watch) in self.objects.watches().filter(|(_, it)| !it.is_listed) {
            let Some((since, error)) = &watch.trouble else {
                return Readiness::Wait(None);
            };
            let end = *since + PATIENCE;
            if !error.is_lasting() && now < end {
                again = Some(again.map_or(end, |again: Instant| again.min(end)));
            }
            missing.extend(watch.of.indexers.iter().map(|it| MissingIndex {
                index: it.id.clone(),
                because: Some((watch.of.resource.clone(), error.to_string())),
            }));
        }
        if again.is_some() {
            return Readiness::Wait(again);
        }
        let is_served = |name: &Arc<str>| {
            let mut watches = self.objects.watches();
            watches.any(|(_, it)| it.of.indexers.iter().any(|it| it.id == *name))
        };
        let unserved = self.indices.names().filter(|name| !is_served(name));
        missing.extend(unserved.map(|index| MissingIndex { index: index.clone(), because: None }));
        Readiness::Ready(missing)
    }
}

// === impl Record ===

impl Record {
    /// Returns whether the indices lack the contribution of this version of the object.
    fn lacks(&self, version: &Version) -> bool {
        self.work.is_some() || !is_in(&self.version, version)
    }

    fn new(object: u64, kind: &ResourceHandlers) -> Self {
        Self {
            object,
            version: Version::Unknown,
            answered: None,
            indexed: kind.indexers.iter().map(|_| Indexed::default()).collect(),
            memo: None,
            work: None,
        }
    }

    /// Returns whether a state contains nothing new.
    fn knows(&self, version: &Version, listing: Option<Instant>) -> bool {
        self.version.knows(version, listing, self.answered)
    }

    fn apply(
        &mut self,
        (effects, attempts): (Vec<Effect>, Vec<IndexAttempts>),
        functions: &[IndexFunctions],
        indices: &Indices,
        leftovers: &mut Leftovers,
    ) {
        let found = self.indexed.iter_mut().zip(functions);
        let all = found.zip(effects.into_iter().zip(attempts));
        for ((indexed, functions), (effect, attempts)) in all {
            indexed.attempts = attempts;
            let Some(index) = indices.get(&functions.id) else {
                continue;
            };
            let contribution = &mut indexed.contribution;
            let is_done = leftovers.change(&functions.id, || match effect {
                Effect::Keep => None,
                Effect::Clear => index.clear(self.object, contribution),
                Effect::Replace(entries) => index.replace(self.object, contribution, entries),
            });
            if !is_done {
                // A change that panicked leaves an unknown state, so the contribution is cleared if possible.
                leftovers.change(&functions.id, || index.clear(self.object, contribution));
            }
        }
    }

    /// Removes all contributions of the object.
    fn clear(&mut self, kind: &ResourceHandlers, indices: &Indices, leftovers: &mut Leftovers) {
        for (indexed, functions) in self.indexed.iter_mut().zip(&kind.indexers) {
            if let Some(index) = indices.get(&functions.id) {
                let contribution = &mut indexed.contribution;
                leftovers.change(&functions.id, || index.clear(self.object, contribution));
            }
        }
    }

    /// Moves the object to a watch of another declaration of its kind. If the functions or the API version differ, the object is examined
    /// again, and contributions to indices that are no longer fed are removed.
    fn move_to(
        &mut self,
        kind: &ResourceHandlers,
        former: &ResourceHandlers,
        indices: &Indices,
        leftovers: &mut Leftovers,
    ) {
        if kind.is_same(former) {
            return;
        }
        self.version = Version::Unknown;
        let mut moved: Vec<_> = kind.indexers.iter().map(|_| Indexed::default()).collect();
        for (indexed, functions) in self.indexed.iter_mut().zip(&former.indexers) {
            let place = kind.indexers.iter().position(|it| it.id == functions.id);
            if let Some(place) = place {
                moved[place].contribution = std::mem::take(&mut indexed.contribution);
            }
        }
        self.clear(former, indices, leftovers);
        self.indexed = moved.into();
    }
}

// === impl Waiting ===

impl Waiting {
    /// Waits until the newest known state is indexed, or the object is gone.
    pub(crate) async fn end(mut self) {
        let newest = self.newest;
        // A closed channel means that the object is gone and that nothing is left to index.
        let _ = self.done.wait_for(|done| *done >= newest).await;
    }
}

#[cfg(test)]
mod tests;
