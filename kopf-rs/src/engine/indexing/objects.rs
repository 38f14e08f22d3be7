//! What is indexed: the objects of the kinds that have index functions, and what each has put into the indices.
//!
//! Follows the same watches as the queue, by the same rules: an object is known by its uid, a state that is not newer than what is known is
//! skipped, what a complete listing lacks is deleted, and what is not watched any more is dropped. One state of an object is looked at at a
//! time, the newest next. Pure data: no clock, and nothing is waited for. Promises that whatever came in, and in whichever order calls have
//! ended, the indices are what the newest states make. Must not know how functions are called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::indexing::leftovers::Leftovers;
use crate::engine::key::Key;
use crate::engine::memory::Version;
use crate::engine::queue::StreamId;
use crate::engine::resource_handlers::{IndexFunctions, ResourceHandlers};
use crate::handler::index::erased::Indices;
use crate::handler::index::table::Contribution;
use crate::handler::memo::Memo;
use crate::happening::serving::MissingIndex;
use crate::object::event::EventType;
use crate::object::raw::Raw;
use crate::reaction::indexing::{Effect, IndexAttempts};

pub(crate) mod facts;

/// For so long a listing that fails for a reason that may pass is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// All objects of indexed kinds.
pub(crate) struct IndexedObjects {
    indices: Indices,
    /// The operator's memo.
    memo: Memo,
    streams: BTreeMap<StreamId, Stream>,
    records: BTreeMap<Key, Record>,
    /// The memos of objects that are deleted or not watched any more, until their workers are done.
    farewells: BTreeMap<Key, Memo>,
    /// The number of the next object.
    next: u64,
    /// All watches that there are to be at the start have begun.
    watched: bool,
    /// So many listed objects were not looked at yet.
    unindexed: usize,
    /// What was taken out since this was asked for last.
    leftovers: Leftovers,
}

/// A watch of an indexed kind.
struct Stream {
    kind: Arc<ResourceHandlers>,
    mark: u32,
    asked: Option<Instant>,
    synced: bool,
    /// Why it cannot go on, and since when.
    trouble: Option<(Instant, ClusterError)>,
}

/// An object.
struct Record {
    /// Its number, which no other object has.
    object: u64,
    stream: StreamId,
    /// The listing it was last seen in, or after.
    mark: u32,
    /// The newest state known.
    version: Version,
    /// When the server has last answered a read or a write of the object.
    answered: Option<Instant>,
    /// For each index of its kind.
    indexed: Box<[Indexed]>,
    /// Made when first needed; dropped again where nothing is in it and nobody holds it.
    memo: Option<Memo>,
    work: Option<Box<Work>>,
}

/// What an object has in one index.
#[derive(Default)]
struct Indexed {
    contribution: Contribution,
    attempts: IndexAttempts,
}

/// A look at an object that has begun.
struct Work {
    /// The number of the newest state.
    newest: u64,
    /// That state, where it is not the one that is looked at.
    next: Option<Raw>,
    /// The number of the last state that was looked at.
    done: watch::Sender<u64>,
    /// No handler is called before it has ended.
    is_awaited: bool,
}

/// A state of an object that is to be looked at.
pub(crate) struct IndexRun {
    pub(crate) key: Key,
    pub(crate) kind: Arc<ResourceHandlers>,
    pub(crate) raw: Raw,
    pub(crate) memo: Memo,
    /// For each index of the kind.
    pub(crate) attempts: Vec<IndexAttempts>,
    object: u64,
    number: u64,
}

/// The end of the looks at an object that have begun.
pub(crate) struct Waiting {
    done: watch::Receiver<u64>,
    newest: u64,
}

/// Whether handlers may be called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// All is indexed, but for what is missing in these.
    Ready(Vec<MissingIndex>),
    /// Not yet; where nothing happens, to be asked again then.
    Wait(Option<Instant>),
}

// === impl IndexedObjects ===

impl IndexedObjects {
    pub(crate) fn new(indices: Indices, memo: Memo) -> Self {
        Self {
            indices,
            memo,
            streams: BTreeMap::new(),
            records: BTreeMap::new(),
            farewells: BTreeMap::new(),
            next: 0,
            watched: false,
            unindexed: 0,
            leftovers: Leftovers::default(),
        }
    }

