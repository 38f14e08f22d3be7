//! Writes the changes of daemons and timers alone: while handlers of the object run, while the worker pauses, and after the server has
//! refused them together with the changes of handlers.
//!
//! Guarantees that no change is lost before the server has accepted or finally refused it. Must not know which calls run.

use tokio::time::Instant;

use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::Written;
use crate::engine::writer::policy::Patience;

impl Worker {
    /// Writes the changes of handlers and those of daemons and timers apart, because the server has refused them in one patch and only
    /// separate patches show which of them it refuses. Returns when to requeue the object.
    pub(super) async fn write_apart(&mut self) -> Due {
        self.unwritten_outcome = true;
        if self.write_for_background(Patience::Last).await.is_ok() {
            return Due::Now;
        }
        let pause = self.trouble.refusals.next_pause(self.context.shared.rng());
        self.after(pause)
    }

    /// Writes the changes of daemons and timers. If the server has not settled them, they are kept and the result of the write is returned.
    pub(super) async fn write_for_background(&mut self, patience: Patience) -> Result<(), Written> {
        let Some(wanted) = self.memory.seen.wanted_in_background().cloned() else {
            return Ok(());
        };
        let left = self.without_noops(&wanted, None);
        if !left.is_empty() {
            match self.write(left, None, patience).await {
                (_, Written::Landed(reply)) => {
                    // The reply decides whether the waiting state is new.
                    self.check_newer_state();
                    self.know_reply(reply);
                }
                (sent, Written::Refused(message)) => {
                    self.report_refusal(&sent, &message);
                    self.drop_wishes(self.kind.background_words(), &message);
                }
                (_, written) => return Err(written),
            }
        }
        self.memory.seen.forget_of_background();
        Ok(())
    }

    /// Writes the changes while handlers of the object run. Never waits, because the handlers hold the worker permit. Returns the
    /// result as [`Self::write_for_background`] does.
    pub(super) async fn write_beside_calls(&mut self) -> Result<(), Written> {
        let written = self.write_for_background(Patience::None).await;
        match &written {
            Err(Written::Outdated(Ok(found))) => self.know_answer(found.clone()),
            Err(Written::Outdated(Err(error))) => self.tell_unreadable(error),
            _ => {}
        }
        written
    }

    // === while everything else pauses ===

    /// Returns when daemons and timers alone need attention; `None` if the present state of the object is unknown, since it cannot be
    /// planned for.
    pub(super) fn background_due(&self) -> Option<Instant> {
        if self.missing.is_some() || self.outdated {
            return None;
        }
        let wanted = self.memory.seen.wanted_in_background();
        wanted.map(|_| Instant::now()).or(self.memory.due())
    }

    /// Serves daemons and timers alone while everything else pauses. Returns when to requeue the object.
    pub(super) async fn background_alone(&mut self) -> Due {
        let paused = self.due;
        if let Err(written) = self.write_for_background(Patience::Endless).await {
            return self.is_unwritten(written).await;
        }
        if self.context.is_indexed().await {
            self.plan_for_background();
        }
        paused
    }
}
