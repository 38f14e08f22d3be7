//! Compares the last-handled state with the current object: determines the reason for a change, the affected handlers, and the target of
//! the cycle.
//!
//! Must not know former attempts, except for the given marks.

use std::sync::Arc;

use serde_json::Value;

use crate::handler::cause::Attempt;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::filter::Former;
use crate::handler::subject::{Change, ChangeSubject, Reason, Subject, SubjectObject};
use crate::happening::handling::Handling;
use crate::object::diff::{Diff, same};
use crate::object::essence::{Essence, Sight};
use crate::object::path::FieldPath;
use crate::reaction::input::Input;
use crate::reaction::memory::{Ongoing, Target};
use crate::reaction::progress_table::Ledger;
use crate::state::diffbase::KnownEssence;
use crate::state::progress::Record;

/// The last-handled state compared with the current object, and the target of the cycle, from which the object may have moved on.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    last: Option<KnownEssence>,
    /// The last-handled state as handlers see it.
    old: Option<Arc<Value>>,
    pub(super) target: Target,
    pub(super) newest: Essence,
    /// The difference to the current object, as handlers see it.
    pub(super) diff: Arc<Diff>,
    /// True if the target is to be stored as last-handled at the end.
    pub(super) changed: bool,
    /// For a deletion: the comparison for handlers that have handled the target of the cycle which the deletion has ended.
    handled: Option<Box<Comparison>>,
}

/// A target that the object has moved on from, but that will be stored as last-handled.
pub(super) enum PassedTarget {
    /// The new value that the handler would have seen.
    Known(Option<Arc<Value>>),
    /// Only the target's digest is left.
    Unknown,
}

/// A handler with the results of its filters.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) handler: Arc<Handler>,
    /// True if the filters match the object.
    pub(super) applies: bool,
    /// True if the handler reacts to the change, regardless of the reason.
    pub(super) concerned: bool,
    /// True if the handler has seen another state than the handled one, and must be called regardless of changes.
    pub(super) marked: bool,
    pub(super) children: Children,
    /// The change since its own last attempt, if that is the one to call it for.
    pub(super) own: Option<Arc<Comparison>>,
}

/// Tells if a handler must reconsider the children that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// It owns none, or none has changed.
    AtRest,
    /// At the start, and after a child has changed.
    ToLookAfter,
}

impl Comparison {
    pub(super) fn new(last: Option<KnownEssence>, target: Target, newest: Essence) -> Self {
        let is_target = |last: &KnownEssence| last.is_same(&target.essence);
        let changed = !last.as_ref().is_some_and(is_target);
        // A digest is replaced by the full state if it matches the target or the current object.
        let recognised = |last: KnownEssence| {
            let KnownEssence::Digest(digest) = &last else {
                return last;
            };
            let mut known = target.essence.whole().into_iter().chain([&newest]);
            let known = known.find(|essence| digest == essence.digest());
            known.cloned().map_or(last, KnownEssence::Whole)
        };
        let last = last.map(recognised);
        let old = last.as_ref().and_then(KnownEssence::whole).map(|essence| newest.shown_of(essence));
        let diff = Diff::between(old.as_deref(), Some(newest.shown()));
        Self { changed, diff: Arc::new(diff), old, target, newest, last, handled: None }
    }

    /// Extends the comparison for a deletion.
    pub(super) fn of_deletion(self) -> Self {
        let handled = match &self.target.essence {
            KnownEssence::Whole(target) if self.target.is_fixed => {
                let last = Some(KnownEssence::Whole(target.clone()));
                Self::new(last, self.target.clone(), self.newest.clone())
            }
            _ => return self,
        };
        Self { handled: Some(Box::new(handled)), ..self }
    }

    /// Returns the comparison for a handler with that record.
    pub(super) fn of(&self, handler: &Handler, record: Option<&Record>) -> &Self {
        let has_handled_target = |record: &Record| {
            let succeeded = record.success || record.purpose == Some(Reason::Delete);
            let target = &self.target.essence;
            succeeded && record.target.is_some() && record.saw_known(target, handler.field())
        };
        let since_target = self.handled.as_deref();
        let since_target = since_target.filter(|_| record.is_some_and(has_handled_target));
        since_target.unwrap_or(self)
    }

