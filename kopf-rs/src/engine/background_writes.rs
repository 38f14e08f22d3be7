//! Writing what daemons and timers of an object want changed, and nothing else: while its handlers run, while their part pauses, and where the
//! server has refused both in one patch.
//!
//! Promises that nothing of it is lost before the server has answered for good. Must not know what runs.

use tokio::time::Instant;

use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::Written;
use crate::engine::writer::policy::Patience;

impl Worker {
    /// The server has refused what handlers and what daemons and timers want in one patch: it has its say about each of them.
    pub(super) async fn write_apart(&mut self) -> Due {
        self.unwritten_outcome = true;
        if self.write_for_background(Patience::Last).await.is_ok() {
            return Due::Now;
        }
        let pause = self.trouble.refusals.next_pause(self.context.shared.rng());
        self.after(pause)
    }

    /// Write it. Where that is not settled, it is still wanted: how the write has ended.
    pub(super) async fn write_for_background(&mut self, patience: Patience) -> Result<(), Written> {
        let Some(wanted) = self.memory.seen.wanted_in_background().cloned() else {
            return Ok(());
        };
        let left = self.left_of(&wanted, None);
        if !left.is_empty() {
            match self.write(left, None, patience).await {
                (_, Written::Landed(reply)) => {
                    // What waits is known by the reply from now on.
                    self.look_into_the_mail();
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

    /// Write it while handlers of the object run, which need its place: nothing is waited for.
    pub(super) async fn write_beside_calls(&mut self) -> Result<(), Written> {
        let written = self.write_for_background(Patience::None).await;
        match &written {
            Err(Written::Outdated(Ok(found))) => {
                self.look_for_duplicates(found);
                self.know_answer(found.clone());
            }
            Err(Written::Outdated(Err(error))) => self.tell_unreadable(error),
            _ => {}
        }
        written
    }

    // === while all else pauses ===

    /// When there is something to do for daemons and timers alone. Nothing can be said of an object that is not known as it is.
    pub(super) fn background_due(&self) -> Option<Instant> {
        if self.missing.is_some() || self.outdated {
            return None;
        }
        let wanted = self.memory.seen.wanted_in_background();
        wanted.map(|_| Instant::now()).or(self.memory.due())
    }

    /// Look after daemons and timers alone, since all else pauses. When to look at the object again.
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
