//! The mailbox of one object: messages of several kinds, each with its own rule for how a newer message coalesces with an older one.
//!
//! - A state replaces an older state.
//! - The end of the watch replaces a state, but not a deletion. A later state, which means that the object is watched again, revokes it.
//! - After a deletion was read, the object has ended: further deletions and ends of the watch are ignored.
//! - Changed children and triggers merge into one message with the kinds of all children.
//! - Ended calls of daemons and timers are all kept, and are read before anything else.
//!
//! A new kind of message gets a field here, its rule in [`Mailbox::post`] and its turn in [`Mailbox::take`]; the queue and the other
//! messages do not change. Must not know how messages are handled.

use std::sync::Arc;

use tokio::time::Instant;

use crate::engine::memory::{Memory, Version};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::rt::flow::Load;

/// A message about an object.
#[derive(Debug)]
pub(crate) enum Message {
    /// The object has another state, or is deleted.
    State(Pending),
    /// The object is no longer watched: running work ends and is written, and the object is forgotten. It may still exist.
    Unwatched,
    /// Calls of its daemons and timers have ended.
    Returned(Vec<ReturnedCall>),
    /// Some of its children have changed, or a trigger has fired for it.
    ChildrenChanged(Box<ChangedChildren>),
    /// A daemon or timer of an idle object is due: the object has to be read.
    Due(Snapshot),
    /// Another instance led until now, and may have changed the object: it has to be read, however new the last known state is.
    TakenOver(Snapshot),
}

/// A call of a daemon or timer that has ended.
#[derive(Debug)]
pub(crate) struct ReturnedCall {
    /// The number of the call.
    pub(crate) number: u64,
    pub(crate) call: HandlerCall,
    /// `None` if the call was cut off.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) patch: Patch,
    /// The last state of the object that the call has seen.
    pub(crate) origin: Snapshot,
}

/// The kinds of the changed children of an object, and a snapshot of the object itself.
#[derive(Debug)]
pub(crate) struct ChangedChildren {
    pub(crate) kinds: Vec<Arc<Resource>>,
    /// A trigger has fired for the object itself.
    pub(crate) is_triggered: bool,
    pub(crate) origin: Snapshot,
}

/// A snapshot of an object; for an idle object, only its name.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) raw: Raw,
    pub(crate) kind: Arc<ResourceHandlers>,
}

/// A state that waits to be handled.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) event: EventType,
    pub(crate) raw: Raw,
    pub(crate) kind: Arc<ResourceHandlers>,
    /// When the oldest of the states merged into this one arrived.
    pub(crate) arrived: Instant,
    /// When the listing was requested, if the state comes from one.
    pub(crate) listing: Option<Instant>,
    /// A deletion that no event reported: a complete listing lacks the object.
    pub(crate) concluded: bool,
    /// Counts the size of its text against the queue's limit, until a worker takes the state.
    pub(crate) _load: Load,
}

/// The unread messages of one object.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Option<Pending>,
    unwatched: bool,
    /// The state that the end of the watch replaced, by which a worker that has not begun yet identifies its object.
    unread: Option<Snapshot>,
    returned: Vec<ReturnedCall>,
    children: Option<Box<ChangedChildren>>,
    due: Option<Snapshot>,
    taken_over: Option<Snapshot>,
    /// The last state that was read is a deletion.
    ended: bool,
}

impl ChangedChildren {
    /// Creates the message of a trigger.
    pub(crate) fn triggered(origin: Snapshot) -> Self {
        Self { kinds: Vec::new(), is_triggered: true, origin }
    }
}

impl Message {
    /// Updates the handlers that the message refers to, which may have changed since a call began.
    pub(crate) fn is_seen_by(&mut self, kind: &Arc<ResourceHandlers>) {
        if let Self::Returned(calls) = self {
            for call in calls {
                call.origin.kind = kind.clone();
            }
        }
    }
}

impl Mailbox {
    pub(crate) fn post(&mut self, message: Message) {
        match message {
            Message::State(newer) if self.ended && newer.is_absence() => {
                self.state = None;
            }
            Message::State(newer) => {
                self.unwatched = false;
                self.unread = None;
                self.ended = false;
                self.state = Some(match self.state.take() {
                    Some(older) => older.followed_by(newer),
                    None => newer,
                });
            }
            Message::Unwatched => self.is_not_watched(),
            Message::Returned(calls) => self.returned.extend(calls),
            Message::ChildrenChanged(children) => self.children_changed(children),
            Message::Due(origin) => self.due = Some(origin),
            Message::TakenOver(origin) => self.taken_over = Some(origin),
        }
    }

    fn is_not_watched(&mut self) {
        // The instance that was to take the object over is on standby again.
        let taken_over = self.taken_over.take();
        if self.ended || self.is_deletion() {
            return;
        }
        let newest = self.state.take().map(|it| it.snapshot());
        if let Some(origin) = newest.or(taken_over) {
            self.unread = Some(origin);
        }
        self.unwatched = true;
    }

