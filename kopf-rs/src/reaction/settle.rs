//! From outcomes to effects.
//!
//! One merge patch holds all there is to write: what handlers want, progress or the end of it, the essence handled, the finalizer.
//! Promises that an annotation of ours never makes the object too large. Must not know how it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::handler::outcome::Outcome;
use crate::handler::subject::Reason;
use crate::happening::handling::{Handling, StateTrouble};
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::reaction::cycle::Cycle;
use crate::reaction::decision::{Decision, Mode};
use crate::reaction::judge::{Judge, next_chance, shortened};
use crate::reaction::marks::marks;
use crate::reaction::member::{Member, SubhandlerRecord, next_due};
use crate::reaction::memory::{InProgress, ObjectMemory, Ongoing};
use crate::reaction::planned::{Plan, PlanContext};
use crate::reaction::subhandlers::refer;
use crate::state::budget;
use crate::state::diffbase::{Kept, KnownEssence};
use crate::state::finalizer;
use crate::state::progress::Record;

/// One attempt that was made.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// Handler id.
    pub(crate) id: Arc<str>,
    pub(crate) outcome: Outcome,
    /// Its sub-handlers.
    pub(crate) subhandlers: Vec<SubhandlerRecord>,
}

/// What is to be done after the calls.
#[derive(Debug)]
pub(crate) struct Effects {
    /// The one merge patch of this cycle: progress, essence, finalizers, results, and what the handlers put in. All of the
    /// latter: what the object says already, when it is written, need not be asked for.
    pub(crate) patch: Patch,
    /// The state that this was made of.
    pub(crate) body: Arc<Body>,
    /// Whose outcomes are in the patch.
    pub(crate) called: Vec<Arc<str>>,
    /// Set where the patch replaces the finalizers: that must only land on an object with exactly these finalizers.
    pub(crate) expected_finalizers: Option<Vec<String>>,
    /// When to plan again without an event. `now` or earlier: as soon as the patch has landed.
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) told: Vec<Handling>,
    /// Handlers that failed for good in this pass.
    pub(crate) failed: Vec<Arc<str>>,
    /// A change was handled to the end.
    pub(crate) concluded: bool,
    /// To remember once the patch has landed (or was empty).
    pub(crate) seen: ObjectMemory,
    /// To remember where the patch was refused: outcomes that still have to be written, so that no handler runs twice.
    pub(crate) seen_if_refused: ObjectMemory,
}

/// Turn outcomes into effects. `attempted` are calls of [`Plan::changing`]; `patch` is what all called handlers have put in.
pub(crate) fn settle(
    plan: Plan,
    attempted: Vec<Attempted>,
    patch: Patch,
    now: Timestamp,
) -> Effects {
    let mut context = plan.context;
    let mut wanted = context
        .seen
        .in_progress
        .as_mut()
        .map(|in_progress| in_progress.patch.take())
        .unwrap_or_default();
    wanted.absorb(patch);
    let settling = Settling {
        effects: Effects {
            patch: Patch::new(),
            body: context.body.clone(),
            called: attempted.iter().map(|it| it.id.clone()).collect(),
            expected_finalizers: None,
            wake_at: None,
            told: Vec::new(),
            failed: Vec::new(),
            concluded: false,
            seen: context.seen.clone(),
            // Every course says what it holds.
            seen_if_refused: ObjectMemory::default(),
        },
        context,
        wanted,
        now,
    };
    match (plan.decision, plan.cycle) {
        (Decision::Handle { .. }, Some(cycle)) => settling.cycle(*cycle, attempted),
        (Decision::AddFinalizer, _) => settling.change_finalizer(finalizer::add),
        (Decision::RemoveFinalizer, _) => settling.change_finalizer(finalizer::remove),
        (Decision::Purge, _) => settling.purge_all(&plan.stale),
        (Decision::Forget, _) => settling.forget(),
        (Decision::Nothing | Decision::AwaitDeletionHandlers | Decision::Handle { .. }, _) => {
            settling.wait()
        }
    }
}

