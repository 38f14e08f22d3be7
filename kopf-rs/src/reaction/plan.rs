//! Plans the calls for an observed state.
//!
//! [`observe`] collects the facts, [`decide`] is one table, and this module prepares the result. Changes nothing:
//! [`settle`](crate::reaction::settle::settle) determines the writes afterwards. Must not know how handlers are called.

use std::sync::Arc;

use serde_json::json;

use crate::handler::cause::AttemptKey;
use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::filter::Former;
use crate::handler::subject::EventSubject;
use crate::handler::subject::Reason;
use crate::handler::subject::Subject;
use crate::happening::handling::Handling;
use crate::object::redact;
use crate::reaction::background_plan::{BackgroundPlan, background, reconcile};
use crate::reaction::comparison::{Candidate, Comparison, cause, first_attempt, left_behind, object};
use crate::reaction::cycle::{Cycle, supersession};
use crate::reaction::decision::{Decision, Mode, decide};
use crate::reaction::facts::{ChangeFacts, Facts, Life, life, observe};
use crate::reaction::handler_progress::Member;
use crate::reaction::input::Input;
use crate::reaction::memory::{Background, ObjectMemory};
use crate::reaction::outcome_conditions::OutcomeConditions;
use crate::reaction::planned::{Plan, PlanContext};
use crate::reaction::progress_table::Ledger;
use crate::reaction::standing::Standing;

/// Detects the cause, picks the due calls, and decides on the finalizer.
pub(crate) fn plan(input: &Input<'_>) -> Plan {
    let mut told = Vec::new();
    let lives = matches!(life(input), Life::Living { .. });
    let mut background = background(input, lives, &mut told);
    let mut facts = observe(input, &mut told);
    facts.is_held_in_background = match facts.life {
        Life::Living { has_finalizer } if input.background_is_over && background.is_any() => has_finalizer,
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
        context: PlanContext {
            persistence: input.persistence.clone(),
            lifecycle: input.policy.lifecycle.clone(),
            backoff: input.policy.backoff,
            random: input.random,
            body: input.body.clone(),
            gone: facts.life == Life::Gone,
            is_held_in_background: facts.is_held_in_background,
            outcomes: None,
            seen: ObjectMemory { background: Background::Planned, ..input.seen.clone() },
        },
    };
    prepare(input, facts, &mut plan);
    let awaits_records = plan.cycle.as_ref().is_some_and(|it| it.awaits_records());
    let is_free = plan.changing.is_empty() && !awaits_records;
    if lives && is_free && plan.decision != Decision::AddFinalizer {
        reconcile(input, &mut plan.background, &mut plan.told);
    }
    if input.policy.shows_outcomes {
        plan.context.outcomes = OutcomeConditions::of(input, &plan.background.memory);
    }
    let of_events = suspended.into_iter().map(|call| call.handler);
    plan.suspended.extend(of_events);
    plan.suspended.extend(not_called);
    plan
}

/// Plans only daemons and timers. Returns the plan and the reports.
pub(crate) fn plan_background(input: &Input<'_>) -> (BackgroundPlan, Vec<Handling>) {
    let mut told = Vec::new();
    let lives = matches!(life(input), Life::Living { .. });
    let planned = background(input, lives, &mut told);
    (planned, told)
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
            if let Some(change) = facts.change {
                handle(input, (reason, mode), change, plan);
            }
            return;
        }
    }
    plan.left = facts.change.map(|it| it.ledger).unwrap_or_default();
}

/// Selects the handlers, and picks those to call now.
fn handle(input: &Input<'_>, (reason, mode): (Reason, Mode), change: ChangeFacts, plan: &mut Plan) {
    let ChangeFacts { comparison, ledger, candidates } = change;
    let is_selected = |it: &&Candidate| match mode {
        Mode::Persisted => it.is_selected(reason, input.seen.is_initial()),
        Mode::Terminating | Mode::Gone => it.is_optional_deletion(),
    };
    let selected = candidates.iter().filter(is_selected);
    let selected: Vec<_> = selected.map(|it| it.handler.clone()).collect();
    let body = redact::body(input.body);
    plan.told.push(Handling::InProgress { reason, body });
    let is_known = reason != Reason::Create && !comparison.unknown;
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
        let mut candidates = candidates.iter();
        let candidate = candidates.find(|it| Arc::ptr_eq(&it.handler, &member.handler));
        member.own = candidate.and_then(|it| it.own.clone());
        let is_untold = member.own.as_ref().is_some_and(|own| own.unknown);
        if is_untold && !member.record.is_final() {
            let id = member.handler.id.clone();
            plan.told.push(Handling::FormerTooLarge { id });
        }
    }
    let comparison = cycle.comparison.clone();
    let call = |member: &Member| {
        let handler = &member.handler;
        let mut attempt = member.attempt(input.now);
        if handler.is_keyed {
            attempt.key = Some(key(input, reason, member, &comparison));
        }
        let own = member.own.as_deref();
        let comparison = own.unwrap_or_else(|| comparison.of(handler, Some(&member.record)));
        let change = comparison.change(Some(reason), handler.field());
        cause(input, handler, change, attempt)
    };
    let is_held = plan.context.is_held_in_background;
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
        HandlerCall::new(handler.clone(), context, first_attempt(input), subject)
    };
    let wants = |call: &HandlerCall| {
        let field = call.handler.field();
        let value = field.and_then(|field| field.resolve(input.body));
        call.handler.filtered(|filters| {
            filters.accept_object(input.body, field, Former::Known(value), value)
                && filters.when.as_ref().is_none_or(|when| when(call))
        })
    };
    let handlers = input.handlers.iter().filter(|it| it.is_for_events());
    handlers.map(call).filter(wants).collect()
}
