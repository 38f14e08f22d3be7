//! An object that the server does not have, and of which no watch has told yet that it is gone: it is looked for, again and again.
//!
//! It may be gone, which its watch will tell, however late. Or its version was not served for a moment, and no watch has anything new to
//! tell of it: then only a look finds out that what handlers have done can be written. Must not know what is written.

use crate::engine::memory::Missing;
use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::Written;
use crate::object::event::EventType;

impl Worker {
    /// Read the object, and go on with what is found.
    pub(super) async fn look_for_it(&mut self, event: Option<EventType>) -> Due {
        let kind = self.kind.clone();
        match self.read(&kind, false).await {
            Written::Outdated(Ok(raw)) => {
                self.trouble.absences.reset();
                self.know(raw);
                if self.context.begin_again().await {
                    self.cycle(event).await
                } else {
                    Due::Stopped
                }
            }
            Written::Gone => self.is_missing(event),
            Written::Forbidden(error) => self.give_up(&error),
            // Something has come in, or the operator stops. What has come in may tell nothing new: then it is looked for once more.
            _ => {
                self.missing = Some(Missing { event });
                Due::Now
            }
        }
    }

    /// The server does not have it: when to look for it.
    pub(super) fn is_missing(&mut self, event: Option<EventType>) -> Due {
        self.missing = Some(Missing { event });
        let rng = self.context.shared.rng();
        let pause = self.trouble.absences.next_pause(rng);
        self.after(pause)
    }
}
