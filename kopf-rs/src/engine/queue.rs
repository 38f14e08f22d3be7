//! One mailbox per object, and a worker where there is something in it.
//!
//! Watches feed it without waiting. An object at rest is a slot in a map; an object with something to do has a worker, and one uid never
//! has two. A slot belongs to the stream that has told of it last; a stream that replaces another one takes its slots over. Promises that
//! an object is only called deleted where the server says so, or where a complete listing of its stream lacks it: one whose stream is
//! closed is not watched any more, and forgotten. Must not know what is done with a state, nor how.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::key::{Key, full_name};
use crate::engine::mailbox::{ChangedChildren, Letter, Mailbox, Origin, Pending, ReturnedCall};
use crate::engine::memory::{Memory, Version};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::timers::Timers;
use crate::object::event::EventType;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

pub(crate) mod facts;
mod slot;
mod standby;

/// Which watch an event comes from.
pub(crate) type StreamId = u32;

/// A worker that is to be started.
pub(crate) struct WorkerStart {
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
    /// Told of every hundredth event.
    many: Notify,
    /// Told whenever an object is due sooner than all others.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    /// A tree: it grows and shrinks by a few slots at a time, where a table of hashes stands twice while it grows, and keeps its size.
    slots: BTreeMap<Key, Slot>,
    streams: HashMap<StreamId, Stream>,
    /// When objects at rest are due.
    timers: Timers,
    /// The operator is paused: what is not watched any more will be watched again.
    is_paused: bool,
    /// What is remembered of objects from before the pause.
    paused: BTreeMap<Key, Memory>,
    /// Another instance is at work: the objects that are to be looked at once this one is.
    standby: Option<BTreeSet<Key>>,
    /// Objects that are gone without a worker of theirs.
    gone: Vec<Key>,
    busy: usize,
    /// How many events have told of objects.
    events: u64,
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
    mailbox: Mailbox,
    wake: Arc<Notify>,
    /// Another version, or other handlers, have taken over since the last state came in.
    stale: bool,
    /// When the worker has last had to wait for the server, since it has last taken a letter.
    held_up: Option<Instant>,
    /// It was deleted while another instance was at work.
    is_gone: bool,
}

struct Stream {
    kind: Arc<ResourceHandlers>,
    mark: u32,
    /// When the listing was asked for.
    asked: Instant,
    synced: bool,
    troubled: bool,
}

impl Queue {
    /// A watch that is about to start: the operator is not settled before it has synced. It takes over the objects of
    /// the watch that it replaces; where their handlers differ, or the version, each of them is looked at anew when it is listed.
    pub(crate) fn open(
        &self,
        stream: StreamId,
        kind: Arc<ResourceHandlers>,
        replaces: Option<StreamId>,
    ) {
        let mut state = self.lock();
        let former = replaces.and_then(|id| Some((id, state.streams.remove(&id)?)));
        if let Some((former, Stream { kind: was, .. })) = former {
            let changed = !kind.is_same(&was);
            let slots = state.slots.values_mut();
            for slot in slots.filter(|slot| slot.stream == former) {
                slot.stream = stream;
                slot.mark = Stream::UNLISTED;
                match &mut slot.work {
                    _ if !changed => {}
                    Work::Resting(memory) => memory.version = Version::Unknown,
                    Work::Busy(busy) => busy.stale = true,
                }
            }
        }
        state.streams.insert(stream, Stream::new(kind));
    }

