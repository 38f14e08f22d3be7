//! Marks: records that outlive their cycle, since what their handlers have seen is not what is stored as handled.
//!
//! Point 2 of the guarantee in `reaction`. Must not know how they are written.

use std::sync::Arc;

use jiff::Timestamp;

use crate::reaction::cycle::Cycle;
use crate::reaction::member::SubhandlerRecord;
use crate::state::progress::Record;

/// The records of handlers whose last attempt has seen another state than the one stored as handled. Who has seen the newest is done with
/// that, and need not be called for it; anybody else is to be called again.
pub(super) fn marks(cycle: &Cycle, now: Timestamp) -> Vec<(Arc<str>, Record)> {
    let mut marks = cycle.left_behind.clone();
    for member in cycle.members.iter().filter(|member| member.recurs) {
        let (id, record, field) = (&member.handler.id, &member.record, member.handler.field());
        let family = || {
            below(cycle, record)
                .map(|child| &child.record)
                .chain([record])
        };
        if family().all(|record| record.saw_known(&cycle.comparison.target.essence, field)) {
            continue;
        }
        let saw_newest = |record: &Record| record.saw(&cycle.comparison.newest, field);
        if family().all(saw_newest) {
            marks.push((id.clone(), record.as_mark()));
            continue;
        }
        marks.push((id.clone(), record.again(None, now)));
        // Of its sub-handlers, too, those that have seen the newest are done with it.
        let done = below(cycle, record).filter(|child| {
            let mut family = below(cycle, &child.record).map(|it| &it.record);
            let record = &child.record;
            record.is_final() && saw_newest(record) && family.all(saw_newest)
        });
        marks.extend(done.map(|child| (child.id.clone(), child.record.as_mark())));
    }
    marks
}

/// The sub-handlers below a handler, or below another sub-handler, as far as there is anything known of them.
fn below<'a>(cycle: &'a Cycle, record: &'a Record) -> impl Iterator<Item = &'a SubhandlerRecord> {
    let ids = record.subrefs.iter();
    ids.filter_map(|id| cycle.subhandlers.get(id.as_str()))
}
