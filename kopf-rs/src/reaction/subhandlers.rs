//! The sub-handlers of one call: their records, the due ones among them, and the evaluation of their attempts.
//!
//! Uses the rules for handlers, within the parent's cause. Must not know how they are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::filter::Former;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::options::Callback;
use crate::handler::outcome::Outcome;
use crate::handler::subject::{ChangeSubject, Reason, Subject};
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::diff::same;
use crate::object::essence::Sight;
use crate::object::path::FieldPath;
use crate::reaction::comparison::{PassedTarget, is_concerned};
use crate::reaction::cycle::{Member, Turn, next_due};
use crate::reaction::input::Standing;
use crate::reaction::judge::{Judge, attempt, bare, next_random};
use crate::reaction::progress_table::{Records, Row, SubhandlerRecord};
use crate::state::Persistence;
use crate::state::progress::Record;

/// The sub-handlers of all levels under one call of a handler.
pub(crate) struct SubhandlerPlan {
    pub(super) persistence: Persistence,
    pub(super) body: Arc<Body>,
    pub(super) held: BTreeMap<Arc<str>, Record>,
    /// The rules of the cycle. If there is no later attempt, all unfinished ones run now.
    pub(super) turn: Turn,
    /// Set if the parent is called only once, for a deletion that does not wait for it: all of its sub-handlers are then called.
    pub(super) now_or_never: Option<Lifecycle>,
    /// True if the outermost parent is for resuming only: each of its sub-handlers is owed one successful run.
    pub(super) only_resumes: bool,
    pub(super) difference: Difference,
    pub(super) passed: Option<PassedTarget>,
    /// True if the field of the outermost parent is now in another state than in the target.
    pub(super) has_left_target: bool,
    /// The state that an attempt sees now, limited to the field of the outermost parent, which evaluates it.
    pub(super) seen: Sight,
    pub(super) lifecycle: Lifecycle,
    pub(super) judge: Judge,
    pub(super) subhandlers: Vec<PlannedSubhandler>,
}

/// The difference from the last-handled state, as the outermost parent gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Completely known.
    Known,
    /// Unknown: only a digest of the last-handled state is left.
    Unknown,
    /// It does not show the changes that the parent has missed. The parent is owed a call regardless of changes, and so are all of its
    /// sub-handlers.
    Missed,
}

/// One sub-handler.
pub(super) struct PlannedSubhandler {
    parent: Arc<str>,
    member: Member,
    row: Row,
    result: Option<Value>,
}

/// The progress of a group of sub-handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    Left,
    /// All are done, and some have failed: their ids and messages.
    Failed(String),
}

impl SubhandlerPlan {
    /// Registers the sub-handlers of `parent`. Returns the positions of those whose filters match the change.
    pub(crate) fn register(
        &mut self,
        parent: &HandlerCall,
        callbacks: Vec<Callback>,
        now: Timestamp,
        told: &mut Vec<Handling>,
    ) -> Result<Vec<usize>, String> {
        let mut group = Vec::new();
        for callback in callbacks {
            let handler = callback.register_under(&parent.handler)?;
            if self.subhandlers.iter().any(|it| it.member.handler.id == handler.id) {
                return Err(format!("there are two sub-handlers '{}'", handler.id));
            }
            let records =
                Records { persistence: &self.persistence, body: &self.body, memory: Some(&self.held), now };
            let row = records.of(&handler, true, told);
            let known = row.record.clone();
            let is_owed = self.is_owed(parent, &handler, known.as_ref());
            let any_old = is_owed
                || self.difference == Difference::Unknown
                || self.has_left_its_target(parent, &handler);
            if !accepts(parent, &handler, any_old) {
                continue;
            }
            let record = known.map(|record| self.continued(record, now));
            let record = Record { is_owed, ..record.unwrap_or_else(|| Record::fresh(self.turn.reason, now)) };
            group.push(self.subhandlers.len());
            self.subhandlers.push(PlannedSubhandler {
                parent: parent.handler.id.clone(),
                member: Member {
                    record,
                    handler: Arc::new(handler),
                    recurs: false,
                    holds: true,
                    only_resumes: self.only_resumes,
                    exhausted: None,
                    standing: Standing::Callable,
                    own: None,
                },
                row,
                result: None,
            });
        }
        Ok(group)
    }

