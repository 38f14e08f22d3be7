//! Marks: records that outlive their cycle, because their handlers have seen another state than the one stored as last-handled.
//!
//! See point 2 of the guarantee in `reaction`. Must not know how marks are written.

use std::sync::Arc;

use jiff::Timestamp;

use crate::reaction::cycle::Cycle;
use crate::state::progress::Record;

/// Returns the records of handlers whose last attempt has seen another state than the one stored as last-handled. Handlers that have seen the
/// newest state need not be called for it; all others are to be called again.
pub(super) fn marks(cycle: &Cycle, now: Timestamp) -> Vec<(Arc<str>, Record)> {
    let ledger = &cycle.ledger;
    let mut marks = cycle.left_behind.clone();
    for member in cycle.members.iter().filter(|member| member.recurs) {
        let (id, record, field) = (&member.handler.id, &member.record, member.handler.field());
        let saw_target = |it: &Record| it.saw_known(&cycle.comparison.target.essence, field);
        if ledger.all(record, saw_target) {
            continue;
        }
        let saw_newest = |it: &Record| it.saw(&cycle.comparison.newest, field);
        if ledger.all(record, saw_newest) {
            marks.push((id.clone(), record.as_mark()));
            continue;
        }
        marks.push((id.clone(), record.again(None, now)));
        // Sub-handlers that have seen the newest state are done with it, too.
        let done = ledger.below(record);
        let done = done.filter(|(_, it)| it.is_final() && ledger.all(it, saw_newest));
        marks.extend(done.map(|(id, it)| (id.clone(), it.as_mark())));
    }
    marks
}