/// Adds a finalizer to a patch, or removes it; gives the finalizers that the object must have for that.
type EditFinalizers = fn(&Body, &str, &mut Patch) -> Vec<String>;

struct Settling {
    context: PlanContext,
    /// What handlers want changed, in this pass and in earlier ones that could not be written.
    wanted: Patch,
    now: Timestamp,
    effects: Effects,
}

/// How much of ours goes onto the object, where all of it would be too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Plenty,
    /// A digest instead of the essence.
    Digest,
    /// And messages cut short.
    Short,
    /// Nothing: memory has to do.
    None,
}

/// What has found its place in a patch.
#[derive(Clone, Copy, Debug)]
struct Stored {
    records: bool,
    essence: bool,
}

/// The end of a cycle.
struct End {
    /// Records that outlive the cycle: their handlers have seen another state than the target.
    marks: Vec<(Arc<str>, Record)>,
    /// The object goes with this write.
    releases: bool,
}

impl Settling {
    /// What is remembered stays so; what is still to be written is written.
    fn wait(mut self) -> Effects {
        let patch = self.wanted.clone();
        self.hold(None);
        self.finish(patch)
    }

    /// Of what was remembered, only what was handled last counts on.
    fn forget(mut self) -> Effects {
        let last = self.context.seen.in_progress.as_ref();
        self.remember(InProgress {
            last: last.and_then(|in_progress| in_progress.last.clone()),
            ..InProgress::default()
        });
        self.wait()
    }

    fn purge_all(mut self, stale: &[Arc<str>]) -> Effects {
        let (mut patch, mut told) = (self.wanted.clone(), Vec::new());
        self.purge_target(&mut patch);
        for id in stale {
            self.purge(id, &mut patch, &mut told);
        }
        self.effects.told.append(&mut told);
        self.hold(None);
        let last = self
            .context
            .seen
            .in_progress
            .take()
            .and_then(|in_progress| in_progress.last);
        self.remember(InProgress {
            last,
            ..InProgress::default()
        });
        self.finish(patch)
    }

    fn change_finalizer(mut self, edit: EditFinalizers) -> Effects {
        let (body, name) = (&self.context.body, &self.context.persistence.finalizer);
        let mut patch = self.wanted.clone();
        self.effects.expected_finalizers = Some(edit(body, name, &mut patch));
        let stays = !body.is_deleting() || !finalizer::is_alone(body, name);
        self.effects.wake_at = stays.then_some(self.now);
        self.hold(None);
        self.finish(patch)
    }

    fn cycle(mut self, mut cycle: Cycle, attempted: Vec<Attempted>) -> Effects {
        self.judge(&mut cycle, attempted);
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
        if over {
            self.conclude(&cycle)
        } else {
            self.proceed(&cycle)
        }
    }

    /// Enter outcomes into records, results into the patch.
    fn judge(&mut self, cycle: &mut Cycle, attempted: Vec<Attempted>) {
        let mut judge = Judge {
            now: self.now,
            backoff: self.context.backoff,
            chance: self.context.chance,
        };
        for Attempted {
            id,
            outcome,
            subhandlers,
        } in attempted
        {
            let Some(member) = cycle.members.iter_mut().find(|it| it.handler.id == id) else {
                continue;
            };
            let (handler, record) = (&member.handler, &mut member.record);
            // A deletion is the last change: what counts is what was handled before it.
            if cycle.reason != Reason::Delete {
                record.target = Some(cycle.comparison.observed_by(handler));
            }
            refer(record, subhandlers.iter().map(|child| &*child.id));
            cycle.subrefs.extend(record.subrefs.iter().cloned());
            let wake = next_due(subhandlers.iter().map(|child| &child.record), self.now);
            for mut child in subhandlers {
                self.adopt(&mut child);
                cycle.subhandlers.insert(child.id.clone(), child);
            }
            if matches!(outcome, Outcome::Waiting) {
                let handler = handler.clone();
                self.effects
                    .told
                    .push(Handling::WaitsForSubhandlers { handler });
                record.wait_until(wake, self.now);
                continue;
            }
            let result = judge.attempted(handler, record, outcome, &mut self.effects.told);
            if let Some(result) = result {
                deliver(&mut self.wanted, &id, result);
            }
            if record.failure {
                self.effects.failed.push(id);
            }
            judge.chance = next_chance(judge.chance);
        }
        for member in &mut cycle.members {
            if let Some(exhausted) = member.exhausted.take() {
                let (handler, record) = (&member.handler, &mut member.record);
                judge.exhausted(handler, record, exhausted, &mut self.effects.told);
                self.effects.failed.push(handler.id.clone());
            }
        }
    }

