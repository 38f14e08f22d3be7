//! One object's place in the queue: letters put in, when it is due, what is known of it without its state.
//!
//! Must not know other objects.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::key::Key;
use crate::engine::mailbox::{Letter, Mailbox, Origin, Pending};
use crate::engine::queue::{Busy, Slot, Work, WorkerStart};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::object::event::EventType;
use crate::object::raw::Raw;

impl Slot {
    /// Put the letter in; a worker is due where there is none yet.
    pub(super) fn post(&mut self, key: &Key, letter: Letter) -> Option<WorkerStart> {
        match &mut self.work {
            Work::Busy(busy) => {
                busy.stale &= !matches!(letter, Letter::State(_));
                busy.mailbox.post(letter);
                busy.wake.notify_one();
                None
            }
            Work::Resting(memory) => {
                let memory = std::mem::take(memory);
                let wake = Arc::new(Notify::new());
                let mut mailbox = Mailbox::default();
                mailbox.post(letter);
                self.work = Work::Busy(Box::new(Busy {
                    mailbox,
                    wake: wake.clone(),
                    stale: false,
                    held_up: None,
                    is_gone: false,
                }));
                let key = key.clone();
                Some(WorkerStart { key, memory, wake })
            }
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.work, Work::Resting(_))
    }

    /// When it is due, if it rests until then.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.work {
            Work::Resting(memory) => memory.due(),
            Work::Busy(_) => None,
        }
    }

    /// What is known of it: its name.
    pub(super) fn origin(&self, key: &Key, kind: &Arc<ResourceHandlers>) -> Option<Origin> {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let mut metadata = serde_json::json!({"name": name, "uid": key.uid()});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        let object = serde_json::json!({
            "apiVersion": kind.resource.api_version(),
            "kind": kind.resource.kind,
            "metadata": metadata,
        });
        Some(Origin {
            raw: Raw::parse(&object.to_string()).ok()?,
            kind: kind.clone(),
        })
    }

    pub(super) fn deletion(&self, key: &Key, kind: &Arc<ResourceHandlers>) -> Option<Pending> {
        let Origin { raw, kind } = self.origin(key, kind)?;
        Some(Pending {
            event: EventType::Deleted,
            raw,
            kind,
            arrived: Instant::now(),
            listing: None,
            concluded: true,
        })
    }
}
