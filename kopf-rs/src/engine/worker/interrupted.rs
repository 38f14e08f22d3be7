//! Handles cycles that cannot begin or continue because the operator stops or the object is no longer watched.
//!
//! Guarantees that information which no other message will repeat is kept. Must not know what a cycle does.

use crate::engine::mailbox::Message;
use crate::engine::worker::{Due, Turn, Worker};

impl Worker {
    /// Waits until the cycle may begin. Returns `false` if it may not.
    pub(super) async fn may_begin(&mut self, turn: &Turn) -> bool {
        match turn {
            // The end of the watch is handled at once, whatever else the worker waits for.
            Turn::Message(Message::Unwatched) => self.shared().gate.is_open(),
            _ => self.context.is_indexed().await,
        }
    }

    /// Handles a cycle that may not begin. Returns when to requeue the object.
    pub(super) fn not_begun(&mut self, turn: Turn) -> Due {
        match turn {
            // The outcomes of the calls are still written.
            Turn::Message(Message::Returned(calls)) => self.returned(calls),
            Turn::Message(Message::State(state)) if state.is_absence() => {
                return self.absence_is_left();
            }
            _ => {}
        }
        self.halted()
    }

    /// Handles an absence whose reason was not determined. If the object is also no longer watched, it is dropped, because no watch will
    /// report the absence again. Returns when to requeue the object.
    pub(super) fn absence_is_left(&self) -> Due {
        if self.context.is_interrupted() {
            self.shared().queue.mark_out_of_sight(&self.context.key);
        }
        self.halted()
    }

    /// Returns when to requeue the object after a cycle that may not begin: the operator stops, or another message comes first.
    pub(super) fn halted(&self) -> Due {
        if self.shared().gate.is_open() { Due::Now } else { Due::Stopped }
    }
}
