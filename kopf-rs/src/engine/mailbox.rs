//! What waits for one object: letters of several kinds, each with a rule of its own for what a newer one makes of an older one.
//!
//! A state takes the place of an older state. That the object is not watched any more takes the place of a state, but of no deletion;
//! a state that comes after it (the object is watched again) takes it back. Once a deletion was read, the object has ended: a further
//! deletion, and that it is not watched, tell nothing. Children that have changed are one letter, with the kinds of all of them. Calls of daemons
//! and timers that have ended are all read, before anything else. What else will be posted (a patch that is owed) gets a field here with its rule in
//! [`Mailbox::post`], and its turn in [`Mailbox::take`]; the queue and the other letters stay as they are. Must not know what is done with a letter.

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

/// Something that concerns an object.
#[derive(Debug)]
pub(crate) enum Letter {
    /// It is in another state, or deleted.
    State(Pending),
    /// It is not watched any more: what has begun ends and is written, and nothing is remembered. It may well be there.
    Unwatched,
    /// Calls of its daemons and timers have ended.
    Returned(Vec<ReturnedCall>),
    /// Children of it are others than before.
    ChildrenChanged(Box<ChangedChildren>),
    /// A daemon or timer of it is due, and it was at rest: what it is like has to be read.
    Due(Origin),
    /// Another instance was at work until now: what it has made of the object has to be read, however new the last state is.
    TakenOver(Origin),
}

/// A call of a daemon or timer that has ended.
#[derive(Debug)]
pub(crate) struct ReturnedCall {
    /// Which call it was.
    pub(crate) number: u64,
    pub(crate) call: HandlerCall,
    /// `None` where the call was cut off.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) patch: Patch,
    /// What the object was like by then, as far as the call was told.
    pub(crate) origin: Origin,
}

/// Children of an object that are others than before: their kinds, and what is known of the object.
#[derive(Debug)]
pub(crate) struct ChangedChildren {
    pub(crate) kinds: Vec<Arc<Resource>>,
    pub(crate) origin: Origin,
}

/// What an object was like at some time; of one that was at rest, no more than its name.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) raw: Raw,
    pub(crate) kind: Arc<ResourceHandlers>,
}

/// A state that waits to be handled.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) event: EventType,
    pub(crate) raw: Raw,
    pub(crate) kind: Arc<ResourceHandlers>,
    /// When the oldest of the states merged into this one came in.
    pub(crate) arrived: Instant,
    /// For a state of a listing: when that was asked for.
    pub(crate) listing: Option<Instant>,
    /// A deletion that no server has told of: a complete listing lacks the object.
    pub(crate) concluded: bool,
}

/// The letters of one object that were not read yet.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Option<Pending>,
    unwatched: bool,
    /// The state in the place of which that has come: a worker that has not begun yet knows its object by it.
    unread: Option<Origin>,
    returned: Vec<ReturnedCall>,
    children: Option<Box<ChangedChildren>>,
    due: Option<Origin>,
    taken_over: Option<Origin>,
    /// The last state that was read is a deletion.
    ended: bool,
}

impl Letter {
    /// These handlers are for the object now: they may be others than when a call began.
    pub(crate) fn is_seen_by(&mut self, kind: &Arc<ResourceHandlers>) {
        if let Self::Returned(calls) = self {
            for call in calls {
                call.origin.kind = kind.clone();
            }
        }
    }
}

impl Mailbox {
    pub(crate) fn post(&mut self, letter: Letter) {
        match letter {
            Letter::State(newer) if self.ended && newer.is_absence() => {
                self.state = None;
            }
            Letter::State(newer) => {
                self.unwatched = false;
                self.unread = None;
                self.ended = false;
                self.state = Some(match self.state.take() {
                    Some(older) => older.followed_by(newer),
                    None => newer,
                });
            }
            Letter::Unwatched => self.is_not_watched(),
            Letter::Returned(calls) => self.returned.extend(calls),
            Letter::ChildrenChanged(children) => self.children_changed(children),
            Letter::Due(origin) => self.due = Some(origin),
            Letter::TakenOver(origin) => self.taken_over = Some(origin),
        }
    }

    fn is_not_watched(&mut self) {
        // Who was to take it over stands by again.
        let taken_over = self.taken_over.take();
        if self.ended || self.is_deletion() {
            return;
        }
        let newest = self.state.take();
        let newest = newest.map(|Pending { raw, kind, .. }| Origin { raw, kind });
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
        let ChangedChildren { kinds, origin } = *newer;
        all.origin = origin;
        for kind in kinds {
            if !all.kinds.contains(&kind) {
                all.kinds.push(kind);
            }
        }
    }