    /// Returns true if only a digest of the last-handled state is left.
    pub(super) fn is_old_unknown(&self) -> bool {
        matches!(self.last, Some(KnownEssence::Digest(_)))
    }

    /// Returns true if the object has changed since the cycle began.
    pub(super) fn target_is_superseded(&self) -> bool {
        !self.target.essence.is(&self.newest)
    }

    /// Returns true if `field` differs between the target and the current object, or if that is unknown. Only attempts of this cycle can then
    /// have seen both.
    pub(super) fn has_left_target(&self, field: Option<&FieldPath>) -> bool {
        let target = self.target.essence.whole();
        let has_left = |target: &Essence| target.digest_at(field) != self.newest.digest_at(field);
        self.target_is_superseded() && target.is_none_or(has_left)
    }

    /// Returns the comparison at the time when the target was fixed, if the full target is known.
    fn at_target(&self) -> Option<Self> {
        let target = self.target.essence.whole()?.clone();
        let (last, newest) = (self.last.clone(), target.shown_as_in(&self.newest));
        Some(Self::new(last, self.target.clone(), newest))
    }

    /// Returns the target as the handler would have seen it, if the object has moved on from it.
    pub(super) fn passed_target(&self, handler: &Handler) -> Option<PassedTarget> {
        self.target_is_superseded().then(|| match self.at_target() {
            Some(then) => PassedTarget::Known(then.change(None, handler.field()).new),
            None => PassedTarget::Unknown,
        })
    }

    /// Returns the state that a handler called now observes: its field, or everything.
    pub(super) fn observed_by(&self, handler: &Handler) -> Sight {
        Sight::Of { essence: self.newest.clone(), field: handler.field().cloned() }
    }

    /// Determines the reason. `marked`: some handler must be called again; `initial`: the object was listed and not handled since.
    pub(super) fn reason(&self, deleting: bool, marked: bool, initial: bool) -> Option<Reason> {
        if deleting {
            Some(Reason::Delete)
        } else if self.last.is_none() {
            Some(Reason::Create)
        } else if self.changed || self.target_is_superseded() || marked {
            Some(Reason::Update)
        } else {
            initial.then_some(Reason::Resume)
        }
    }

    /// Returns the change as a handler sees it.
    pub(super) fn change(&self, reason: Option<Reason>, field: Option<&FieldPath>) -> Change {
        let Some(field) = field.filter(|field| !field.parts().is_empty()) else {
            return Change {
                reason,
                old: self.old.clone(),
                new: Some(self.newest.shown().clone()),
                diff: self.diff.clone(),
            };
        };
        let at = |side: Option<&Value>| side.and_then(|side| field.resolve(side)).cloned();
        Change {
            reason,
            old: at(self.old.as_deref()).map(Arc::new),
            new: at(Some(self.newest.shown())).map(Arc::new),
            diff: Arc::new(self.diff.reduced(field)),
        }
    }

