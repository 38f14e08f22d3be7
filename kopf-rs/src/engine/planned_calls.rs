//! Makes the calls of one plan, one after the other: raw-event handlers, then handlers of changes, each with its sub-handlers.
//!
//! Holds its own copy of the state that it needs, because the worker serves daemons and timers meanwhile. Must not know the content of writes.

use std::sync::Arc;

use crate::engine::context::WorkerContext;
use crate::engine::invoke::Cancelled;
use crate::engine::noted_calls::Noting;
use crate::engine::shared::Shared;
use crate::engine::subhandler_run::SubhandlerRun;
use crate::handler::definition::HandlerCall;
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::happening::handling::{Fate, Handling};
use crate::object::key::Key;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::plan::Plan;
use crate::reaction::settle::Attempted;

/// Makes the calls of plans for one object.
pub(super) struct PlannedCalls {
    shared: Arc<Shared>,
    key: Key,
    about: Arc<Reference>,
    logger: Logger,
}

impl PlannedCalls {
    pub(super) fn of(context: &WorkerContext) -> Self {
        Self {
            shared: context.shared.clone(),
            key: context.key.clone(),
            about: context.about.clone(),
            logger: context.logger().clone(),
        }
    }

    /// Makes the calls of a plan; raw-event handlers only if `watching`.
    ///
    /// # Errors
    ///
    /// Returns `Cancelled` only if the outcome of every call is unknown.
    pub(super) async fn make(
        &self,
        plan: &Plan,
        watching: bool,
        patch: &mut Patch,
    ) -> Result<Vec<Attempted>, Cancelled> {
        if watching {
            self.show_event(&plan.watching, patch).await?;
        }
        let mut attempted = Vec::with_capacity(plan.changing.len());
        for cause in &plan.changing {
            if !self.may_call() {
                break;
            }
            let Some(subhandler_plan) = plan.subhandler_plan(&cause.handler) else {
                break;
            };
            let (shared, key, about) = (&self.shared, &self.key, &self.about);
            let run = SubhandlerRun::new(shared.clone(), key.clone(), about.clone(), subhandler_plan);
            let mut changed = patch.clone();
            let noted = self.note(cause);
            let called = run.call(cause.clone(), &mut changed).await;
            noted.end(called.is_ok());
            if called.is_ok() {
                *patch = changed;
            }
            let subhandlers = run.end(patch);
            let stopped = called.is_err();
            if stopped && subhandlers.is_empty() && attempted.is_empty() {
                return Err(Cancelled);
            }
            if !stopped || !subhandlers.is_empty() {
                attempted.push(Attempted {
                    id: cause.handler.id.clone(),
                    outcome: called.unwrap_or(Outcome::Waiting),
                    subhandlers,
                });
            }
            if stopped {
                break;
            }
        }
        Ok(attempted)
    }

    /// Calls raw-event handlers.
    pub(super) async fn show_event(&self, calls: &[HandlerCall], patch: &mut Patch) -> Result<(), Cancelled> {
        for cause in calls {
            if self.may_call() {
                self.show_event_to(cause, patch).await?;
            }
        }
        Ok(())
    }

    /// Calls one raw-event handler. Its result goes to the status; its failure does not affect other handlers.
    async fn show_event_to(&self, cause: &HandlerCall, patch: &mut Patch) -> Result<(), Cancelled> {
        let mut changed = patch.clone();
        let Self { shared, key, about, .. } = self;
        let noted = self.note(cause);
        let called = shared.invoke(key, about, cause, &mut changed).await;
        noted.end(called.is_ok());
        let outcome = called?;
        *patch = changed;
        let handler = cause.handler.clone();
        if let Outcome::Succeeded(Some(result)) = &outcome {
            patch.put(&["status", &handler.id], result.clone());
        }
        let attempted = Handling::attempted(&handler, outcome, |_| Fate::Ignored);
        let handling = attempted.unwrap_or(Handling::WaitsForSubhandlers { handler });
        self.shared.report(&self.logger, &self.about, &handling);
        Ok(())
    }

    /// Returns whether another call may begin.
    fn may_call(&self) -> bool {
        self.shared.may_call(&self.key)
    }

    /// Notes a call that is about to be made. Returns the guard to end the note.
    fn note(&self, call: &HandlerCall) -> Noting<'_> {
        let setup = &self.shared.setup;
        setup.notes.begin(call, &self.about, &setup.persistence)
    }
}
