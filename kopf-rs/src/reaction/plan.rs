//! Plans the calls for an observed state.
//!
//! [`observe`] collects the facts, [`decide`] is one table, and [`plan`] prepares the result. Filters are evaluated once per plan and reason.
//! Changes nothing: [`settle`](crate::reaction::settle::settle) determines the writes afterwards. Must not know how handlers are called.

use std::sync::Arc;

use serde_json::json;

use crate::handler::cause::{Attempt, AttemptKey};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::lifecycle::Lifecycle;
use crate::handler::subject::{EventSubject, Reason, Subject};
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::redact;
use crate::reaction::background_plan::{BackgroundPlan, background, reconcile};
use crate::reaction::comparison::{Candidate, Comparison, cause, left_behind, object, target};
use crate::reaction::cycle::{Cycle, Member, Mode, Openness, Turn, supersession};
use crate::reaction::input::{Input, Standing};
use crate::reaction::judge::{Judge, attempt};
use crate::reaction::memory::{Background, ObjectMemory};
use crate::reaction::outcome_conditions::OutcomeConditions;
use crate::reaction::progress_table::Ledger;
use crate::reaction::subhandlers::{Difference, SubhandlerPlan};
use crate::state::progress::Record;
use crate::state::{Persistence, finalizer};

/// A plan. Calls are made in order: first `watching`, then `changing`.
pub(crate) struct Plan {
    /// Reports to make before the calls.
    pub(crate) told: Vec<Handling>,
    /// The steps for daemons and timers.
    pub(crate) background: BackgroundPlan,
    /// Raw-event handlers: each is called once, and a failure is only logged.
    pub(crate) watching: Vec<HandlerCall>,
    /// Change handlers that are due and picked.
    pub(crate) changing: Vec<HandlerCall>,
    /// Handlers that would be called, now or later, but are suspended for the current object.
    pub(crate) suspended: Vec<Arc<Handler>>,
    pub(super) decision: Decision,
    /// The records of former cycles, if no handler is called.
    pub(super) left: Ledger,
    /// The cycle, if handlers are called, waited for, or finished.
    pub(super) cycle: Option<Box<Cycle>>,
    pub(super) persistence: Persistence,
    pub(super) lifecycle: Lifecycle,
    pub(super) judge: Judge,
    pub(super) body: Arc<Body>,
    pub(super) gone: bool,
    /// True if daemons and timers block the deletion of the object.
    pub(super) is_held_in_background: bool,
    /// Set if the outcomes of handlers are shown as conditions.
    pub(super) outcomes: Option<OutcomeConditions>,
    pub(super) seen: ObjectMemory,
}

/// The way in which an object is handled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// No action, and the memory is kept: no handler's filters match the object.
    Nothing,
    /// Wait until the deletion handlers are served again.
    AwaitDeletionHandlers,
    /// Wait until daemons and timers have ended.
    AwaitBackground,
    /// Forget an object that no deletion handler applies to.
    Forget,
    /// Remove leftovers of former cycles.
    Purge,
    AddFinalizer,
    RemoveFinalizer,
    /// Call handlers, wait for them, or finish.
    Handle {
        reason: Reason,
        mode: Mode,
    },
}

/// All facts that a decision depends on.
pub(super) struct Facts {
    pub(super) life: Life,
    /// The reason to handle it; `None` if its essence is unchanged.
    pub(super) reason: Option<Reason>,
    /// `None` if no handler could be affected by any change.
    pub(super) comparison: Option<Comparison>,
    pub(super) ledger: Ledger,
    pub(super) candidates: Vec<Candidate>,
    /// The deletion handlers for which the object must stay although they are not served now.
    pub(super) withheld: Vec<Arc<str>>,
    /// True if another operator adds the finalizer again and again.
    pub(super) finalizer_is_contested: bool,
    pub(super) deletion_was_handled: bool,
    /// True if daemons and timers block its deletion.
    pub(super) is_held_in_background: bool,
}

/// The life-cycle state of the object, and the presence of the operator's finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Living {
        has_finalizer: bool,
    },
    /// Marked for deletion.
    Terminating {
        has_finalizer: bool,
    },
    Gone,
}

// === the decision ===

