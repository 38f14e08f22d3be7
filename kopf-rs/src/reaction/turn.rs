//! The turn of handlers, or of sub-handlers of one parent: what their records mean in this cycle, and which of them are called now.
//!
//! Must not know whether they are handlers or sub-handlers.

use jiff::Timestamp;

use crate::handler::lifecycle::{DueHandler, Lifecycle};
use crate::handler::subject::Reason;
use crate::object::body::Body;
use crate::reaction::member::Member;
use crate::state::progress::Record;

/// The facts that all members share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) reason: Reason,
    /// What was done for this reason was done in this cycle, whatever state it has seen.
    pub(super) goes_on: bool,
    /// The object stays until those that hold it have seen its deletion: others are called once.
    pub(super) is_persisted_deletion: bool,
    /// The object is gone: there is no later to wait for.
    pub(super) is_last: bool,
    pub(super) now: Timestamp,
}

impl Turn {
    /// The record of former passes as it is in this cycle. What was finished before the cycle, and on another state than there is now,
    /// counts for nothing, unless its handler only resumes.
    pub(super) fn continued(
        &self,
        record: Record,
        only_resumes: bool,
        saw_newest: impl FnOnce(&Record) -> bool,
    ) -> Record {
        let is_of_this =
            record.purpose == Some(self.reason) && (self.goes_on || self.reason == Reason::Delete);
        let stands = only_resumes || is_of_this;
        let is_owed = record.is_owed || record.is_mark();
        let record = if record.is_final() && !stands && !saw_newest(&record) {
            record.again(None, self.now)
        } else {
            record
        };
        Record {
            purpose: Some(self.reason),
            is_owed,
            ..record
        }
    }

    /// Find those of the members whose limits are reached, and pick those to call now: their places.
    pub(super) fn pick(
        &self,
        members: &mut [(usize, &mut Member)],
        lifecycle: &Lifecycle,
        body: &Body,
        random: f64,
    ) -> Vec<usize> {
        let mut open = Vec::new();
        for (at, (_, member)) in members.iter_mut().enumerate() {
            if self.is_due(member) {
                member.exhausted = member.limit_reached(self.now);
                open.extend(member.exhausted.is_none().then_some(at));
            }
        }
        let candidates: Vec<_> = open.iter().map(|at| due(members[*at].1)).collect();
        let picked = lifecycle.pick(body, &candidates, random);
        let picked: Vec<usize> = picked.into_iter().map(|it| open[it]).collect();
        let begin = |at: usize| {
            let (place, member) = &mut members[at];
            member.begin(self.now);
            *place
        };
        picked.into_iter().map(begin).collect()
    }

    /// Whether it may be called now. Where the object is gone there is no later to wait for.
    fn is_due(&self, member: &Member) -> bool {
        let is_time = member.record.is_due(self.now) || self.is_last;
        !member.is_suspended() && member.is_left(self.is_persisted_deletion) && is_time
    }
}

/// A member as lifecycles see it.
fn due(member: &Member) -> DueHandler<'_> {
    DueHandler::new(&member.handler.id, member.record.retries)
}
