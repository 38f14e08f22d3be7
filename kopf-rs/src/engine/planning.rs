//! What a worker decides: the plan for the newest state, and what is to be written once its calls are made.
//!
//! Filters, lifecycles and storages of users run here, on the operator's own thread: a panic in them holds up the object alone, and an
//! object over which they have ended the process is left alone. Must not know what a plan is made of, nor call any handler.

use std::sync::Arc;

use crate::engine::duplicates::READDED_FINALIZERS;
use crate::engine::invoke::guarded;
use crate::engine::own_thread::{of_plan, of_settlement};
use crate::engine::worker::{Due, Worker};
use crate::handler::definition::Handler;
use crate::happening::abrupt_end::Stage;
use crate::happening::handling::Handling;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::reaction::input::Input;
use crate::reaction::plan::plan;
use crate::reaction::planned::Plan;
use crate::reaction::settle::{Attempted, Effects, settle};

/// Why there is no plan.
#[derive(Debug)]
pub(super) enum NoPlan {
    /// A filter, or the framework itself, has panicked.
    Panic(String),
    /// The object is left alone as it is.
    LeftAlone,
}

impl Worker {
    /// What to do, or why nothing can be said of it.
    pub(super) fn plan(
        &self,
        event: Option<EventType>,
        handlers: &[Arc<Handler>],
    ) -> Result<Plan, NoPlan> {
        let setup = &self.shared().setup;
        let body = self.raw.body();
        let body = body.map_err(|error| NoPlan::Panic(error.to_string()))?;
        if self.context.is_left_alone(&self.raw, &body) {
            return Err(NoPlan::LeftAlone);
        }
        let body = Arc::new(body);
        let input = Input {
            handlers,
            persistence: &setup.persistence,
            policy: &setup.policy,
            resource: &self.kind.resource,
            body: &body,
            event,
            seen: &self.memory.seen,
            background: self.memory.background().map(|it| &it.memory),
            surroundings: &self.surroundings,
            finalizer_is_contested: self.memory.lately.readded_finalizers >= READDED_FINALIZERS,
            withheld: &self.kind.withheld,
            suspended: &self.context.suspended(),
            now: setup.clock.now(),
            random: self.shared().rng().next_f64(),
        };
        let code = of_plan(&setup.persistence, &setup.policy.lifecycle, &self.kind);
        let planned = self
            .context
            .watched((Stage::Plan, code), &body, || guarded(|| plan(&input)));
        planned.map_err(NoPlan::Panic)
    }

    /// What is to be written now that the calls are made.
    pub(super) fn settle(
        &mut self,
        plan: Plan,
        attempted: Vec<Attempted>,
        patch: Patch,
    ) -> Result<Effects, Due> {
        let now = self.shared().setup.clock.now();
        let code = of_settlement(&self.shared().setup.persistence);
        let body = plan.body().clone();
        let settled = self.context.watched((Stage::Settlement, code), &body, || {
            guarded(|| settle(plan, attempted, patch, now))
        });
        match settled {
            Ok(mut effects) => {
                self.report_all(std::mem::take(&mut effects.told));
                for handler in &effects.failed {
                    self.shared().failed(handler, &self.context.about);
                }
                Ok(effects)
            }
            Err(panic) => Err(self.throttled(&panic)),
        }
    }

    /// Nothing is planned: when to look at the object again.
    pub(super) fn without_plan(&mut self, why: &NoPlan) -> Due {
        self.leave_background();
        match why {
            NoPlan::Panic(panic) => self.throttled(panic),
            NoPlan::LeftAlone => Due::Never,
        }
    }

    /// A filter, or the framework itself, has panicked.
    fn throttled(&mut self, panic: &str) -> Due {
        let pause = self.trouble.panics.next_pause(self.context.shared.rng());
        let text = panic.to_owned();
        self.report_handling(Handling::Throttled { panic: text, pause });
        self.trouble.panicked += 1;
        if self.gives_up(self.trouble.panicked) {
            let what = format!("{} cannot be handled: {panic}", self.kind.resource);
            self.shared().give_up(what);
            return Due::Never;
        }
        self.after(pause)
    }
}