    /// What changes have left over, to be dropped by somebody who holds no lock.
    pub(crate) fn take_leftovers(&mut self) -> Leftovers {
        std::mem::take(&mut self.leftovers)
    }

    /// A watch is about to start, and takes over the objects of the one that it replaces.
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
        let former = replaces.and_then(|former| Some((former, self.streams.remove(&former)?)));
        if let Some((former, was)) = former {
            let records = self.records.values_mut();
            for record in records.filter(|it| it.stream == former) {
                (record.stream, record.mark) = (stream, 0);
                record.move_to(kind, &was.kind, &self.indices, &mut self.leftovers);
            }
        }
        self.streams.insert(stream, Stream::new(kind.clone()));
    }

    /// A watch is ended: its objects are not watched any more. What `has_worker` is still worked on, with the memo that it has.
    pub(crate) fn close(&mut self, stream: StreamId, has_worker: impl Fn(&Key) -> bool) {
        for key in self.keys_of(|record| record.stream == stream) {
            let memo = self.remove(&key);
            self.see_off(key, memo, &has_worker);
        }
        self.streams.remove(&stream);
    }

    /// Keep the memo of an object that is not known any more for its worker, where it has one.
    fn see_off(&mut self, key: Key, memo: Option<Memo>, has_worker: impl Fn(&Key) -> bool) {
        let Some(memo) = memo else {
            return;
        };
        if has_worker(&key) {
            self.farewells.insert(key, memo);
        } else {
            self.leftovers.keep_memo(memo);
        }
    }

    fn keys_of(&self, is_meant: impl Fn(&Record) -> bool) -> Vec<Key> {
        let meant = self.records.iter().filter(|(_, record)| is_meant(record));
        meant.map(|(key, _)| key.clone()).collect()
    }

    /// Takes in an event of a watch. Returns the state that index functions are to be called for, where it brings one.
    pub(crate) fn on_event(
        &mut self,
        stream: StreamId,
        event: &WatchEvent,
        now: Instant,
    ) -> Option<IndexRun> {
        let found = self.streams.get_mut(&stream)?;
        match event {
            WatchEvent::Object(EventType::Deleted, raw) => {
                let key = Key::of(&found.kind.resource, raw.facts());
                self.delete(key);
            }
            WatchEvent::Object(event, raw) => return self.arrived(stream, *event, raw),
            WatchEvent::Listing(asked) => {
                found.mark += 1;
                found.asked = Some(*asked);
            }
            WatchEvent::Synced => {
                (found.synced, found.trouble) = (true, None);
                let mark = found.mark;
                self.conclude(stream, mark);
            }
            WatchEvent::Resumed => found.trouble = None,
            WatchEvent::Trouble(error) => {
                let since = found.trouble.take().map_or(now, |(since, _)| since);
                found.trouble = Some((since, error.clone()));
            }
            WatchEvent::Silent | WatchEvent::Bookmark => {}
        }
        None
    }

    /// What a complete listing lacks is deleted.
    fn conclude(&mut self, stream: StreamId, mark: u32) {
        for key in self.keys_of(|record| record.stream == stream && record.mark != mark) {
            self.delete(key);
        }
    }

    /// An object is deleted. Handlers of the deletion, where there are any, see its memo once more.
    fn delete(&mut self, key: Key) {
        let record = self.records.get(&key);
        let stream = record.and_then(|record| self.streams.get(&record.stream));
        let has_worker = stream.is_some_and(|stream| !stream.kind.is_only_indexed());
        let memo = self.remove(&key);
        self.see_off(key, memo, |_| has_worker);
    }

    fn remove(&mut self, key: &Key) -> Option<Memo> {
        let mut record = self.records.remove(key)?;
        let kind = self.streams.get(&record.stream).map(|it| it.kind.clone());
        if let Some(kind) = kind {
            record.clear(&kind, &self.indices, &mut self.leftovers);
        }
        let is_awaited = record.work.is_some_and(|work| work.is_awaited);
        self.unindexed -= usize::from(is_awaited);
        record.memo
    }

    fn arrived(&mut self, stream: StreamId, event: EventType, raw: &Raw) -> Option<IndexRun> {
        let found = self.streams.get(&stream)?;
        let (kind, mark) = (found.kind.clone(), found.mark);
        let listing = found.asked.filter(|_| event == EventType::Listed);
        let key = Key::of(&kind.resource, raw.facts());
        let version = Version::of(&raw.facts().resource_version);
        let is_new = !self.records.contains_key(&key);
        if is_new {
            let mut record = Record::new(self.next, stream, &kind);
            // Watched again before its worker was done, the object goes on with its memo.
            record.memo = self.farewells.remove(&key);
            self.next += 1;
            self.records.insert(key.clone(), record);
        }
        let record = self.records.get_mut(&key)?;
        if record.stream != stream {
            let former = self.streams.get(&record.stream);
            if let Some(former) = former.map(|it| it.kind.clone()) {
                record.move_to(&kind, &former, &self.indices, &mut self.leftovers);
            }
            record.stream = stream;
        }
        record.mark = mark;
        if record.knows(&version, listing) {
            return None;
        }
        let is_awaited = is_new && event == EventType::Listed;
        self.unindexed += usize::from(is_awaited);
        self.announce(key, version, raw, is_awaited)
    }

    /// The server has said what an object is like, to the operator's own read or write.
    pub(crate) fn answered(&mut self, key: &Key, raw: &Raw, now: Instant) -> Option<IndexRun> {
        let record = self.records.get_mut(key)?;
        record.answered = Some(now);
        let version = Version::of(&raw.facts().resource_version);
        if record.knows(&version, None) {
            return None;
        }
        self.announce(key.clone(), version, raw, false)
    }

    fn announce(
        &mut self,
        key: Key,
        version: Version,
        raw: &Raw,
        is_awaited: bool,
    ) -> Option<IndexRun> {
        let record = self.records.get_mut(&key)?;
        record.version = version;
        if let Some(work) = &mut record.work {
            work.newest += 1;
            work.next = Some(raw.clone());
            return None;
        }
        record.work = Some(Box::new(Work {
            newest: 1,
            next: None,
            done: watch::Sender::new(0),
            is_awaited,
        }));
        self.run(key, raw.clone(), 1)
    }

    fn run(&mut self, key: Key, raw: Raw, number: u64) -> Option<IndexRun> {
        let record = self.records.get_mut(&key)?;
        let kind = self.streams.get(&record.stream)?.kind.clone();
        let memo = record.memo.get_or_insert_with(|| self.memo.copied());
        let attempts = record.indexed.iter_mut();
        Some(IndexRun {
            memo: memo.clone(),
            attempts: attempts
                .map(|it| std::mem::take(&mut it.attempts))
                .collect(),
            object: record.object,
            key,
            kind,
            raw,
            number,
        })
    }

    /// A look has ended, with this for each index of the kind: the next state that is to be looked at.
    pub(crate) fn ended(&mut self, run: IndexRun, effects: Vec<Effect>) -> Option<IndexRun> {
        let IndexRun { key, number, .. } = run;
        let leftovers = &mut self.leftovers;
        let record = self.records.get_mut(&key);
        let Some(record) = record.filter(|record| record.object == run.object) else {
            leftovers.keep_effects(effects);
            leftovers.keep_memo(run.memo);
            return None;
        };
        let stream = self.streams.get(&record.stream)?;
        if Arc::ptr_eq(&stream.kind, &run.kind) || stream.kind.is_same(&run.kind) {
            let functions = &run.kind.indexers;
            record.apply((effects, run.attempts), functions, &self.indices, leftovers);
        } else {
            // Where other functions are for it meanwhile, it is looked at anew.
            leftovers.keep_effects(effects);
        }
        drop(run.memo);
        record.memo.take_if(|memo| memo.is_idle());
        let work = record.work.as_mut()?;
        self.unindexed -= usize::from(std::mem::take(&mut work.is_awaited));
        work.done.send_replace(number);
        let newest = work.newest;
        if let Some(raw) = work.next.take() {
            return self.run(key, raw, newest);
        }
        record.work = None;
        None
    }

    /// What has to be waited for so that all that has come in of the object is indexed.
    pub(crate) fn waiting(&self, key: &Key) -> Option<Waiting> {
        let work = self.records.get(key)?.work.as_ref()?;
        Some(Waiting {
            done: work.done.subscribe(),
            newest: work.newest,
        })
    }

    // === memos ===

    /// The memo of an object that has a worker. `own` is what it has had at rest.
    pub(crate) fn memo(&mut self, key: &Key, own: Option<Memo>) -> Memo {
        let made = || own.unwrap_or_else(|| self.memo.copied());
        if let Some(record) = self.records.get_mut(key) {
            return record.memo.get_or_insert_with(made).clone();
        }
        self.farewells.get(key).cloned().unwrap_or_else(made)
    }

    /// The worker rests. The memo that it has to keep itself.
    pub(crate) fn rest(&mut self, key: &Key, memo: Memo) -> Option<Memo> {
        let Some(record) = self.records.get_mut(key) else {
            return Some(memo);
        };
        record.memo.get_or_insert(memo);
        record.memo.take_if(|memo| memo.is_idle());
        None
    }

    /// The worker of a deleted object is done.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(memo) = self.farewells.remove(key) {
            self.leftovers.keep_memo(memo);
        }
    }

    // === readiness ===

    /// All watches that there are to be at the start have begun.
    pub(crate) fn are_watched(&mut self) {
        self.watched = true;
    }

    /// Whether handlers may be called. A kind that cannot be listed is not waited for: at once where only other permissions or definitions
    /// help, else after a while.
    pub(crate) fn readiness(&self, now: Instant) -> Readiness {
        if !self.watched || self.unindexed > 0 {
            return Readiness::Wait(None);
        }
        let mut missing = Vec::new();
        let mut again = None;
        for stream in self.streams.values().filter(|it| !it.synced) {
            let Some((since, error)) = &stream.trouble else {
                return Readiness::Wait(None);
            };
            let end = *since + PATIENCE;
            if !error.is_lasting() && now < end {
                again = Some(again.map_or(end, |again: Instant| again.min(end)));
            }
            missing.extend(stream.kind.indexers.iter().map(|it| MissingIndex {
                index: it.id.clone(),
                because: Some((stream.kind.resource.clone(), error.to_string())),
            }));
        }
        if again.is_some() {
            return Readiness::Wait(again);
        }
        let is_served = |name: &Arc<str>| {
            let mut kinds = self.streams.values().map(|it| &it.kind);
            kinds.any(|kind| kind.indexers.iter().any(|it| it.id == *name))
        };
        let unserved = self.indices.names().filter(|name| !is_served(name));
        missing.extend(unserved.map(|index| MissingIndex {
            index: index.clone(),
            because: None,
        }));
        Readiness::Ready(missing)
    }
}