    fn former(&self, field: Option<&FieldPath>) -> Former<'_> {
        if self.is_old_unknown() {
            return Former::Unknown;
        }
        let old = self.old.as_deref();
        Former::Known(match field {
            Some(field) => old.and_then(|old| field.resolve(old)),
            None => old,
        })
    }

    fn latter(&self, field: Option<&FieldPath>) -> Option<&Value> {
        let new: &Value = self.newest.shown();
        field.map_or(Some(new), |field| field.resolve(new))
    }

    /// Returns true if the handler must reconsider its children.
    fn resumes(&self, input: &Input<'_>, handler: &Arc<Handler>) -> bool {
        let seen = input.seen;
        let is_time = || seen.is_initial() || seen.has_drifted(handler, input.handlers);
        let now = self.latter(handler.field());
        let accepts = || handler.filtered(|it| it.accept_change(Former::Known(now), now));
        !handler.owns.is_empty() && is_time() && accepts()
    }

    /// Evaluates the filters of one handler.
    pub(super) fn candidate(
        &self,
        input: &Input<'_>,
        handler: &Arc<Handler>,
        reason: Option<Reason>,
    ) -> Candidate {
        let field = handler.field();
        let (old, new) = (self.former(field), self.latter(field));
        let applies = handler.filtered(|filters| {
            filters.accept_object(input.body, field, old, new)
                && filters.when.as_ref().is_none_or(|when| {
                    let change = self.change(reason, field);
                    when(&cause(input, handler, change, Attempt::first(input.now)))
                })
        });
        Candidate {
            handler: handler.clone(),
            applies,
            concerned: is_concerned(handler, old, new),
            marked: false,
            own: None,
            children: if self.resumes(input, handler) { Children::ToLookAfter } else { Children::AtRest },
        }
    }

    /// Evaluates the filters of a handler whose `record` shows that it has seen another state than the last-handled one. If its filters
    /// exclude the change since the last-handled state, or there is none, it may still be called for the change since the state that it has
    /// seen, if its filters match that.
    pub(super) fn marked_candidate(
        &self,
        input: &Input<'_>,
        handler: &Arc<Handler>,
        reason: Option<Reason>,
        record: &Record,
    ) -> Candidate {
        let since_handled = self.candidate(input, handler, reason);
        if since_handled.applies && since_handled.concerned {
            return Candidate { marked: true, ..since_handled };
        }
        let field = handler.field().filter(|it| !it.parts().is_empty());
        let is_owed = record.is_owed || record.is_mark();
        // A marked handler that has seen the newest state has a sub-handler that has not.
        let is_for_subhandlers = !record.subrefs.is_empty() && record.saw(&self.newest, field);
        let tells_change = (field.is_some() || is_owed) && !is_for_subhandlers;
        let Some(seen) = record.target.as_ref().filter(|_| tells_change) else {
            // It has no filters on former values, and its attempts are not final: it gets the remaining change, which may be empty.
            return Candidate { marked: true, concerned: true, ..since_handled };
        };
        let own = self.since(seen, field);
        let since_seen = own.candidate(input, handler, reason);
        if since_seen.applies && since_seen.concerned {
            return Candidate { marked: true, own: Some(Arc::new(own)), ..since_seen };
        }
        since_handled
    }

    /// Returns the comparison with the state that was `seen` at `field`, which may no longer be known.
    fn since(&self, seen: &Sight, field: Option<&FieldPath>) -> Self {
        let last = self.last.as_ref().and_then(KnownEssence::whole);
        let mut known = self.target.essence.whole().into_iter().chain(last).chain([&self.newest]);
        let known = known.find(|it| seen.is_of(it, field)).cloned();
        let last = known.or_else(|| Some(self.newest.but_for(field, seen.value()?)));
        let last = last.map_or_else(|| KnownEssence::Digest(seen.digest().into_owned()), KnownEssence::Whole);
        Self::new(Some(last), self.target.clone(), self.newest.clone())
    }
}

/// Returns the target in memory, or else the one that the object carries, or else the current object.
pub(super) fn target(
    input: &Input<'_>,
    newest: &Essence,
    ledger: &Ledger,
    told: &mut Vec<Handling>,
) -> Target {
    let deleting = input.body.is_deleting();
    let goes_on = |ongoing: &&Ongoing| match ongoing.reason {
        Reason::Delete => deleting,
        // In a deletion, handlers get the change from the state that they have handled.
        Reason::Create | Reason::Update => true,
        // No handler has acted on a change yet.
        Reason::Resume => false,
    };
    let held = input.seen.ongoing().filter(goes_on);
    if let Some(held) = held.and_then(|ongoing| ongoing.target.as_ref()) {
        let is_newest = held.is(newest);
        return Target {
            essence: if is_newest { KnownEssence::Whole(newest.clone()) } else { held.clone() },
            is_fixed: true,
        };
    }
    let carried = input.persistence.progress.fetch_target(input.body);
    let carried = carried.unwrap_or_else(|damage| {
        told.push(Handling::TargetLost { damage });
        None
    });
    // The target was fixed when a handler was done, so that handler's record must be present. Otherwise the annotation is a copy or was
    // edited.
    let carried = carried.filter(|_| deleting || ledger.carries_a_finished_change());
    let is_fixed = carried.is_some();
    // For a state that was too large, only a digest exists, from which no changes can be computed: the cycle continues with the current
    // object, and handlers that were done with the former state are called again.
    let is_kept = |it: &KnownEssence| matches!(it, KnownEssence::Whole(_));
    let carried = carried.filter(|it| !it.is(newest) && is_kept(it));
    Target { essence: carried.unwrap_or_else(|| KnownEssence::Whole(newest.clone())), is_fixed }
}
/// Returns true if the handler reacts to a change from `old` to `new`.
pub(super) fn is_concerned(handler: &Handler, old: Former<'_>, new: Option<&Value>) -> bool {
    let differs = match old {
        Former::Known(old) => !same(old, new),
        Former::Unknown => true,
    };
    let is_let_through = || handler.filtered(|it| it.accept_change(old, new));
    (differs || !handler.reacts_to_differences()) && is_let_through()
}