/// Decides how an object is handled now. The first matching row applies:
///
/// | The object | Handlers whose filters match it | Action |
/// |---|---|---|
/// | lives | one needs the finalizer, or runs in the background; the finalizer is missing | add the finalizer |
/// | lives | none needs the finalizer or runs in the background; the finalizer is present and not needed otherwise | remove the finalizer |
/// | lives | none | nothing; the memory is kept |
/// | lives | some, and there is a reason: creation, update, resuming | handle that reason |
/// | lives | some, and the essence is unchanged | remove leftovers of former cycles |
/// | is terminating, with the finalizer | some are not served now | wait for them |
/// | is terminating, with the finalizer | none is for deletions, some still run in the background | wait for them |
/// | is terminating, with the finalizer | none is for deletions | remove the finalizer |
/// | is terminating, with the finalizer | some are for deletions | handle the deletion |
/// | is terminating without the finalizer, or gone | some optional ones for deletions, not called yet | handle the deletion as far as possible |
/// | is terminating without the finalizer, or gone | none of these | forget the object |
///
/// The finalizer stays on a living object if another operator would add it again and again, or if a deletion handler that needs it is not served
/// now.
pub(super) fn decide(facts: &Facts) -> Decision {
    let deletion = |mode| Decision::Handle { reason: Reason::Delete, mode };
    let is_kept = facts.finalizer_is_contested || !facts.withheld.is_empty();
    let is_best_effort_due = facts.wants_to_see_deletion() && !facts.deletion_was_handled;
    match facts.life {
        Life::Living { has_finalizer: false } if facts.is_held() => Decision::AddFinalizer,
        Life::Living { has_finalizer: true } if !facts.is_held() && !is_kept => Decision::RemoveFinalizer,
        Life::Living { .. } if !facts.is_in_scope() => Decision::Nothing,
        Life::Living { .. } => match facts.reason {
            Some(reason) => Decision::Handle { reason, mode: Mode::Persisted },
            None => Decision::Purge,
        },
        Life::Terminating { has_finalizer: true } if !facts.withheld.is_empty() => {
            Decision::AwaitDeletionHandlers
        }
        Life::Terminating { has_finalizer: true }
            if !facts.needs_finalizer() && !facts.wants_to_see_deletion() =>
        {
            if facts.is_held_in_background {
                Decision::AwaitBackground
            } else {
                Decision::RemoveFinalizer
            }
        }
        Life::Terminating { has_finalizer: true } => deletion(Mode::Persisted),
        Life::Terminating { .. } if is_best_effort_due => deletion(Mode::Terminating),
        Life::Gone if is_best_effort_due => deletion(Mode::Gone),
        Life::Terminating { .. } | Life::Gone => Decision::Forget,
    }
}

impl Facts {
    /// Returns true if the filters of some handler match the object.
    pub(super) fn is_in_scope(&self) -> bool {
        self.candidates.iter().any(|it| it.applies)
    }
    pub(super) fn needs_finalizer(&self) -> bool {
        self.candidates.iter().any(Candidate::needs_finalizer)
    }
    /// Returns true if the object needs the finalizer.
    pub(super) fn is_held(&self) -> bool {
        self.needs_finalizer() || self.is_held_in_background
    }
    /// Returns true if some handler wants to see the deletion without blocking it.
    pub(super) fn wants_to_see_deletion(&self) -> bool {
        self.candidates.iter().any(Candidate::is_optional_deletion)
    }
}

// === the facts ===

/// Collects the facts.
pub(super) fn observe(input: &Input<'_>, told: &mut Vec<Handling>) -> Facts {
    let life = life(input);
    let handlers = input.handlers.iter();
    let changing: Vec<_> = handlers.filter(|it| it.is_for_changes()).collect();
    let holds = !matches!(life, Life::Gone | Life::Terminating { has_finalizer: false });
    let mut facts = Facts {
        life,
        reason: None,
        comparison: None,
        ledger: Ledger::default(),
        candidates: Vec::new(),
        withheld: Vec::new(),
        finalizer_is_contested: input.finalizer_is_contested,
        deletion_was_handled: input.seen.deletion_was_handled,
        is_held_in_background: false,
    };
    let may_concern = if holds {
        !(changing.is_empty() && input.withheld.is_empty())
    } else {
        changing.iter().any(|it| it.is_optional_deletion())
    };
    if may_concern {
        let ledger = Ledger::read(input, &changing, told);
        let comparison = comparison(input, &changing, &ledger, told);
        let (reason, candidates) = candidates(input, &changing, &comparison, &ledger);
        facts.reason = reason;
        let is_held = life != (Life::Living { has_finalizer: false }) && holds;
        if is_held {
            facts.withheld = withheld(input, &comparison, reason);
        }
        (facts.comparison, facts.ledger, facts.candidates) = (Some(comparison), ledger, candidates);
    }
    facts
}

