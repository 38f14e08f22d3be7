//! The ledger of one pass: the stored and the desired record of each handler and sub-handler.
//!
//! It is read once before the decision. Outcomes are entered, and the differences are written at the end. Must not know why a record has its
//! content.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::essence::Essence;
use crate::object::path::FieldPath;
use crate::reaction::input::Input;
use crate::reaction::judge::since;
use crate::state::progress::{Record, USUAL_DELAY, micros};
use crate::state::{Damaged, Persistence};

/// The tolerated difference between the clocks of machines.
const SLACK: Duration = Duration::from_secs(60);
/// Longer delays count as mistakes if the requested delay is unknown.
const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

/// All rows by the ids of handlers and sub-handlers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(BTreeMap<Arc<str>, Row>);

/// One handler or sub-handler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The current record, which the object is to carry: at first memory's, or else the object's.
    pub(super) record: Option<Record>,
    /// The object's record.
    stored: Option<Record>,
    /// The error if the object's record cannot be read.
    damage: Option<Damaged>,
    is_in_memory: bool,
    is_sub: bool,
}

/// A sub-handler's outcome for `settle`.
#[derive(Clone, Debug)]
pub(crate) struct SubhandlerRecord {
    pub(super) id: Arc<str>,
    pub(super) row: Row,
    pub(super) result: Option<Value>,
}

/// The sources of records.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    pub(super) persistence: &'a Persistence,
    pub(super) body: &'a Body,
    pub(super) memory: Option<&'a BTreeMap<Arc<str>, Record>>,
    pub(super) now: Timestamp,
}

impl Records<'_> {
    /// Returns the row of a handler or sub-handler.
    pub(super) fn of(&self, handler: &Handler, is_sub: bool, told: &mut Vec<Handling>) -> Row {
        let mut row = self.row(&handler.id, is_sub);
        if let Some(damage) = &row.damage {
            told.push(Handling::ProgressLost {
                id: handler.id.clone(),
                damage: damage.clone(),
                is_in_memory: row.record.is_some(),
            });
        }
        // Only records from the object need the correction.
        if row.record.is_some() && row.record == row.stored {
            let found = row.record.take();
            row.record = found.map(|it| corrected(it, handler, self.persistence, self.now, told));
        }
        row
    }

    /// Returns the row of an id.
    fn row(&self, id: &Arc<str>, is_sub: bool) -> Row {
        let found = self.persistence.progress.fetch(id, self.body);
        let (stored, damage) = match found {
            Ok(stored) => (stored, None),
            Err(damage) => (None, Some(damage)),
        };
        let in_memory = self.memory.and_then(|memory| memory.get(id)).cloned();
        Row {
            is_in_memory: in_memory.is_some(),
            record: in_memory.or_else(|| stored.clone()),
            stored,
            damage,
            is_sub,
        }
    }
}

impl Row {
    /// Returns the row with the record after an attempt.
    pub(super) fn with(self, record: Record) -> Self {
        Self { record: Some(record), ..self }
    }

    fn is_there(&self) -> bool {
        self.stored.is_some() || self.damage.is_some()
    }
}

impl Ledger {
    /// Reads the rows of all changing handlers, and of the sub-handlers that their records or memory reference.
    pub(super) fn read(input: &Input<'_>, changing: &[&Arc<Handler>], told: &mut Vec<Handling>) -> Self {
        let records = Records {
            persistence: input.persistence,
            body: input.body,
            memory: input.seen.records(),
            now: input.now,
        };
        let mut rows = BTreeMap::new();
        for handler in changing {
            if !rows.contains_key(&handler.id) {
                rows.insert(handler.id.clone(), records.of(handler, false, told));
            }
        }
        let is_below = |id: &str| {
            let mut parents = id.match_indices('/').map(|(end, _)| &id[..end]);
            parents.any(|parent| rows.contains_key(parent))
        };
        let in_memory = records.memory.into_iter().flatten().map(|(id, _)| id);
        let mut subs: Vec<Arc<str>> = in_memory.filter(|id| is_below(id)).cloned().collect();
        for row in rows.values() {
            let known = row.record.iter().chain(&row.stored);
            subs.extend(known.flat_map(|it| &it.subrefs).map(|id| id.as_str().into()));
        }
        for id in subs {
            if let Entry::Vacant(vacant) = rows.entry(id) {
                let row = records.row(vacant.key(), true);
                vacant.insert(row);
            }
        }
        Self(rows)
    }

