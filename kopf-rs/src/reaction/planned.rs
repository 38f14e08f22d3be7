//! A plan: the calls to make now, and the data that `settle` needs.

use std::sync::Arc;
use std::time::Duration;

use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::lifecycle::Lifecycle;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::reaction::background_plan::BackgroundPlan;
use crate::reaction::cycle::Cycle;
use crate::reaction::decision::{Decision, Mode};
use crate::reaction::memory::ObjectMemory;
use crate::reaction::outcome_conditions::OutcomeConditions;
use crate::reaction::progress_table::Ledger;
use crate::reaction::subhandlers::{Difference, SubhandlerPlan};
use crate::state::Persistence;

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
    pub(super) context: PlanContext,
}

/// The part of the plan that `settle` needs for every decision.
pub(super) struct PlanContext {
    pub(super) persistence: Persistence,
    pub(super) lifecycle: Lifecycle,
    pub(super) backoff: (Duration, Duration),
    pub(super) random: f64,
    pub(super) body: Arc<Body>,
    pub(super) gone: bool,
    /// True if daemons and timers block the deletion of the object.
    pub(super) is_held_in_background: bool,
    /// Set if the outcomes of handlers are shown as conditions.
    pub(super) outcomes: Option<OutcomeConditions>,
    pub(super) seen: ObjectMemory,
}

impl Plan {
    /// Updates the plan after daemons and timers have continued during the calls: with their requested changes, and whether they block the
    /// object's deletion.
    pub(crate) fn background_went_on(&mut self, seen: &ObjectMemory, is_held: bool) {
        self.context.seen.want_in_background_as(seen);
        self.context.is_held_in_background = is_held;
    }

    /// Returns true if the object no longer exists.
    pub(crate) fn is_of_gone_object(&self) -> bool {
        self.context.gone
    }

    /// Returns the object for which this was planned.
    pub(crate) fn body(&self) -> &Arc<Body> {
        &self.context.body
    }

    /// Returns the plan for the sub-handlers of one call of [`changing`](Self::changing).
    pub(crate) fn subhandler_plan(&self, parent: &Handler) -> Option<SubhandlerPlan> {
        let cycle = self.cycle.as_ref()?;
        let mut members = cycle.members.iter();
        let member = members.find(|it| it.handler.id == parent.id)?;
        let comparison = cycle.comparison.of(&member.handler, Some(&member.record));
        let is_now_or_never = cycle.mode == Mode::Gone || (cycle.is_persisted_deletion() && !member.holds);
        Some(SubhandlerPlan {
            persistence: self.context.persistence.clone(),
            body: self.context.body.clone(),
            held: self.context.seen.records().cloned().unwrap_or_default(),
            reason: cycle.reason,
            gone: cycle.mode == Mode::Gone,
            now_or_never: is_now_or_never.then_some(Lifecycle::AllAtOnce),
            goes_on: cycle.goes_on(),
            only_resumes: member.only_resumes,
            difference: if member.record.is_owed {
                Difference::Missed
            } else if comparison.unknown {
                Difference::Unknown
            } else {
                Difference::Known
            },
            passed: cycle.comparison.passed_target(parent),
            seen: cycle.comparison.observed_by(parent),
            lifecycle: self.context.lifecycle.clone(),
            backoff: self.context.backoff,
            random: self.context.random,
            subhandlers: Vec::new(),
        })
    }
}