pub(super) fn life(input: &Input<'_>) -> Life {
    let has_finalizer = finalizer::is_on(input.body, &input.persistence.finalizer);
    if input.event == Some(EventType::Deleted) {
        Life::Gone
    } else if input.body.is_deleting() {
        Life::Terminating { has_finalizer }
    } else {
        Life::Living { has_finalizer }
    }
}

fn withheld(input: &Input<'_>, comparison: &Comparison, reason: Option<Reason>) -> Vec<Arc<str>> {
    let holds = |handler: &&Arc<Handler>| {
        let candidate = comparison.candidate(input, handler, reason);
        candidate.needs_finalizer()
    };
    let withheld = input.withheld.iter().filter(holds);
    withheld.map(|handler| handler.id.clone()).collect()
}

/// Compares the last-handled essence, the current one, and the target of the cycle.
fn comparison(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    ledger: &Ledger,
    told: &mut Vec<Handling>,
) -> Comparison {
    // Memory has the essence if the object could not hold it: the object then carries an older or a damaged one.
    let in_progress = input.seen.in_progress.as_ref();
    let last = in_progress.and_then(|in_progress| in_progress.last.clone()).or_else(|| {
        let last = input.persistence.essence.fetch(input.body);
        last.unwrap_or_else(|damage| {
            told.push(Handling::LastHandledLost { damage });
            None
        })
    });
    let all = changing.iter().copied();
    let watching = input.handlers.iter().filter(|it| it.is_for_events());
    let fields = all.chain(watching).filter_map(|it| it.field());
    let newest = input.persistence.essence_of(input.body, fields);
    let target = target(input, &newest, ledger, told);
    let comparison = Comparison::new(last, target, newest);
    if input.body.is_deleting() { comparison.of_deletion() } else { comparison }
}

/// Returns the reason, and the handlers with the results of their filters.
fn candidates(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    comparison: &Comparison,
    ledger: &Ledger,
) -> (Option<Reason>, Vec<Candidate>) {
    let is_living = matches!(life(input), Life::Living { .. });
    let marked = |handler: &Handler| {
        let field = handler.field();
        let is_marked = is_living
            && handler.reacts_to_differences()
            && ledger.is_marked(&handler.id, &comparison.newest, field);
        ledger.record(&handler.id).filter(|_| is_marked)
    };
    let marked: Vec<Option<&Record>> = changing.iter().map(|it| marked(it)).collect();
    let reason = |marked, resumes| {
        let initial = input.seen.is_initial() || resumes;
        comparison.reason(!is_living, marked, initial)
    };
    let mut owning = changing.iter();
    let drifted = owning.any(|it| input.seen.has_drifted(it, input.handlers));
    let supposed = reason(marked.iter().any(Option::is_some), drifted);
    let candidates_for = |reason| -> Vec<Candidate> {
        let candidate = |(handler, marked): (&&Arc<Handler>, Option<&Record>)| {
            let comparison = comparison.of(handler, ledger.record(&handler.id));
            match marked {
                Some(record) => comparison.marked_candidate(input, handler, reason, record),
                None => comparison.candidate(input, handler, reason),
            }
        };
        changing.iter().zip(marked.iter().copied()).map(candidate).collect()
    };
    let candidates = candidates_for(supposed);
    // If the filters exclude the marked handlers, the reason is a different one, and the filters are evaluated for that.
    let real = reason(
        candidates.iter().any(|it| it.marked && it.applies),
        candidates.iter().any(|it| it.resumes() && it.applies),
    );
    if real == supposed { (real, candidates) } else { (real, candidates_for(real)) }
}

// === the plan ===

