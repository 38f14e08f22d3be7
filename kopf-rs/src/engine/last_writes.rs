//! The last that is done for an object: it is not watched any more, or the operator stops. What has ended is written, nobody is called.
//!
//! Promises that what has ended is written before what still runs is waited for. Must not know how anything is written.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::worker::{Due, Worker};
use crate::handler::stopped::StopReason;
use crate::happening::Happening;
use crate::state::progress::shortened;

/// Longer messages of handlers that had not finished are cut in the middle.
const LONGEST_MESSAGE: usize = 300;

impl Worker {
    /// The object is not watched any more: what has ended is written, nobody is called, nothing is remembered. Where it is watched again by
    /// then, all is remembered: what the new watch has told of it may be older than what was written.
    pub(super) async fn unwatched(&mut self) -> Due {
        self.end_background(self.shared().why_unwatched());
        loop {
            self.take_returned();
            self.write_what_has_ended().await;
            if self.context.has_state() {
                // It is watched again.
                return Due::Now;
            }
            if !self.memory.has_calls() {
                break;
            }
            self.context.letter().await;
        }
        self.context.report(&Happening::Unwatched);
        Due::Unwatched
    }

    /// Write outcomes that are not written yet, until the object is watched again.
    async fn write_what_has_ended(&mut self) {
        /// The server refuses the outcomes themselves.
        const REFUSED: u32 = 3;
        /// For so long, its version may not be served at all.
        const UNSERVED: Duration = Duration::from_secs(600);
        let until = Instant::now() + UNSERVED;
        while self.unwritten_outcome && self.trouble.refused < REFUSED && !self.context.has_state()
        {
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

    /// The handlers that are left to be called, and what they have complained about, as far as that is known.
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
        if named.is_empty() {
            String::new()
        } else {
            format!(": {}", named.join(", "))
        }
    }

    /// The operator stops: outcomes that are still to be written are, once more; those of daemons and timers as soon as these have ended.
    pub(super) async fn stop(&mut self) {
        let is_due = matches!(
            self.due,
            Due::Now | Due::At(_) | Due::Paused(_) | Due::Stopped
        );
        let is_unfinished = is_due || self.is_ticking();
        if self.shared().setup.once && is_unfinished && !self.context.is_deleted() {
            let (resource, about) = (&self.kind.resource, &self.context.about);
            let which = self.unfinished();
            let what = format!("{resource} {about}: its handlers had not finished{which}");
            self.shared().give_up(what);
        }
        self.end_background(StopReason::OPERATOR_EXITING);
        loop {
            self.take_returned();
            if self.unwritten_outcome && !self.context.is_deleted() {
                self.write_unwritten_for_the_last_time().await;
                // What was not written by now is told, and not tried again with what is still to come.
                self.unwritten_outcome = false;
            }
            if !self.memory.has_calls() {
                return;
            }
            self.context.letter().await;
        }
    }
}
