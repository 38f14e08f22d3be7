//! A handling cycle in progress: its handlers with their records, and which of them are due.
//!
//! Merges what the object carries, what memory holds, and what the cause selects. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::lifecycle::{DueHandler, Lifecycle};
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::reaction::comparison::Comparison;
use crate::reaction::decision::Mode;
use crate::reaction::entry::{Entry, sub_records};
use crate::reaction::input::Input;
use crate::reaction::member::{Declared, Exhausted, Member, SubhandlerRecord, due, is_due};
use crate::state::progress::Record;

/// All that `settle` has to know of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) reason: Reason,
    pub(super) mode: Mode,
    pub(super) comparison: Comparison,
    pub(super) members: Vec<Member>,
    /// Marks of handlers that are no members any more, and have not seen the target.
    pub(super) left_behind: Vec<(Arc<str>, Record)>,
    /// Handlers that this process has called in this cycle and need not call again, with records that are not written yet.
    pub(super) unwritten: Vec<(Arc<str>, Record)>,
    /// Records to take off now: of a cycle that was superseded.
    pub(super) superseded: Vec<Arc<str>>,
    /// This process has begun the cycle.
    pub(super) ongoing: bool,
    /// Sub-handlers, as far as they are known in this pass.
    pub(super) subhandlers: BTreeMap<Arc<str>, SubhandlerRecord>,
    /// Ids with anything on the object: to be taken off at the end.
    pub(super) on_object: Vec<Arc<str>>,
    /// Sub-handlers' ids that go with them.
    pub(super) subrefs: Vec<String>,
    /// What the object carries cannot be relied on: memory has to hold the records.
    pub(super) is_damaged: bool,
}

impl Cycle {
    /// `selected` may name an id several times: the first one counts.
    pub(super) fn new(
        input: &Input<'_>,
        (reason, mode): (Reason, Mode),
        comparison: Comparison,
        selected: &[Arc<Handler>],
        entries: Vec<Entry>,
    ) -> Self {
        let ongoing = input
            .seen
            .ongoing()
            .is_some_and(|ongoing| ongoing.reason == reason);
        let mut cycle = Self {
            reason,
            mode,
            members: Vec::with_capacity(selected.len()),
            left_behind: Vec::new(),
            unwritten: Vec::new(),
            superseded: Vec::new(),
            ongoing,
            subhandlers: sub_records(input, &entries),
            on_object: Vec::new(),
            subrefs: Vec::new(),
            is_damaged: entries.iter().any(|entry| entry.is_damaged),
            comparison,
        };
        for handler in selected {
            if cycle.members.iter().any(|it| it.handler.id == handler.id) {
                continue;
            }
            let entry = entries.iter().find(|entry| entry.id == handler.id);
            let declared = Declared::of(&handler.id, selected);
            let record = entry
                .and_then(|entry| entry.record.clone())
                .map(|record| cycle.continued(input, handler, record, declared));
            let recurs = input
                .handlers
                .iter()
                .any(|it| it.id == handler.id && it.reacts_to_differences());
            cycle.members.push(Member {
                handler: handler.clone(),
                record: record.unwrap_or_else(|| Record::fresh(reason, input.now)),
                stored: entry.and_then(|entry| entry.stored.clone()),
                recurs,
                holds: declared.holds,
                only_resumes: declared.only_resumes,
                exhausted: None,
                standing: input.standing(handler),
            });
        }
        for entry in entries {
            cycle.account(entry);
        }
        cycle
    }

    /// Whether what was done for the reason of this cycle was done in this cycle, whatever state it has seen.
    pub(super) fn goes_on(&self) -> bool {
        self.ongoing || self.comparison.target.is_fixed
    }

    /// The record as it is in this cycle. What was finished before the cycle, and on another state than there is now, counts for
    /// nothing, unless its handler only resumes.
    fn continued(
        &self,
        input: &Input<'_>,
        handler: &Handler,
        record: Record,
        declared: Declared,
    ) -> Record {
        let deletion = record.purpose == Some(Reason::Delete);
        if self.mode != Mode::Persisted && !deletion {
            return Record::fresh(self.reason, input.now);
        }
        if self.reason == Reason::Delete && !deletion {
            return self.deleting(input, handler, &record, declared);
        }
        let of_this = record.purpose == Some(self.reason) && (self.goes_on() || deletion);
        let stands = declared.only_resumes || of_this;
        let field = handler.field();
        let is_owed = record.is_owed || record.is_mark();
        let record = if record.is_final() && !stands && !record.saw(&self.comparison.newest, field)
        {
            record.again(None, input.now)
        } else {
            record
        };
        Record {
            purpose: Some(self.reason),
            is_owed,
            ..record
        }
    }

