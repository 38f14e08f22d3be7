//! A handling cycle in progress: its handlers with their records, and the due ones among them.
//!
//! Merges the records of the object and of memory with the selected handlers. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::reaction::comparison::Comparison;
use crate::reaction::decision::Mode;
use crate::reaction::handler_progress::{Declared, Member, Openness};
use crate::reaction::input::Input;
use crate::reaction::progress_table::Ledger;
use crate::reaction::standing::Standing;
use crate::reaction::turn::Turn;
use crate::state::progress::Record;

/// The facts about a cycle that `settle` needs.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) reason: Reason,
    pub(super) mode: Mode,
    pub(super) comparison: Comparison,
    pub(super) members: Vec<Member>,
    /// Marks of handlers that have left the cycle without having seen the target.
    pub(super) left_behind: Vec<(Arc<str>, Record)>,
    /// True if this process has begun the cycle.
    pub(super) ongoing: bool,
    pub(super) ledger: Ledger,
}

impl Cycle {
    /// Creates a cycle. `selected` may contain an id several times: the first one counts.
    pub(super) fn new(
        input: &Input<'_>,
        (reason, mode): (Reason, Mode),
        comparison: Comparison,
        selected: &[Arc<Handler>],
        ledger: Ledger,
    ) -> Self {
        let ongoing = input.seen.ongoing().is_some_and(|ongoing| ongoing.reason == reason);
        let mut cycle = Self {
            reason,
            mode,
            members: Vec::with_capacity(selected.len()),
            left_behind: Vec::new(),
            ongoing,
            ledger,
            comparison,
        };
        for handler in selected {
            if is_among(&cycle.members, &handler.id) {
                continue;
            }
            let declared = Declared::of(&handler.id, selected);
            let record = cycle.ledger.record(&handler.id).cloned();
            let is_of_this = |it: &Record| it.purpose == Some(reason) && !it.is_final();
            let awaits_record =
                mode == Mode::Persisted && handler.is_keyed && !record.as_ref().is_some_and(is_of_this);
            let record = record.map(|record| cycle.continued(input, handler, record, declared));
            let recurs = input.handlers.iter().any(|it| it.id == handler.id && it.reacts_to_differences());
            cycle.members.push(Member {
                handler: handler.clone(),
                record: record.unwrap_or_else(|| Record::fresh(reason, input.now)),
                recurs,
                holds: declared.holds,
                only_resumes: declared.only_resumes,
                exhausted: None,
                own: None,
                standing: match input.standing(handler) {
                    Standing::Callable | Standing::Released if awaits_record => Standing::AwaitsRecord,
                    standing => standing,
                },
            });
        }
        let is_member = |id: &str| is_among(&cycle.members, id);
        cycle.ledger.keep(reason, is_member);
        cycle
    }

    /// Returns the shared facts for its members.
    pub(super) fn turn(&self, now: Timestamp) -> Turn {
        Turn {
            reason: self.reason,
            goes_on: self.goes_on(),
            openness: self.openness(),
            is_last: self.mode == Mode::Gone,
            now,
        }
    }

    /// Returns true if records with this cycle's reason belong to this cycle, regardless of the states that they have seen.
    pub(super) fn goes_on(&self) -> bool {
        self.ongoing || self.comparison.target.is_fixed
    }

    /// Returns a record in the form for this cycle.
    fn continued(&self, input: &Input<'_>, handler: &Handler, record: Record, declared: Declared) -> Record {
        let deletion = record.purpose == Some(Reason::Delete);
        if self.mode != Mode::Persisted && !deletion {
            return Record::fresh(self.reason, input.now);
        }
        if self.reason == Reason::Delete && !deletion {
            return self.deleting(input, handler, &record, declared);
        }
        let saw_newest = |it: &Record| it.saw(&self.comparison.newest, handler.field());
        let turn = self.turn(input.now);
        turn.continued(record, declared.only_resumes, saw_newest)
    }