    /// The letter to be read next.
    pub(crate) fn take(&mut self) -> Option<Letter> {
        if !self.returned.is_empty() {
            return Some(Letter::Returned(self.take_returned()));
        }
        let unwatched = std::mem::take(&mut self.unwatched);
        self.unread = None;
        if !unwatched && let Some(origin) = self.taken_over.take() {
            return Some(Letter::TakenOver(origin));
        }
        self.ended |= self.is_deletion();
        let state = self.state.take().map(Letter::State);
        let letter = state.or(unwatched.then_some(Letter::Unwatched));
        let children = || self.children.take().map(Letter::ChildrenChanged);
        let letter = letter.or_else(children);
        letter.or_else(|| self.due.take().map(Letter::Due))
    }

    /// The object is gone, as the server says: a deletion that waits, or will come in, tells nothing.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.state.take_if(|state| state.is_absence());
    }

    /// The object is no more: nothing of it is to be taken over.
    pub(crate) fn is_not_taken_over(&mut self) {
        self.taken_over = None;
    }

    /// The calls that have ended, without anything else.
    pub(crate) fn take_returned(&mut self) -> Vec<ReturnedCall> {
        std::mem::take(&mut self.returned)
    }

    /// What is known of the object by what waits for it, the newest first.
    pub(crate) fn origin(&self) -> Option<Origin> {
        let state = self.state.as_ref().map(|state| Origin {
            raw: state.raw.clone(),
            kind: state.kind.clone(),
        });
        let returned = || self.returned.last().map(|call| call.origin.clone());
        let children = || self.children.as_ref().map(|it| it.origin.clone());
        let known = state.or_else(returned).or_else(children);
        let known = known.or_else(|| self.due.clone());
        let known = known.or_else(|| self.taken_over.clone());
        known.or_else(|| self.unread.clone())
    }

    /// Whether calls of daemons and timers have ended.
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let has_calls = !self.returned.is_empty() || self.due.is_some();
        let has_state = self.has_state() || self.unwatched;
        !has_state && !has_calls && self.children.is_none()
    }

    /// Whether there is a state to be looked at, or one to be read.
    pub(crate) fn has_state(&self) -> bool {
        self.state.is_some() || self.taken_over.is_some()
    }

    /// The newest state.
    pub(crate) fn state(&self) -> Option<&Pending> {
        self.state.as_ref()
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.state.as_ref().is_some_and(Pending::is_deletion)
    }

    pub(crate) fn is_unwatched(&self) -> bool {
        self.unwatched
    }
}

impl Pending {
    /// Whether the object is no more, for certain.
    pub(crate) fn is_deletion(&self) -> bool {
        self.is_absence() && !self.kind.is_selected
    }

    /// Whether the watch does not show the object any more: it is deleted, or has gone out of what the server selects.
    pub(crate) fn is_absence(&self) -> bool {
        self.event == EventType::Deleted
    }

    /// Whether the state tells nothing new to the memory: it is not newer than what is known.
    pub(crate) fn is_known_to(&self, memory: &Memory) -> bool {
        let version = Version::of(&self.raw.facts().resource_version);
        let answered = memory.lately.answered;
        !self.is_absence() && memory.version.knows(&version, self.listing, answered)
    }

