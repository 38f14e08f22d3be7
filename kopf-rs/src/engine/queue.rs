//! Keeps one mailbox for each object, and a worker for each object with messages.
//!
//! Watches feed the queue without waiting. An idle object is an entry in a map; an object with work has a worker, and a uid never has two.
//! The queue itself asks for workers, so a message and the request for its worker are one step, and no wake-up is lost.
//! Guarantees that an object counts as deleted only if the server reports that or if a complete listing of its watch lacks it
//! (`engine::object_table`); when a watch closes, its objects are no longer watched and are forgotten. Must not know what workers do with a
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::mailbox::{ChangedChildren, Mailbox, Message, Pending, ReturnedCall, Snapshot};
use crate::engine::memory::{Memory, Version};
use crate::engine::object_table::{ObjectTable, Shown, StreamId, Watch};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::timers::Timers;
use crate::engine::triggers::Fired;
use crate::object::event::EventType;
use crate::object::key::{Key, full_name};
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::rt::flow::Flow;

pub(crate) mod facts;
mod slot;
mod standby;

/// A worker to start.
pub(crate) struct WorkerStart {
    pub(crate) key: Key,
    pub(crate) memory: Memory,
    pub(crate) wake: Arc<Notify>,
}

/// All objects that the operator knows.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Notified whenever a worker ends, and whenever a stream has synced or is in trouble.
    changed: Notify,
    /// Notified by every hundredth event.
    many: Notify,
    /// Notified whenever an object is due earlier than all others.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    objects: ObjectTable<Stream, Slot>,
    /// The times at which idle objects are due.
    timers: Timers,
    /// The operator is paused: objects of closed streams will be watched again.
    is_paused: bool,
    /// The memories of objects from before the pause.
    paused: BTreeMap<Key, Memory>,
    /// Set while another instance leads: the objects to requeue when this instance takes over.
    standby: Option<BTreeSet<Key>>,
    /// Objects that are gone and that had no worker to handle that.
    gone: Vec<Key>,
    busy: usize,
    /// The number of events received.
    events: u64,
    /// The workers to start.
    starts: Vec<WorkerStart>,
    /// Notified whenever there are some.
    ready: Arc<Notify>,
}

struct Slot {
    /// `namespace/name`, or `/name`: enough to synthesize a deletion.
    name: Box<str>,
    work: Work,
}

enum Work {
    Resting(Memory),
    Busy(Box<Busy>),
}

#[expect(clippy::struct_excessive_bools, reason = "each is of another event, and ends with another one")]
struct Busy {
    mailbox: Mailbox,
    wake: Arc<Notify>,
    /// Another API version or other handlers have taken over since the last state arrived.
    stale: bool,
    /// When the worker last had to wait for the server, since it took the last message.
    held_up: Option<Instant>,
    /// The object was deleted, or left the server-side selector, while another instance led or was about to lead.
    is_gone: bool,
    /// The message taken last says that the object is absent, and no watch has shown the object since.
    is_absent: bool,
    /// Its watch was closed for a pause.
    is_paused: bool,
}

/// A watch, and the handlers of its objects.
struct Stream {
    kind: Arc<ResourceHandlers>,
    /// Bounds the size of its states in mailboxes.
    flow: Flow,
}

impl Queue {
    /// Registers a watch that is about to start; the operator is not settled before the watch has synced. The watch takes over the objects
    /// of the watch that it replaces. If the handlers or the API version differ, each object is handled again when it is listed. Returns the
    /// flow of its states to workers.
    pub(crate) fn open(
        &self,
        stream: StreamId,
        kind: Arc<ResourceHandlers>,
        replaces: Option<StreamId>,
    ) -> Flow {
        let flow = Flow::default();
        let opened = Stream { kind, flow: flow.clone() };
        self.state.lock().objects.open(stream, opened, replaces, |slot, former, new| {
            if !new.kind.is_same(&former.kind) {
                slot.outdate();
            }
        });
        flow
    }

