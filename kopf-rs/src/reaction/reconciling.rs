//! When a level-triggered handler is called: what makes an object dirty for it, and what follows a call.
//!
//! What it is told of is the object as it is, never what has changed. So changes need not be counted: those that come in during a call are one
//! more call, those that come in between attempts are the next attempt. Must not know the object, nor how anything is called.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::HandlerCall;
use crate::handler::subject::Subject;
use crate::happening::background::BackgroundHandling;
use crate::happening::handling::Handling;
use crate::object::resource::Resource;
use crate::reaction::background::{
    Attempts, AttemptsEnd, BackgroundMemory, BackgroundRun, Dirty, Phase, SHORTEST_INTERVAL, after,
    is_reconcile, timing,
};
use crate::reaction::judge::Judge;
use crate::reaction::own_changes::FIRST_PAUSE;
use crate::state::progress::Record;

/// After so many failures, changes of children wait for the next attempt: a child that changes all the time would drive the retries.
const PATIENT: u32 = 3;
/// How much earlier or later a resync may come, as a part of its time: objects that were listed together shall not stay together.
const SPREAD: f64 = 0.1;

impl BackgroundMemory {
    /// A child of the object is another than before, or an object that it refers to.
    pub(crate) fn child_changed(&mut self, kind: &Resource, now: Timestamp) {
        let is_for = |run: &&mut BackgroundRun| {
            let mut watched = run.handler.watches().iter();
            run.handler.has_children_of(kind) || watched.any(|it| it.selector.names(kind))
        };
        for run in self.runs.iter_mut().filter(is_for) {
            run.child_changed(now);
        }
    }

    /// Whether the object has level-triggered handlers.
    pub(super) fn has_reconcilers(&self) -> bool {
        self.runs.iter().any(|run| is_reconcile(&run.handler))
    }

    /// They wait for something else, and need not be looked at until then.
    pub(super) fn holds_reconcilers_back(&self, run: &BackgroundRun) -> bool {
        self.reconcilers_wait && is_reconcile(&run.handler)
    }

    /// They wait for something.
    pub(crate) fn hold_reconcilers(&mut self) {
        self.reconcilers_wait = true;
    }

    /// What they have waited for is done.
    pub(crate) fn release_reconcilers(&mut self) {
        self.reconcilers_wait = false;
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

    /// The object has changed, to what `essence` tells from others. The reply of an own write shows the changes of others, too, and their watch
    /// events are not looked at then. By somebody else: then what has failed so far counts no more. What a call that has failed has changed
    /// itself calls nobody before the time.
    pub(super) fn object_changed(&mut self, is_news: bool, essence: u64, now: Timestamp) {
        let own_pause = self.own_pause();
        let by_somebody_else = is_news || self.own_changes() == 0;
        let attempts = self.attempts.as_ref();
        let has_failed = attempts.is_some_and(|it| it.has_failed());
        // More than its own change: admission webhooks may be why, so it is not called at once.
        let by_both = attempts
            .is_some_and(|it| it.end == Some(AttemptsEnd::GaveUp) && it.own_essence != essence);
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

    /// A call has ended, and this is its record.
    pub(super) fn reconciled(
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

    /// When it is called again, where it has asked for that: not at once, or it would be called as fast as it returns.
    fn again(
        &mut self,
        pause: Option<Duration>,
        now: Timestamp,
        told: &mut Vec<Handling>,
    ) -> Option<Timestamp> {
        let at_once = pause.is_some_and(|pause| pause.is_zero());
        if at_once && !self.asks_at_once() {
            told.push(Handling::Background(BackgroundHandling::AgainAtOnce {
                handler: self.handler.clone(),
                instead: SHORTEST_INTERVAL,
            }));
        }
        if let Some(attempts) = &mut self.attempts {
            attempts.at_once = at_once;
        }
        let pause = if at_once {
            Some(SHORTEST_INTERVAL)
        } else {
            pause
        };
        pause.map(|pause| after(now, pause))
    }

    /// Whether it has wanted to be called again at once, as was told.
    pub(super) fn asks_at_once(&self) -> bool {
        self.attempts.as_ref().is_some_and(|it| it.at_once)
    }

    /// The object is to be deleted: what its call has come to counts for nothing.
    pub(super) fn is_deleted_meanwhile(&mut self, judge: Judge) {
        self.end_attempts(AttemptsEnd::Succeeded, judge.now);
        self.phase = Phase::Waits(self.next_resync(judge).into());
    }

    /// It has failed for good: only another object, or a resync, calls it again.
    pub(super) fn give_up(&mut self, judge: Judge) {
        self.end_attempts(AttemptsEnd::GaveUp, judge.now);
        self.phase = Phase::Waits(self.next_resync(judge).into());
    }

    /// What has failed counts no more. Nothing is remembered where there is nothing to remember.
    pub(super) fn end_attempts(&mut self, end: AttemptsEnd, now: Timestamp) {
        let own_changes = self.own_changes();
        let own_essence = self.attempts.as_ref().map_or(0, |it| it.own_essence);
        let at_once = end == AttemptsEnd::Succeeded && self.asks_at_once();
        let error = self.attempts.take().and_then(|it| it.error);
        let is_worth_it = end == AttemptsEnd::GaveUp || own_changes > 0 || at_once;
        self.attempts = is_worth_it.then(|| {
            Box::new(Attempts {
                failed: 0,
                started: now,
                end: Some(end),
                own_changes,
                own_essence,
                at_once,
                error: error.filter(|_| end == AttemptsEnd::GaveUp),
            })
        });
    }

    fn next_resync(&self, judge: Judge) -> Timestamp {
        let resync = timing(&self.handler).and_then(|timing| timing.resync);
        let resync = resync.unwrap_or(Duration::MAX);
        let factor = 1.0 - SPREAD + 2.0 * SPREAD * judge.random.clamp(0.0, 1.0);
        let spread = Duration::try_from_secs_f64(resync.as_secs_f64() * factor);
        after(judge.now, spread.unwrap_or(resync))
    }
}

/// How long after the call it wants to be called again.
fn asked(call: &HandlerCall) -> Option<Duration> {
    match &call.subject {
        Subject::Background(subject) => subject.again.get().pause(),
        _ => None,
    }
}