// === impl Stream ===

impl Stream {
    fn new(kind: Arc<ResourceHandlers>) -> Self {
        Self {
            kind,
            mark: 0,
            asked: None,
            synced: false,
            trouble: None,
        }
    }
}

// === impl Record ===

impl Record {
    fn new(object: u64, stream: StreamId, kind: &ResourceHandlers) -> Self {
        Self {
            object,
            stream,
            mark: 0,
            version: Version::Unknown,
            answered: None,
            indexed: kind.indexers.iter().map(|_| Indexed::default()).collect(),
            memo: None,
            work: None,
        }
    }

    /// Whether a state tells nothing new.
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
                // Neither what it was nor what it is to be: nothing, if that can be done.
                leftovers.change(&functions.id, || index.clear(self.object, contribution));
            }
        }
    }

    /// Take out all that it has put in.
    fn clear(&mut self, kind: &ResourceHandlers, indices: &Indices, leftovers: &mut Leftovers) {
        for (indexed, functions) in self.indexed.iter_mut().zip(&kind.indexers) {
            if let Some(index) = indices.get(&functions.id) {
                let contribution = &mut indexed.contribution;
                leftovers.change(&functions.id, || index.clear(self.object, contribution));
            }
        }
    }

    /// It is told of for this kind from now on. Where that has other functions, or another version, it is to be looked at anew, and what is not
    /// fed any more is taken out.
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
    /// Wait until the newest state that had come in is indexed, or the object is gone.
    pub(crate) async fn end(mut self) {
        let newest = self.newest;
        // Where nobody is left to say so, nothing is left to be indexed.
        let _ = self.done.wait_for(|done| *done >= newest).await;
    }
}

#[cfg(test)]
mod tests;