    /// Processes one event of a watch while the watch is open. Never blocks. Starts no worker for a state of an idle object that `quiet`
    /// accepts. Returns the objects that are gone and that had no worker to be notified.
    pub(crate) fn feed(
        &self,
        stream: StreamId,
        event: WatchEvent,
        quiet: impl Fn(&ResourceHandlers, &mut Memory, &Raw) -> bool,
    ) -> Vec<Key> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let Some(missing) = state.objects.on_event(stream, &event, now) else {
            return Vec::new();
        };
        for key in missing {
            state.delete(&key);
        }
        let mut is_hundredth = false;
        let concerns_settling = matches!(event, WatchEvent::Synced(_) | WatchEvent::Trouble(_));
        if let WatchEvent::Object(event, raw) = event {
            state.object(stream, event, raw, now, quiet);
            state.events += 1;
            is_hundredth = state.events.is_multiple_of(100);
        }
        let gone = std::mem::take(&mut state.gone);
        drop(state);
        if is_hundredth {
            self.many.notify_one();
        }
        if concerns_settling {
            self.changed.notify_waiters();
        }
        gone
    }

    /// Keeps the memories of objects of closed streams from now on, because the objects will be watched again.
    pub(crate) fn pause(&self) {
        let mut state = self.state.lock();
        state.is_paused = true;
        // All is listed, so remembered objects that have not been seen since the last pause are gone.
        if state.objects.watches().all(|(_, it)| it.is_listed) {
            state.paused = BTreeMap::new();
        }
    }

    /// Ends the pause.
    pub(crate) fn resume(&self) {
        self.state.lock().is_paused = false;
    }

    /// Returns whether another instance or operator leads at present.
    pub(crate) fn is_paused(&self) -> bool {
        let state = self.state.lock();
        state.is_paused || state.standby.is_some()
    }

    /// Ends a watch: forgets its idle objects, except for those whose daemons and timers are running, and notifies its workers.
    pub(crate) fn close(&self, stream: StreamId) {
        let mut state = self.state.lock();
        if state.objects.watch(stream).is_some() {
            for key in state.forget_those_at_rest(stream) {
                // The worker reads the end of the watch first; the other message only names the object.
                if state.objects.get(&key).is_some_and(Slot::is_at_rest) {
                    state.wake(&key, Message::Due);
                }
                state.deliver(&key, Message::Unwatched);
                let is_paused = state.is_paused;
                if let Some(busy) = state.busy_slot(&key) {
                    busy.is_paused |= is_paused;
                }
            }
            state.objects.close(stream);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Posts a message for an object. The message is lost if the object is unknown.
    pub(crate) fn post(&self, key: &Key, mut message: Message) {
        let mut state = self.state.lock();
        if let Some(kind) = state.kind_of(key) {
            message.is_seen_by(kind);
        }
        state.deliver(key, message);
    }

    /// Notes that a child of the object has changed. The message is lost if the object is unknown.
    pub(crate) fn child_changed(&self, owner_uid: &str, kind: &Arc<Resource>) {
        self.state.lock().child_changed(&Key::of_uid(owner_uid), kind);
    }

    /// Notes that an object that a handler refers to has changed, which concerns the handler's objects of these names (`namespace/name`).
    pub(crate) fn target_changed(&self, handler: &str, names: &BTreeSet<Box<str>>, kind: &Arc<Resource>) {
        let mut state = self.state.lock();
        let is_handled = |it: &ResourceHandlers| it.handlers.iter().any(|it| *it.id == *handler);
        let concerned = |slot: &Slot, kind: &ResourceHandlers| names.contains(&slot.name) && is_handled(kind);
        for key in state.keys_of(concerned) {
            state.child_changed(&key, kind);
        }
    }

    /// Notes that triggers have fired. Returns the full names of the objects that they concern.
    pub(crate) fn triggered(&self, fired: &[Fired]) -> BTreeSet<Box<str>> {
        let mut state = self.state.lock();
        let is_meant = |slot: &Slot, kind: &ResourceHandlers| {
            fired.iter().any(|it| it.is_for(&kind.resource, &slot.name)) && kind.has_reconcilers()
        };
        let keys = state.keys_of(is_meant);
        for key in &keys {
            state.wake(key, |origin| Message::ChildrenChanged(Box::new(ChangedChildren::triggered(origin))));
        }
        keys.iter().filter_map(|key| Some(state.objects.get(key)?.name.clone())).collect()
    }

    /// Takes the ended calls of daemons and timers.
    pub(crate) fn take_returned(&self, key: &Key) -> Vec<ReturnedCall> {
        let mut state = self.state.lock();
        let mailbox = state.mailbox(key);
        mailbox.map(Mailbox::take_returned).unwrap_or_default()
    }

    /// Waits until there are workers to start. Cancel-safe.
    pub(crate) async fn ready(&self) {
        let ready = self.state.lock().ready.clone();
        ready.notified().await;
    }

    /// Starts the requested workers, with the queue locked, so that whoever finds none to start finds them running.
    pub(crate) fn start_workers(&self, start: impl FnMut(WorkerStart)) {
        let mut state = self.state.lock();
        std::mem::take(&mut state.starts).into_iter().for_each(start);
    }

    #[cfg(test)]
    pub(crate) fn take_starts(&self) -> Vec<WorkerStart> {
        let mut starts = Vec::new();
        self.start_workers(|start| starts.push(start));
        starts
    }

    /// Wakes idle objects whenever they are due.
    pub(crate) async fn wake_due(&self) -> Infallible {
        loop {
            let first = self.state.lock().timers.first();
            let is_due = async {
                match first {
                    Some(first) => tokio::time::sleep_until(first).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                () = is_due => self.state.lock().wake_due(Instant::now()),
            }
        }
    }

    /// Wakes all objects that may have timers with a schedule.
    pub(crate) fn look_at_schedules(&self) {
        let mut state = self.state.lock();
        let may_be_due = |slot: &Slot, kind: &ResourceHandlers| {
            (!slot.is_at_rest() || slot.due().is_some()) && kind.has_schedules()
        };
        let those = state.keys_of(may_be_due);
        state.look_at(those);
    }

    /// Takes the next message for the object.
    pub(crate) fn take(&self, key: &Key) -> Option<Message> {
        let mut state = self.state.lock();
        let busy = state.busy_slot(key)?;
        busy.held_up = None;
        let message = busy.mailbox.take();
        busy.is_absent = matches!(&message, Some(Message::State(it)) if it.is_absence());
        message
    }

    /// Notes that the server says that the object is gone, so that later events about that are ignored.
    pub(crate) fn mark_gone(&self, key: &Key) {
        if let Some(mailbox) = self.state.lock().mailbox(key) {
            mailbox.end();
        }
    }

    /// Notes that a request about the object has failed and will be repeated: its messages wait for the server.
    pub(crate) fn note_held_up(&self, key: &Key) {
        if let Some(busy) = self.state.lock().busy_slot(key) {
            busy.held_up = Some(Instant::now());
        }
    }

    /// Examines the mailbox of the object; `None` if it has no worker.
    pub(crate) fn peek<T>(&self, key: &Key, look: impl FnOnce(&Mailbox) -> T) -> Option<T> {
        self.state.lock().mailbox(key).map(|mailbox| look(mailbox))
    }

    /// Returns whether a deletion waits for the object, or the object is unknown.
    pub(crate) fn is_deleted(&self, key: &Key) -> bool {
        self.peek(key, Mailbox::is_deletion).unwrap_or(true)
    }

    /// Returns whether the object is remembered, or may be after a pause.
    pub(crate) fn remembers(&self, key: &Key) -> bool {
        let state = self.state.lock();
        state.is_paused || state.objects.contains(key)
    }

    /// Returns whether an object of this uid is known.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.state.lock().objects.contains(&Key::of_uid(uid))
    }

    /// Ends a worker that has no more work, and keeps the memory of its object. Returns the memory if a message has arrived meanwhile.
    pub(crate) fn rest(&self, key: &Key, mut memory: Memory) -> Option<Memory> {
        let mut state = self.state.lock();
        let slot = state.objects.get_mut(key)?;
        let Work::Busy(busy) = &slot.work else {
            return None;
        };
        if !busy.mailbox.is_empty() {
            return Some(memory);
        }
        if busy.stale {
            // The memory reflects only the former handlers or the former API version.
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

    /// Ends the worker of an object that no longer exists. If the object exists again, returns the memory of an object that has just been
    /// seen for the first time, for the worker to continue with.
    pub(crate) fn remove(&self, key: &Key) -> Option<Memory> {
        let mut state = self.state.lock();
        if let Some(mailbox) = state.mailbox(key) {
            mailbox.cancel_take_over();
        }
        let again = state.arrived(key).map(Memory::first);
        if again.is_none() {
            state.remove(key);
        }
        drop(state);
        self.changed.notify_waiters();
        again
    }

    /// Ends the worker of an object that is no longer watched. Returns the memory if the object is watched again meanwhile.
    pub(crate) fn forget(&self, key: &Key, memory: Memory) -> Option<Memory> {
        let mut state = self.state.lock();
        let again = match state.keep(key, memory) {
            Ok(()) => None,
            Err(memory) if state.arrived(key).is_some() => Some(memory),
            Err(memory) => {
                state.remove(key);
                if state.is_paused {
                    state.paused.insert(key.clone(), memory.before_a_pause());
                }
                None
            }
        };
        drop(state);
        self.changed.notify_waiters();
        again
    }

    /// Removes an object whose worker ended prematurely, as if the object had never been seen.
    pub(crate) fn drop_worker(&self, key: &Key) {
        self.state.lock().remove(key);
        self.changed.notify_waiters();
    }

    /// Waits until all watches have synced (or are in trouble) and no object has work, neither now nor later.
    pub(crate) async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().is_settled() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until about a hundred events have arrived since the last wait.
    pub(crate) async fn many_events(&self) {
        self.many.notified().await;
    }

    /// Returns the number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// Returns the number of objects with a worker.
    #[cfg(test)]
    pub(crate) fn busy(&self) -> usize {
        self.state.lock().busy
    }
}

// === impl State ===

impl State {
    fn is_settled(&self) -> bool {
        let mut watches = self.objects.watches().map(|(_, watch)| watch);
        let fails = |it: &Watch<Stream>| it.trouble.as_ref().is_some_and(|(_, error)| error.is_lasting());
        self.busy == 0 && watches.all(|it| it.is_listed || fails(it))
    }

    fn mailbox(&mut self, key: &Key) -> Option<&mut Mailbox> {
        Some(&mut self.busy_slot(key)?.mailbox)
    }

    /// Returns how the state arrived that the worker still has to handle.
    fn arrived(&mut self, key: &Key) -> Option<EventType> {
        let mailbox = self.mailbox(key).filter(|it| it.has_state())?;
        Some(mailbox.state().map_or(EventType::Listed, |it| it.event))
    }

    fn busy_slot(&mut self, key: &Key) -> Option<&mut Busy> {
        match &mut self.objects.get_mut(key)?.work {
            Work::Busy(busy) => Some(busy),
            Work::Resting(_) => None,
        }
    }

    fn object(
        &mut self,
        stream: StreamId,
        event: EventType,
        raw: Raw,
        arrived: Instant,
        quiet: impl Fn(&ResourceHandlers, &mut Memory, &Raw) -> bool,
    ) {
        let Some(watch) = self.objects.watch(stream) else {
            return;
        };
        let facts = raw.facts();
        let key = Key::of(&watch.of.kind.resource, facts);
        let remembered = self.paused.remove(&key);
        let was_paused = remembered.is_some();
        let is_at_work = self.standby.is_none();
        let make = |of: &Stream| {
            // Objects that exist when this instance takes over are resumed, as at a start.
            let first = || Memory::first(if is_at_work { event } else { EventType::Listed });
            (!of.kind.is_only_indexed()).then(|| Slot {
                name: full_name(facts.namespace.as_deref(), &facts.name),
                work: Work::Resting(remembered.unwrap_or_else(first)),
            })
        };
        let Some((slot, watch, _)) = self.objects.show(stream, &key, make) else {
            return;
        };
        let begins_anew = slot.is_shown(event) && is_at_work;
        let state = Pending {
            event,
            _load: watch.of.flow.load(raw.text().len()),
            raw,
            kind: watch.of.kind.clone(),
            arrived,
            listing: watch.listing.filter(|_| event == EventType::Listed),
            concluded: false,
        };
        if let Work::Resting(memory) = &mut slot.work
            && !state.is_absence()
            && state.kind.watching.is_empty()
        {
            if state.is_known_to(memory) {
                return;
            }
            let is_new = event == EventType::Added || was_paused;
            if !is_new && quiet(&state.kind, memory, &state.raw) {
                memory.version = Version::of(&state.raw.facts().resource_version);
                if let Some(noted) = &mut self.standby {
                    noted.remove(&key);
                }
                return;
            }
        }
        self.deliver(&key, Message::State(state));
        if begins_anew {
            self.wake(&key, Message::TakenOver);
        }
    }

    /// Posts a message, and asks for a worker if the object has none. The message is lost if the object is unknown.
    fn deliver(&mut self, key: &Key, message: Message) {
        let message = self.unless_standing_by(key, message);
        let slot = self.objects.get_mut(key);
        let start = slot.zip(message).and_then(|(slot, message)| slot.post(key, message));
        if let Some(start) = start {
            self.busy += 1;
            self.starts.push(start);
            self.ready.notify_one();
        }
    }

    fn child_changed(&mut self, key: &Key, kind: &Arc<Resource>) {
        let kinds = vec![kind.clone()];
        let changed = |origin| ChangedChildren { kinds, is_triggered: false, origin };
        self.wake(key, |origin| Message::ChildrenChanged(Box::new(changed(origin))));
    }

    /// Posts a message that holds only the object's name.
    fn wake(&mut self, key: &Key, message: impl FnOnce(Snapshot) -> Message) {
        if let Some(origin) = self.origin(key) {
            self.deliver(key, message(origin));
        }
    }

    /// Returns the objects of open streams that meet the condition.
    fn keys_of(&self, is_meant: impl Fn(&Slot, &ResourceHandlers) -> bool) -> Vec<Key> {
        let is_meant = |it: &Shown<Slot>| {
            let watch = self.objects.watch(it.watch);
            watch.is_some_and(|watch| is_meant(&it.value, &watch.of.kind))
        };
        let meant = self.objects.iter().filter(|(_, it)| is_meant(it));
        meant.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the present handlers of the object.
    fn kind_of(&self, key: &Key) -> Option<&Arc<ResourceHandlers>> {
        Some(&self.objects.watch_of(key)?.of.kind)
    }

    /// Returns a snapshot of the object that holds only its name.
    fn origin(&self, key: &Key) -> Option<Snapshot> {
        Some(self.objects.get(key)?.origin(key, self.kind_of(key)?))
    }

    fn look_at(&mut self, keys: Vec<Key>) {
        for key in keys {
            self.wake(&key, Message::Due);
        }
    }

    /// Forgets the idle objects of a stream, except for those with running calls. Returns the other objects of the stream.
    fn forget_those_at_rest(&mut self, stream: StreamId) -> Vec<Key> {
        let mut others = self.objects.shown_by(stream);
        others.retain(|key| {
            let memory = match self.objects.get_mut(key).map(|it| &mut it.work) {
                Some(Work::Resting(memory)) if !memory.has_calls() => std::mem::take(memory),
                _ => return true,
            };
            if self.is_paused {
                self.paused.insert(key.clone(), memory.before_a_pause());
            }
            self.remove(key);
            false
        });
        others
    }

    /// Notes that a complete listing lacks the object.
    fn delete(&mut self, key: &Key) {
        let slot = self.objects.get(key).zip(self.kind_of(key));
        if let Some((slot, kind)) = slot {
            let deletion = slot.deletion(key, kind);
            self.deliver(key, Message::State(deletion));
        }
    }

    /// Schedules an idle object. Returns whether it is due earlier than all others.
    fn wait_until(&mut self, due: Instant, key: &Key) -> bool {
        let Self { objects, timers, .. } = self;
        timers
            .insert(due, key.clone(), |due, key| objects.get(key).is_some_and(|slot| slot.due() == Some(due)))
    }

    /// Wakes the idle objects that are due.
    fn wake_due(&mut self, now: Instant) {
        let mut keys = Vec::new();
        while let Some((due, key)) = self.timers.pop(now) {
            let slot = self.objects.get(&key);
            keys.extend(slot.filter(|slot| slot.due() == Some(due)).map(|_| key));
        }
        self.look_at(keys);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(slot) = self.objects.remove(key) {
            self.busy -= usize::from(!slot.value.is_at_rest());
        }
        if let Some(noted) = &mut self.standby {
            noted.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
