//! Converts outcomes to effects.
//!
//! One merge patch contains all writes: the changes of handlers, the progress records or their removal, the last-handled essence, and the
//! finalizer. Must not know how it is sent, or how the operator's state is stored on objects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::handler::outcome::Outcome;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::reaction::cycle::{Cycle, Mode, next_due};
use crate::reaction::judge::{Judge, next_random};
use crate::reaction::memory::{Drift, InProgress, ObjectMemory, Ongoing};
use crate::reaction::plan::{Decision, Plan};
use crate::reaction::progress_table::{Ledger, SubhandlerRecord};
use crate::reaction::subhandlers::refer;
use crate::state::changes::{Changes, TargetChange, Written};
use crate::state::diffbase::KnownEssence;
use crate::state::finalizer;
use crate::state::progress::Record;

/// One attempt that was made.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// The handler's id.
    pub(crate) id: Arc<str>,
    pub(crate) outcome: Outcome,
    /// The outcomes of its sub-handlers.
    pub(crate) subhandlers: Vec<SubhandlerRecord>,
}

/// The effects of the calls.
#[derive(Debug)]
pub(crate) struct Effects {
    /// The merge patch of this cycle: progress, essence, finalizers, results, and the changes of handlers. The latter are complete, because
    /// only the sender can remove changes that the object already has.
    pub(crate) patch: Patch,
    /// The state for which this was computed.
    pub(crate) body: Arc<Body>,
    /// The handlers whose outcomes are in the patch.
    pub(crate) called: Vec<Arc<str>>,
    /// Set if the patch replaces the finalizers: it must only be applied to an object with exactly these finalizers.
    pub(crate) expected_finalizers: Option<Vec<String>>,
    /// The time to plan again without an event. `now` or earlier means as soon as the patch is applied.
    pub(crate) wake_at: Option<Timestamp>,
    /// The handlers that wait for their next attempt, with its time.
    pub(crate) waiting: Vec<(Arc<str>, Timestamp)>,
    pub(crate) told: Vec<Handling>,
    /// Handlers that failed permanently in this pass.
    pub(crate) failed: Vec<Arc<str>>,
    /// True if a change was completely handled.
    pub(crate) concluded: bool,
    /// The memory after the patch was applied (or was empty).
    pub(crate) seen: ObjectMemory,
    /// The memory if the patch was refused: it keeps outcomes that still have to be written, so that no handler runs twice.
    pub(crate) seen_if_refused: ObjectMemory,
}

/// Converts outcomes to effects. `attempted` are calls of [`Plan::changing`]; `patch` contains the changes of all called handlers.
pub(crate) fn settle(mut plan: Plan, attempted: Vec<Attempted>, patch: Patch, now: Timestamp) -> Effects {
    let kept = plan.seen.in_progress.as_mut();
    let kept = kept.map(|it| (it.patch.take(), it.in_background.take()));
    let (mut wanted, wanted_in_background) = kept.unwrap_or_default();
    wanted.absorb(patch);
    let (cycle, left) = (plan.cycle.take(), std::mem::take(&mut plan.left));
    let settling = Settling {
        effects: Effects {
            patch: Patch::new(),
            body: plan.body.clone(),
            called: attempted.iter().map(|it| it.id.clone()).collect(),
            expected_finalizers: None,
            wake_at: None,
            waiting: Vec::new(),
            told: Vec::new(),
            failed: Vec::new(),
            concluded: false,
            seen: plan.seen.clone(),
            // Every branch sets it.
            seen_if_refused: ObjectMemory::default(),
        },
        plan,
        wanted,
        wanted_in_background,
        now,
    };
    match (settling.plan.decision, cycle) {
        (Decision::Handle { .. }, Some(cycle)) => settling.cycle(*cycle, attempted),
        (Decision::AddFinalizer, _) => settling.change_finalizer(finalizer::add, &left),
        (Decision::RemoveFinalizer, _) => settling.change_finalizer(finalizer::remove, &left),
        _ => settling.wait(left),
    }
}

struct Settling {
    plan: Plan,
    /// The changes that handlers want, from this pass and from earlier ones that could not be written.
    wanted: Patch,
    /// The changes that daemons and timers want.
    wanted_in_background: Patch,
    now: Timestamp,
    effects: Effects,
}

