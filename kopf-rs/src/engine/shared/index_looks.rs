//! Calls index functions for states of objects, before any handler sees these states.
//!
//! A state is examined where it arrives: in the watch, before the queue takes it; or in the worker that has read or written the object.
//! Synchronous functions are called on the spot. Async functions are called by a task of their own, which needs no worker permit. Must not
//! know what an outcome means, nor who waits for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::attempt::attempt;
use crate::engine::indexing::objects::IndexRun;
use crate::engine::invoke::{Cancelled, guarded, invoke_at_once};
use crate::engine::object_table::StreamId;
use crate::engine::report::about;
use crate::engine::resource_handlers::{IndexFunctions, ResourceHandlers};
use crate::engine::shared::Shared;
use crate::engine::turns::TurnPermit;
use crate::engine::watchdog::watched;
use crate::handler::cause::CauseContext;
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::handler::subject::SubjectObject;
use crate::happening::calls::UserCode;
use crate::happening::handling::Handling;
use crate::object::key::Key;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::indexing::{Effect, IndexAttempts, IndexLook};
use crate::reaction::judge::Judge;

/// The time limit of a call, unless the function has a longer `timeout` of its own. Handlers of the object wait for its index functions, so
/// a call must not take for ever.
const LONGEST_CALL: Duration = Duration::from_secs(60);

impl Shared {
    /// Processes one event of a watch, before the queue does.
    pub(in crate::engine) fn index_event(self: &Arc<Self>, stream: StreamId, event: &WatchEvent) {
        let now = Instant::now();
        let run = self.indexing.change(|objects| objects.on_event(stream, event, now));
        self.index(run);
        self.owners.call_late_readers();
    }

    /// Processes the state of an object from the answer to a read or a write.
    pub(in crate::engine) fn index_answer(self: &Arc<Self>, key: &Key, kind: &ResourceHandlers, raw: &Raw) {
        if kind.indexers.is_empty() {
            return;
        }
        let now = Instant::now();
        let run = self.indexing.change(|objects| objects.answered(key, raw, now));
        self.index(run);
        self.owners.call_late_readers();
    }

    fn index(self: &Arc<Self>, mut next: Option<IndexRun>) {
        while let Some(mut run) = next {
            if run.kind.has_async_indexers() {
                self.index_later(run);
                return;
            }
            // Without async functions, the future never suspends.
            let Some(Some(effects)) = self.look(&mut run).now_or_never() else {
                return;
            };
            next = self.indexing.change(|objects| objects.ended(run, effects));
        }
    }

    /// Runs the calls in a task of their own, which ends with the operator.
    fn index_later(self: &Arc<Self>, run: IndexRun) {
        let shared = self.clone();
        self.tasks.spawn(async move {
            let mut next = Some(run);
            let all = async {
                while let Some(mut run) = next.take() {
                    let turn = TurnPermit::default();
                    shared.indexing.turns.begin(&turn).await;
                    let looking = turn.held_for(TurnPermit::CALLS, shared.look(&mut run));
                    let Some(effects) = looking.await else {
                        return;
                    };
                    turn.release();
                    next = shared.indexing.change(|objects| objects.ended(run, effects));
                    shared.owners.call_late_readers();
                }
            };
            // Boxed because `select!` would store the future twice.
            let all = Box::pin(all);
            tokio::select! {
                biased;
                () = shared.gate.closed() => {}
                () = shared.ended.cancelled() => {}
                () = all => {}
            }
        });
    }

    /// Calls the functions for a state. Returns the effect on each index; `None` if the operator stops.
    async fn look(&self, run: &mut IndexRun) -> Option<Vec<Effect>> {
        let kind = run.kind.clone();
        let Ok(body) = run.raw.body() else {
            // An unreadable object cannot be handled either, which the worker reports.
            return Some(kind.indexers.iter().map(|_| Effect::Clear).collect());
        };
        let about = Arc::new(about(&kind.resource, run.raw.facts()));
        let looking = Looking {
            shared: self,
            about: about.clone(),
            object: SubjectObject { resource: kind.resource.clone(), body: Arc::new(body) },
            context: CauseContext {
                logger: Logger::of(about),
                memo: run.memo.clone(),
                extensions: self.setup.extensions.clone(),
            },
        };
        let mut effects = Vec::with_capacity(kind.indexers.len());
        for (functions, attempts) in kind.indexers.iter().zip(&mut run.attempts) {
            let mut told = Vec::new();
            let effect = looking.call(functions, attempts, &mut told).await;
            for handling in told {
                self.report(&looking.context.logger, &looking.about, &handling);
            }
            effects.push(effect.ok()?);
        }
        Some(effects)
    }
}

/// The examination of one state of an object.
struct Looking<'a> {
    shared: &'a Shared,
    about: Arc<Reference>,
    object: SubjectObject,
    context: CauseContext,
}

impl Looking<'_> {
    async fn call(
        &self,
        functions: &IndexFunctions,
        attempts: &mut IndexAttempts,
        told: &mut Vec<Handling>,
    ) -> Result<Effect, Cancelled> {
        let look = self.at_this_moment();
        let handlers = &functions.handlers;
        let chosen = self.watched(functions, || guarded(|| look.call(handlers, attempts, told)));
        let chosen = match chosen {
            Ok(Some(chosen)) => chosen,
            Ok(None) => return Ok(Effect::Clear),
            Err(panic) => return Ok(look.panicked(handlers, panic, attempts, told)),
        };
        let call = &chosen.call;
        let outcome = if call.handler.is_blocking() {
            self.watched(functions, || invoke_at_once(call, &self.about))
        } else {
            let (invoker, mut none) = (&self.shared.invoker, Patch::new());
            let attempt = attempt(invoker, &self.about, call, &mut none, || false);
            let timeout = call.handler.retry.timeout;
            let longest = timeout.map_or(LONGEST_CALL, |it| it.max(LONGEST_CALL));
            // Boxed because a future that is moved into another one is stored twice.
            match tokio::time::timeout(longest, Box::pin(attempt)).await {
                Ok(outcome) => outcome?,
                Err(_) => Outcome::Arbitrary {
                    message: format!("it has not returned within {} seconds", longest.as_secs()),
                },
            }
        };
        Ok(self.at_this_moment().ended(chosen, outcome, attempts, told))
    }

    fn at_this_moment(&self) -> IndexLook<'_> {
        let setup = &self.shared.setup;
        IndexLook {
            object: &self.object,
            context: &self.context,
            judge: Judge {
                now: setup.clock.now(),
                backoff: setup.policy.backoff,
                random: self.shared.rng().next_f64(),
            },
        }
    }

    fn watched<T>(&self, functions: &IndexFunctions, part: impl FnOnce() -> T) -> T {
        let code = vec![UserCode::Indexers([functions.id.clone()].into())];
        watched(code, &self.context.logger, part)
    }
}
