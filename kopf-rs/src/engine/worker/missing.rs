//! Reads objects that were not found, or that have to be seen in another API version.
//!
//! An object for which the server answers 404, while no watch has reported a deletion, is read again and again. Either it is deleted: then
//! the watch reports that, however late. Or its API version was not served for a moment, and the watch has no new event for it: then only
//! another read shows that outcomes can be written. If RBAC forbids reading, the operator relies on the watch alone, except for work that is
//! due without a change of the object: that is retried with a growing back-off. Must not know the content of writes.

use std::sync::Arc;

use crate::cluster::error::ClusterError;
use crate::engine::mailbox::Pending;
use crate::engine::memory::{Missing, Version};
use crate::engine::worker::write::run_with_permit;
use crate::engine::worker::{Due, Worker};
use crate::engine::writer::job::{Job, Written};
use crate::engine::writer::policy::Patience;
use crate::happening::working::Working;
use crate::object::event::EventType;
use crate::object::lazy_json::Outline;
use crate::object::patch::Patch;
use crate::reaction::settle::Effects;

/// The result of reading the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The object exists, and its present state is known.
    Found,
    /// The server does not have the object.
    Missing,
    /// The server does not serve the API version, so the object may exist.
    Unserved,
    /// RBAC forbids reading the object.
    Unreadable,
    /// A message arrived, or the operator stops.
    Interrupted,
}

impl Worker {
    /// Reads the object, and continues with the result. Returns when to requeue it.
    pub(super) async fn look_for_it(&mut self, event: Option<EventType>) -> Due {
        let look = self.look(Patience::Endless).await;
        self.go_on_after(look, event).await
    }

    /// Reads the object because daemons or timers are due, and serves only these if it is unchanged. Returns when to requeue it.
    pub(super) async fn look_for_due_background(&mut self) -> Due {
        let known = self.memory.version.clone();
        let awaits_change =
            self.memory.seen.awaits_change() && !self.unwritten_outcome && !self.kind.has_left;
        let look = self.look(Patience::Endless).await;
        let is_unchanged = awaits_change
            && look == Look::Found
            && known != Version::Unknown
            && known == self.memory.version
            && Outline::of(&self.raw).is_some_and(|it| !it.is_deleting());
        if is_unchanged && self.context.is_indexed().await {
            return self.serve_due_background();
        }
        self.go_on_after(look, None).await
    }

    /// Reads the object because, although its state is an old one, other handlers or another API version apply to it from now on.
    pub(super) async fn look_as(&mut self, state: Pending) {
        let former = std::mem::replace(&mut self.kind, state.kind);
        let look = self.look(Patience::Endless).await;
        if look == Look::Unreadable {
            let version = Version::of(&state.raw.facts().resource_version);
            if !version.covers(&self.memory.version) {
                // The state is older than the known one: the watch will report the newer one.
                self.kind = former;
                return;
            }
            self.know(state.raw);
        }
        self.due = self.go_on_after(look, Some(state.event)).await;
    }

    /// Handles an object that a server-side selector no longer shows: it is deleted, or still exists without handlers. Returns when to
    /// requeue it.
    pub(super) async fn absent(&mut self, state: Pending) -> Due {
        let former = self.raw.clone();
        match self.look(Patience::Endless).await {
            Look::Missing => {
                // The known state holds more than the placeholder of a listing that lacks the object.
                self.raw = if state.concluded { former } else { state.raw };
                self.kind = state.kind;
                self.shared().queue.mark_gone(&self.context.key);
                self.deleted().await
            }
            Look::Found => {
                self.kind = Arc::new(self.kind.left());
                if self.context.begin_again().await {
                    self.cycle(Some(EventType::Modified)).await
                } else {
                    self.halted()
                }
            }
            // The fate of the object cannot be determined, and an object that is not watched does not count as deleted.
            Look::Unserved | Look::Unreadable => self.unwatched().await,
            Look::Interrupted => self.absence_is_left(),
        }
    }

    /// Handles an absence whose reason was not determined. If the object is also no longer watched, it is dropped, because no watch will
    /// report the absence again. Returns when to requeue the object.
    pub(super) fn absence_is_left(&self) -> Due {
        if self.context.is_interrupted() {
            self.shared().queue.mark_out_of_sight(&self.context.key);
        }
        self.halted()
    }