    pub(super) fn record(&self, id: &str) -> Option<&Record> {
        self.0.get(id)?.record.as_ref()
    }

    /// Returns the records of handlers, without sub-handlers.
    pub(super) fn of_handlers(&self) -> impl Iterator<Item = &Record> {
        let handlers = self.0.values().filter(|row| !row.is_sub);
        handlers.filter_map(|row| row.record.as_ref())
    }

    /// Returns the ids and known records of all sub-handlers below a handler or below another sub-handler.
    pub(super) fn below<'a>(
        &'a self,
        record: &'a Record,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Record)> {
        let rows = record.subrefs.iter();
        let rows = rows.filter_map(|id| self.0.get_key_value(id.as_str()));
        rows.filter_map(|(id, row)| Some((id, row.record.as_ref()?)))
    }

    /// Returns true if the predicate holds for the record and for those of all sub-handlers below it.
    pub(super) fn all(&self, record: &Record, so: impl Fn(&Record) -> bool) -> bool {
        so(record) && self.below(record).all(|(_, record)| so(record))
    }

    /// Returns true if a handler that reacts to changes must be called even without a change: its last attempt has seen another state than
    /// `newest`, or is not final.
    pub(super) fn is_marked(&self, id: &str, newest: &Essence, field: Option<&FieldPath>) -> bool {
        self.record(id).is_some_and(|record| {
            let open = !matches!(record.purpose, Some(Reason::Delete | Reason::Resume));
            let began = record.target.is_some();
            let saw_newest = |record: &Record| record.saw(newest, field);
            open && began && (!record.is_final() || !self.all(record, saw_newest))
        })
    }

    /// Returns true if the object has the final record of a change.
    pub(super) fn carries_a_finished_change(&self) -> bool {
        let is_of_change = |it: &Record| {
            let is_change = matches!(it.purpose, Some(Reason::Create | Reason::Update));
            is_change && it.is_final()
        };
        let mut stored = self.0.values().filter_map(|row| row.stored.as_ref());
        stored.any(is_of_change)
    }

    /// Returns true if the object's records are unreliable, so that memory must hold them.
    pub(super) fn is_damaged(&self) -> bool {
        let mut handlers = self.0.values().filter(|row| !row.is_sub);
        handlers.any(|row| row.damage.is_some())
    }

    pub(super) fn of_subhandlers(&self) -> impl Iterator<Item = &Record> {
        let subs = self.0.values().filter(|row| row.is_sub);
        subs.filter_map(|row| row.record.as_ref())
    }

    // === changes ===

    /// Continues a cycle for `reason`: keeps records of handlers that are no longer members but have worked for it, and records that a later
    /// cycle may need. Removes records of superseded cycles with those of their sub-handlers.
    pub(super) fn keep(&mut self, reason: Reason, is_member: impl Fn(&str) -> bool) {
        let mut superseded = Vec::new();
        for (id, row) in &mut self.0 {
            if row.is_sub || is_member(id) {
                continue;
            }
            let purpose = row.stored.as_ref().map(|it| it.purpose);
            let is_foreign = purpose.is_none_or(|it| it.is_some_and(|it| it != reason));
            let known = row.record.take();
            let is_of_this = known.as_ref().is_some_and(|it| it.purpose == Some(reason));
            if is_of_this {
                row.record = known;
            } else if is_foreign {
                let records = row.stored.iter().chain(&known);
                superseded.extend(records.flat_map(|it| it.subrefs.clone()));
            } else {
                row.record.clone_from(&row.stored);
            }
        }
        for id in superseded {
            if let Some(row) = self.0.get_mut(id.as_str()).filter(|row| row.is_sub) {
                row.record = None;
            }
        }
    }

    /// Enters a handler's outcome.
    pub(super) fn enter(&mut self, id: &Arc<str>, record: Record) {
        self.0.entry(id.clone()).or_default().record = Some(record);
    }

    /// Enters a sub-handler's outcome.
    pub(super) fn adopt(&mut self, id: Arc<str>, row: Row) {
        self.0.insert(id, row);
    }

    /// Ends the cycle: removes all records except these.
    pub(super) fn close(&mut self, marks: impl IntoIterator<Item = (Arc<str>, Record)>) {
        for row in self.0.values_mut() {
            row.record = None;
        }
        for (id, record) in marks {
            self.enter(&id, record);
        }
    }

    /// Returns all desired records.
    pub(super) fn records(&self) -> BTreeMap<Arc<str>, Record> {
        self.iter().map(|(id, record)| (id.clone(), record.clone())).collect()
    }

    /// Iterates over all desired records.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Record)> {
        self.0.iter().filter_map(|(id, row)| Some((id, row.record.as_ref()?)))
    }

    /// Returns the records of a cycle that exist only in memory. `keeps_targets`: the object stores records completely.
    pub(super) fn only_in_memory(&self, keeps_targets: bool) -> Vec<(&str, &Record)> {
        let kept = |record: &Record| {
            if keeps_targets { record.clone() } else { record.in_kopfs_fields() }
        };
        let is_unwritten = |row: &Row, record: &Record| {
            let is_of_cycle = row.is_in_memory && record.purpose.is_some();
            is_of_cycle && row.stored.as_ref().map(kept) != Some(kept(record))
        };
        let rows = self.0.iter().filter_map(|(id, row)| {
            let record = row.record.as_ref()?;
            is_unwritten(row, record).then_some((&**id, record))
        });
        rows.collect()
    }

    /// Returns the ids of records to remove from the object.
    pub(super) fn removed(&self) -> Vec<&str> {
        let is_removed = |row: &Row| row.record.is_none() && row.is_there();
        let rows = self.0.iter().filter(|(_, row)| is_removed(row));
        rows.map(|(id, _)| &**id).collect()
    }

    /// Returns the records that differ from those on the object.
    pub(super) fn stored(&self) -> Vec<(&str, &Record)> {
        let rows = self.0.iter().filter(|(_, row)| row.record != row.stored);
        rows.filter_map(|(id, row)| Some((&**id, row.record.as_ref()?))).collect()
    }
}