    fn children_changed(&mut self, newer: Box<ChangedChildren>) {
        let Some(all) = &mut self.children else {
            self.children = Some(newer);
            return;
        };
        let ChangedChildren { kinds, is_triggered, origin } = *newer;
        all.origin = origin;
        all.is_triggered |= is_triggered;
        for kind in kinds {
            if !all.kinds.contains(&kind) {
                all.kinds.push(kind);
            }
        }
    }

    /// Takes the next message to handle.
    pub(crate) fn take(&mut self) -> Option<Message> {
        if !self.returned.is_empty() {
            return Some(Message::Returned(self.take_returned()));
        }
        let unwatched = std::mem::take(&mut self.unwatched);
        self.unread = None;
        if !unwatched && let Some(origin) = self.taken_over.take() {
            return Some(Message::TakenOver(origin));
        }
        self.ended |= self.is_deletion();
        let state = self.state.take().map(Pending::taken_in);
        let state = state.map(Message::State);
        let message = state.or(unwatched.then_some(Message::Unwatched));
        let children = || self.children.take().map(Message::ChildrenChanged);
        let message = message.or_else(children);
        message.or_else(|| self.due.take().map(Message::Due))
    }

    /// Notes that the server says that the object is gone, so that present and later deletions are ignored.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.state.take_if(|state| state.is_absence());
    }

    /// Cancels a takeover because the object no longer exists.
    pub(crate) fn cancel_take_over(&mut self) {
        self.taken_over = None;
    }

    /// Takes the ended calls, and nothing else.
    pub(crate) fn take_returned(&mut self) -> Vec<ReturnedCall> {
        std::mem::take(&mut self.returned)
    }

    /// Returns the newest snapshot of the object among its messages.
    pub(crate) fn origin(&self) -> Option<Snapshot> {
        let state = self.state.as_ref().map(Pending::snapshot);
        let returned = || self.returned.last().map(|call| call.origin.clone());
        let children = || self.children.as_ref().map(|it| it.origin.clone());
        let known = state.or_else(returned).or_else(children);
        let known = known.or_else(|| self.due.clone());
        let known = known.or_else(|| self.taken_over.clone());
        known.or_else(|| self.unread.clone())
    }

    /// Returns whether calls of daemons and timers have ended.
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let has_calls = !self.returned.is_empty() || self.due.is_some();
        let has_state = self.has_state() || self.unwatched;
        !has_state && !has_calls && self.children.is_none()
    }

    /// Returns whether there is a state to handle, or one to read from the server.
    pub(crate) fn has_state(&self) -> bool {
        self.state.is_some() || self.taken_over.is_some()
    }

    /// Returns the newest state.
    pub(crate) fn state(&self) -> Option<&Pending> {
        self.state.as_ref()
    }

    /// Returns whether there is a state that is not known yet, or an absence.
    pub(crate) fn has_news(&self, memory: &Memory) -> bool {
        self.state.as_ref().is_some_and(|it| !it.is_known_to(memory))
    }

    /// Returns the state if it contains a change. An absence does not count: if a server-side selector no longer shows the object, it may
    /// be deleted or may still exist.
    pub(crate) fn change(&self, memory: &Memory) -> Option<&Pending> {
        self.state.as_ref().filter(|it| !it.is_absence() && !it.is_known_to(memory))
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.state.as_ref().is_some_and(Pending::is_deletion)
    }

    pub(crate) fn is_unwatched(&self) -> bool {
        self.unwatched
    }
}

impl Pending {
    /// Returns whether the object certainly no longer exists.
    pub(crate) fn is_deletion(&self) -> bool {
        self.is_absence() && !self.kind.is_selected
    }

    /// Returns whether the watch no longer shows the object: it is deleted, or has left a server-side selector.
    pub(crate) fn is_absence(&self) -> bool {
        self.event == EventType::Deleted
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { raw: self.raw.clone(), kind: self.kind.clone() }
    }

    /// Returns whether the state contains nothing new: it is not newer than the known one.
    pub(crate) fn is_known_to(&self, memory: &Memory) -> bool {
        let version = Version::of(&self.raw.facts().resource_version);
        let answered = memory.recent.answered;
        !self.is_absence() && memory.version.knows(&version, self.listing, answered)
    }

    /// Hands the state to a worker. Limits on concurrent cycles bound the memory of workers, so the text no longer counts against the
    /// queue's limit.
    fn taken_in(self) -> Self {
        Self { _load: Load::default(), ..self }
    }

