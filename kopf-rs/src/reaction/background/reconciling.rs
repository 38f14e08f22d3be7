//! Decides when a reconciler is called: which changes make an object dirty, and what follows a call.
//!
//! A reconciler gets the current object, never the change. Changes therefore need not be counted: those during a call cause one more call,
//! and those between attempts join the next attempt. Calls that repeatedly change the state which triggers them are reported and delayed
//! increasingly. Must not know how handlers are called or how changes are written.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::definition::HandlerCall;
use crate::handler::subject::Subject;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::patch::{Patch, apply};
use crate::object::path::FieldPath;
use crate::object::resource::Resource;
use crate::reaction::background::{
    Attempts, AttemptsEnd, BackgroundMemory, BackgroundRun, Dirty, Phase, SHORTEST_INTERVAL, after,
    is_reconcile, is_same,
};
use crate::reaction::judge::Judge;
use crate::state::Persistence;
use crate::state::progress::Record;

/// After this many failures, changes of children wait for the next attempt, because a frequently changing child would otherwise drive the
/// retries.
const PATIENT: u32 = 3;
/// The jitter of a resync as a part of its interval, so that objects which were listed together spread out.
const SPREAD: f64 = 0.1;
/// The number of consecutive calls of this kind without a delay, as for other handlers (row 30 of `docs/coming-from-kopf.md`).
const FREE: u8 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl BackgroundMemory {
    /// Records a change of a child or of a referenced object.
    pub(crate) fn child_changed(&mut self, kind: &Resource, now: Timestamp) {
        let is_for = |run: &&mut BackgroundRun| {
            let mut watched = run.handler.watches.iter();
            run.handler.has_children_of(kind) || watched.any(|it| it.selector.names(kind))
        };
        for run in self.runs.iter_mut().filter(is_for) {
            run.child_changed(now);
        }
    }

    /// Records that a trigger has fired for the object, which counts like a change of a child of each reconciler.
    pub(crate) fn triggered(&mut self, now: Timestamp) {
        for run in self.runs.iter_mut().filter(|run| is_reconcile(&run.handler)) {
            run.child_changed(now);
        }
    }

    /// Returns true if the handler is a reconciler that is on hold and need not be checked until then.
    pub(in crate::reaction) fn holds_reconcilers_back(&self, run: &BackgroundRun) -> bool {
        self.reconcilers_wait && is_reconcile(&run.handler)
    }

    /// Puts reconcilers on hold, or ends the hold.
    pub(crate) fn hold_reconcilers(&mut self, is_held: bool) {
        self.reconcilers_wait = is_held;
    }

    /// Examines the changes that a call has requested, before it is evaluated. Counts calls of a reconciler whose changes trigger it again.
    pub(crate) fn wanted(
        &mut self,
        call: &HandlerCall,
        patch: &Patch,
        persistence: &Persistence,
        told: &mut Vec<Handling>,
    ) {
        if !is_reconcile(&call.handler) {
            return;
        }
        let own = self.own_change(call.body(), patch, persistence);
        let mut runs = self.runs.iter_mut();
        let run = runs.find(|run| is_same(&run.handler, &call.handler));
        let Some(attempts) = run.and_then(|run| run.attempts.as_mut()) else {
            return;
        };
        let Some((field, essence)) = own else {
            attempts.own_changes = 0;
            return;
        };
        attempts.own_essence = essence;
        attempts.own_changes = attempts.own_changes.saturating_add(1);
        if attempts.own_changes == FREE {
            told.push(Handling::ChangesItself { handler: call.handler.clone(), times: FREE, field });
        }
    }

    /// Returns the first field in which the patch changes the triggering state, and the fingerprint of the requested essence.
    fn own_change(&self, body: &Body, patch: &Patch, persistence: &Persistence) -> Option<(FieldPath, u64)> {
        let fields = || self.runs.iter().filter_map(|run| run.handler.field());
        let is_status = |field: &FieldPath| field.parts().first().is_some_and(|it| it == "status");
        let is_of_status = patch.functions().is_empty()
            && patch.as_value().as_object().is_none_or(|it| it.keys().all(|key| key == "status"));
        if is_of_status && !fields().any(is_status) {
            return None;
        }
        let mut wanted = Value::clone(body);
        apply(&mut wanted, patch.as_value());
        for function in patch.functions() {
            function.to(&mut wanted);
        }
        let before = persistence.essence_of(body, fields());
        let after = persistence.essence_of(&Body::new(wanted), fields());
        let diff = Diff::between(Some(before.value()), Some(after.value()));
        let first = diff.iter().next()?;
        Some((first.field.clone(), after.fingerprint()))
    }
}

impl BackgroundRun {
    fn child_changed(&mut self, now: Timestamp) {
        let is_patient = match &self.attempts {
            Some(it) if it.end.is_none() => it.failed >= PATIENT,
            Some(it) => it.end == Some(AttemptsEnd::GaveUp),
            None => false,
        };
        match &mut self.phase {
            Phase::Runs(running) => running.dirty = running.dirty.max(Dirty::Child),
            Phase::Waits(at) if !is_patient => *at = (*at).min(now.into()),
            _ => {}
        }
    }

