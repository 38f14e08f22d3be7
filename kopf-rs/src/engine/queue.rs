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
use crate::engine::memory::{Memory, Version};
use crate::handler::cause::EventType;
use crate::handler::decl::{Handler, HandlerKind};
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

/// A served kind with the handlers that are for it.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The same for the same group, version and plural, for as long as the operator lives.
    pub(crate) id: u32,
    pub(crate) resource: Arc<Resource>,
    pub(crate) handlers: Vec<Arc<Handler>>,
    /// Those of them that see raw events.
    pub(crate) watching: Vec<Arc<Handler>>,
}

impl Kind {
    pub(crate) fn new(id: u32, resource: Arc<Resource>, handlers: Vec<Arc<Handler>>) -> Self {
        let watching = handlers
            .iter()
            .filter(|handler| handler.kind == HandlerKind::Event)
            .cloned()
            .collect();
        Self {
            id,
            resource,
            handlers,
            watching,
        }
    }

    /// Whether nothing about it has changed.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Handler>, &Arc<Handler>)| Arc::ptr_eq(one, other);
        self.resource == other.resource
            && self.handlers.len() == other.handlers.len()
            && self.handlers.iter().zip(&other.handlers).all(same)
    }
}

/// Which watch an event comes from.
pub(crate) type StreamId = u32;

/// Which object is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: u32,
    uid: Uid,
}

