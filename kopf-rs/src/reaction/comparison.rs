//! What was handled last compared with the object as it is: which reason a change has, and for which handlers it is one.
//!
//! Must not know what was attempted before, but for the marks it is told of.

use std::sync::Arc;

use serde_json::Value;

use crate::handler::cause::Attempt;
use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::filter::Former;
use crate::handler::subject::Subject;
use crate::handler::subject::{Change, ChangeSubject, Reason, SubjectObject};
use crate::object::diff::{Diff, same};
use crate::object::essence::{Essence, Sight};
use crate::object::path::FieldPath;
use crate::reaction::input::Input;
use crate::reaction::ledger::Ledger;
use crate::reaction::memory::Target;
use crate::state::diffbase::KnownEssence;
use crate::state::progress::Record;

/// What was handled last compared with the object as it is now. And the target of the cycle, which the object may have
/// left behind.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    last: Option<KnownEssence>,
    /// What was handled last, as handlers see it.
    old: Option<Arc<Value>>,
    /// Something was handled last, but only its digest is left.
    pub(super) unknown: bool,
    pub(super) target: Target,
    pub(super) newest: Essence,
    /// What handlers are told of: as it is now.
    pub(super) diff: Arc<Diff>,
    /// Whether the target is to be stored as last handled in the end.
    pub(super) changed: bool,
    created: bool,
    /// In a deletion: the comparison for handlers that have handled the target of the cycle which the deletion has ended.
    handled: Option<Box<Comparison>>,
}

/// The target of the cycle, which the object has left behind: it will be stored as handled.
pub(super) enum PassedTarget {
    /// What a handler would have been told is new.
    Known(Option<Arc<Value>>),
    /// Only its digest is left.
    Unknown,
}

/// A handler, and what its filters say.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) handler: Arc<Handler>,
    /// The object is in its scope.
    pub(super) applies: bool,
    /// The change is one it is for, whatever the reason.
    pub(super) concerned: bool,
    /// It has seen another state than what is handled: to be called whatever has changed.
    pub(super) marked: bool,
    pub(super) children: Children,
}

/// Whether a handler is to look after children that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// It owns none, or none of them has changed.
    AtRest,
    /// At the start, and where one has changed.
    ToLookAfter,
}

impl Comparison {
    pub(super) fn new(last: Option<KnownEssence>, target: Target, newest: Essence) -> Self {
        let created = last.is_none();
        let is_target = |last: &KnownEssence| last.is_same(&target.essence);
        let changed = !last.as_ref().is_some_and(is_target);
        // Of a digest, all is known where it is that of the target or of the object.
        let recognised = |last: KnownEssence| {
            let KnownEssence::Digest(digest) = &last else {
                return last;
            };
            let target = match &target.essence {
                KnownEssence::Whole(essence) => Some(essence),
                KnownEssence::Digest(_) => None,
            };
            let mut known = target.into_iter().chain([&newest]);
            let known = known.find(|essence| digest == essence.digest());
            known.cloned().map_or(last, KnownEssence::Whole)
        };
        let last = last.map(recognised);
        let (old, unknown) = match &last {
            None => (None, false),
            Some(KnownEssence::Whole(essence)) => (Some(newest.shown_of(essence)), false),
            Some(KnownEssence::Digest(_)) => (None, true),
        };
        let diff = Diff::between(old.as_deref(), Some(newest.shown()));
        Self {
            changed,
            diff: Arc::new(diff),
            old,
            unknown,
            target,
            newest,
            last,
            created,
            handled: None,
        }
    }

    /// The same for a deletion.
    pub(super) fn of_deletion(self) -> Self {
        let handled = match &self.target.essence {
            KnownEssence::Whole(target) if self.target.is_fixed => {
                let last = Some(KnownEssence::Whole(target.clone()));
                Self::new(last, self.target.clone(), self.newest.clone())
            }
            _ => return self,
        };
        Self {
            handled: Some(Box::new(handled)),
            ..self
        }
    }

    /// The comparison for a handler with that record.
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

    /// Whether the object has changed since the cycle began.
    pub(super) fn target_is_superseded(&self) -> bool {
        !self.target.essence.is(&self.newest)
    }

    /// As they were when the target was fixed, where all of it is known.
    fn at_target(&self) -> Option<Self> {
        let KnownEssence::Whole(target) = self.target.essence.clone() else {
            return None;
        };
        let (last, newest) = (self.last.clone(), target.shown_as_in(&self.newest));
        Some(Self::new(last, self.target.clone(), newest))
    }

    /// The target, where the object has left it behind, as the handler would have been told of it.
    pub(super) fn passed_target(&self, handler: &Handler) -> Option<PassedTarget> {
        self.target_is_superseded().then(|| match self.at_target() {
            Some(then) => PassedTarget::Known(then.change(None, handler.field()).new),
            None => PassedTarget::Unknown,
        })
    }

    /// What a handler called now gets to see, and is told of: its field, or everything.
    pub(super) fn observed_by(&self, handler: &Handler) -> Sight {
        Sight::Of {
            essence: self.newest.clone(),
            field: handler.field().cloned(),
        }
    }

    /// The decision list. `marked`: some handler has to be called again; `initial`: not handled yet since it was listed.
    pub(super) fn reason(&self, deleting: bool, marked: bool, initial: bool) -> Option<Reason> {
        if deleting {
            Some(Reason::Delete)
        } else if self.created {
            Some(Reason::Create)
        } else if self.changed || self.target_is_superseded() || marked {
            Some(Reason::Update)
        } else {
            initial.then_some(Reason::Resume)
        }
    }