    /// Take in what a watch tells, as long as it is open. Never blocks. Hands the workers that are to be started to `start`.
    /// No worker is started for a state of a resting object that `quiet` says needs none. The objects that are gone without that a worker has
    /// been told.
    pub(crate) fn feed(
        &self,
        stream: StreamId,
        event: WatchEvent,
        quiet: impl Fn(&ResourceHandlers, &mut Memory, &Raw) -> bool,
        mut start: impl FnMut(WorkerStart),
    ) -> Vec<Key> {
        let mut state = self.lock();
        let Some(found) = state.streams.get_mut(&stream) else {
            return Vec::new();
        };
        match event {
            WatchEvent::Object(event, raw) => {
                let worker = state.object(stream, event, raw, quiet);
                state.events += 1;
                let is_hundredth = state.events.is_multiple_of(100);
                let gone = std::mem::take(&mut state.gone);
                drop(state);
                if is_hundredth {
                    self.many.notify_one();
                }
                worker.into_iter().for_each(start);
                return gone;
            }
            WatchEvent::Listing(asked) => {
                found.mark += 1;
                found.asked = asked;
            }
            WatchEvent::Synced => {
                found.synced = true;
                found.troubled = false;
                let mark = found.mark;
                let deleted = state.conclude(stream, mark);
                let gone = std::mem::take(&mut state.gone);
                drop(state);
                deleted.into_iter().for_each(&mut start);
                self.changed.notify_waiters();
                return gone;
            }
            WatchEvent::Silent | WatchEvent::Bookmark => {}
            WatchEvent::Resumed => found.troubled = false,
            WatchEvent::Trouble(error) => {
                found.troubled = error.is_lasting();
                self.changed.notify_waiters();
            }
        }
        Vec::new()
    }

    /// From now on, the objects of streams that are closed are remembered: they will be watched again.
    pub(crate) fn pause(&self) {
        let mut state = self.lock();
        state.is_paused = true;
        // Objects that have not been seen since the last pause are gone, once all has been listed.
        if state.streams.values().all(|it| it.synced) {
            state.paused = BTreeMap::new();
        }
    }

    /// The pause is over.
    pub(crate) fn resume(&self) {
        self.lock().is_paused = false;
    }

    /// Whether others are at work, for a while.
    pub(crate) fn is_paused(&self) -> bool {
        let state = self.lock();
        state.is_paused || state.standby.is_some()
    }

    /// A watch that is ended: its objects are not watched any more. What is at rest is forgotten, and workers are told.
    /// Hands over the workers of those that rest while their daemons and timers run.
    pub(crate) fn close(&self, stream: StreamId) -> Vec<WorkerStart> {
        let mut started = Vec::new();
        let mut state = self.lock();
        let kind = state.streams.remove(&stream).map(|it| it.kind);
        if let Some(kind) = kind {
            for key in state.forget_those_at_rest(stream) {
                // That it is not watched is read first; the other letter names it.
                let slot = state.slots.get(&key).filter(|slot| slot.is_at_rest());
                let origin = slot.and_then(|slot| slot.origin(&key, &kind));
                let due = origin.map(Letter::Due);
                started.extend(due.and_then(|due| state.deliver(&key, due)));
                state.deliver(&key, Letter::Unwatched);
            }
        }
        drop(state);
        self.changed.notify_waiters();
        started
    }

    /// A letter for an object; a worker that is to be started for it. Lost where nothing is known of the object.
    pub(crate) fn post(&self, key: &Key, mut letter: Letter) -> Option<WorkerStart> {
        let mut state = self.lock();
        if let Some(kind) = state.kind_of(key) {
            letter.is_seen_by(kind);
        }
        state.deliver(key, letter)
    }

    /// A child of the object is another than before; a worker that is to be started for it. Lost where nothing is known of the object.
    pub(crate) fn child_changed(
        &self,
        owner_uid: &str,
        kind: &Arc<Resource>,
    ) -> Option<WorkerStart> {
        let key = Key::of_uid(owner_uid);
        let mut state = self.lock();
        let children = ChangedChildren {
            kinds: vec![kind.clone()],
            origin: state.origin(&key)?,
        };
        state.deliver(&key, Letter::ChildrenChanged(Box::new(children)))
    }