impl Settling {
    /// Returns all changes except the operator's own. Change handlers take precedence.
    fn all_wanted(&self) -> Cow<'_, Patch> {
        if self.wanted_in_background.is_empty() {
            return Cow::Borrowed(&self.wanted);
        }
        let mut all = self.wanted_in_background.clone();
        all.absorb(self.wanted.clone());
        Cow::Owned(all)
    }

    /// Settles a pass without a cycle: writes outstanding changes, and keeps the memory. Only the last-handled state outlives a purge and the
    /// object itself.
    fn wait(mut self, mut left: Ledger) -> Effects {
        // The filters exclude all handlers that would reconsider their children.
        self.effects.seen.drift = Drift::default();
        if !self.plan.gone && !self.plan.body.is_deleting() {
            self.show_outcomes(None);
        }
        let decision = self.plan.decision;
        let patch = match decision {
            Decision::Purge => {
                left.close([]);
                let (removed, target) = (left.removed(), TargetChange::Remove);
                self.write(&Changes { removed, target, ..Changes::default() }).patch
            }
            Decision::Forget => self.all_wanted().into_owned(),
            _ => self.write_unwritten(&left),
        };
        self.hold(None);
        let mut in_progress = self.effects.seen.in_progress.take().map(|it| *it).unwrap_or_default();
        if matches!(decision, Decision::Purge | Decision::Forget) {
            in_progress = InProgress { last: in_progress.last, ..InProgress::default() };
        }
        self.remember(in_progress);
        self.finish(patch)
    }

    /// Returns a patch with the handlers' changes and with outcomes of a cycle that cannot continue, because another process must find these
    /// while the object lives.
    fn write_unwritten(&mut self, left: &Ledger) -> Patch {
        let keeps_targets = self.plan.persistence.progress.keeps_targets();
        let stored = left.only_in_memory(keeps_targets);
        if stored.is_empty() || self.plan.body.is_deleting() {
            return self.all_wanted().into_owned();
        }
        let ongoing = self.plan.seen.ongoing();
        let ongoing = ongoing.filter(|it| it.reason != Reason::Resume);
        let target = ongoing.and_then(|it| it.target.clone());
        let changes = Changes {
            stored,
            target: target.map_or(TargetChange::Keep, TargetChange::Store),
            ..Changes::default()
        };
        self.write(&changes).patch
    }

    /// Adds or removes the finalizer. `edit` does so in a patch, and returns the finalizers that the object must have for that.
    fn change_finalizer(
        mut self,
        edit: fn(&Body, &str, &mut Patch) -> Vec<String>,
        left: &Ledger,
    ) -> Effects {
        let mut patch = self.write_unwritten(left);
        let (body, name) = (&self.plan.body, &self.plan.persistence.finalizer);
        self.effects.expected_finalizers = Some(edit(body, name, &mut patch));
        let stays = !body.is_deleting() || !finalizer::is_alone(body, name);
        self.effects.wake_at = stays.then_some(self.now);
        self.hold(None);
        self.finish(patch)
    }

    fn cycle(mut self, mut cycle: Cycle, attempted: Vec<Attempted>) -> Effects {
        if self.plan.seen.ongoing().is_none() {
            self.plan.seen.drift.begin();
            self.effects.seen.drift.begin();
        }
        self.judge(&mut cycle, attempted);
        if cycle.mode == Mode::Persisted {
            self.show_outcomes(Some(&cycle));
        }
        let over = cycle.is_over();
        if cycle.reason != Reason::Delete {
            cycle.comparison.target.is_fixed |= is_begun_by_somebody(&cycle);
        }
        if over {
            self.announce(&cycle);
        }
        self.hold(Some(&cycle));
        if cycle.mode != Mode::Persisted {
            return self.best_effort_deletion(&cycle, over);
        }
        // The outcomes stay on the object until it is released, so that no handler is called again for its deletion.
        let is_held = cycle.reason == Reason::Delete && self.plan.is_held_in_background;
        if over && !is_held { self.conclude(cycle) } else { self.proceed(&cycle) }
    }

    /// Enters outcomes into records, and results into the patch.
    fn judge(&mut self, cycle: &mut Cycle, attempted: Vec<Attempted>) {
        let mut judge = Judge { now: self.now, ..self.plan.judge };
        for Attempted { id, outcome, subhandlers } in attempted {
            let Some(member) = cycle.members.iter_mut().find(|it| it.handler.id == id) else {
                continue;
            };
            let (handler, record) = (&member.handler, &mut member.record);
            // After a failed attempt that got the change since the handler's own last success, the next attempt gets that change again.
            let former = member.own.is_some().then(|| record.target.clone());
            // A deletion is the last change, so the record keeps the state handled before it.
            if cycle.reason != Reason::Delete {
                record.target = Some(cycle.comparison.observed_by(handler));
            }
            refer(record, subhandlers.iter().map(|child| &*child.id));
            let wake = next_due(open(&subhandlers), self.now);
            for child in subhandlers {
                self.adopt(&mut cycle.ledger, child);
            }
            if matches!(outcome, Outcome::Waiting) {
                let handler = handler.clone();
                self.effects.told.push(Handling::WaitsForSubhandlers { handler });
                record.wait_until(wake, self.now);
                record.target = former.unwrap_or(record.target.take());
                continue;
            }
            let result = judge.attempted(handler, record, outcome, &mut self.effects.told);
            if let Some(former) = former.filter(|_| !record.is_final()) {
                record.target = former;
            }
            if let Some(result) = result {
                deliver(&mut self.wanted, &id, result);
            }
            if record.failure {
                self.effects.failed.push(id);
            }
            judge.random = next_random(judge.random);
        }
        for member in &mut cycle.members {
            if let Some(end) = member.exhausted.take() {
                let (handler, record) = (&member.handler, &mut member.record);
                judge.enter(handler, record, end, &mut self.effects.told);
                self.effects.failed.push(handler.id.clone());
            }
        }
        cycle.enter_members();
    }

    /// Shows the outcomes of handlers as conditions; without a cycle, those of background handlers.
    fn show_outcomes(&mut self, cycle: Option<&Cycle>) {
        let Some(outcomes) = &self.plan.outcomes else {
            return;
        };
        let edits = {
            let wanted = self.all_wanted();
            outcomes.after(cycle, &self.effects.told, (&*self.plan.body, &*wanted))
        };
        self.wanted.edit_status(edits);
    }

    /// Enters the outcome of a sub-handler in this pass.
    fn adopt(&mut self, ledger: &mut Ledger, child: SubhandlerRecord) {
        let SubhandlerRecord { id, row, result } = child;
        if let Some(result) = result {
            deliver(&mut self.wanted, &id, result);
        }
        let has_failed = |it: Option<&Record>| it.is_some_and(|it| it.failure);
        if has_failed(row.record.as_ref()) && !has_failed(ledger.record(&id)) {
            self.effects.failed.push(id.clone());
        }
        ledger.adopt(id, row);
    }

    fn announce(&mut self, cycle: &Cycle) {
        let in_progress = self.plan.seen.in_progress.as_ref();
        if cycle.members.is_empty() || in_progress.is_some_and(|it| it.announced == Some(cycle.reason)) {
            return;
        }
        let succeeded = cycle.members.iter().filter(|it| it.record.success).count();
        let failed = cycle.members.len() - succeeded;
        let undone = cycle.members.iter().filter(|it| !it.record.is_final());
        self.effects.told.extend(undone.map(|it| Handling::LeftUndone { handler: it.handler.clone() }));
        self.effects.told.push(Handling::Processed { reason: cycle.reason, succeeded, failed });
    }

    /// Computes the memory for a refused write, which keeps everything.
    fn hold(&mut self, cycle: Option<&Cycle>) {
        let mut seen = self.plan.seen.clone();
        let mut in_progress = seen.in_progress.take().map(|in_progress| *in_progress).unwrap_or_default();
        in_progress.patch = self.wanted.clone();
        in_progress.in_background = self.wanted_in_background.clone();
        if let Some(cycle) = cycle {
            in_progress.records.extend(cycle.ledger.records());
            in_progress.ongoing = ongoing(cycle);
            if cycle.is_over() {
                in_progress.announced = Some(cycle.reason);
            }
        }
        seen.in_progress = in_progress.boxed();
        self.effects.seen_if_refused = seen;
    }

    /// Handles the deletion of an object without our finalizer, with state in memory only.
    fn best_effort_deletion(mut self, cycle: &Cycle, over: bool) -> Effects {
        if over || cycle.mode == Mode::Gone {
            self.effects.seen.deletion_was_handled = true;
            self.effects.seen_if_refused.deletion_was_handled = true;
            self.effects.seen.in_progress = None;
        } else {
            self.wait_for_attempts(cycle);
            self.remember(InProgress {
                records: cycle.ledger.records(),
                ongoing: ongoing(cycle),
                ..InProgress::default()
            });
        }
        let patch = self.all_wanted().into_owned();
        self.finish(patch)
    }

    /// Writes the progress while handlers are left.
    fn proceed(mut self, cycle: &Cycle) -> Effects {
        self.wait_for_attempts(cycle);
        let stored = cycle.ledger.stored();
        let written = self.write(&Changes {
            removed: cycle.ledger.removed(),
            target: if stored.is_empty() { TargetChange::Keep } else { Self::target_change(cycle) },
            stored,
            last_handled: None,
        });
        let last = self.take_last();
        self.remember(InProgress {
            ongoing: ongoing(cycle),
            records: if self.is_reliable(&written) && !cycle.ledger.is_damaged() {
                BTreeMap::new()
            } else {
                cycle.ledger.records()
            },
            last,
            announced: cycle.is_over().then_some(cycle.reason),
            ..InProgress::default()
        });
        self.finish(written.patch)
    }

    /// Completes the cycle: stores the last-handled state, cleans up, and releases the object.
    fn conclude(mut self, mut cycle: Cycle) -> Effects {
        let (body, name) = (&self.plan.body, &self.plan.persistence.finalizer);
        let deletes = cycle.reason == Reason::Delete;
        let marks = if deletes { Vec::new() } else { cycle.marks(self.now) };
        let keeps_marks = self.plan.persistence.progress.keeps_targets();
        let on_object = marks.iter().filter(|_| keeps_marks).cloned();
        cycle.ledger.close(on_object);
        let comparison = &cycle.comparison;
        let changes = if deletes && finalizer::is_alone(body, name) {
            // The object disappears with this write.
            Changes::default()
        } else {
            Changes {
                removed: cycle.ledger.removed(),
                stored: cycle.ledger.stored(),
                target: TargetChange::Remove,
                last_handled: comparison.changed.then_some(&comparison.target.essence),
            }
        };
        let mut written = self.write(&changes);
        if deletes {
            self.effects.told.push(Handling::FinalizerReleased);
            let (body, name) = (&self.plan.body, &self.plan.persistence.finalizer);
            let expected = finalizer::remove(body, name, &mut written.patch);
            self.effects.expected_finalizers = Some(expected);
            self.effects.seen.deletion_was_handled = true;
        }
        self.effects.seen.drift.end();
        let again = !marks.is_empty()
            || (!deletes && cycle.comparison.target_is_superseded())
            || self.effects.seen.drift.is_noted();
        self.effects.wake_at = again.then_some(self.now);
        self.effects.seen.handled_once = true;
        self.effects.concluded = true;
        let held = !self.is_reliable(&written);
        let last = self.take_last();
        self.remember(InProgress {
            records: marks.into_iter().filter(|_| held).collect(),
            last: match (cycle.comparison.changed, written.keeps_last_handled) {
                (true, false) => Some(cycle.comparison.target.essence.clone()),
                (true, true) => None,
                (false, _) => last,
            },
            ..InProgress::default()
        });
        self.finish(written.patch)
    }

    /// Sets the time of the next attempt, and the handlers that wait for theirs.
    fn wait_for_attempts(&mut self, cycle: &Cycle) {
        let callable = || cycle.callable(self.plan.is_held_in_background);
        let wake_at = next_due(callable().map(|it| &it.record), self.now);
        let delayed = callable().filter(|it| !it.record.is_final());
        let delayed = delayed.filter_map(|it| Some((it.handler.id.clone(), it.record.delayed?)));
        let waiting = delayed.filter(|(_, at)| *at > self.now).collect();
        (self.effects.wake_at, self.effects.waiting) = (wake_at, waiting);
    }

    /// Writes the changes into a patch, in addition to the changes of handlers.
    fn write(&mut self, changes: &Changes<'_>) -> Written {
        let (persistence, body) = (&self.plan.persistence, &self.plan.body);
        let mut written = persistence.write(changes, &self.all_wanted(), body);
        let troubles = written.troubles.drain(..);
        self.effects.told.extend(troubles.map(Handling::from));
        written
    }

    /// Returns true if the object holds the records completely.
    fn is_reliable(&self, written: &Written) -> bool {
        written.keeps_records && self.plan.persistence.progress.keeps_targets()
    }

    /// Takes the last-handled essence if it exists only in memory.
    fn take_last(&mut self) -> Option<KnownEssence> {
        let in_progress = self.plan.seen.in_progress.take();
        in_progress.and_then(|in_progress| in_progress.last)
    }

    /// Stores the complete target beside the records, because the object may change before the next write, and later changes are compared
    /// with the target. A deletion keeps the target of the former cycle, and resuming has none.
    fn target_change(cycle: &Cycle) -> TargetChange {
        let target = &cycle.comparison.target;
        if !target.is_fixed || cycle.reason == Reason::Resume {
            return TargetChange::Remove;
        }
        TargetChange::Store(target.essence.clone())
    }

    /// Sets the memory for an applied patch.
    fn remember(&mut self, in_progress: InProgress) {
        self.effects.seen.in_progress = in_progress.boxed();
    }

    /// Builds the final patch. The handlers' changes stay complete, because only the sender knows which of them the object already has.
    fn finish(mut self, patch: Patch) -> Effects {
        const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];
        if self.plan.gone {
            self.effects.expected_finalizers = None;
            return self.effects;
        }
        // The operator's own changes exclude those that the object already has, even if others change them meanwhile.
        let mut all = Patch::new();
        all.merge(self.all_wanted().as_value().clone());
        let list = patch.get(&FINALIZERS).cloned();
        if let (Some(_), Some(list)) = (all.get(&FINALIZERS), list) {
            all.put(&FINALIZERS, list);
        }
        all.absorb(patch.effective(&self.plan.body));
        all.edit_status(self.all_wanted().status_edits().clone());
        self.effects.patch = all;
        self.effects
    }
}

