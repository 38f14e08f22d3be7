//! Looks at objects: what the server says of one that was not found, or that is to be seen in another version.
//!
//! An object that the server answers with 404, and whose deletion no watch has reported yet, is read again and again. Either it is deleted:
//! then the watch reports the deletion, however late. Or its version was not served for a moment, and the watch has no new event for it: then
//! only another read shows that the outcomes of handlers can be written. Where the operator may not read objects, it relies on the watch
//! alone. Must not know what is written.

use std::sync::Arc;

use crate::cluster::error::ClusterError;
use crate::engine::mailbox::Pending;
use crate::engine::memory::{Missing, Version};
use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::Written;
use crate::engine::writer::policy::Patience;
use crate::happening::Happening;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::reaction::settle::Effects;

/// What a look at the object has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It is there, and is known as it is now.
    Found,
    /// The server does not have it.
    Missing,
    /// The server does not serve it: it may well be there.
    Unserved,
    /// It must not be read.
    Unreadable,
    /// Something has come in, or the operator stops.
    Interrupted,
}

impl Worker {
    /// Read the object, and go on with what is found.
    pub(super) async fn look_for_it(&mut self, event: Option<EventType>) -> Due {
        let look = self.look(Patience::Endless).await;
        self.go_on_after(look, event).await
    }

    /// The state is an old one, but the object is seen in another version from now on, or by other handlers: look at it anew.
    pub(super) async fn look_as(&mut self, state: Pending) {
        let former = std::mem::replace(&mut self.kind, state.kind);
        let look = self.look(Patience::Endless).await;
        if look == Look::Unreadable {
            let version = Version::of(&state.raw.facts().resource_version);
            if !version.covers(&self.memory.version) {
                // The state is older than the one that is known: the watch will report the newer one.
                self.kind = former;
                return;
            }
            self.know(state.raw);
        }
        self.due = self.go_on_after(look, Some(state.event)).await;
    }

    /// The server selects the objects that it shows, and does not show this one any more: it is deleted, or goes on living without handlers.
    pub(super) async fn absent(&mut self, state: Pending) -> Due {
        let former = self.raw.clone();
        match self.look(Patience::Endless).await {
            Look::Missing => {
                // What is known of it is more than what a listing that lacks it can tell.
                self.raw = if state.concluded { former } else { state.raw };
                self.kind = state.kind;
                self.shared().queue.is_gone(&self.context.key);
                self.deleted().await
            }
            Look::Found => {
                self.kind = Arc::new(self.kind.left());
                if self.context.begin_again().await {
                    self.cycle(Some(EventType::Modified)).await
                } else {
                    Due::Stopped
                }
            }
            // Nobody can tell: what is not watched is not deleted.
            Look::Unserved | Look::Unreadable => self.unwatched().await,
            Look::Interrupted => Due::Now,
        }
    }

    async fn go_on_after(&mut self, look: Look, event: Option<EventType>) -> Due {
        match look {
            Look::Missing | Look::Unserved => self.is_missing(event),
            // What is known of it is old, or no more than its name: its watch will tell more.
            Look::Unreadable if self.outdated => {
                self.leave_background();
                Due::Never
            }
            // Only a write finds out whether it is there again.
            Look::Unreadable if self.unwritten_outcome => self.deliver_unwritten().await,
            Look::Found | Look::Unreadable => {
                if self.context.is_indexed().await && self.context.begin_again().await {
                    self.cycle(event).await
                } else {
                    Due::Stopped
                }
            }
            // What has come in may tell nothing new: then it is looked for once more.
            Look::Interrupted => {
                self.missing = Some(Missing { event });
                Due::Now
            }
        }
    }

    /// The server does not have it: when to look for it.
    pub(super) fn is_missing(&mut self, event: Option<EventType>) -> Due {
        self.leave_background();
        if self.kind.has_left {
            // No watch will tell of its deletion.
            return Due::Unwatched;
        }
        self.missing = Some(Missing { event });
        let rng = self.context.shared.rng();
        let pause = self.trouble.absences.next_pause(rng);
        self.after(pause)
    }

    /// Write the outcomes that are not written yet, without another call.
    pub(super) async fn write_unwritten(&mut self) -> Due {
        match self.look(Patience::Endless).await {
            Look::Missing | Look::Unserved => self.is_missing(None),
            Look::Interrupted => Due::Never,
            Look::Found | Look::Unreadable => self.deliver_unwritten().await,
        }
    }

    async fn deliver_unwritten(&mut self) -> Due {
        match self.unwritten() {
            Some(effects) => self.deliver(effects).await,
            None => Due::Never,
        }
    }

    /// The same where the operator stops: for the last time.
    pub(super) async fn write_unwritten_for_the_last_time(&mut self) {
        let look = self.look(Patience::Last).await;
        if !matches!(look, Look::Found | Look::Unreadable) {
            return;
        }
        // Once more where what daemons and timers want was refused, or what handlers want beside it.
        for _ in 0..2 {
            let Some(effects) = self.unwritten() else {
                return;
            };
            let written = self.write_for_the_last_time(effects).await;
            let is_split = self.memory.seen.wanted_in_background().is_some();
            if !(matches!(written, Written::Refused(_)) && is_split) {
                return;
            }
            if let Err(Written::GivenUp(error)) = self.write_for_background(Patience::Last).await {
                self.has_given_up(&error);
            }
            self.memory.seen.forget_of_background();
        }
    }

    /// What is still to be written to the object as it is known.
    fn unwritten(&mut self) -> Option<Effects> {
        let plan = self.last_plan();
        let plan = plan.map_err(|why| self.without_plan(&why)).ok()?;
        self.settle(plan, Vec::new(), Patch::new()).ok()
    }

    async fn look(&mut self, patience: Patience) -> Look {
        let kind = self.kind.clone();
        self.missing = None;
        match self.read(&kind, patience).await {
            Written::Outdated(Ok(raw)) => {
                self.trouble.absences.reset();
                self.know_answer(raw);
                Look::Found
            }
            Written::Outdated(Err(error)) => {
                self.tell_unreadable(&error);
                Look::Unreadable
            }
            Written::Gone { is_certain: true } => Look::Missing,
            Written::Gone { .. } => Look::Unserved,
            _ => Look::Interrupted,
        }
    }

    /// Said once for each rule that is missing.
    pub(super) fn tell_unreadable(&self, error: &ClusterError) {
        let ClusterError::Denied { rule, .. } = error else {
            return;
        };
        let outage = error.outage(&self.kind.resource);
        if !self.shared().setup.cluster.is_first_unreadable(&outage) {
            return;
        }
        let text = error.to_string();
        self.context.report(&Happening::Unreadable { error: text });
        if !rule.is_empty() {
            let rule = rule.clone();
            self.context.report(&Happening::PermissionMissing { rule });
        }
    }
}