    async fn go_on_after(&mut self, look: Look, event: Option<EventType>) -> Due {
        match look {
            Look::Missing | Look::Unserved => self.is_missing(event),
            Look::Unreadable if self.outdated => self.is_unreadable(event),
            // Only a write shows whether the object exists again.
            Look::Unreadable if self.unwritten_outcome => self.deliver_unwritten().await,
            Look::Found | Look::Unreadable => {
                if self.context.is_indexed().await {
                    self.cycle(event).await
                } else {
                    self.halted()
                }
            }
            // The new message may contain nothing new, in which case the object is read once more.
            Look::Interrupted => {
                self.missing = Some(Missing { event });
                Due::Now
            }
        }
    }

    /// Handles an object of which only an old state or the name is known and which cannot be read. Its watch reports more only after a
    /// change, so if work is due without one, the read is retried, since an administrator may grant the missing rule. Returns when to read
    /// it again.
    fn is_unreadable(&mut self, event: Option<EventType>) -> Due {
        let is_background_due = self.memory.due().is_some();
        let is_due = is_background_due
            || event.is_some()
            || self.unwritten_outcome
            || self.memory.seen.is_unfinished();
        if !is_due || self.shared().setup.once {
            self.leave_background();
            return Due::Never;
        }
        // Kept until the object can be read, because no watch reports this event again.
        self.missing = Some(Missing { event });
        let rng = self.context.shared.rng();
        let pause = self.trouble.absences.next_pause(rng);
        let at = self.at(pause);
        if is_background_due {
            self.look_at_background_at(at);
        }
        Due::Paused(at)
    }

    /// Handles an object that the server does not have. Returns when to read it again.
    pub(super) fn is_missing(&mut self, event: Option<EventType>) -> Due {
        self.leave_background();
        if self.kind.has_left {
            // The watch will not report its deletion.
            return Due::Unwatched;
        }
        self.missing = Some(Missing { event });
        let rng = self.context.shared.rng();
        let pause = self.trouble.absences.next_pause(rng);
        self.after(pause)
    }

    /// Writes pending outcomes without calling handlers. Returns when to requeue the object.
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

    /// Writes pending outcomes for the last time, since the operator stops.
    pub(super) async fn write_unwritten_for_the_last_time(&mut self) {
        let look = self.look(Patience::Last).await;
        if !matches!(look, Look::Found | Look::Unreadable) {
            return;
        }
        // The second round follows a refusal: the changes of daemons and timers are then written apart from those of handlers.
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

    /// Returns the pending writes for the object as it is known.
    fn unwritten(&mut self) -> Option<Effects> {
        let plan = self.last_plan();
        let plan = plan.map_err(|why| self.without_plan(&why)).ok()?;
        self.settle(plan, Vec::new(), Patch::new()).ok()
    }

    /// Returns whether the state contains nothing new. If only the version of the object is known, a state of that version is new: the
    /// object may never be read, nor shown again.
    pub(super) fn is_echo(&self, state: &Pending) -> bool {
        let version = Version::of(&state.raw.facts().resource_version);
        let is_awaited = self.outdated && version == self.memory.version;
        state.is_known_to(&self.memory) && !is_awaited
    }

    async fn look(&mut self, patience: Patience) -> Look {
        self.missing = None;
        let mut job = Job::read(&self.kind.resource, &self.raw);
        job.set_patience(patience);
        match run_with_permit(&mut self.writer, &mut self.context, job).await {
            Written::Read(Ok(raw)) => {
                self.trouble.absences.reset();
                self.know_reply(raw);
                Look::Found
            }
            Written::Read(Err(error)) => {
                self.tell_unreadable(&error);
                Look::Unreadable
            }
            Written::Gone { is_certain: true } => Look::Missing,
            Written::Gone { .. } => Look::Unserved,
            _ => Look::Interrupted,
        }
    }

    /// Reports that the object cannot be read, once for each missing rule.
    pub(super) fn tell_unreadable(&self, error: &ClusterError) {
        let ClusterError::Denied { rule, .. } = error else {
            return;
        };
        let outage = error.outage(&self.kind.resource);
        if !self.shared().setup.cluster.is_first_unreadable(&outage) {
            return;
        }
        let text = error.to_string();
        self.context.report(&Working::Unreadable { error: text });
        if !rule.is_empty() {
            let rule = rule.clone();
            self.context.report(&Working::PermissionMissing { rule });
        }
    }
}
