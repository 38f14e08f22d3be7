//! Runs one call of a handler and of the sub-handlers that it registers.
//!
//! `reaction` makes the decisions; this module makes the calls. Guarantees that the outcome of a sub-handler is reported, however its parent
//! ends. Must not know the content of writes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::context::own_thread::of_group;
use crate::engine::invoke::{Cancelled, guarded, outcome};
use crate::engine::shared::Shared;
use crate::engine::watchdog::watched;
use crate::handler::definition::HandlerCall;
use crate::handler::error::{HandlerResult, PermanentError};
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::handler::subhandlers::{Group, GroupFuture, RunGroup, Subhandlers, Unfinished};
use crate::happening::handling::Handling;
use crate::object::key::Key;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::progress_table::SubhandlerRecord;
use crate::reaction::subhandlers::{Progress, SubhandlerPlan};

/// One call of a handler of a change, with its sub-handlers of all levels. Clones share all state.
#[derive(Clone)]
pub(super) struct SubhandlerRun(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    key: Key,
    about: Arc<Reference>,
    /// `None` after the call has ended, which disables `Subhandlers` that user code has kept for longer.
    open: Mutex<Option<Open>>,
}

/// The state of the call so far.
struct Open {
    plan: SubhandlerPlan,
    patch: Patch,
}

/// Lines to log. They are logged on drop, so that they appear even if a filter or a lifecycle panics.
struct Found<'a> {
    of: &'a Inner,
    logger: &'a Logger,
    told: Vec<Handling>,
}

/// Runs groups for one parent.
struct Runner {
    run: SubhandlerRun,
    parent: HandlerCall,
}

/// The future of a call's outcome.
type Calling<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Cancelled>> + Send + 'a>>;

impl SubhandlerRun {
    pub(super) fn new(shared: Arc<Shared>, key: Key, about: Arc<Reference>, plan: SubhandlerPlan) -> Self {
        let patch = Patch::new();
        Self(Arc::new(Inner { shared, key, about, open: Mutex::new(Some(Open { plan, patch })) }))
    }

    /// Calls a handler, then those of its sub-handlers that it has not executed itself.
    pub(super) fn call<'a>(&'a self, mut call: HandlerCall, patch: &'a mut Patch) -> Calling<'a> {
        Box::pin(async move {
            let runner = Runner { run: self.clone(), parent: call.clone() };
            let subs = Subhandlers::lent(Some(Box::new(runner)));
            call.cause.lend_subhandlers(&subs);
            let Inner { shared, key, about, .. } = &*self.0;
            let called = shared.invoke(key, about, &call, patch).await;
            let result = match called? {
                Outcome::Succeeded(result) => result,
                other => return Ok(other),
            };
            if let Err(error) = subs.execute().await {
                return Ok(outcome(Err(error)));
            }
            let open = self.open();
            let left = open.as_ref().is_some_and(|open| open.plan.is_left(&call.handler.id));
            Ok(if left { Outcome::Waiting } else { Outcome::Succeeded(result) })
        })
    }

    /// Ends the call. Returns the records of the sub-handlers, and adds their changes to `patch`.
    pub(super) fn end(self, patch: &mut Patch) -> Vec<SubhandlerRecord> {
        let Some(Open { plan, patch: own }) = self.open().take() else {
            return Vec::new();
        };
        patch.absorb(own);
        plan.into_records()
    }

    /// Runs one pass over a group. Fails with `Unfinished` while a sub-handler has not ended, and permanently if one has failed.
    async fn run(&self, parent: &HandlerCall, group: Group) -> HandlerResult {
        let clock = self.0.shared.setup.clock;
        let Group { callbacks, lifecycle, tolerant } = group;
        let code = of_group(&callbacks, lifecycle.as_ref());
        let begin = |plan: &mut SubhandlerPlan, told: &mut Vec<Handling>| {
            let now = clock.now();
            let places = plan.register(parent, callbacks, now, told);
            let places = places.map_err(PermanentError::new)?;
            let calls = plan.pick(&places, parent, lifecycle.as_ref(), now, told);
            Ok((places, calls))
        };
        let picked = watched(code, parent.logger(), || {
            // A panic in a filter or a lifecycle of the user, within the parent's call or after it, is an error of the parent.
            guarded(|| self.with(parent, begin))
        });
        let (places, calls) = picked??;
        for (place, cause) in calls {
            let Inner { shared, key, .. } = &*self.0;
            if !shared.may_call(key) {
                return Err(Unfinished.into());
            }
            let mut patch = Patch::new();
            let called = self.call(cause, &mut patch).await;
            let Ok(outcome) = called else {
                return Err(Unfinished.into());
            };
            if let Some(open) = self.open().as_mut() {
                open.patch.absorb(patch);
            }
            self.with(parent, |plan, told| {
                told.append(&mut plan.attempted(place, outcome, clock.now()));
                Ok(())
            })?;
        }
        match self.with(parent, |plan, _| Ok(plan.progress(&places)))? {
            Progress::Done => Ok(()),
            Progress::Left => Err(Unfinished.into()),
            Progress::Failed(_) if tolerant => Ok(()),
            Progress::Failed(told) => {
                let text = format!("sub-handlers have failed: {told}");
                Err(PermanentError::new(text).into())
            }
        }
    }

    /// Consults the plan, and logs the lines that it produces.
    fn with<T>(
        &self,
        parent: &HandlerCall,
        ask: impl FnOnce(&mut SubhandlerPlan, &mut Vec<Handling>) -> HandlerResult<T>,
    ) -> HandlerResult<T> {
        let mut found = Found { of: &self.0, logger: parent.logger(), told: Vec::new() };
        match self.open().as_mut() {
            Some(open) => ask(&mut open.plan, &mut found.told),
            None => Err(PermanentError::new("the handler of these sub-handlers has ended").into()),
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        for handling in self.told.drain(..) {
            self.of.shared.report(self.logger, &self.of.about, &handling);
        }
    }
}

impl RunGroup for Runner {
    fn run(&self, group: Group) -> GroupFuture {
        let (run, parent) = (self.run.clone(), self.parent.clone());
        Box::pin(async move { run.run(&parent, group).await })
    }
}