/// Returns the record from the object with corrected times, and reports the correction: times that lie implausibly far in the future come from
/// a clock that was ahead or from an edit, and would block the handler for years. The record itself shows the longest possible delay, because
/// requested delays are stored if they are longer than usual. Kopf's formats and users' storages have no place for that: there, if the begin
/// lies in the future too, the delay is at most the time between the two.
fn corrected(
    record: Record,
    handler: &Handler,
    persistence: &Persistence,
    now: Timestamp,
    told: &mut Vec<Handling>,
) -> Record {
    if record.is_final() {
        return record;
    }
    let is_ahead = since(now, record.started) > SLACK;
    let usual = handler.retry.backoff.unwrap_or_default().max(USUAL_DELAY);
    let is_known = record.wait.is_some() || persistence.progress.keeps_targets();
    // By the clock of that time, the next attempt was planned this much later than the first one.
    let apart = record.delayed.map(|at| since(record.started, at));
    let apart = apart.filter(|it| is_ahead && !is_known && *it <= MONTH);
    let longest = record.wait.or(apart).unwrap_or(usual);
    let limit = if is_known || is_ahead { longest } else { MONTH };
    let delay = record.delayed.map(|at| since(now, at));
    let is_too_long = delay.is_some_and(|delay| delay > limit.saturating_add(SLACK));
    if !is_ahead && !is_too_long {
        return record;
    }
    let mut corrected = record.clone();
    let id = handler.id.clone();
    let trouble = if is_too_long {
        corrected.wait_until(now.checked_add(longest).ok().map(micros), now);
        Handling::NextAttemptAhead { id, at: record.delayed, pause: longest }
    } else {
        let at = record.started;
        Handling::FirstAttemptAhead { id, at }
    };
    if is_ahead {
        corrected.started = micros(now);
    }
    told.push(trouble);
    corrected
}