    /// This one was not read yet when `newer` came in.
    fn followed_by(self, newer: Self) -> Self {
        // What the server has deleted has no later state, but in a listing: then the server has been restored.
        if self.is_deletion() && !self.concluded && newer.listing.is_none() {
            return self;
        }
        let first = matches!(self.event, EventType::Listed | EventType::Added);
        let keeps = first && !newer.is_absence();
        Self {
            event: if keeps { self.event } else { newer.event },
            arrived: self.arrived,
            ..newer
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(event: EventType, version: u32) -> Letter {
        let text =
            format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
        Letter::State(Pending {
            event,
            raw: Raw::parse(&text).unwrap(),
            kind: Arc::new(ResourceHandlers::new(
                0,
                Arc::new(Resource::default()),
                Vec::new(),
            )),
            arrived: Instant::now(),
            listing: (event == EventType::Listed).then(Instant::now),
            concluded: false,
        })
    }

    fn concluded() -> Letter {
        let Letter::State(pending) = state(EventType::Deleted, 0) else {
            unreachable!("a state is a state")
        };
        Letter::State(Pending {
            concluded: true,
            ..pending
        })
    }

    /// What is read after these letters: the event and the version, or `unwatched`.
    fn read(letters: impl IntoIterator<Item = Letter>) -> String {
        let mut mailbox = Mailbox::default();
        letters.into_iter().for_each(|it| mailbox.post(it));
        let read = match mailbox.take() {
            Some(Letter::State(it)) => {
                format!("{:?} {}", it.event, it.raw.facts().resource_version)
            }
            Some(Letter::Unwatched) => "unwatched".to_owned(),
            Some(other) => unreachable!("{other:?}"),
            None => "nothing".to_owned(),
        };
        assert!(mailbox.is_empty());
        read
    }

    #[tokio::test]
    async fn what_a_newer_letter_makes_of_an_older_one() {
        use EventType::{Added, Deleted, Listed, Modified};
        for (letters, expected) in [
            (vec![], "nothing"),
            (vec![state(Added, 1), state(Modified, 2)], "Added 2"),
            (vec![state(Modified, 1), state(Modified, 2)], "Modified 2"),
            (vec![state(Added, 1), state(Deleted, 2)], "Deleted 2"),
            (vec![state(Deleted, 2), state(Modified, 3)], "Deleted 2"),
            // A listing lacked it, and then it is there: it lives.
            (vec![concluded(), state(Modified, 3)], "Modified 3"),
            // The server was restored.
            (vec![state(Deleted, 9), state(Listed, 3)], "Listed 3"),
            (vec![state(Added, 1), Letter::Unwatched], "unwatched"),
            (vec![state(Deleted, 1), Letter::Unwatched], "Deleted 1"),
            (vec![Letter::Unwatched, state(Listed, 1)], "Listed 1"),
        ] {
            assert_eq!(read(letters), expected);
        }
    }

    #[tokio::test]
    async fn what_was_not_taken_over_yet_is_not_any_more() {
        let origin = || {
            let Letter::State(Pending { raw, kind, .. }) = state(EventType::Added, 1) else {
                unreachable!("a state is a state")
            };
            Origin { raw, kind }
        };
        let mut mailbox = Mailbox::default();
        mailbox.post(Letter::TakenOver(origin()));
        mailbox.post(Letter::Unwatched);
        assert!(
            mailbox.origin().is_some(),
            "a worker knows its object by it"
        );
        assert!(!mailbox.has_state(), "it is not watched again");
        assert!(matches!(mailbox.take(), Some(Letter::Unwatched)));
        assert!(mailbox.is_empty() && mailbox.take().is_none());
        // The other way round, it ends and is looked at anew.
        mailbox.post(Letter::Unwatched);
        mailbox.post(Letter::TakenOver(origin()));
        assert!(matches!(mailbox.take(), Some(Letter::Unwatched)));
        assert!(mailbox.has_state());
        assert!(matches!(mailbox.take(), Some(Letter::TakenOver(_))));
    }

    #[tokio::test]
    async fn what_is_gone_is_told_of_once() {
        let mut mailbox = Mailbox::default();
        let selected = |letter: Letter| {
            let Letter::State(pending) = letter else {
                unreachable!("a state is a state")
            };
            let kind = ResourceHandlers::new(0, Arc::default(), Vec::new());
            let kind = Arc::new(kind.selected(true));
            Letter::State(Pending { kind, ..pending })
        };
        mailbox.post(selected(state(EventType::Deleted, 2)));
        assert!(mailbox.take().is_some());
        // A listing lacks it, too, before the server has said what has become of it, and another one does afterwards.
        mailbox.post(selected(concluded()));
        mailbox.end();
        mailbox.post(selected(concluded()));
        assert!(mailbox.is_empty());
        mailbox.post(selected(state(EventType::Listed, 3)));
        assert!(mailbox.take().is_some(), "it is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_version_counts_where_a_listing_that_was_asked_for_later_has_it() {
        let known = |letter: Letter, memory: &Memory| match letter {
            Letter::State(pending) => pending.is_known_to(memory),
            other => unreachable!("{other:?}"),
        };
        let mut memory = Memory::first(EventType::Listed);
        memory.version = Version::of("9");
        let listed = |version| state(EventType::Listed, version);
        assert!(!known(listed(3), &memory), "never worked on");
        assert!(known(listed(9), &memory), "the same state");
        memory.lately.answered = Some(Instant::now());
        assert!(known(listed(3), &memory), "an own write may have come in");
        tokio::time::advance(Duration::from_secs(1)).await;
        let restored = listed(3);
        memory.lately.pace.ended(Instant::now());
        assert!(!known(restored, &memory), "nothing was written since");
        assert!(known(state(EventType::Modified, 3), &memory), "an echo");
    }
}