/// A uid: 16 bytes where it is a UUID, as on every real server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Uid {
    Uuid([u8; 16]),
    Text(Box<str>),
}

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
    pub(crate) fn feed(&self, stream: StreamId, event: WatchEvent, mut hire: impl FnMut(Hired)) {
        let mut state = self.lock();
        let Some(found) = state.streams.get_mut(&stream) else {
            return;
        };
        match event {
            WatchEvent::Object(event, raw) => {
                let hired = state.object(stream, event, raw);
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

    fn object(&mut self, stream: StreamId, event: EventType, raw: Raw) -> Option<Hired> {
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
        if let (Work::Resting(memory), false) = (&slot.work, event == EventType::Deleted) {
            echo = memory.version.covers(&Version::of(&facts.resource_version));
            if echo && kind.watching.is_empty() {
                return None;
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

// === impl Key ===

impl Key {
    fn of(kind: u32, facts: &Facts) -> Self {
        let uid = match facts.uid.as_str() {
            "" => Uid::Text(full_name(facts.namespace.as_deref(), &facts.name)),
            uid => Uid::parse(uid).unwrap_or_else(|| Uid::Text(uid.into())),
        };
        Self { kind, uid }
    }
}

impl Uid {
    /// Only the canonical form, so that writing it gives the same text.
    fn parse(text: &str) -> Option<Self> {
        let canonical = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        if text.len() != 36 || !text.bytes().all(canonical) {
            return None;
        }
        let mut bytes = [0; 16];
        let mut digits = text.split('-');
        let mut filled = 0;
        for length in [8, 4, 4, 4, 12] {
            let group = digits.next().filter(|group| group.len() == length)?;
            for at in (0..length).step_by(2) {
                bytes[filled] = u8::from_str_radix(group.get(at..at + 2)?, 16).ok()?;
                filled += 1;
            }
        }
        Some(Self::Uuid(bytes))
    }
}

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) {
                        "-"
                    } else {
                        ""
                    };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

fn full_name(namespace: Option<&str>, name: &str) -> Box<str> {
    format!("{}/{name}", namespace.unwrap_or_default()).into()
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
mod tests {
    use super::*;

    const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

    fn kind() -> Arc<Kind> {
        let resource = Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            ..Resource::default()
        };
        Arc::new(Kind::new(0, Arc::new(resource), Vec::new()))
    }

    fn raw(name: &str, uid: &str, version: u32) -> Raw {
        Raw::parse(&format!(
            r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        ))
        .unwrap()
    }

    /// A queue with one stream, 0, and the workers it has asked for.
    struct Fed {
        queue: Queue,
        hired: Vec<Hired>,
    }

    impl Fed {
        fn new() -> Self {
            let queue = Queue::default();
            queue.open(0, kind(), None);
            Self {
                queue,
                hired: Vec::new(),
            }
        }
        fn feed(&mut self, event: WatchEvent) {
            self.queue.feed(0, event, |hired| self.hired.push(hired));
        }
        fn object(&mut self, event: EventType, name: &str, uid: &str, version: u32) {
            self.feed(WatchEvent::Object(event, raw(name, uid, version)));
        }
        /// The one worker asked for takes its mail, and rests having handled `version`.
        fn work(&mut self, version: &str) -> Mail {
            let mut hired = self.hired.pop().unwrap();
            let mail = self.queue.take(&hired.key).unwrap();
            hired.memory.version = Version::of(version);
            assert!(self.queue.rest(&hired.key, hired.memory).is_none());
            mail
        }
    }

    #[tokio::test]
    async fn the_newest_state_wins_and_the_first_type_stays() {
        let mut fed = Fed::new();
        fed.object(EventType::Added, "a", UID, 1);
        fed.object(EventType::Modified, "a", UID, 2);
        assert_eq!(fed.hired.len(), 1);
        let mail = fed.work("2");
        assert_eq!(mail.event, EventType::Added);
        assert_eq!(mail.raw.facts().resource_version, "2");
    }

    #[tokio::test]
    async fn a_deletion_is_final() {
        let mut fed = Fed::new();
        fed.object(EventType::Added, "a", UID, 1);
        fed.object(EventType::Deleted, "a", UID, 2);
        fed.object(EventType::Modified, "a", UID, 3);
        assert_eq!(fed.work("2").event, EventType::Deleted);
    }

    #[tokio::test]
    async fn known_states_wake_nobody() {
        let mut fed = Fed::new();
        fed.object(EventType::Added, "a", UID, 1);
        fed.work("5");
        fed.object(EventType::Modified, "a", UID, 4);
        fed.object(EventType::Listed, "a", UID, 5);
        assert!(fed.hired.is_empty());
        fed.object(EventType::Modified, "a", UID, 6);
        assert_eq!(fed.hired.len(), 1);
    }

    #[tokio::test]
    async fn what_a_listing_does_not_name_is_deleted() {
        let mut fed = Fed::new();
        fed.feed(WatchEvent::Listing);
        for (name, uid) in [("a", UID), ("b", "no-uuid")] {
            fed.object(EventType::Listed, name, uid, 1);
            fed.work("1");
        }
        fed.feed(WatchEvent::Synced);
        assert!(fed.hired.is_empty());
        fed.feed(WatchEvent::Listing);
        fed.object(EventType::Listed, "b", "no-uuid", 1);
        fed.feed(WatchEvent::Synced);
        let mail = fed.work("1");
        assert_eq!(mail.event, EventType::Deleted);
        let facts = mail.raw.facts();
        let names = (facts.namespace.as_deref(), facts.name.as_str());
        assert_eq!((names, facts.uid.as_str()), ((Some("ns"), "a"), UID));
    }

    #[tokio::test]
    async fn a_stream_that_replaces_another_takes_its_objects_over() {
        let mut fed = Fed::new();
        fed.object(EventType::Listed, "a", UID, 1);
        fed.work("1");
        fed.queue.open(1, kind(), Some(0));
        fed.object(EventType::Modified, "a", UID, 2);
        assert!(fed.hired.is_empty(), "a closed stream is not listened to");
        let mut hired = Vec::new();
        fed.queue.feed(1, WatchEvent::Listing, |h| hired.push(h));
        fed.queue.feed(1, WatchEvent::Synced, |h| hired.push(h));
        assert_eq!(hired.len(), 1);
    }

    #[tokio::test]
    async fn settled_means_synced_and_at_rest() {
        let mut fed = Fed::new();
        let settled = |fed: &Fed| fed.queue.lock().is_settled();
        assert!(!settled(&fed));
        fed.object(EventType::Listed, "a", UID, 1);
        fed.feed(WatchEvent::Synced);
        assert!(!settled(&fed));
        fed.work("1");
        assert!(settled(&fed));
        fed.queue.settled().await;
    }

    #[test]
    fn uids_are_small_and_read_back_unharmed() {
        for uid in [UID, "no-uuid", "0F8B6C9E-1D2A-4B3C-9D4E-5F60718293A4"] {
            let key = Key::of(0, raw("a", uid, 1).facts());
            assert_eq!(key.uid.to_string(), uid);
        }
        assert!(
            size_of::<Key>() + size_of::<Slot>() <= 200,
            "{}",
            size_of::<Slot>()
        );
    }
}