    /// Take over what a sub-handler has come to in this pass.
    fn adopt(&mut self, child: &mut SubhandlerRecord) {
        if let Some(result) = child.result.take() {
            deliver(&mut self.wanted, &child.id, result);
        }
        if child.record.failure && child.stored.as_ref().is_none_or(|it| !it.failure) {
            self.effects.failed.push(child.id.clone());
        }
    }

    fn announce(&mut self, cycle: &Cycle) {
        let in_progress = self.context.seen.in_progress.as_ref();
        if cycle.members.is_empty() || in_progress.is_some_and(|in_progress| in_progress.announced)
        {
            return;
        }
        let succeeded = cycle.members.iter().filter(|it| it.record.success).count();
        let failed = cycle.members.len() - succeeded;
        let undone = cycle.members.iter().filter(|it| !it.record.is_final());
        let undone = undone.map(|it| it.handler.clone());
        let undone = undone.map(|handler| Handling::LeftUndone { handler });
        self.effects.told.extend(undone);
        self.effects.told.push(Handling::Processed {
            reason: cycle.reason,
            succeeded,
            failed,
        });
    }

    /// What to remember if the write is refused: everything.
    fn hold(&mut self, cycle: Option<&Cycle>) {
        let mut seen = self.context.seen.clone();
        let mut in_progress = seen
            .in_progress
            .take()
            .map(|in_progress| *in_progress)
            .unwrap_or_default();
        in_progress.patch = self.wanted.clone();
        if let Some(cycle) = cycle {
            in_progress.records.extend(records(cycle));
            in_progress.ongoing = ongoing(cycle);
            in_progress.announced |= cycle.is_over();
        }
        seen.in_progress = in_progress.boxed();
        self.effects.seen_if_refused = seen;
    }

    /// Best effort for an object that is not ours to hold: memory is all there is.
    fn best_effort_deletion(mut self, cycle: &Cycle, over: bool) -> Effects {
        if over || cycle.mode == Mode::Gone {
            self.effects.seen.deletion_was_handled = true;
            self.effects.seen_if_refused.deletion_was_handled = true;
            self.effects.seen.in_progress = None;
        } else {
            self.effects.wake_at = wake_at(cycle, self.now);
            self.remember(InProgress {
                records: records(cycle),
                ongoing: ongoing(cycle),
                ..InProgress::default()
            });
        }
        let patch = self.wanted.clone();
        self.finish(patch)
    }

    /// Some handlers are left: write down how far it is.
    fn proceed(mut self, cycle: &Cycle) -> Effects {
        self.effects.wake_at = wake_at(cycle, self.now);
        let (patch, stored) = self.fitting(|this, room, patch, told| {
            for id in &cycle.superseded {
                this.purge(id, patch, told);
            }
            let mut records = room < Room::None;
            for (id, record) in changed(cycle).filter(|_| room < Room::None) {
                records &= this.store(id, record, room, patch, told);
            }
            if changed(cycle).next().is_some() {
                this.store_target(cycle, room, patch);
            }
            Stored {
                records,
                essence: false,
            }
        });
        let last = self
            .context
            .seen
            .in_progress
            .take()
            .and_then(|in_progress| in_progress.last);
        self.remember(InProgress {
            ongoing: ongoing(cycle),
            records: if self.is_reliable(stored) && !cycle.is_damaged {
                BTreeMap::new()
            } else {
                records(cycle)
            },
            last,
            ..InProgress::default()
        });
        self.finish(patch)
    }

