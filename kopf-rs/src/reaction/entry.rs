//! The records of handlers as they are known before a plan: of memory, else of the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::handling::{Handling, StateTrouble};
use crate::object::essence::Essence;
use crate::object::path::FieldPath;
use crate::reaction::ahead::corrected;
use crate::reaction::input::Input;
use crate::reaction::member::SubhandlerRecord;
use crate::state::progress::Record;

/// The record of one handler id, as it is known before the pass.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: Arc<str>,
    /// What counts: memory's, else the object's.
    pub(super) record: Option<Record>,
    /// What the object carries.
    pub(super) stored: Option<Record>,
    /// Whether the object carries anything, readable or not.
    pub(super) is_there: bool,
    /// It cannot be read.
    pub(super) is_damaged: bool,
    /// Its sub-handlers.
    pub(super) below: Vec<SubhandlerRecord>,
}

/// Read the records of all changing handlers.
pub(super) fn entries(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    told: &mut Vec<Handling>,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(changing.len());
    let held = input.seen.records();
    for handler in changing {
        if entries.iter().any(|entry| entry.id == handler.id) {
            continue;
        }
        let found = input.persistence.progress.fetch(&handler.id, input.body);
        let known = held.and_then(|held| held.get(&handler.id)).cloned();
        let (is_there, is_damaged) = (!matches!(found, Ok(None)), found.is_err());
        let stored = found.unwrap_or_else(|damage| {
            told.push(Handling::State(StateTrouble::ProgressLost {
                id: handler.id.clone(),
                damage,
                is_in_memory: known.is_some(),
            }));
            None
        });
        let record = known.or_else(|| {
            let found = stored.clone()?;
            let (persistence, now) = (input.persistence, input.now);
            Some(corrected(found, handler, persistence, now, told))
        });
        let below = record.iter().flat_map(|record| &record.subrefs);
        let below = below.filter_map(|id| sub_record(input, id.as_str().into()));
        entries.push(Entry {
            id: handler.id.clone(),
            below: below.collect(),
            record,
            stored,
            is_there,
            is_damaged,
        });
    }
    entries
}

impl Entry {
    /// The ids under which the object carries something.
    pub(super) fn stored_ids(self) -> impl Iterator<Item = Arc<str>> {
        let of_subs = self.stored.map(|it| it.subrefs).unwrap_or_default();
        let ids = of_subs.into_iter().map(Arc::from).chain([self.id]);
        ids.filter(move |_| self.is_there)
    }

    /// Whether a handler that reacts to changes has to be called although nothing may have changed: its last attempt has seen another
    /// state than `newest`, or came to no end.
    pub(super) fn is_mark(&self, newest: &Essence, field: Option<&FieldPath>) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let open = !matches!(record.purpose, Some(Reason::Delete | Reason::Resume));
            let began = record.target.is_some();
            let saw_newest = |record: &Record| record.saw(newest, field);
            open && began && (!record.is_final() || !self.all(saw_newest))
        })
    }

    /// Whether that is so for the handler and all its sub-handlers.
    pub(super) fn all(&self, so: impl Fn(&Record) -> bool) -> bool {
        let below = self.below.iter().map(|child| &child.record);
        self.record.iter().chain(below).all(so)
    }
}

/// The sub-handlers that memory or the object know of.
pub(super) fn sub_records(
    input: &Input<'_>,
    entries: &[Entry],
) -> BTreeMap<Arc<str>, SubhandlerRecord> {
    let is_child = |id: &str| {
        let below = |entry: &Entry| {
            id.strip_prefix(&*entry.id)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        entries.iter().any(below) && entries.iter().all(|entry| *entry.id != *id)
    };
    let held = input.seen.records().into_iter().flatten();
    let in_memory = held.filter(|(id, _)| is_child(id));
    let in_memory = in_memory.filter_map(|(id, _)| sub_record(input, id.clone()));
    let on_object = entries.iter().flat_map(|entry| entry.below.iter().cloned());
    let all = on_object.chain(in_memory);
    all.map(|child| (child.id.clone(), child)).collect()
}

/// What is known of a sub-handler.
fn sub_record(input: &Input<'_>, id: Arc<str>) -> Option<SubhandlerRecord> {
    let stored = input.persistence.progress.fetch(&id, input.body);
    let stored = stored.ok().flatten();
    let known = input.seen.records().and_then(|held| held.get(&id)).cloned();
    Some(SubhandlerRecord {
        record: known.or_else(|| stored.clone())?,
        id,
        stored,
        result: None,
    })
}
