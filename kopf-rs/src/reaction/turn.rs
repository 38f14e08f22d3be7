//! The rules for members of a cycle, which are handlers or the sub-handlers of one parent: the meaning of their records, and the choice of
//! those to call.
//!
//! Must not know which of the two they are.

use jiff::Timestamp;

use crate::handler::lifecycle::{DueHandler, Lifecycle};
use crate::handler::subject::Reason;
use crate::object::body::Body;
use crate::reaction::handler_progress::{Member, Openness};
use crate::state::progress::Record;

/// The facts that all members share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) reason: Reason,
    /// True if records with this reason belong to this cycle, regardless of the states that they have seen.
    pub(super) goes_on: bool,
    pub(super) openness: Openness,
    /// True if the object is gone, so that there is no later attempt.
    pub(super) is_last: bool,
    pub(super) now: Timestamp,
}

impl Turn {
    /// Returns a record of former passes in the form for this cycle. A result from before the cycle that is based on another state does not
    /// count, unless its handler is for resuming only.
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
        Record { purpose: Some(self.reason), is_owed, ..record }
    }

    /// Detects members that have reached their limits, and returns the positions of those to call now.
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
        // Retries that the deletion does not wait for must not delay other handlers.
        let is_waited_for = |at: &usize| !members[*at].1.had_its_chance();
        if self.openness == Openness::Held && open.iter().any(is_waited_for) {
            open.retain(is_waited_for);
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

    /// Returns true if the member may be called now. For a gone object, delays are ignored.
    fn is_due(&self, member: &Member) -> bool {
        let is_time = member.record.is_due(self.now) || self.is_last;
        !member.is_suspended() && member.is_open(self.openness) && is_time
    }
}

/// Returns a member in the form for lifecycles.
fn due(member: &Member) -> DueHandler<'_> {
    DueHandler::new(&member.handler.id, member.record.retries)
}