    /// All are final: write down what was handled, clean up, let go.
    fn conclude(mut self, cycle: &Cycle) -> Effects {
        let (body, name) = (&self.context.body, &self.context.persistence.finalizer);
        let deletes = cycle.reason == Reason::Delete;
        let end = End {
            marks: if deletes {
                Vec::new()
            } else {
                marks(cycle, self.now)
            },
            releases: deletes && finalizer::is_alone(body, name),
        };
        let target = cycle.comparison.target.essence.clone();
        let (mut patch, stored) =
            self.fitting(|this, room, patch, told| this.write_end(cycle, &end, room, patch, told));
        if deletes {
            self.effects.told.push(Handling::FinalizerReleased);
            let (body, name) = (&self.context.body, &self.context.persistence.finalizer);
            self.effects.expected_finalizers = Some(finalizer::remove(body, name, &mut patch));
            self.effects.seen.deletion_was_handled = true;
        }
        let again = !end.marks.is_empty() || (!deletes && cycle.comparison.target_is_superseded());
        self.effects.wake_at = again.then_some(self.now);
        self.effects.seen.handled_once = true;
        self.effects.concluded = true;
        let held = !self.is_reliable(stored);
        let last = self
            .context
            .seen
            .in_progress
            .take()
            .and_then(|in_progress| in_progress.last);
        self.remember(InProgress {
            records: end.marks.into_iter().filter(|_| held).collect(),
            last: match (cycle.comparison.changed, stored.essence) {
                (true, false) => Some(target),
                (true, true) => None,
                (false, _) => last,
            },
            ..InProgress::default()
        });
        self.finish(patch)
    }

    fn write_end(
        &self,
        cycle: &Cycle,
        end: &End,
        room: Room,
        patch: &mut Patch,
        told: &mut Vec<Handling>,
    ) -> Stored {
        let mut stored = Stored {
            records: room < Room::None,
            essence: room < Room::None,
        };
        if end.releases {
            return stored;
        }
        self.purge_target(patch);
        let keeps_marks = self.context.persistence.progress.keeps_targets();
        let marks = end.marks.iter().filter(|_| keeps_marks);
        let is_mark = |id: &str| marks.clone().any(|(mark, _)| **mark == *id);
        for id in cycle.on_object.iter().filter(|id| !is_mark(id)) {
            self.purge(id, patch, told);
        }
        let subhandlers = cycle.subhandlers.keys().map(|id| &**id);
        let subs = cycle.subrefs.iter().map(String::as_str).chain(subhandlers);
        for id in subs.collect::<BTreeSet<_>>() {
            self.purge(id, patch, told);
        }
        if room == Room::None {
            return stored;
        }
        for (id, record) in marks.clone() {
            stored.records &= self.store(id, record, room, patch, told);
        }
        if cycle.comparison.changed {
            stored.essence =
                self.store_essence(&cycle.comparison.target.essence, room, patch, told);
        }
        stored
    }

    /// Whether it has found its place.
    fn store_essence(
        &self,
        target: &KnownEssence,
        room: Room,
        patch: &mut Patch,
        told: &mut Vec<Handling>,
    ) -> bool {
        let last = match room {
            Room::Plenty => target.clone(),
            _ => target.reduced(),
        };
        if let (Room::Plenty, KnownEssence::Digest(_)) = (room, &last) {
            told.push(Handling::State(StateTrouble::OnlyDigestLeft));
        }
        let store = &self.context.persistence.essence;
        match store.store(&last, &self.context.body, patch) {
            Ok(Kept::Whole) => true,
            Ok(Kept::Digest { bytes }) => {
                told.push(Handling::State(StateTrouble::LastHandledTooLarge { bytes }));
                true
            }
            Err(failed) => {
                told.push(Handling::State(StateTrouble::NotKept(failed)));
                false
            }
        }
    }