impl Candidate {
    /// Returns true if it must reconsider its children.
    pub(super) fn resumes(&self) -> bool {
        self.children == Children::ToLookAfter
    }
    /// Returns true if the handler is to be called for `reason`. `initial`: the object was listed and not handled since.
    pub(super) fn is_selected(&self, reason: Reason, initial: bool) -> bool {
        let is_concerned = self.handler.is_for(reason, initial) && self.concerned;
        let resumes = self.resumes() && !matches!(reason, Reason::Create | Reason::Delete);
        self.applies && (is_concerned || resumes)
    }
    /// Returns true if the handler requires a finalizer to see the deletion.
    pub(super) fn needs_finalizer(&self) -> bool {
        self.applies && self.handler.needs_finalizer()
    }
    /// Returns true if the handler wants to see a deletion without blocking it.
    pub(super) fn is_optional_deletion(&self) -> bool {
        self.applies && self.handler.is_optional_deletion()
    }
}

/// Returns the marks of handlers for which the target is a change but the current object is not. A handler that has not seen the target must
/// be called if the object returns to it, because the target will be stored as last-handled.
pub(super) fn left_behind(
    input: &Input<'_>,
    comparison: &Comparison,
    reason: Reason,
    selected: &[Arc<Handler>],
    ledger: &Ledger,
) -> Vec<(Arc<str>, Record)> {
    if !comparison.target_is_superseded() || reason == Reason::Delete {
        return Vec::new();
    }
    let then = comparison.at_target();
    let was_for = |handler: &Arc<Handler>| {
        let then = then.as_ref().unwrap_or(comparison);
        let candidate = then.candidate(input, handler, Some(reason));
        candidate.is_selected(reason, input.seen.is_initial())
    };
    let mark = |handler: &Arc<Handler>| {
        let field = handler.field();
        // Only attempts of this cycle can have seen both the target and the current state.
        let done = ledger.record(&handler.id);
        let done = done.filter(|it| it.is_final() && it.purpose == Some(reason));
        let saw_target = |it: &Record| it.saw_known(&comparison.target.essence, field);
        match done {
            Some(record) if ledger.all(record, saw_target) => return None,
            // The handler is done with the current state; the mark is valid as long as that lasts.
            Some(record) if ledger.all(record, |it| it.saw(&comparison.newest, field)) => {
                Some(record.as_mark())
            }
            _ => Some(Record { target: Some(comparison.observed_by(handler)), ..Record::begun(input.now) }),
        }
        .filter(|_| was_for(handler))
        .map(|record| (handler.id.clone(), record))
    };
    let reacting = input.handlers.iter().filter(|it| it.reacts_to_differences());
    let left = reacting.filter(|it| selected.iter().all(|other| other.id != it.id));
    left.filter_map(mark).collect()
}

/// Creates the call for a change.
pub(super) fn cause(
    input: &Input<'_>,
    handler: &Arc<Handler>,
    change: Change,
    attempt: Attempt,
) -> HandlerCall {
    let subject = Subject::Change(ChangeSubject { object: object(input), change, subhandlers: None });
    HandlerCall::new(handler.clone(), input.surroundings.clone(), attempt, subject)
}

/// Returns the current object.
pub(super) fn object(input: &Input<'_>) -> SubjectObject {
    SubjectObject { resource: input.resource.clone(), body: input.body.clone() }
}
