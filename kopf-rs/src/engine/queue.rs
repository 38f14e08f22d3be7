//! One mailbox per object: the newest state wins, a deletion is final.
//!
//! Watches feed it without waiting. An object at rest is a slot in a map; an object with something to do has a worker.
//! Must not know what is done with a state, nor how.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::key::{Key, full_name};
use crate::engine::kind::Kind;
use crate::engine::memory::{Memory, Version};
use crate::object::event::EventType;
use crate::object::raw::Raw;

/// Which watch an event comes from.
pub(crate) type StreamId = u32;

/// A state that waits to be handled.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) event: EventType,
    pub(crate) raw: Raw,
    pub(crate) kind: Arc<Kind>,
    /// Tells nothing new but to raw-event handlers.
    pub(crate) echo: bool,
    /// When the oldest of the states merged into this one came in.
    pub(crate) arrived: Instant,
}

/// An object that has got a worker to be started.
pub(crate) struct Hired {
    pub(crate) key: Key,
    pub(crate) memory: Memory,
    pub(crate) wake: Arc<Notify>,
}

/// All objects the operator knows.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Told whenever a worker ends, and whenever a stream is synced or in trouble.
    changed: Notify,
}

#[derive(Default)]
struct State {
    slots: HashMap<Key, Slot>,
    streams: HashMap<StreamId, Stream>,
    busy: usize,
}

struct Slot {
    stream: StreamId,
    /// The listing this object was last seen in, or after.
    mark: u32,
    /// `namespace/name`, or `/name`: enough to synthesise a deletion.
    name: Box<str>,
    work: Work,
}

enum Work {
    Resting(Memory),
    Busy(Box<Busy>),
}

struct Busy {
    mail: Option<Mail>,
    wake: Arc<Notify>,
}

struct Stream {
    kind: Arc<Kind>,
    mark: u32,
    synced: bool,
    troubled: bool,
}

impl Queue {
    /// A watch that is about to start: the operator is not settled before it has synced. It takes over the objects of
    /// the watch that it replaces.
    pub(crate) fn open(&self, stream: StreamId, kind: Arc<Kind>, replaces: Option<StreamId>) {
        let mut state = self.lock();
        state.streams.insert(stream, Stream::new(kind));
        if let Some(former) = replaces.filter(|former| state.streams.remove(former).is_some()) {
            for slot in state
                .slots
                .values_mut()
                .filter(|slot| slot.stream == former)
            {
                slot.stream = stream;
                slot.mark = Stream::UNLISTED;
            }
        }
    }

    /// Take in what a watch tells, as long as it is open. Never blocks. Hands the workers that are to be started to `hire`.
    /// No worker is started for a state of a resting object that `quiet` says needs none.
    pub(crate) fn feed(
        &self,
        stream: StreamId,
        event: WatchEvent,
        quiet: impl Fn(&Kind, &mut Memory, &Raw) -> bool,
        mut hire: impl FnMut(Hired),
    ) {
        let mut state = self.lock();
        let Some(found) = state.streams.get_mut(&stream) else {
            return;
        };
        match event {
            WatchEvent::Object(event, raw) => {
                let hired = state.object(stream, event, raw, quiet);
                drop(state);
                hired.into_iter().for_each(hire);
            }
            WatchEvent::Listing => found.mark += 1,
            WatchEvent::Synced => {
                found.synced = true;
                found.troubled = false;
                let mark = found.mark;
                let gone = state.unseen(stream, Some(mark));
                drop(state);
                gone.into_iter().for_each(&mut hire);
                self.changed.notify_waiters();
            }
            WatchEvent::Silent => {}
            WatchEvent::Resumed => found.troubled = false,
            WatchEvent::Trouble(error) => {
                found.troubled = is_lasting(&error);
                self.changed.notify_waiters();
            }
        }
    }

    /// A watch that will not come back: its objects are gone as far as this operator can see.
    pub(crate) fn close(&self, stream: StreamId, hire: impl FnMut(Hired)) {
        let mut state = self.lock();
        let gone = state.unseen(stream, None);
        state.streams.remove(&stream);
        drop(state);
        gone.into_iter().for_each(hire);
        self.changed.notify_waiters();
    }

    /// What waits for the object.
    pub(crate) fn take(&self, key: &Key) -> Option<Mail> {
        self.lock().busy(key)?.mail.take()
    }

    /// Look at what waits for the object.
    pub(crate) fn peek<T>(&self, key: &Key, look: impl FnOnce(&Mail) -> T) -> Option<T> {
        self.lock().busy(key)?.mail.as_ref().map(look)
    }

    /// Whether a deletion waits for the object, or there is no such object any more.
    pub(crate) fn is_deleted(&self, key: &Key) -> bool {
        match self.lock().busy(key) {
            Some(busy) => busy.mail.as_ref().is_some_and(Mail::is_deletion),
            None => true,
        }
    }

    /// Whether a state newer than `known` waits for the object.
    pub(crate) fn has_newer(&self, key: &Key, known: &Version) -> bool {
        let newer = |mail: &Mail| mail.is_deletion() || !mail.tells_nothing_to(known);
        self.peek(key, newer).unwrap_or_default()
    }

    /// The worker has nothing to do any more; where something has come in meanwhile, the memory and that are handed back.
    pub(crate) fn rest(&self, key: &Key, memory: Memory) -> Option<(Memory, Mail)> {
        let mut state = self.lock();
        let busy = state.busy(key)?;
        if let Some(mail) = busy.mail.take() {
            return Some((memory, mail));
        }
        if let Some(slot) = state.slots.get_mut(key) {
            slot.work = Work::Resting(memory);
        }
        state.busy -= 1;
        self.changed.notify_waiters();
        None
    }

