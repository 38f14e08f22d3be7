//! Makes the calls of one plan, one after the other: raw-event handlers, then handlers of changes, each with its sub-handlers.
//!
//! `reaction` decides about sub-handlers; this module makes the calls. Guarantees that the outcome of a sub-handler is reported, however its
//! parent ends. Holds its own copy of the state that it needs, because the worker serves daemons and timers meanwhile. Must not know the
//! content of writes.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::attempt::attempt;
use crate::engine::context::WorkerContext;
use crate::engine::context::own_thread::of_group;
use crate::engine::invoke::{Cancelled, guarded, outcome};
use crate::engine::mailbox::Mailbox;
use crate::engine::memory::Version;
use crate::engine::noted_calls::Noting;
use crate::engine::report::report;
use crate::engine::shared::Shared;
use crate::engine::watchdog::watched;
use crate::handler::definition::HandlerCall;
use crate::handler::error::{HandlerResult, PermanentError};
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::handler::subhandlers::{Group, GroupFuture, RunGroup, Subhandlers, Unfinished};
use crate::happening::handling::{Fate, Handling};
use crate::happening::operating::Leasing;
use crate::object::key::Key;
use crate::object::lazy_json::Outline;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::plan::Plan;
use crate::reaction::progress_table::SubhandlerRecord;
use crate::reaction::settle::Attempted;
use crate::reaction::subhandlers::{Progress, SubhandlerPlan};

/// Calls the handlers of one object.
#[derive(Clone)]
pub(super) struct Caller {
    shared: Arc<Shared>,
    key: Key,
    about: Arc<Reference>,
    logger: Logger,
}

impl Caller {
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
            let run = SubhandlerRun::new(self.clone(), subhandler_plan);
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

    /// Calls raw-event handlers. Their results go to the status; a failure does not affect other handlers.
    pub(super) async fn show_event(&self, calls: &[HandlerCall], patch: &mut Patch) -> Result<(), Cancelled> {
        for cause in calls.iter().take_while(|_| self.may_call()) {
            let mut changed = patch.clone();
            let noted = self.note(cause);
            let called = self.invoke(cause, &mut changed).await;
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
        }
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

    /// Makes one attempt of a handler, and reports it while it runs.
    async fn invoke(&self, cause: &HandlerCall, patch: &mut Patch) -> Result<Outcome, Cancelled> {
        let Self { shared, about, .. } = self;
        let calls = shared.setup.calls.as_ref();
        let _in_flight = calls.map(|it| {
            let version = &cause.body()["metadata"]["resourceVersion"];
            let version = Version::of(version.as_str().unwrap_or_default());
            it.begin(&cause.handler.id, about, version)
        });
        let called = attempt(&shared.invoker, about, cause, patch, || self.is_deletion_waiting());
        if shared.setup.cluster.term().is_none() {
            return called.await;
        }
        let over = shared.term_over.lock().clone();
        // The term may have ended on another thread since the caller looked, or while the process was frozen.
        if shared.queue.stands_by() || !shared.setup.cluster.may_begin() {
            return Err(Cancelled);
        }
        tokio::select! {
            biased;
            called = called => called,
            () = over.cancelled() => {
                let handler = cause.handler.to_string();
                report(cause.logger(), &Leasing::CutOff { handler });
                Err(Cancelled)
            }
        }
    }

    /// Returns whether the state that waits for the object is a deletion or marks it for deletion.
    fn is_deletion_waiting(&self) -> bool {
        let state = |mailbox: &Mailbox| {
            let state = mailbox.state()?;
            Some((state.is_deletion(), state.raw.clone()))
        };
        let waiting = self.shared.queue.peek(&self.key, state).flatten();
        waiting.is_some_and(|(is_deleted, raw)| {
            is_deleted || Outline::of(&raw).is_some_and(|outline| outline.is_deleting())
        })
    }
}

/// One call of a handler of a change, with its sub-handlers of all levels. Clones share all state.
#[derive(Clone)]
struct SubhandlerRun(Arc<Inner>);

struct Inner {
    caller: Caller,
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
    fn new(caller: Caller, plan: SubhandlerPlan) -> Self {
        let open = Open { plan, patch: Patch::new() };
        Self(Arc::new(Inner { caller, open: Mutex::new(Some(open)) }))
    }

    /// Calls a handler, then those of its sub-handlers that it has not executed itself.
    fn call<'a>(&'a self, mut call: HandlerCall, patch: &'a mut Patch) -> Calling<'a> {
        Box::pin(async move {
            let runner = Runner { run: self.clone(), parent: call.clone() };
            let subs = Subhandlers::lent(Some(Box::new(runner)));
            call.cause.lend_subhandlers(&subs);
            let result = match self.0.caller.invoke(&call, patch).await? {
                Outcome::Succeeded(result) => result,
                other => return Ok(other),
            };
            if let Err(error) = subs.execute().await {
                return Ok(outcome(Err(error)));
            }
            let open = self.0.open.lock();
            let left = open.as_ref().is_some_and(|open| open.plan.is_left(&call.handler.id));
            Ok(if left { Outcome::Waiting } else { Outcome::Succeeded(result) })
        })
    }

    /// Ends the call. Returns the records of the sub-handlers, and adds their changes to `patch`.
    fn end(self, patch: &mut Patch) -> Vec<SubhandlerRecord> {
        let Some(Open { plan, patch: own }) = self.0.open.lock().take() else {
            return Vec::new();
        };
        patch.absorb(own);
        plan.into_records()
    }

    /// Runs one pass over a group. Fails with `Unfinished` while a sub-handler has not ended, and permanently if one has failed.
    async fn run(&self, parent: &HandlerCall, group: Group) -> HandlerResult {
        let clock = self.0.caller.shared.setup.clock;
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
            if !self.0.caller.may_call() {
                return Err(Unfinished.into());
            }
            let mut patch = Patch::new();
            let called = self.call(cause, &mut patch).await;
            let Ok(outcome) = called else {
                return Err(Unfinished.into());
            };
            if let Some(open) = self.0.open.lock().as_mut() {
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
        match self.0.open.lock().as_mut() {
            Some(open) => ask(&mut open.plan, &mut found.told),
            None => Err(PermanentError::new("the handler of these sub-handlers has ended").into()),
        }
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        for handling in self.told.drain(..) {
            let Caller { shared, about, .. } = &self.of.caller;
            shared.report(self.logger, about, &handling);
        }
    }
}

impl RunGroup for Runner {
    fn run(&self, group: Group) -> GroupFuture {
        let (run, parent) = (self.run.clone(), self.parent.clone());
        Box::pin(async move { run.run(&parent, group).await })
    }
}