    /// Whether the object alone tells all about the records.
    fn is_reliable(&self, stored: Stored) -> bool {
        stored.records && self.context.persistence.progress.keeps_targets()
    }

    /// Dress the patch with as much of ours as the object has room for.
    fn fitting(
        &mut self,
        dress: impl Fn(&Self, Room, &mut Patch, &mut Vec<Handling>) -> Stored,
    ) -> (Patch, Stored) {
        let mut size = 0;
        let rooms = [Room::Plenty, Room::Digest, Room::Short, Room::None];
        let takes_digests = self.context.persistence.essence.takes_digests();
        let possible = |room: &Room| takes_digests || matches!(room, Room::Plenty | Room::None);
        for room in rooms.into_iter().filter(possible) {
            let (mut patch, mut told) = (self.wanted.clone(), Vec::new());
            let stored = dress(self, room, &mut patch, &mut told);
            let found = budget::annotations_after(&self.context.body, &patch);
            if found <= budget::LIMIT || room == Room::None {
                if room > Room::Plenty {
                    let only_memory = room == Room::None;
                    told.push(Handling::State(StateTrouble::NoRoom {
                        bytes: size,
                        only_memory,
                    }));
                }
                self.effects.told.append(&mut told);
                return (patch, stored);
            }
            size = size.max(found);
        }
        unreachable!("the last room takes anything")
    }

    /// Whether the record has found its place.
    fn store(
        &self,
        id: &str,
        record: &Record,
        room: Room,
        patch: &mut Patch,
        told: &mut Vec<Handling>,
    ) -> bool {
        const SHORT: usize = 64;
        let progress = &self.context.persistence.progress;
        let short = record
            .message
            .as_deref()
            .filter(|message| room >= Room::Short && message.len() > SHORT);
        let short = short.map(|message| Record {
            message: Some(shortened(message, SHORT)),
            ..record.clone()
        });
        let record = short.as_ref().unwrap_or(record);
        let stored = progress.store(id, record, &self.context.body, patch);
        stored
            .map_err(|failed| told.push(Handling::State(StateTrouble::NotKept(failed))))
            .is_ok()
    }

    /// Note what the cycle is for beside its records: all of it only where that is not what the object is, or may
    /// not be what this write makes of it. A deletion keeps that of the cycle
    /// before, and resuming has none.
    fn store_target(&self, cycle: &Cycle, room: Room, patch: &mut Patch) {
        let (target, progress) = (&cycle.comparison.target, &self.context.persistence.progress);
        let has_target = target.is_fixed && cycle.reason != Reason::Resume;
        if !has_target {
            return self.purge_target(patch);
        }
        // What is there stays beside the records that stay.
        if room == Room::None {
            return;
        }
        let is_short = room > Room::Plenty
            || !(cycle.comparison.target_is_superseded() || self.wants_essence());
        let reduced = is_short.then(|| target.essence.reduced());
        let target = reduced.as_ref().unwrap_or(&target.essence);
        progress.store_target(target, &self.context.body, patch);
    }

    /// Whether this very write may make the object something else than it is.
    fn wants_essence(&self) -> bool {
        let fields = self.wanted.as_value().as_object();
        let mut fields = fields.into_iter().flatten();
        !self.wanted.functions().is_empty() || fields.any(|(field, _)| field != "status")
    }

    fn purge_target(&self, patch: &mut Patch) {
        let progress = &self.context.persistence.progress;
        progress.purge_target(&self.context.body, patch);
    }

    fn purge(&self, id: &str, patch: &mut Patch, told: &mut Vec<Handling>) {
        let progress = &self.context.persistence.progress;
        if let Err(failed) = progress.purge(id, &self.context.body, patch) {
            told.push(Handling::State(StateTrouble::NotRemoved(failed)));
        }
    }