    /// Returns the calls to make now, with their positions.
    pub(crate) fn pick(
        &mut self,
        group: &[usize],
        parent: &HandlerCall,
        lifecycle: Option<&Lifecycle>,
        now: Timestamp,
        told: &mut Vec<Handling>,
    ) -> Vec<(usize, HandlerCall)> {
        let (turn, judge) = (self.turn(now), self.judge(now));
        let lifecycle = self.now_or_never.as_ref().or(lifecycle);
        let lifecycle = lifecycle.unwrap_or(&self.lifecycle).clone();
        let subs = self.subhandlers.iter_mut().enumerate();
        let of_group = subs.filter(|(place, _)| group.contains(place));
        let mut members: Vec<_> = of_group.map(|(place, it)| (place, &mut it.member)).collect();
        let picked = turn.pick(&mut members, &lifecycle, parent.body(), judge.random);
        for (_, member) in members {
            if let Some(end) = member.exhausted.take() {
                judge.enter(&member.handler, &mut member.record, end, told);
            }
        }
        let picked = picked.into_iter();
        picked.map(|place| (place, self.call(place, parent, now))).collect()
    }

    /// Enters the outcome of an attempt.
    pub(crate) fn attempted(&mut self, place: usize, outcome: Outcome, now: Timestamp) -> Vec<Handling> {
        let mut told = Vec::new();
        let judge = self.judge(now);
        self.judge.random = next_random(self.judge.random);
        let wake = self.wake(&self.subhandlers[place].member.handler.id, now);
        let child = &mut self.subhandlers[place];
        child.member.record.target = Some(self.seen.clone());
        if matches!(outcome, Outcome::Waiting) {
            let handler = child.member.handler.clone();
            told.push(Handling::WaitsForSubhandlers { handler });
            child.member.record.wait_until(wake, now);
            return told;
        }
        let Member { handler, record, .. } = &mut child.member;
        child.result = judge.attempted(handler, record, outcome, &mut told);
        told
    }

