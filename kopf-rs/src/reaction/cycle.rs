//! A handling cycle in progress: its handlers with their records, the due ones among them, and the marks that it leaves.
//!
//! Merges the records of the object and of memory with the selected handlers. The rules for members of a cycle apply to handlers and to the
//! sub-handlers of one parent. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::lifecycle::{DueHandler, Lifecycle};
use crate::handler::subject::Reason;
use crate::happening::handling::{AttemptEnd, Handling};
use crate::object::body::Body;
use crate::reaction::comparison::Comparison;
use crate::reaction::input::{Input, Standing};
use crate::reaction::judge;
use crate::reaction::progress_table::Ledger;
use crate::state::progress::{Record, micros};

/// The writes that are permitted while handlers are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// All writes.
    Persisted,
    /// Best effort for a terminating object without the finalizer: no records are written.
    Terminating,
    /// Best effort for an object that no longer exists: no writes are possible, and there is no later attempt.
    Gone,
}

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
        let (comparison, field) = (&self.comparison, handler.field());
        let stays_valid =
            |it: &Record| it.saw(&comparison.newest, field) && !comparison.has_left_target(field);
        let turn = self.turn(input.now);
        turn.continued(record, declared.only_resumes, stays_valid)
    }

    /// Converts a record of another cycle at the beginning of a deletion. Keeps the state on which the handler last succeeded, because its
    /// change is computed from that state.
    fn deleting(&self, input: &Input<'_>, handler: &Handler, record: &Record, declared: Declared) -> Record {
        let newest = &self.comparison.newest;
        // A mark of an earlier cycle has not seen the change from the target.
        let is_passed = record.purpose.is_none() && self.comparison.has_left_target(handler.field());
        let is_done = record.is_final() && record.saw(newest, handler.field()) && !is_passed;
        if !declared.sees_deletions && is_done {
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

    /// Returns the marks: records that outlive the cycle, because the last attempt has seen another state than the one stored as
    /// last-handled (point 2 of the guarantee in `reaction`). Handlers that have seen the newest state need not be called for it; all others are
    /// to be called again.
    pub(super) fn marks(&self, now: Timestamp) -> Vec<(Arc<str>, Record)> {
        let ledger = &self.ledger;
        let mut marks = self.left_behind.clone();
        for member in self.members.iter().filter(|member| member.recurs) {
            let (id, record, field) = (&member.handler.id, &member.record, member.handler.field());
            let saw_target = |it: &Record| it.saw_known(&self.comparison.target.essence, field);
            if ledger.all(record, saw_target) {
                continue;
            }
            let saw_newest = |it: &Record| it.saw(&self.comparison.newest, field);
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

// === members ===

/// One handler of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) handler: Arc<Handler>,
    pub(super) record: Record,
    /// True if the handler also reacts to later changes, so that the state seen by its last attempt matters.
    pub(super) recurs: bool,
    /// True if the object must stay until the handler is done.
    pub(super) holds: bool,
    /// True if the handler is for resuming only, and is owed one successful run regardless of changes.
    pub(super) only_resumes: bool,
    /// The limit that was reached: the handler then fails without a call.
    pub(super) exhausted: Option<AttemptEnd>,
    pub(super) standing: Standing,
    /// The change since its own last attempt, if that is the one that it gets.
    pub(super) own: Option<Arc<Comparison>>,
}

/// Which handlers may still be attempted, as far as a deletion restricts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Openness {
    /// All handlers.
    All,
    /// Handlers that block the deletion are left. Meanwhile, optional deletion handlers are retried, and all others are called once.
    Held,
    /// No handler blocks the deletion any more: all others get one last call.
    LastChance,
}

/// The combined purpose of the selected declarations of one id.
#[derive(Clone, Copy, Debug)]
struct Declared {
    /// Only resuming.
    pub(super) only_resumes: bool,
    /// The object must stay until the handler has seen its deletion.
    pub(super) holds: bool,
    /// Deletions, whether or not they block it.
    pub(super) sees_deletions: bool,
}

/// Returns the time when the first unfinished handler is due.
pub(super) fn next_due<'a>(records: impl Iterator<Item = &'a Record>, now: Timestamp) -> Option<Timestamp> {
    let left = records.filter(|record| !record.is_final());
    left.map(|record| record.delayed.unwrap_or(now)).min()
}

impl Declared {
    pub(super) fn of(id: &str, selected: &[Arc<Handler>]) -> Self {
        let declarations = || selected.iter().filter(|it| *it.id == *id);
        let holds = declarations().any(|it| it.needs_finalizer());
        Self {
            only_resumes: declarations().all(|it| it.is_for_resuming()),
            holds,
            sees_deletions: holds || declarations().any(|it| it.is_optional_deletion()),
        }
    }
}

impl Member {
    /// Returns true if attempts are left.
    pub(super) fn is_open(&self, openness: Openness) -> bool {
        let is_open = match openness {
            Openness::All => true,
            Openness::Held => !self.had_its_chance() || self.handler.is_optional_deletion(),
            Openness::LastChance => !self.had_its_chance(),
        };
        is_open && !self.record.is_final()
    }

    /// Returns true if a deletion no longer waits for the handler.
    pub(super) fn had_its_chance(&self) -> bool {
        !self.holds && (self.record.was_called() || self.is_suspended())
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.standing == Standing::Suspended
    }

    /// Returns the limit that was reached, if any.
    pub(super) fn limit_reached(&self, now: Timestamp) -> Option<AttemptEnd> {
        if self.standing != Standing::Released {
            return judge::limit_reached(&self.handler, &self.record, now);
        }
        let mut record = self.record.clone();
        record.started = micros(now);
        judge::limit_reached(&self.handler, &record, now)
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if self.standing == Standing::Released {
            self.record.started = micros(now);
        }
        // The keys of its attempts contain the time in the record, which must stay the same after a crash.
        if !self.handler.is_keyed {
            self.record.begin(now);
        }
    }
}

// === rules for all members ===

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
    /// Returns a record of former passes in the form for this cycle. A result from before the cycle counts only if it `stays_valid`: the
    /// handler saw the current state, and the target of this cycle does not differ from it there. That of a handler for resuming only always
    /// counts.
    pub(super) fn continued(
        &self,
        record: Record,
        only_resumes: bool,
        stays_valid: impl FnOnce(&Record) -> bool,
    ) -> Record {
        let is_of_this =
            record.purpose == Some(self.reason) && (self.goes_on || self.reason == Reason::Delete);
        let stands = only_resumes || is_of_this;
        let is_owed = record.is_owed || record.is_mark();
        let record = if record.is_final() && !stands && !stays_valid(&record) {
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
        let due = open.iter().map(|at| &members[*at].1);
        let candidates: Vec<_> = due.map(|it| DueHandler::new(&it.handler.id, it.record.retries)).collect();
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