    /// An object that a handler refers to is another than before, which concerns those of the handler's objects that have these names (`namespace/name`):
    /// the workers that are to be started for them.
    pub(crate) fn target_changed(
        &self,
        handler: &str,
        names: &BTreeSet<Box<str>>,
        kind: &Arc<Resource>,
    ) -> Vec<WorkerStart> {
        let mut state = self.lock();
        let State { slots, streams, .. } = &*state;
        let is_handled = |slot: &Slot| {
            let stream = streams.get(&slot.stream);
            stream.is_some_and(|it| it.kind.handlers.iter().any(|it| *it.id == *handler))
        };
        let concerned = slots.iter();
        let concerned = concerned.filter(|(_, it)| names.contains(&it.name) && is_handled(it));
        let concerned: Vec<Key> = concerned.map(|(key, _)| key.clone()).collect();
        let tell = |key: Key| {
            let children = ChangedChildren {
                kinds: vec![kind.clone()],
                origin: state.origin(&key)?,
            };
            state.deliver(&key, Letter::ChildrenChanged(Box::new(children)))
        };
        concerned.into_iter().filter_map(tell).collect()
    }

    /// The calls of daemons and timers that have ended.
    pub(crate) fn take_returned(&self, key: &Key) -> Vec<ReturnedCall> {
        let mut state = self.lock();
        let mailbox = state.mailbox(key);
        mailbox.map(Mailbox::take_returned).unwrap_or_default()
    }

    /// Wait until objects at rest are due: the workers that are to be started for them.
    pub(crate) async fn due(&self) -> Vec<WorkerStart> {
        loop {
            let first = self.lock().timers.first();
            let is_due = async {
                match first {
                    Some(first) => tokio::time::sleep_until(first).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                () = is_due => return self.lock().due(Instant::now()),
            }
        }
    }

    /// Look at all objects that may have timers with a schedule: the workers that are to be started for them.
    pub(crate) fn look_at_schedules(&self) -> Vec<WorkerStart> {
        let mut state = self.lock();
        let State { slots, streams, .. } = &*state;
        let may_be_due = |slot: &Slot| {
            let stream = streams.get(&slot.stream);
            let is_due = !slot.is_at_rest() || slot.due().is_some();
            is_due && stream.is_some_and(|it| it.kind.has_schedules())
        };
        let those = slots.iter().filter(|(_, slot)| may_be_due(slot));
        let those: Vec<Key> = those.map(|(key, _)| key.clone()).collect();
        state.look_at(those)
    }

    /// What waits for the object.
    pub(crate) fn take(&self, key: &Key) -> Option<Letter> {
        let mut state = self.lock();
        let busy = state.busy_slot(key)?;
        busy.held_up = None;
        busy.mailbox.take()
    }

    /// The server has said that the object is gone: what else tells so is no news.
    pub(crate) fn is_gone(&self, key: &Key) {
        if let Some(mailbox) = self.lock().mailbox(key) {
            mailbox.end();
        }
    }

    /// A request about the object has failed and will be repeated: what waits for it waits for the server.
    pub(crate) fn is_held_up(&self, key: &Key) {
        if let Some(busy) = self.lock().busy_slot(key) {
            busy.held_up = Some(Instant::now());
        }
    }

    /// Look at what waits for the object; `None` where it has no worker.
    pub(crate) fn peek<T>(&self, key: &Key, look: impl FnOnce(&Mailbox) -> T) -> Option<T> {
        self.lock().mailbox(key).map(|mailbox| look(mailbox))
    }

    /// Whether a deletion waits for the object, or there is no such object any more.
    pub(crate) fn is_deleted(&self, key: &Key) -> bool {
        self.peek(key, Mailbox::is_deletion).unwrap_or(true)
    }

    /// Whether a state that tells something new waits for the object.
    pub(crate) fn has_news(&self, key: &Key, memory: &Memory) -> bool {
        let is_news = |it: &Mailbox| it.state().is_some_and(|it| !it.is_known_to(memory));
        self.peek(key, is_news).unwrap_or_default()
    }

    /// Whether there is an object of that uid.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.lock().slots.contains_key(&Key::of_uid(uid))
    }

    /// The worker has nothing to do any more; where something has come in meanwhile, the memory is handed back.
    pub(crate) fn rest(&self, key: &Key, mut memory: Memory) -> Option<Memory> {
        let mut state = self.lock();
        let slot = state.slots.get_mut(key)?;
        let Work::Busy(busy) = &slot.work else {
            return None;
        };
        if !busy.mailbox.is_empty() {
            return Some(memory);
        }
        if busy.stale {
            // Known is only what the former handlers have seen, or in the former version.
            memory.version = Version::Unknown;
        }
        let due = memory.due();
        slot.work = Work::Resting(memory);
        state.busy -= 1;
        let is_sooner = due.is_some_and(|due| state.wait_until(due, key));
        drop(state);
        if is_sooner {
            self.sooner.notify_one();
        }
        self.changed.notify_waiters();
        None
    }

