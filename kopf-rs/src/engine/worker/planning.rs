//! The worker's decisions: the plan for the newest state, and the writes that follow from its calls.
//!
//! Filters, lifecycles and storages of users run here, on the operator's own thread. A panic in them holds up one object only, and an object
//! on which they have crashed the process is quarantined. Must not know what a plan contains, nor call handlers.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::context::own_thread::{of_plan, of_settlement};
use crate::engine::invoke::guarded;
use crate::engine::mailbox::Snapshot;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::worker::{Due, Worker};
use crate::handler::cause::Cause;
use crate::handler::definition::Handler;
use crate::handler::timing::Pause;
use crate::happening::calls::Stage;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::reaction::background_plan::BackgroundPlan;
use crate::reaction::input::Input;
use crate::reaction::plan::{Plan, plan, plan_background};
use crate::reaction::settle::{Attempted, Effects, settle};

/// Why there is no plan.
#[derive(Debug)]
pub(super) enum NoPlan {
    /// A filter or the framework itself has panicked.
    Panic(String),
    /// The object is quarantined in its present state.
    LeftAlone,
}

/// Asks a function of the user for a duration.
pub(super) fn ask_pause(pause: &Pause, cause: &Cause) -> Result<Duration, String> {
    guarded(|| pause.length(cause))
}

impl Worker {
    /// Returns the plan, or the reason why there is none.
    pub(super) fn plan(&self, event: Option<EventType>, handlers: &[Arc<Handler>]) -> Result<Plan, NoPlan> {
        let decide = |input: Input<'_>| plan(&Input { handlers, event, ..input });
        Ok(self.decide(&self.raw, &self.kind, decide)?.0)
    }

    /// Returns the plan for the final write, which calls no handlers.
    pub(super) fn last_plan(&self) -> Result<Plan, NoPlan> {
        let decide = |input: Input<'_>| plan(&Input { background_is_over: true, ..input });
        Ok(self.decide(&self.raw, &self.kind, decide)?.0)
    }

    /// Returns the plan for daemons and timers of the object in this state, and the state as a tree. Reconcilers are called only if `is_free`.
    pub(super) fn background_plan(
        &self,
        state: &Snapshot,
        is_free: bool,
    ) -> Result<(BackgroundPlan, Arc<Body>), NoPlan> {
        self.decide(&state.raw, &state.kind, |input| plan_background(&input, is_free))
    }

    /// Makes a decision about the object in a state with all its handlers. Returns it together with the state as a tree.
    fn decide<T>(
        &self,
        raw: &Raw,
        kind: &ResourceHandlers,
        decide: impl FnOnce(Input<'_>) -> T,
    ) -> Result<(T, Arc<Body>), NoPlan> {
        let setup = &self.shared().setup;
        let body = raw.body();
        let body = body.map_err(|error| NoPlan::Panic(error.to_string()))?;
        if self.context.is_left_alone(raw, &body) {
            return Err(NoPlan::LeftAlone);
        }
        let body = Arc::new(body);
        let input = Input {
            handlers: &kind.handlers,
            persistence: &setup.persistence,
            policy: &setup.policy,
            resource: &kind.resource,
            body: &body,
            event: None,
            seen: &self.memory.seen,
            background: self.memory.background().map(|it| &it.memory),
            background_is_over: false,
            surroundings: &self.surroundings,
            finalizer_is_contested: self.memory.recent.is_finalizer_contested(),
            withheld: &kind.withheld,
            suspended: &self.context.suspended(),
            ask_pause,
            now: setup.clock.now(),
            wall_ahead: self.shared().wall.ahead(),
            random: self.shared().rng().next_f64(),
        };
        let code = of_plan(&setup.persistence, &setup.policy.lifecycle, kind);
        let decided = self.context.watched((Stage::Plan, code), &body, || guarded(|| decide(input)));
        let decided = decided.map_err(NoPlan::Panic)?;
        Ok((decided, body))
    }

    /// Returns the writes that follow from the calls.
    pub(super) fn settle(
        &mut self,
        plan: Plan,
        attempted: Vec<Attempted>,
        patch: Patch,
    ) -> Result<Effects, Due> {
        let now = self.shared().setup.clock.now();
        let code = of_settlement(&self.shared().setup.persistence);
        let body = plan.body().clone();
        let settled = self
            .context
            .watched((Stage::Settlement, code), &body, || guarded(|| settle(plan, attempted, patch, now)));
        match settled {
            Ok(mut effects) => {
                self.report_all(std::mem::take(&mut effects.told));
                for handler in &effects.failed {
                    self.shared().failures.add(handler, &self.context.about);
                }
                Ok(effects)
            }
            Err(panic) => Err(self.throttled(&panic)),
        }
    }

    /// Handles a missing plan. Returns when to requeue the object.
    pub(super) fn without_plan(&mut self, why: &NoPlan) -> Due {
        self.leave_background();
        match why {
            NoPlan::Panic(panic) => self.throttled(panic),
            NoPlan::LeftAlone => Due::Never,
        }
    }

    /// Handles a panic of a filter or of the framework itself: retries with a back-off. Returns when to requeue the object.
    fn throttled(&mut self, panic: &str) -> Due {
        let pause = self.trouble.panics.next_pause(self.context.shared.rng());
        let text = panic.to_owned();
        self.context.report(&Handling::Throttled { panic: text, pause });
        if self.gives_up(self.trouble.panics.failures()) {
            let what = format!("{} cannot be handled: {panic}", self.kind.resource);
            self.shared().give_up(what);
            return Due::Never;
        }
        self.after(pause)
    }
}