    /// The record of another cycle at the begin of a deletion. It keeps what the handler has last succeeded on, for that is what it is
    /// told the change from.
    fn deleting(
        &self,
        input: &Input<'_>,
        handler: &Handler,
        record: &Record,
        declared: Declared,
    ) -> Record {
        let newest = &self.comparison.newest;
        if !declared.sees_deletions && record.is_final() && record.saw(newest, handler.field()) {
            return Record {
                purpose: Some(self.reason),
                ..record.clone()
            };
        }
        let target = record.target.clone().filter(|_| record.success);
        Record {
            target,
            ..record.again(Some(self.reason), input.now)
        }
    }

    /// Whether all is done.
    pub(super) fn is_over(&self) -> bool {
        self.left().next().is_none()
    }

    /// Those for whom there is something more to attempt.
    pub(super) fn left(&self) -> impl Iterator<Item = &Member> {
        let is_persisted_deletion = self.is_persisted_deletion();
        let members = self.members.iter();
        members.filter(move |member| member.is_left(is_persisted_deletion))
    }

    /// Those who would have something more to attempt and are not to be called.
    pub(super) fn suspended(&self) -> impl Iterator<Item = Arc<Handler>> {
        let suspended = self.left().filter(|member| member.is_suspended());
        suspended.map(|member| member.handler.clone())
    }

    pub(super) fn is_persisted_deletion(&self) -> bool {
        self.reason == Reason::Delete && self.mode == Mode::Persisted
    }

    /// What becomes of what the object carries.
    fn account(&mut self, entry: Entry) {
        let is_member = self.members.iter().any(|it| it.handler.id == entry.id);
        if let Some(record) = entry.record.filter(|it| Some(it) != entry.stored.as_ref())
            && !is_member
            && record.purpose == Some(self.reason)
        {
            self.unwritten.push((entry.id.clone(), record));
        }
        if !entry.is_there {
            return;
        }
        if let Some(record) = &entry.stored {
            self.subrefs.extend(record.subrefs.iter().cloned());
        }
        let is_foreign = entry
            .stored
            .as_ref()
            .is_none_or(|it| it.purpose.is_some_and(|purpose| purpose != self.reason));
        if is_foreign && !is_member {
            let of_subs = entry.stored.iter().flat_map(|it| &it.subrefs);
            self.superseded.extend(of_subs.map(|id| id.as_str().into()));
            self.superseded.push(entry.id.clone());
        }
        self.on_object.push(entry.id);
    }

    /// Find those whose limits are reached, and pick those to call now.
    pub(super) fn pick(&mut self, input: &Input<'_>) -> Vec<&Member> {
        let (now, gone) = (input.now, self.mode == Mode::Gone);
        let is_deletion = self.is_persisted_deletion();
        let is_due = |it: &Member| {
            !it.is_suspended() && it.is_left(is_deletion) && is_due(&it.record, now, gone)
        };
        for member in &mut self.members {
            if is_due(member) {
                member.exhausted = Exhausted::of(&member.handler, &member.record, now);
            }
        }
        let members = self.members.iter().enumerate();
        let open = members.filter(|(_, it)| it.exhausted.is_none() && is_due(it));
        let (open, candidates): (Vec<usize>, Vec<DueHandler<'_>>) =
            open.map(|(place, it)| (place, due(it))).unzip();
        let picked: Vec<usize> = if gone {
            open
        } else {
            let lifecycle: &Lifecycle = &input.policy.lifecycle;
            let picked = lifecycle.pick(input.body, &candidates, input.random);
            picked.into_iter().map(|place| open[place]).collect()
        };
        for place in &picked {
            self.members[*place].record.begin(now);
        }
        let picked = picked.into_iter();
        picked.map(|place| &self.members[place]).collect()
    }
}

/// The cycles that one for `reason` puts an end to.
pub(super) fn supersession(reason: Reason, entries: &[Entry]) -> Vec<Handling> {
    let mut ended: BTreeMap<Reason, [usize; 3]> = BTreeMap::new();
    for record in entries.iter().filter_map(|entry| entry.record.as_ref()) {
        if let Some(purpose) = record.purpose.filter(|it| *it != reason) {
            let counts = ended.entry(purpose).or_default();
            let which = usize::from(!record.success) + usize::from(!record.is_final());
            counts[which] += 1;
        }
    }
    let superseded = |(ended, [succeeded, failed, left]): (_, [_; 3])| Handling::Superseded {
        ended,
        reason,
        succeeded,
        failed,
        left,
    };
    ended.into_iter().map(superseded).collect()
}