    /// What to remember once the patch has landed.
    fn remember(&mut self, in_progress: InProgress) {
        self.effects.seen.in_progress = in_progress.boxed();
    }

    /// What handlers want is asked for in full: what of it the object says already can only be told when it is written.
    fn finish(mut self, patch: Patch) -> Effects {
        const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];
        if self.context.gone {
            self.effects.expected_finalizers = None;
            return self.effects;
        }
        // Of ours, what the object says already is no business of this cycle, whatever others make of it.
        let mut all = Patch::new();
        all.merge(self.wanted.as_value().clone());
        let list = patch.get(&FINALIZERS).cloned();
        if let (Some(_), Some(list)) = (all.get(&FINALIZERS), list) {
            all.set(&FINALIZERS, list);
        }
        all.absorb(patch.effective(&self.context.body));
        self.effects.patch = all;
        self.effects
    }
}

/// Put a result into `status.{id}`: members of an object beside those that are there, anything else in their place.
fn deliver(patch: &mut Patch, id: &str, result: Value) {
    let at = ["status", id];
    match (result, patch.get(&at)) {
        (Value::Object(members), Some(Value::Object(found))) => {
            let mut all: Map<String, Value> = found.clone();
            all.extend(members);
            patch.set(&at, all.into());
        }
        (result, _) => patch.set(&at, result),
    }
}

/// The records that the object does not carry as they are.
fn changed(cycle: &Cycle) -> impl Iterator<Item = (&Arc<str>, &Record)> {
    let members = cycle.members.iter();
    let members = members.map(|it| (&it.handler.id, &it.record, &it.stored));
    let subhandlers = cycle.subhandlers.values();
    let subhandlers = subhandlers.map(|it| (&it.id, &it.record, &it.stored));
    let differs = |(id, record, stored): (_, _, &Option<Record>)| {
        (stored.as_ref() != Some(record)).then_some((id, record))
    };
    let unwritten = cycle.unwritten.iter().map(|(id, record)| (id, record));
    members
        .chain(subhandlers)
        .filter_map(differs)
        .chain(unwritten)
}

fn records(cycle: &Cycle) -> BTreeMap<Arc<str>, Record> {
    let pair = |member: &Member| (member.handler.id.clone(), member.record.clone());
    let members = cycle.members.iter().map(pair);
    let subhandlers = cycle.subhandlers.iter();
    let subhandlers = subhandlers.map(|(id, child)| (id.clone(), child.record.clone()));
    let unwritten = cycle.unwritten.iter().cloned();
    members.chain(unwritten).chain(subhandlers).collect()
}

/// Whether some handler or sub-handler is done with the cycle.
fn is_begun_by_somebody(cycle: &Cycle) -> bool {
    let members = cycle.members.iter().map(|member| &member.record);
    let subhandlers = cycle.subhandlers.values().map(|child| &child.record);
    let is_done = |it: &Record| it.is_final() && it.purpose == Some(cycle.reason);
    members.chain(subhandlers).any(is_done)
}

/// The cycle has begun once something was attempted; until then its target is whatever the object is.
fn ongoing(cycle: &Cycle) -> Option<Ongoing> {
    let begun = |record: &Record| record.retries > 0;
    let begun = cycle.goes_on()
        || cycle.members.iter().any(|member| begun(&member.record))
        || cycle.subhandlers.values().any(|child| begun(&child.record));
    let target = &cycle.comparison.target;
    begun.then(|| Ongoing {
        reason: cycle.reason,
        target: target.is_fixed.then(|| target.essence.clone()),
    })
}

fn wake_at(cycle: &Cycle, now: Timestamp) -> Option<Timestamp> {
    let called = cycle.left().filter(|it| !it.is_suspended());
    next_due(called.map(|it| &it.record), now)
}