/// Detects the cause, picks the due calls, and decides on the finalizer.
pub(crate) fn plan(input: &Input<'_>) -> Plan {
    let lives = matches!(life(input), Life::Living { .. });
    let mut background = background(input, lives);
    let mut told = std::mem::take(&mut background.told);
    let mut facts = observe(input, &mut told);
    facts.is_held_in_background = match facts.life {
        Life::Living { has_finalizer } if input.background_is_over && !background.memory.is_empty() => {
            has_finalizer
        }
        life => background.memory.holds(matches!(life, Life::Living { .. })),
    };
    let decision = decide(&facts);
    let is_suspended = |call: &HandlerCall| input.standing(&call.handler) == Standing::Suspended;
    let (suspended, watching): (Vec<_>, Vec<_>) = watching(input).into_iter().partition(is_suspended);
    let not_called = std::mem::take(&mut background.suspended);
    let mut plan = Plan {
        told,
        background,
        watching,
        changing: Vec::new(),
        suspended: Vec::new(),
        decision,
        left: Ledger::default(),
        cycle: None,
        persistence: input.persistence.clone(),
        lifecycle: input.policy.lifecycle.clone(),
        judge: input.times().judge,
        body: input.body.clone(),
        gone: facts.life == Life::Gone,
        is_held_in_background: facts.is_held_in_background,
        outcomes: None,
        seen: ObjectMemory { background: Background::Planned, ..input.seen.clone() },
    };
    prepare(input, facts, &mut plan);
    let awaits_records = plan.cycle.as_ref().is_some_and(|it| it.awaits_records());
    let is_free = plan.changing.is_empty() && !awaits_records;
    if lives && is_free && plan.decision != Decision::AddFinalizer {
        reconcile(input, &mut plan.background);
        plan.told.append(&mut plan.background.told);
    }
    if input.policy.shows_outcomes {
        plan.outcomes = OutcomeConditions::of(input, &plan.background.memory);
    }
    plan.suspended.extend(suspended.into_iter().map(|call| call.handler).chain(not_called));
    plan
}

/// Plans only daemons and timers; reconcilers only if `is_free`, because change handlers take precedence.
pub(crate) fn plan_background(input: &Input<'_>, is_free: bool) -> BackgroundPlan {
    let lives = matches!(life(input), Life::Living { .. });
    let mut plan = background(input, lives);
    if lives && is_free {
        reconcile(input, &mut plan);
    }
    plan
}

/// Prepares the result of the decision.
fn prepare(input: &Input<'_>, facts: Facts, plan: &mut Plan) {
    let told = &mut plan.told;
    match plan.decision {
        Decision::Nothing => {}
        Decision::AwaitDeletionHandlers => told.push(Handling::DeletionWithheld { handlers: facts.withheld }),
        Decision::AwaitBackground => told.push(Handling::DeletionAwaitsBackground),
        Decision::Forget => told.push(match facts.life {
            Life::Gone => Handling::Deleted,
            _ => Handling::DeletionOfOthers,
        }),
        Decision::Purge => told.push(Handling::Unchanged),
        Decision::AddFinalizer => told.push(Handling::FinalizerAdded),
        Decision::RemoveFinalizer => told.push(Handling::FinalizerNotNeeded),
        Decision::Handle { reason, mode } => {
            return handle(input, (reason, mode), facts, plan);
        }
    }
    plan.left = facts.ledger;
}