    /// Records a change of the object; `essence` is its fingerprint. The response to an own write may include changes of other clients, whose
    /// watch events are then skipped. A change by another client resets failures. A change that a failed call has made itself does not cause
    /// an early call.
    pub(in crate::reaction) fn object_changed(&mut self, is_news: bool, essence: u64, now: Timestamp) {
        let own_pause = self.own_pause();
        let by_somebody_else = is_news || self.own_changes() == 0;
        let attempts = self.attempts.as_ref();
        let gave_up = attempts.is_some_and(|it| it.end == Some(AttemptsEnd::GaveUp));
        let has_failed = gave_up || attempts.is_some_and(|it| it.failed > 0);
        // The object differs from the requested change: an admission webhook may be the reason, so the call is delayed.
        let by_both = gave_up && attempts.is_some_and(|it| it.own_essence != essence);
        match &mut self.phase {
            Phase::Runs(running) => running.dirty = Dirty::Object,
            Phase::Waits(at) if by_somebody_else => {
                *at = (*at).min(now.into());
                self.end_attempts(AttemptsEnd::Succeeded, now);
            }
            Phase::Waits(at) if !has_failed => *at = (*at).min(after(now, own_pause).into()),
            Phase::Waits(at) if by_both => {
                *at = (*at).min(after(now, own_pause.max(FIRST_PAUSE)).into());
            }
            Phase::Waits(_) | Phase::Scheduled(_) | Phase::AwaitsChange | Phase::Ended { .. } => {}
        }
    }

    /// Handles the end of a call with its record.
    pub(in crate::reaction) fn reconciled(
        &mut self,
        call: &HandlerCall,
        record: &Record,
        judge: Judge,
        told: &mut Vec<Handling>,
    ) {
        let dirty = match &self.phase {
            Phase::Runs(running) => running.dirty,
            _ => Dirty::Clean,
        };
        let resync = self.next_resync(judge);
        if record.success {
            let again = self.again(asked(call), judge.now, told);
            self.end_attempts(AttemptsEnd::Succeeded, judge.now);
            let next = again.map_or(resync, |again| again.min(resync));
            self.phase = Phase::Waits(next.max(judge.now).into());
        } else if record.failure {
            self.give_up(judge);
        } else {
            if let Some(attempts) = &mut self.attempts {
                attempts.failed = record.retries;
            }
            self.phase = Phase::Waits(record.delayed.unwrap_or(judge.now).into());
        }
        match dirty {
            Dirty::Clean => {}
            Dirty::Child => self.child_changed(judge.now),
            Dirty::Object => self.object_changed(true, 0, judge.now),
        }
    }

    /// Returns the time of a requested repetition. An immediate one is delayed, because the handler would otherwise be called as fast as it
    /// returns.
    fn again(
        &mut self,
        pause: Option<Duration>,
        now: Timestamp,
        told: &mut Vec<Handling>,
    ) -> Option<Timestamp> {
        let at_once = pause.is_some_and(|pause| pause.is_zero());
        let was_told = self.attempts.as_mut().is_some_and(|it| std::mem::replace(&mut it.at_once, at_once));
        if at_once && !was_told {
            told.push(Handling::AgainAtOnce { handler: self.handler.clone(), instead: SHORTEST_INTERVAL });
        }
        let pause = if at_once { Some(SHORTEST_INTERVAL) } else { pause };
        pause.map(|pause| after(now, pause))
    }

    /// Returns the number of consecutive calls that have changed their triggering state.
    pub(in crate::reaction) fn own_changes(&self) -> u8 {
        self.attempts.as_ref().map_or(0, |it| it.own_changes)
    }

    /// Returns the delay before a call that its own change has triggered.
    pub(in crate::reaction) fn own_pause(&self) -> Duration {
        let Some(over) = self.own_changes().checked_sub(FREE) else {
            return Duration::ZERO;
        };
        (FIRST_PAUSE * 2_u32.pow(u32::from(over).min(7))).min(LONGEST_PAUSE)
    }

    /// Ignores the result of a call, because the object is to be deleted.
    pub(in crate::reaction) fn is_deleted_meanwhile(&mut self, judge: Judge) {
        self.end_attempts(AttemptsEnd::Succeeded, judge.now);
        self.phase = Phase::Waits(self.next_resync(judge).into());
    }

    /// Handles a permanent failure: only a change of the object or a resync calls the handler again.
    pub(in crate::reaction) fn give_up(&mut self, judge: Judge) {
        self.end_attempts(AttemptsEnd::GaveUp, judge.now);
        self.phase = Phase::Waits(self.next_resync(judge).into());
    }

    /// Resets the failures, and drops the state if it is empty.
    pub(in crate::reaction) fn end_attempts(&mut self, end: AttemptsEnd, now: Timestamp) {
        let gave_up = end == AttemptsEnd::GaveUp;
        let mut attempts = self.attempts.take().unwrap_or_default();
        let at_once = attempts.at_once && !gave_up;
        let error = attempts.error.take().filter(|_| gave_up);
        let is_worth_it = gave_up || attempts.own_changes > 0 || at_once;
        *attempts = Attempts { failed: 0, started: now, end: Some(end), at_once, error, ..*attempts };
        self.attempts = is_worth_it.then_some(attempts);
    }

    fn next_resync(&self, judge: Judge) -> Timestamp {
        let resync = self.handler.timing.resync.unwrap_or(Duration::MAX);
        let factor = 1.0 - SPREAD + 2.0 * SPREAD * judge.random.clamp(0.0, 1.0);
        let spread = Duration::try_from_secs_f64(resync.as_secs_f64() * factor);
        after(judge.now, spread.unwrap_or(resync))
    }
}

/// Returns the requested delay before the next call.
fn asked(call: &HandlerCall) -> Option<Duration> {
    match &call.subject {
        Subject::Background(subject) => subject.again.get().pause(),
        _ => None,
    }
}