    /// The object is no more, and the worker is done with it. Where it is there again meanwhile, the worker goes on with the memory of an
    /// object that has just been seen for the first time.
    pub(crate) fn remove(&self, key: &Key) -> Option<Memory> {
        if let Some(mailbox) = self.lock().mailbox(key) {
            mailbox.is_not_taken_over();
        }
        self.remove_but_for(key, Memory::first)
    }

    /// The object is not watched any more, and the worker is done with it. Where it is watched again meanwhile, the memory is handed back.
    pub(crate) fn forget(&self, key: &Key, memory: Memory) -> Option<Memory> {
        let memory = match self.lock().keep(key, memory) {
            Ok(()) => {
                self.changed.notify_waiters();
                return None;
            }
            Err(memory) => memory,
        };
        let mut memory = Some(memory);
        let again = self.remove_but_for(key, |_| memory.take().unwrap_or_default());
        if let Some(memory) = memory {
            let mut state = self.lock();
            if state.is_paused {
                state.paused.insert(key.clone(), memory.before_a_pause());
            }
        }
        again
    }

    /// Remove the object, unless a state has come in: then it is remembered like this.
    fn remove_but_for(
        &self,
        key: &Key,
        memory: impl FnOnce(EventType) -> Memory,
    ) -> Option<Memory> {
        let mut state = self.lock();
        let again = state
            .mailbox(key)
            .filter(|mailbox| mailbox.has_state())
            .map(|mailbox| mailbox.state().map_or(EventType::Listed, |it| it.event));
        if let Some(event) = again {
            return Some(memory(event));
        }
        state.remove(key);
        drop(state);
        self.changed.notify_waiters();
        None
    }