/// Returns the records of sub-handlers, except those below a finished one.
fn open(subhandlers: &[SubhandlerRecord]) -> impl Iterator<Item = &Record> {
    let records = move || subhandlers.iter().filter_map(|it| Some((&*it.id, it.row.record.as_ref()?)));
    let is_below = |id: &str, done: &str| id.strip_prefix(done).is_some_and(|it| it.starts_with('/'));
    let is_open = move |id: &str| !records().any(|(done, it)| it.is_final() && is_below(id, done));
    records().filter(move |(id, _)| is_open(id)).map(|(_, record)| record)
}

/// Writes a result to `status.{id}`: merges an object with existing members, and replaces anything else.
pub(crate) fn deliver(patch: &mut Patch, id: &str, result: Value) {
    let at = ["status", id];
    match (result, patch.get(&at)) {
        (Value::Object(members), Some(Value::Object(found))) => {
            let mut all: Map<String, Value> = found.clone();
            all.extend(members);
            patch.put(&at, all.into());
        }
        (result, _) => patch.put(&at, result),
    }
}

/// Returns true if a handler or sub-handler is done with the cycle.
fn is_begun_by_somebody(cycle: &Cycle) -> bool {
    let is_done = |it: &Record| it.is_final() && it.purpose == Some(cycle.reason);
    cycle.records().any(is_done)
}

/// Returns the state of a cycle after its first attempt. Before that, its target is the current object.
fn ongoing(cycle: &Cycle) -> Option<Ongoing> {
    let begun = cycle.goes_on() || cycle.records().any(|record| record.retries > 0);
    let target = &cycle.comparison.target;
    begun.then(|| Ongoing { reason: cycle.reason, target: target.is_fixed.then(|| target.essence.clone()) })
}