    /// The object is no more.
    pub(crate) fn forget(&self, key: &Key) {
        let mut state = self.lock();
        if let Some(slot) = state.slots.remove(key) {
            state.busy -= usize::from(matches!(slot.work, Work::Busy(_)));
        }
        self.changed.notify_waiters();
    }

    /// Wait until all watches have synced (or are in trouble) and no object has anything to do now or later.
    pub(crate) async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().is_settled() {
                return;
            }
            changed.await;
        }
    }

    /// How many objects have a worker.
    #[cfg(test)]
    pub(crate) fn busy(&self) -> usize {
        self.lock().busy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn is_settled(&self) -> bool {
        self.busy == 0 && self.streams.values().all(|s| s.synced || s.troubled)
    }

    fn busy(&mut self, key: &Key) -> Option<&mut Busy> {
        match &mut self.slots.get_mut(key)?.work {
            Work::Busy(busy) => Some(busy),
            Work::Resting(_) => None,
        }
    }

    fn object(
        &mut self,
        stream: StreamId,
        event: EventType,
        raw: Raw,
        quiet: impl Fn(&Kind, &mut Memory, &Raw) -> bool,
    ) -> Option<Hired> {
        let found = self.streams.get(&stream)?;
        let (kind, mark) = (found.kind.clone(), found.mark);
        let facts = raw.facts();
        let key = Key::of(kind.id, facts);
        let slot = match self.slots.entry(key.clone()) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Slot {
                stream,
                mark,
                name: full_name(facts.namespace.as_deref(), &facts.name),
                work: Work::Resting(Memory::first(event)),
            }),
        };
        slot.stream = stream;
        slot.mark = mark;
        let mut echo = false;
        if let (Work::Resting(memory), false) = (&mut slot.work, event == EventType::Deleted) {
            let version = Version::of(&facts.resource_version);
            echo = memory.version.covers(&version);
            if kind.watching.is_empty() {
                if echo {
                    return None;
                }
                if event != EventType::Added && quiet(&kind, memory, &raw) {
                    memory.version = version;
                    return None;
                }
            }
        }
        let hired = slot.post(
            key,
            Mail {
                event,
                raw,
                kind,
                echo,
                arrived: Instant::now(),
            },
        );
        self.busy += usize::from(hired.is_some());
        hired
    }

    /// Synthesise deletions for the objects of a stream that are not of the listing `mark`.
    fn unseen(&mut self, stream: StreamId, mark: Option<u32>) -> Vec<Hired> {
        let Some(kind) = self.streams.get(&stream).map(|found| found.kind.clone()) else {
            return Vec::new();
        };
        let mut hired = Vec::new();
        for (key, slot) in &mut self.slots {
            if slot.stream != stream || Some(slot.mark) == mark {
                continue;
            }
            if let Some(mail) = slot.deletion(key, &kind) {
                hired.extend(slot.post(key.clone(), mail));
            }
        }
        self.busy += hired.len();
        hired
    }
}

// === impl Stream ===

impl Stream {
    /// The mark of objects that no listing of this stream has named yet.
    const UNLISTED: u32 = 0;

    fn new(kind: Arc<Kind>) -> Self {
        Self {
            kind,
            mark: Self::UNLISTED,
            synced: false,
            troubled: false,
        }
    }
}

// === impl Slot ===

impl Slot {
    /// Put the mail in; a worker is due where there is none yet.
    fn post(&mut self, key: Key, mail: Mail) -> Option<Hired> {
        match &mut self.work {
            Work::Busy(busy) => {
                busy.mail = Some(match busy.mail.take() {
                    Some(older) => older.followed_by(mail),
                    None => mail,
                });
                busy.wake.notify_one();
                None
            }
            Work::Resting(memory) => {
                let memory = std::mem::take(memory);
                let wake = Arc::new(Notify::new());
                self.work = Work::Busy(Box::new(Busy {
                    mail: Some(mail),
                    wake: wake.clone(),
                }));
                Some(Hired { key, memory, wake })
            }
        }
    }

    fn deletion(&self, key: &Key, kind: &Arc<Kind>) -> Option<Mail> {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let mut metadata = serde_json::json!({"name": name, "uid": key.uid.to_string()});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        let object = serde_json::json!({
            "apiVersion": kind.resource.api_version(),
            "kind": kind.resource.kind,
            "metadata": metadata,
        });
        Some(Mail {
            event: EventType::Deleted,
            raw: Raw::parse(&object.to_string()).ok()?,
            kind: kind.clone(),
            echo: false,
            arrived: Instant::now(),
        })
    }
}

// === impl Mail ===

impl Mail {
    pub(crate) fn is_deletion(&self) -> bool {
        self.event == EventType::Deleted
    }

    /// Whether the state is not newer than the `known` one.
    pub(crate) fn tells_nothing_to(&self, known: &Version) -> bool {
        self.echo || known.covers(&Version::of(&self.raw.facts().resource_version))
    }

    /// This one was not read yet when `newer` came in.
    fn followed_by(self, newer: Self) -> Self {
        if self.event == EventType::Deleted {
            return self;
        }
        let first = matches!(self.event, EventType::Listed | EventType::Added);
        let keeps = first && newer.event != EventType::Deleted;
        Self {
            event: if keeps { self.event } else { newer.event },
            echo: self.echo && newer.echo,
            arrived: self.arrived,
            ..newer
        }
    }
}

/// Whether waiting alone will not help.
fn is_lasting(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::Denied { .. }
            | ClusterError::NotFound(_)
            | ClusterError::Unauthorized(_)
            | ClusterError::Invalid(_)
    )
}

#[cfg(test)]
mod tests;