/// Selects the handlers, and picks those to call now.
fn handle(input: &Input<'_>, (reason, mode): (Reason, Mode), facts: Facts, plan: &mut Plan) {
    let Facts { comparison: Some(comparison), ledger, candidates, .. } = facts else {
        return;
    };
    let is_selected = |it: &&Candidate| match mode {
        Mode::Persisted => it.is_selected(reason, input.seen.is_initial()),
        Mode::Terminating | Mode::Gone => it.is_optional_deletion(),
    };
    let selected = candidates.iter().filter(is_selected);
    let selected: Vec<_> = selected.map(|it| it.handler.clone()).collect();
    let body = redact::body(input.body);
    plan.told.push(Handling::InProgress { reason, body });
    let is_known = reason != Reason::Create && !comparison.is_old_unknown();
    if is_known && !comparison.diff.is_empty() {
        let diff = redact::diff(&comparison.diff, input.body);
        plan.told.push(Handling::Differs { reason, diff });
    }
    if mode == Mode::Persisted {
        plan.told.extend(supersession(reason, &ledger));
    }
    let left_behind = left_behind(input, &comparison, reason, &selected, &ledger);
    let mut cycle = Cycle::new(input, (reason, mode), comparison, &selected, ledger);
    cycle.left_behind = left_behind;
    for member in &mut cycle.members {
        let candidate = candidates.iter().find(|it| Arc::ptr_eq(&it.handler, &member.handler));
        member.own = candidate.and_then(|it| it.own.clone());
        if member.own.as_ref().is_some_and(|own| own.is_old_unknown()) && !member.record.is_final() {
            plan.told.push(Handling::FormerTooLarge { id: member.handler.id.clone() });
        }
    }
    let comparison = cycle.comparison.clone();
    let call = |member: &Member| {
        let handler = &member.handler;
        let mut attempt = attempt(&member.record, input.now);
        if handler.is_keyed {
            attempt.key = Some(key(input, reason, member, &comparison));
        }
        let own = member.own.as_deref();
        let comparison = own.unwrap_or_else(|| comparison.of(handler, Some(&member.record)));
        let change = comparison.change(Some(reason), handler.field());
        cause(input, handler, change, attempt)
    };
    let is_held = plan.is_held_in_background;
    plan.changing = cycle.pick(input, is_held).into_iter().map(call).collect();
    plan.suspended = cycle.suspended().collect();
    plan.cycle = Some(Box::new(cycle));
}

/// Returns the key of an attempt: equal for repetitions of this attempt for the same object state, and different otherwise.
fn key(input: &Input<'_>, reason: Reason, member: &Member, comparison: &Comparison) -> AttemptKey {
    AttemptKey::of(&json!([
        input.body.uid(),
        &*member.handler.id,
        reason.as_str(),
        member.record.started.to_string(),
        comparison.newest.digest(),
        input.resource.generation_of(input.body),
    ]))
}

/// Returns the calls of raw-event handlers whose filters match the event.
fn watching(input: &Input<'_>) -> Vec<HandlerCall> {
    let Some(event) = input.event else {
        return Vec::new();
    };
    let call = |handler: &Arc<Handler>| {
        let subject = Subject::Event(EventSubject { object: object(input), event });
        let context = input.surroundings.clone();
        HandlerCall::new(handler.clone(), context, Attempt::first(input.now), subject)
    };
    let wants = |call: &HandlerCall| call.handler.accepts(input.body, |when| when(call));
    let handlers = input.handlers.iter().filter(|it| it.is_for_events());
    handlers.map(call).filter(wants).collect()
}

impl Plan {
    /// Updates the plan after daemons and timers have continued during the calls: with their requested changes, and whether they block the
    /// object's deletion.
    pub(crate) fn background_went_on(&mut self, seen: &ObjectMemory, is_held: bool) {
        self.seen.want_in_background_as(seen);
        self.is_held_in_background = is_held;
    }

    /// Returns true if the object no longer exists.
    pub(crate) fn is_of_gone_object(&self) -> bool {
        self.gone
    }

    /// Returns the object for which this was planned.
    pub(crate) fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Returns the plan for the sub-handlers of one call of [`changing`](Self::changing).
    pub(crate) fn subhandler_plan(&self, parent: &Handler) -> Option<SubhandlerPlan> {
        let cycle = self.cycle.as_ref()?;
        let mut members = cycle.members.iter();
        let member = members.find(|it| it.handler.id == parent.id)?;
        let comparison = cycle.comparison.of(&member.handler, Some(&member.record));
        let is_now_or_never = cycle.mode == Mode::Gone || (cycle.is_persisted_deletion() && !member.holds);
        Some(SubhandlerPlan {
            persistence: self.persistence.clone(),
            body: self.body.clone(),
            held: self.seen.records().cloned().unwrap_or_default(),
            turn: Turn { openness: Openness::All, ..cycle.turn(self.judge.now) },
            now_or_never: is_now_or_never.then_some(Lifecycle::AllAtOnce),
            only_resumes: member.only_resumes,
            difference: if member.record.is_owed {
                Difference::Missed
            } else if comparison.is_old_unknown() {
                Difference::Unknown
            } else {
                Difference::Known
            },
            passed: cycle.comparison.passed_target(parent),
            has_left_target: cycle.comparison.has_left_target(parent.field()),
            seen: cycle.comparison.observed_by(parent),
            lifecycle: self.lifecycle.clone(),
            judge: self.judge,
            subhandlers: Vec::new(),
        })
    }
}
