//! The queue's entry for one object: takes messages, and knows when the object is due and how to name it without its state.
//!
//! Must not know other objects.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::mailbox::{Mailbox, Message, Pending, Snapshot};
use crate::engine::memory::Version;
use crate::engine::queue::{Busy, Slot, Work, WorkerStart};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::{Facts, Raw};
use crate::rt::flow::Load;

impl Slot {
    /// Posts a message. Returns a worker if the object has none yet.
    pub(super) fn post(&mut self, key: &Key, message: Message) -> Option<WorkerStart> {
        match &mut self.work {
            Work::Busy(busy) => {
                busy.stale &= !matches!(message, Message::State(_));
                // The end of the watch replaces the pending absence, which no watch will report again.
                busy.is_gone |= matches!(message, Message::Unwatched)
                    && busy.mailbox.state().is_some_and(Pending::is_absence);
                busy.mailbox.post(message);
                busy.wake.notify_one();
                None
            }
            Work::Resting(memory) => {
                let memory = std::mem::take(memory);
                let wake = Arc::new(Notify::new());
                let mut mailbox = Mailbox::default();
                mailbox.post(message);
                self.work = Work::Busy(Box::new(Busy {
                    mailbox,
                    wake: wake.clone(),
                    stale: false,
                    held_up: None,
                    is_gone: false,
                    is_absent: false,
                    is_paused: false,
                }));
                let key = key.clone();
                Some(WorkerStart { key, memory, wake })
            }
        }
    }

    /// Notes that another API version or other handlers have taken over, so that the next state is handled whatever its version is.
    pub(super) fn outdate(&mut self) {
        match &mut self.work {
            Work::Resting(memory) => memory.version = Version::Unknown,
            Work::Busy(busy) => busy.stale = true,
        }
    }

    /// Notes that a watch shows the object. Returns whether its worker was busy through a pause that ends with this event.
    pub(super) fn is_shown(&mut self, event: EventType) -> bool {
        match &mut self.work {
            Work::Busy(busy) if event != EventType::Deleted => {
                (busy.is_gone, busy.is_absent) = (false, false);
                std::mem::take(&mut busy.is_paused)
            }
            _ => false,
        }
    }

    /// Returns whether the object has a worker and is gone, which no watch will report again.
    pub(super) fn is_gone(&self) -> bool {
        matches!(&self.work, Work::Busy(busy) if busy.is_gone)
    }

    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.work, Work::Resting(_))
    }

    /// Returns when the object is due, if it is idle.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.work {
            Work::Resting(memory) => memory.due(),
            Work::Busy(_) => None,
        }
    }

    /// Returns a snapshot that holds only the object's name.
    pub(super) fn origin(&self, key: &Key, kind: &Arc<ResourceHandlers>) -> Snapshot {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let facts = Facts {
            uid: key.uid(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()).filter(|it| !it.is_empty()),
            resource_version: String::new(),
        };
        let resource = &kind.resource;
        Snapshot { raw: Raw::named(facts, &resource.api_version(), &resource.kind), kind: kind.clone() }
    }

    pub(super) fn deletion(&self, key: &Key, kind: &Arc<ResourceHandlers>) -> Pending {
        let Snapshot { raw, kind } = self.origin(key, kind);
        Pending {
            event: EventType::Deleted,
            raw,
            kind,
            arrived: Instant::now(),
            listing: None,
            concluded: true,
            _load: Load::default(),
        }
    }
}