    /// Coalesces this unread state with a newer one.
    fn followed_by(self, newer: Self) -> Self {
        // A deleted object has no later state, unless a listing shows it: then the server was restored from a backup.
        if self.is_deletion() && !self.concluded && newer.listing.is_none() {
            return self;
        }
        let first = matches!(self.event, EventType::Listed | EventType::Added);
        let keeps = first && !newer.is_absence();
        Self { event: if keeps { self.event } else { newer.event }, arrived: self.arrived, ..newer }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(event: EventType, version: u32) -> Message {
        let text = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
        Message::State(Pending {
            event,
            raw: Raw::parse(&text).unwrap(),
            kind: Arc::new(ResourceHandlers::new(0, Arc::new(Resource::default()), Vec::new())),
            arrived: Instant::now(),
            listing: (event == EventType::Listed).then(Instant::now),
            concluded: false,
            _load: Load::default(),
        })
    }

    fn concluded() -> Message {
        let Message::State(pending) = state(EventType::Deleted, 0) else {
            unreachable!("a state is a state")
        };
        Message::State(Pending { concluded: true, ..pending })
    }

    /// Returns the message that is read after these messages: event and version, or `unwatched`.
    fn read(messages: impl IntoIterator<Item = Message>) -> String {
        let mut mailbox = Mailbox::default();
        messages.into_iter().for_each(|it| mailbox.post(it));
        let read = match mailbox.take() {
            Some(Message::State(it)) => {
                format!("{:?} {}", it.event, it.raw.facts().resource_version)
            }
            Some(Message::Unwatched) => "unwatched".to_owned(),
            Some(other) => unreachable!("{other:?}"),
            None => "nothing".to_owned(),
        };
        assert!(mailbox.is_empty());
        read
    }

    #[tokio::test]
    async fn what_a_newer_message_makes_of_an_older_one() {
        use EventType::{Added, Deleted, Listed, Modified};
        for (messages, expected) in [
            (vec![], "nothing"),
            (vec![state(Added, 1), state(Modified, 2)], "Added 2"),
            (vec![state(Modified, 1), state(Modified, 2)], "Modified 2"),
            (vec![state(Added, 1), state(Deleted, 2)], "Deleted 2"),
            (vec![state(Deleted, 2), state(Modified, 3)], "Deleted 2"),
            // A listing lacked the object, and a later event shows it: it lives.
            (vec![concluded(), state(Modified, 3)], "Modified 3"),
            // The server was restored from a backup.
            (vec![state(Deleted, 9), state(Listed, 3)], "Listed 3"),
            (vec![state(Added, 1), Message::Unwatched], "unwatched"),
            (vec![state(Deleted, 1), Message::Unwatched], "Deleted 1"),
            (vec![Message::Unwatched, state(Listed, 1)], "Listed 1"),
        ] {
            assert_eq!(read(messages), expected);
        }
    }

    #[tokio::test]
    async fn what_was_not_taken_over_yet_is_not_any_more() {
        let origin = || {
            let Message::State(Pending { raw, kind, .. }) = state(EventType::Added, 1) else {
                unreachable!("a state is a state")
            };
            Snapshot { raw, kind }
        };
        let mut mailbox = Mailbox::default();
        mailbox.post(Message::TakenOver(origin()));
        mailbox.post(Message::Unwatched);
        assert!(mailbox.origin().is_some(), "a worker knows its object by it");
        assert!(!mailbox.has_state(), "it is not watched again");
        assert!(matches!(mailbox.take(), Some(Message::Unwatched)));
        assert!(mailbox.is_empty() && mailbox.take().is_none());
        // In the opposite order, the watch ends and the object is read again.
        mailbox.post(Message::Unwatched);
        mailbox.post(Message::TakenOver(origin()));
        assert!(matches!(mailbox.take(), Some(Message::Unwatched)));
        assert!(mailbox.has_state());
        assert!(matches!(mailbox.take(), Some(Message::TakenOver(_))));
    }

    #[tokio::test]
    async fn what_is_gone_is_told_of_once() {
        let mut mailbox = Mailbox::default();
        let selected = |message: Message| {
            let Message::State(pending) = message else { unreachable!("a state is a state") };
            let kind = ResourceHandlers::new(0, Arc::default(), Vec::new());
            let kind = Arc::new(kind.selected(true));
            Message::State(Pending { kind, ..pending })
        };
        mailbox.post(selected(state(EventType::Deleted, 2)));
        assert!(mailbox.take().is_some());
        // One listing lacks it before the server confirms the deletion, another one afterwards.
        mailbox.post(selected(concluded()));
        mailbox.end();
        mailbox.post(selected(concluded()));
        assert!(mailbox.is_empty());
        mailbox.post(selected(state(EventType::Listed, 3)));
        assert!(mailbox.take().is_some(), "it is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_version_counts_where_a_listing_that_was_asked_for_later_has_it() {
        let known = |message: Message, memory: &Memory| match message {
            Message::State(pending) => pending.is_known_to(memory),
            other => unreachable!("{other:?}"),
        };
        let mut memory = Memory::first(EventType::Listed);
        memory.version = Version::of("9");
        let listed = |version| state(EventType::Listed, version);
        assert!(!known(listed(3), &memory), "never worked on");
        assert!(known(listed(9), &memory), "the same state");
        memory.recent.answered = Some(Instant::now());
        assert!(known(listed(3), &memory), "an own write may have come in");
        tokio::time::advance(Duration::from_secs(1)).await;
        let restored = listed(3);
        memory.recent.pace.ended(Instant::now());
        assert!(!known(restored, &memory), "nothing was written since");
        assert!(known(state(EventType::Modified, 3), &memory), "an echo");
    }
}
