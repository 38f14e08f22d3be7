//! Marks: records that outlive their cycle, since what their handlers have seen is not what is stored as handled.
//!
//! Point 2 of the guarantee in `reaction`. Must not know how they are written.

use std::sync::Arc;

use jiff::Timestamp;

use crate::reaction::cycle::Cycle;
use crate::state::progress::Record;

/// The records of handlers whose last attempt has seen another state than the one stored as handled. Who has seen the newest is done with
/// that, and need not be called for it; anybody else is to be called again.
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
        // Of its sub-handlers, too, those that have seen the newest are done with it.
        let done = ledger.below(record);
        let done = done.filter(|(_, it)| it.is_final() && ledger.all(it, saw_newest));
        marks.extend(done.map(|(id, it)| (id.clone(), it.as_mark())));
    }
    marks
}
