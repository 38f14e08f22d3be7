//! The final writes for an object that is no longer watched, or at the stop of the operator: outcomes are written, and no handler is called.
//!
//! Guarantees that present outcomes are written before the worker waits for running calls. Must not know how a write works.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::worker::{Due, Worker};
use crate::handler::stopped::StopReason;
use crate::happening::working::Working;
use crate::state::progress::shortened;

/// The limit for messages of unfinished handlers; longer ones are cut in the middle.
const LONGEST_MESSAGE: usize = 300;

impl Worker {
    /// Handles the end of the watch: writes outcomes, calls no handler, forgets the object. If the object is watched again by then, its
    /// memory is kept, because the new watch may have reported a state older than the writes. After a pause, the object is read and planned
    /// again. Returns when to requeue the object.
    pub(super) async fn unwatched(&mut self) -> Due {
        self.end_background(self.shared().why_unwatched());
        self.context.is_ending = true;
        let due = self.write_until_unwatched().await;
        self.context.is_ending = false;
        due
    }

    async fn write_until_unwatched(&mut self) -> Due {
        loop {
            self.take_returned();
            self.write_what_has_ended().await;
            if self.context.has_state() {
                // The object is watched again.
                return Due::Now;
            }
            if !self.memory.has_calls() {
                break;
            }
            self.context.await_message().await;
        }
        self.context.report(&Working::Unwatched);
        Due::Unwatched
    }

    /// Writes pending outcomes until the object is watched again.
    async fn write_what_has_ended(&mut self) {
        /// The number of refusals after which the server is taken to refuse the outcomes themselves.
        const REFUSED: u32 = 3;
        /// The time after which the API version is taken to be gone.
        const UNSERVED: Duration = Duration::from_secs(600);
        let until = Instant::now() + UNSERVED;
        while self.unwritten_outcome && self.trouble.refused < REFUSED && !self.context.has_state() {
            let shared = self.shared();
            let is_last = !shared.gate.is_open() || shared.setup.once;
            let written = tokio::time::timeout_at(until, self.write_unwritten());
            match written.await.unwrap_or(Due::Never) {
                Due::At(_) | Due::Paused(_) if is_last => return,
                Due::Now => {}
                Due::At(at) | Due::Paused(at) => {
                    let at = self.shared().setup.clock.instant(at);
                    self.context.sleep_until(at).await;
                }
                Due::Never | Due::Gone | Due::Unwatched | Due::Stopped => return,
            }
        }
    }

    /// Lists the unfinished handlers and their last messages, as far as they are known.
    fn unfinished(&self) -> String {
        let setup = &self.shared().setup;
        let mut left = Vec::new();
        if let Ok(body) = self.raw.body() {
            let changing = self.kind.handlers.iter().filter(|it| it.is_for_changes());
            for handler in changing {
                let record = setup.persistence.progress.fetch(&handler.id, &body);
                let record = record.ok().flatten().filter(|it| !it.is_final());
                left.extend(record.map(|it| (handler.id.clone(), it.message)));
            }
        }
        if let Some(background) = self.memory.background() {
            left.extend(background.memory.ticking(setup.clock.now()));
        }
        let named = left.into_iter().map(|(id, message)| match message {
            Some(message) => format!("'{id}' ({})", shortened(&message, LONGEST_MESSAGE)),
            None => format!("'{id}'"),
        });
        let named: Vec<_> = named.collect();
        if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
    }

    /// Handles the stop of the operator: writes pending outcomes once more, and those of daemons and timers as soon as they have ended.
    pub(super) async fn stop(&mut self) {
        let is_due = matches!(self.due, Due::Now | Due::At(_) | Due::Paused(_) | Due::Stopped);
        let is_unfinished = is_due || self.is_ticking();
        if self.shared().setup.once && is_unfinished && !self.context.is_deleted() {
            let (resource, about) = (&self.kind.resource, &self.context.about);
            let which = self.unfinished();
            let what = format!("{resource} {about}: its handlers had not finished{which}");
            self.shared().give_up(what);
        }
        self.end_background(StopReason::OPERATOR_EXITING);
        self.context.is_ending = true;
        loop {
            self.take_returned();
            if self.unwritten_outcome && !self.context.is_deleted() {
                self.write_unwritten_for_the_last_time().await;
                // Unwritten outcomes have been reported by now, so later rounds do not try them again.
                self.unwritten_outcome = false;
            }
            if !self.memory.has_calls() {
                return;
            }
            self.context.await_message().await;
        }
    }
}