    /// Returns the progress of a group.
    pub(crate) fn progress(&self, group: &[usize]) -> Progress {
        let members = || group.iter().map(|place| &self.subhandlers[*place].member);
        if members().any(|member| !member.record.is_final()) {
            return Progress::Left;
        }
        let failed = members().filter(|member| member.record.failure);
        let told = failed.map(|member| {
            let message = member.record.message.as_deref();
            let message = message.map_or("no message", |it| bare(&member.handler, it));
            format!("'{}' ({message})", member.handler.id)
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() { Progress::Done } else { Progress::Failed(told.join(", ")) }
    }

    /// Returns true if sub-handlers of `parent` are unfinished.
    pub(crate) fn is_left(&self, parent: &str) -> bool {
        let mut of_parent = self.subhandlers.iter().filter(|it| *it.parent == *parent);
        of_parent.any(|it| !it.member.record.is_final())
    }

    pub(crate) fn into_records(self) -> Vec<SubhandlerRecord> {
        let ids: Vec<_> = self.subhandlers.iter().map(|it| it.member.handler.id.clone()).collect();
        let record = |child: PlannedSubhandler| {
            let Member { handler, mut record, .. } = child.member;
            let below = format!("{}/", handler.id);
            let below = ids.iter().filter(|id| id.starts_with(&below));
            refer(&mut record, below.map(|id| &**id));
            SubhandlerRecord { id: handler.id.clone(), row: child.row.with(record), result: child.result }
        };
        self.subhandlers.into_iter().map(record).collect()
    }

    fn judge(&self, now: Timestamp) -> Judge {
        Judge { now, ..self.judge }
    }

    /// Returns the time when the first sub-handler of `parent` is due.
    fn wake(&self, parent: &str, now: Timestamp) -> Option<Timestamp> {
        let below = self.subhandlers.iter().filter(|it| *it.parent == *parent);
        next_due(below.map(|it| &it.member.record), now)
    }

    fn turn(&self, now: Timestamp) -> Turn {
        Turn { now, ..self.turn }
    }

    /// Returns true if a sub-handler must be called even without a change for it: its parent has missed the last-handled state, or its own
    /// last attempt has seen another state than the current one or is not final.
    fn is_owed(&self, parent: &HandlerCall, handler: &Handler, record: Option<&Record>) -> bool {
        if self.turn.reason == Reason::Delete || !handler.reacts_to_differences() {
            return false;
        }
        let is_parent = |it: &&PlannedSubhandler| it.member.handler.id == parent.handler.id;
        let parent = self.subhandlers.iter().find(is_parent);
        let all_are_owed = self.difference == Difference::Missed;
        let parent_is_owed = parent.is_some_and(|it| it.member.record.is_owed);
        all_are_owed
            || parent_is_owed
            || record.is_some_and(|record| {
                let is_open = !matches!(record.purpose, Some(Reason::Delete | Reason::Resume));
                let is_behind = |seen: &Sight| !record.is_final() || *seen != self.seen;
                is_open && (record.is_owed || record.target.as_ref().is_some_and(is_behind))
            })
    }

    /// Returns true if the target of the cycle changes the sub-handler's field and the object has moved on from it. The parent sees the
    /// newest state, so the next cycle may not call it for the difference from the target: this call is the last chance to call the
    /// sub-handler.
    fn has_left_its_target(&self, parent: &HandlerCall, handler: &Handler) -> bool {
        let (Some(passed), Some(field)) = (&self.passed, handler.field()) else {
            return false;
        };
        if self.turn.reason == Reason::Delete || !handler.reacts_to_differences() {
            return false;
        }
        let PassedTarget::Known(target) = passed else {
            return true;
        };
        let mut fields = vec![field];
        let mut id = &parent.handler.id;
        while let Some(it) = self.subhandlers.iter().find(|it| it.member.handler.id == *id) {
            fields.extend(it.member.handler.field());
            id = &it.parent;
        }
        let inwards = fields.iter().rev();
        let target = target.as_deref();
        let target = target.and_then(|it| inwards.into_iter().try_fold(it, |it, field| field.resolve(it)));
        !same(target, parent.new().and_then(|new| field.resolve(new)))
    }

    /// Returns a record in the form for this cycle. Records of deletions do not count for other reasons, and vice versa.
    fn continued(&self, record: Record, now: Timestamp) -> Record {
        let is_for_deletion = record.purpose == Some(Reason::Delete);
        if is_for_deletion != (self.turn.reason == Reason::Delete) {
            return Record::fresh(self.turn.reason, now);
        }
        let saw_newest = |it: &Record| it.target.as_ref().is_none_or(|it| *it == self.seen);
        let stays_valid = |it: &Record| saw_newest(it) && !self.has_left_target;
        self.turn(now).continued(record, self.only_resumes, stays_valid)
    }

    fn call(&self, place: usize, parent: &HandlerCall, now: Timestamp) -> HandlerCall {
        let member = &self.subhandlers[place].member;
        let field = member.handler.field();
        let subject = match &parent.subject {
            Subject::Change(subject) => Subject::Change(ChangeSubject {
                object: subject.object.clone(),
                change: field.map_or_else(|| subject.change.clone(), |field| subject.change.reduced(field)),
                subhandlers: None,
            }),
            other => other.clone(),
        };
        let context = parent.context.clone();
        HandlerCall::new(member.handler.clone(), context, attempt(&member.record, now), subject)
    }
}

/// References sub-handlers in their parent's record, so that they are removed with it.
pub(super) fn refer<'a>(record: &mut Record, ids: impl Iterator<Item = &'a str>) {
    record.subrefs.extend(ids.map(str::to_owned));
    record.subrefs.sort_unstable();
    record.subrefs.dedup();
}

/// Evaluates the filters against the parent's change: a `field` is relative to the parent's field. `any_old`: the former value is unknown and
/// matches any filter.
fn accepts(parent: &HandlerCall, child: &Handler, any_old: bool) -> bool {
    let field = child.field();
    let (old, new) = (at(field, parent.old()), at(field, parent.new()));
    let former = if any_old { Former::Unknown } else { Former::Known(old) };
    child.filtered(|filters| {
        filters.accept_object(parent.body(), field, former, new)
            && (field.is_none() || is_concerned(child, former, new))
            && filters.when.as_ref().is_none_or(|when| when(parent))
    })
}

fn at<'a>(field: Option<&FieldPath>, side: Option<&'a Value>) -> Option<&'a Value> {
    match field {
        Some(field) => field.resolve(side?),
        None => side,
    }
}