    /// What a handler is told of the change.
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
        if self.unknown {
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

    /// Whether the handler is to look after its children.
    fn resumes(&self, input: &Input<'_>, handler: &Arc<Handler>) -> bool {
        let seen = input.seen;
        let is_time = || seen.is_initial() || seen.has_drifted(handler, input.handlers);
        let now = self.latter(handler.field());
        let accepts = || handler.filtered(|_| handler.accepts_change(Former::Known(now), now));
        !handler.owns().is_empty() && is_time() && accepts()
    }

    /// Evaluate the filters of one handler.
    pub(super) fn candidate(
        &self,
        input: &Input<'_>,
        handler: &Arc<Handler>,
        reason: Option<Reason>,
        marked: bool,
    ) -> Candidate {
        let field = handler.field();
        let (mut old, new) = (self.former(field), self.latter(field));
        if marked {
            old = Former::Unknown;
        }
        let applies = handler.filtered(|filters| {
            filters.accept_object(input.body, field, old, new)
                && filters.when.as_ref().is_none_or(|when| {
                    let change = self.change(reason, field);
                    when(&cause(input, handler, change, first_attempt(input)))
                })
        });
        // Who is to be called again is so for what its filters let through: a change that has passed by is no more its business.
        Candidate {
            handler: handler.clone(),
            applies,
            concerned: is_concerned(handler, old, new),
            marked: marked && handler.filtered(|_| handler.accepts_change(old, new)),
            children: if self.resumes(input, handler) {
                Children::ToLookAfter
            } else {
                Children::AtRest
            },
        }
    }
}

/// Whether a change from `old` to `new` is one that the handler is for.
pub(super) fn is_concerned(handler: &Handler, old: Former<'_>, new: Option<&Value>) -> bool {
    let differs = match old {
        Former::Known(old) => !same(old, new),
        Former::Unknown => true,
    };
    let is_let_through = || handler.filtered(|_| handler.accepts_change(old, new));
    (differs || !handler.reacts_to_differences()) && is_let_through()
}

impl Candidate {
    /// Whether it is to look after its children.
    pub(super) fn resumes(&self) -> bool {
        self.children == Children::ToLookAfter
    }
    /// Whether the handler is to be called for `reason`. `initial`: the object was listed and not handled since.
    pub(super) fn is_selected(&self, reason: Reason, initial: bool) -> bool {
        let is_concerned = self.handler.is_for(reason, initial) && self.concerned;
        let resumes = self.resumes() && !matches!(reason, Reason::Create | Reason::Delete);
        self.applies && (is_concerned || resumes)
    }
    /// Whether the object must not vanish before the handler has seen its deletion.
    pub(super) fn needs_finalizer(&self) -> bool {
        self.applies && self.handler.needs_finalizer()
    }
    /// Whether the handler wants to see a deletion, but not to hold it up.
    pub(super) fn is_optional_deletion(&self) -> bool {
        self.applies && self.handler.is_optional_deletion()
    }
}

/// The marks of handlers for which the target is a change, but the object as it is now is none. Those of them that have not seen the
/// target must hear of it should it come back: by then it is stored as handled.
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
        // Where only the digest of the target is left, it may have been a change for anybody.
        let (then, marked) = then
            .as_ref()
            .map_or((comparison, true), |then| (then, false));
        let candidate = then.candidate(input, handler, Some(reason), marked);
        candidate.is_selected(reason, input.seen.is_initial())
    };
    let mark = |handler: &Arc<Handler>| {
        let field = handler.field();
        let done = ledger.record(&handler.id).filter(|it| it.is_final());
        let saw_target = |it: &Record| it.saw_known(&comparison.target.essence, field);
        match done {
            Some(record) if ledger.all(record, saw_target) => return None,
            // Done with what is now: it counts as long as that is.
            Some(record) if ledger.all(record, |it| it.saw(&comparison.newest, field)) => {
                Some(record.as_mark())
            }
            _ => Some(Record {
                target: Some(comparison.observed_by(handler)),
                ..Record::begun(input.now)
            }),
        }
        .filter(|_| was_for(handler))
        .map(|record| (handler.id.clone(), record))
    };
    let reacting = input
        .handlers
        .iter()
        .filter(|it| it.reacts_to_differences());
    let left = reacting.filter(|it| selected.iter().all(|other| other.id != it.id));
    left.filter_map(mark).collect()
}

/// A call for a change.
pub(super) fn cause(
    input: &Input<'_>,
    handler: &Arc<Handler>,
    change: Change,
    attempt: Attempt,
) -> HandlerCall {
    let subject = Subject::Change(ChangeSubject {
        object: object(input),
        change,
        subhandlers: None,
    });
    HandlerCall::new(
        handler.clone(),
        input.surroundings.clone(),
        attempt,
        subject,
    )
}

/// The object as it is now.
pub(super) fn object(input: &Input<'_>) -> SubjectObject {
    SubjectObject {
        resource: input.resource.clone(),
        body: input.body.clone(),
    }
}

/// What a handler without a record is told of its attempts.
pub(super) fn first_attempt(input: &Input<'_>) -> Attempt {
    Attempt::first(input.now)
}