    /// Converts a record of another cycle at the beginning of a deletion. Keeps the state on which the handler last succeeded, because its
    /// change is computed from that state.
    fn deleting(&self, input: &Input<'_>, handler: &Handler, record: &Record, declared: Declared) -> Record {
        let newest = &self.comparison.newest;
        if !declared.sees_deletions && record.is_final() && record.saw(newest, handler.field()) {
            return Record { purpose: Some(self.reason), ..record.clone() };
        }
        let target = record.target.clone().filter(|_| record.success);
        Record { target, ..record.again(Some(self.reason), input.now) }
    }

    /// Returns the records of members and of their sub-handlers.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        let members = self.members.iter().map(|member| &member.record);
        members.chain(self.ledger.of_subhandlers())
    }

    /// Returns true if all members are done.
    pub(super) fn is_over(&self) -> bool {
        self.left().next().is_none()
    }

    /// Returns the members that the cycle waits for. A deletion waits for deletion handlers only; other handlers get one last call during it.
    pub(super) fn left(&self) -> impl Iterator<Item = &Member> {
        self.open(match self.openness() {
            Openness::Held => Openness::LastChance,
            openness => openness,
        })
    }

    fn open(&self, openness: Openness) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(move |member| member.is_open(openness))
    }

    fn openness(&self) -> Openness {
        let is_holding = |member: &Member| member.holds && !member.record.is_final();
        if !self.is_persisted_deletion() {
            Openness::All
        } else if self.members.iter().any(is_holding) {
            Openness::Held
        } else {
            Openness::LastChance
        }
    }

    /// Returns unfinished members that are suspended.
    pub(super) fn suspended(&self) -> impl Iterator<Item = Arc<Handler>> {
        let suspended = self.left().filter(|member| member.is_suspended());
        suspended.map(|member| member.handler.clone())
    }

    pub(super) fn is_persisted_deletion(&self) -> bool {
        self.reason == Reason::Delete && self.mode == Mode::Persisted
    }

    /// Returns the members to call, now or later. Handlers that come last are excluded while other work is left or runs in the background.
    pub(super) fn callable(&self, is_held_in_background: bool) -> impl Iterator<Item = &Member> {
        let last_wait = self.last_wait(is_held_in_background);
        let open = self.open(self.openness());
        let open = open.filter(|member| !member.is_suspended());
        open.filter(move |member| !(last_wait && member.handler.comes_last()))
    }

    /// Returns true if handlers that come last wait for others.
    fn last_wait(&self, is_held_in_background: bool) -> bool {
        is_held_in_background || self.left().any(|member| !member.handler.comes_last())
    }

    /// Returns true if a record must be written before any call, because the keys of attempts are derived from it.
    pub(super) fn awaits_records(&self) -> bool {
        let mut left = self.left();
        left.any(|member| member.standing == Standing::AwaitsRecord)
    }

    /// Detects members that have reached their limits, and picks those to call now.
    pub(super) fn pick(&mut self, input: &Input<'_>, is_held_in_background: bool) -> Vec<&Member> {
        if self.awaits_records() {
            return Vec::new();
        }
        let turn = self.turn(input.now);
        let lifecycle = if turn.is_last { &Lifecycle::AllAtOnce } else { &input.policy.lifecycle };
        let last_wait = self.last_wait(is_held_in_background);
        let members = self.members.iter_mut().enumerate();
        let members = members.filter(|(_, member)| !(last_wait && member.handler.comes_last()));
        let mut members: Vec<_> = members.collect();
        let picked = turn.pick(&mut members, lifecycle, input.body, input.random);
        let picked = picked.into_iter();
        picked.map(|place| &self.members[place]).collect()
    }

    /// Enters the records of members into the ledger.
    pub(super) fn enter_members(&mut self) {
        for member in &self.members {
            self.ledger.enter(&member.handler.id, member.record.clone());
        }
    }
}

fn is_among(members: &[Member], id: &str) -> bool {
    members.iter().any(|it| *it.handler.id == *id)
}

/// Returns the reports about cycles that a cycle for `reason` supersedes.
pub(super) fn supersession(reason: Reason, ledger: &Ledger) -> Vec<Handling> {
    let mut ended: BTreeMap<Reason, [usize; 3]> = BTreeMap::new();
    for record in ledger.of_handlers() {
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