    /// The worker has ended before it was done: the object is as good as never seen.
    pub(crate) fn drop_worker(&self, key: &Key) {
        self.lock().remove(key);
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

    /// Wait until a hundred events or so have come in since this was last awaited.
    pub(crate) async fn many_events(&self) {
        self.many.notified().await;
    }

    /// How many events have come in so far.
    pub(crate) fn events(&self) -> u64 {
        self.lock().events
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

    fn mailbox(&mut self, key: &Key) -> Option<&mut Mailbox> {
        Some(&mut self.busy_slot(key)?.mailbox)
    }

    fn busy_slot(&mut self, key: &Key) -> Option<&mut Busy> {
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
        quiet: impl Fn(&ResourceHandlers, &mut Memory, &Raw) -> bool,
    ) -> Option<WorkerStart> {
        let found = self.streams.get(&stream)?;
        let facts = raw.facts();
        let key = Key::of(&found.kind.resource, facts);
        let remembered = self.paused.remove(&key);
        let was_paused = remembered.is_some();
        let slot = match self.slots.entry(key.clone()) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(_) if found.kind.is_only_indexed() => return None,
            Entry::Vacant(vacant) => vacant.insert(Slot {
                stream,
                mark: found.mark,
                name: full_name(facts.namespace.as_deref(), &facts.name),
                work: Work::Resting(remembered.unwrap_or_else(|| {
                    // What was there when this instance takes over is resumed, as at a start.
                    let is_at_work = self.standby.is_none();
                    Memory::first(if is_at_work { event } else { EventType::Listed })
                })),
            }),
        };
        (slot.stream, slot.mark) = (stream, found.mark);
        let state = Pending {
            event,
            raw,
            kind: found.kind.clone(),
            arrived: Instant::now(),
            listing: (event == EventType::Listed).then_some(found.asked),
            concluded: false,
        };
        if let Work::Resting(memory) = &mut slot.work
            && !state.is_absence()
            && state.kind.watching.is_empty()
        {
            if state.is_known_to(memory) {
                return None;
            }
            let is_new = event == EventType::Added || was_paused;
            if !is_new && quiet(&state.kind, memory, &state.raw) {
                memory.version = Version::of(&state.raw.facts().resource_version);
                if let Some(noted) = &mut self.standby {
                    noted.remove(&key);
                }
                return None;
            }
        }
        self.deliver(&key, Letter::State(state))
    }

    /// Put a letter in; a worker that is to be started for the object. Lost where nothing is known of it.
    fn deliver(&mut self, key: &Key, letter: Letter) -> Option<WorkerStart> {
        let letter = self.unless_standing_by(key, letter)?;
        let worker = self.slots.get_mut(key)?.post(key, letter)?;
        self.busy += 1;
        Some(worker)
    }

    /// The handlers that are for the object now.
    fn kind_of(&self, key: &Key) -> Option<&Arc<ResourceHandlers>> {
        let slot = self.slots.get(key)?;
        Some(&self.streams.get(&slot.stream)?.kind)
    }

    /// What is known of the object: its name.
    fn origin(&self, key: &Key) -> Option<Origin> {
        self.slots.get(key)?.origin(key, self.kind_of(key)?)
    }

    /// Let these objects be looked at: the workers that are to be started for them.
    fn look_at(&mut self, keys: Vec<Key>) -> Vec<WorkerStart> {
        let look = |key: Key| self.deliver(&key, Letter::Due(self.origin(&key)?));
        keys.into_iter().filter_map(look).collect()
    }

    /// Forget the objects of a stream that are at rest, but those that have calls: all others of it.
    fn forget_those_at_rest(&mut self, stream: StreamId) -> Vec<Key> {
        let mut others = Vec::new();
        let State {
            slots,
            is_paused,
            paused,
            ..
        } = self;
        slots.retain(|key, slot| match &mut slot.work {
            _ if slot.stream != stream => true,
            Work::Resting(memory) if !memory.has_calls() => {
                if *is_paused {
                    paused.insert(key.clone(), std::mem::take(memory).before_a_pause());
                }
                false
            }
            _ => {
                others.push(key.clone());
                true
            }
        });
        others
    }

    /// The listing `mark` of the stream is complete: its objects that are not among those listed are deleted.
    fn conclude(&mut self, stream: StreamId, mark: u32) -> Vec<WorkerStart> {
        let Some(kind) = self.streams.get(&stream).map(|found| found.kind.clone()) else {
            return Vec::new();
        };
        let is_missing = |slot: &Slot| slot.stream == stream && slot.mark != mark;
        let missing = self.slots.iter().filter(|(_, slot)| is_missing(slot));
        let missing: Vec<Key> = missing.map(|(key, _)| key.clone()).collect();
        let end = |key: Key| {
            let deletion = self.slots.get(&key)?.deletion(&key, &kind)?;
            self.deliver(&key, Letter::State(deletion))
        };
        missing.into_iter().filter_map(end).collect()
    }

    /// The object rests until then. Whether it is due sooner than all others.
    fn wait_until(&mut self, due: Instant, key: &Key) -> bool {
        let Self { slots, timers, .. } = self;
        timers.insert(due, key.clone(), |due, key| {
            slots.get(key).is_some_and(|slot| slot.due() == Some(due))
        })
    }

    /// The workers of objects at rest that are due.
    fn due(&mut self, now: Instant) -> Vec<WorkerStart> {
        let mut keys = Vec::new();
        while let Some((due, key)) = self.timers.pop(now) {
            let slot = self.slots.get(&key);
            keys.extend(slot.filter(|slot| slot.due() == Some(due)).map(|_| key));
        }
        self.look_at(keys)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(key) {
            self.busy -= usize::from(matches!(slot.work, Work::Busy(_)));
        }
    }
}

// === impl Stream ===

impl Stream {
    /// The mark of objects that no listing of this stream has named yet.
    const UNLISTED: u32 = 0;

    fn new(kind: Arc<ResourceHandlers>) -> Self {
        Self {
            kind,
            mark: Self::UNLISTED,
            asked: Instant::now(),
            synced: false,
            troubled: false,
        }
    }
}

#[cfg(test)]
mod tests;
