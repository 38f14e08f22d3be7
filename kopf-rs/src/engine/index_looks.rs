//! Looks at the states of objects for the indices, before any handler sees them.
//!
//! A state is looked at where it comes in: by the watch, before it is put into the queue; or by the worker that has read or written the object.
//! Plain functions are called on the spot. Where a function is async, a task of its own makes the calls, which needs no place in the worker
//! limit. Must not know what an outcome means, nor who waits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::attempt::attempt;
use crate::engine::indexing::objects::IndexRun;
use crate::engine::invoke::{Cancelled, guarded, invoke_at_once};
use crate::engine::key::Key;
use crate::engine::queue::StreamId;
use crate::engine::report::{about, report};
use crate::engine::resource_handlers::{IndexFunctions, ResourceHandlers};
use crate::engine::shared::Shared;
use crate::engine::turns::TurnPermit;
use crate::engine::watchdog::watched;
use crate::handler::cause::CauseContext;
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::handler::subject::SubjectObject;
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::happening::user_code::UserCode;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::reaction::indexing::{Effect, IndexAttempts, IndexLook};
use crate::reaction::judge::Judge;

/// Handlers of an object wait for its index functions: a call that takes longer is cut off, unless its function has a `timeout` of its own.
const LONGEST_CALL: Duration = Duration::from_secs(60);

impl Shared {
    /// Take in what a watch tells, before the queue does.
    pub(super) fn index_event(self: &Arc<Self>, stream: StreamId, event: &WatchEvent) {
        let now = Instant::now();
        let run = self
            .indexing
            .change(|objects| objects.on_event(stream, event, now));
        self.index(run);
    }

    /// Take in what the server has said of an object to a read or a write.
    pub(super) fn index_answer(self: &Arc<Self>, key: &Key, kind: &ResourceHandlers, raw: &Raw) {
        if kind.indexers.is_empty() {
            return;
        }
        let now = Instant::now();
        let run = self
            .indexing
            .change(|objects| objects.answered(key, raw, now));
        self.index(run);
    }

    fn index(self: &Arc<Self>, mut next: Option<IndexRun>) {
        while let Some(mut run) = next {
            if run.kind.has_async_indexers() {
                self.index_later(run);
                return;
            }
            // Nothing in it waits.
            let Some(Some(effects)) = self.look(&mut run).now_or_never() else {
                return;
            };
            next = self.indexing.change(|objects| objects.ended(run, effects));
        }
    }

    /// In a task of its own, which ends with the operator.
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
                    turn.give_back();
                    next = shared
                        .indexing
                        .change(|objects| objects.ended(run, effects));
                }
            };
            // Boxed: `select!` would store it twice.
            let all = Box::pin(all);
            tokio::select! {
                biased;
                () = shared.gate.closed() => {}
                () = shared.ended.cancelled() => {}
                () = all => {}
            }
        });
    }

    /// Call the functions for a state. What becomes of each index; `None` where the operator stops.
    async fn look(&self, run: &mut IndexRun) -> Option<Vec<Effect>> {
        let kind = run.kind.clone();
        let Ok(body) = run.raw.body() else {
            // It cannot be handled either, which is told then.
            return Some(kind.indexers.iter().map(|_| Effect::Clear).collect());
        };
        let about = Arc::new(about(&kind.resource, run.raw.facts()));
        let looking = Looking {
            shared: self,
            about: about.clone(),
            object: SubjectObject {
                resource: kind.resource.clone(),
                body: Arc::new(body),
            },
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
                report(&looking.context.logger, &Happening::Handling(handling));
            }
            effects.push(effect.ok()?);
        }
        Some(effects)
    }
}

/// A look at one state of an object.
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
        let chosen = self.watched(functions, || {
            guarded(|| look.call(handlers, attempts, told))
        });
        let chosen = match chosen {
            Ok(Some(chosen)) => chosen,
            Ok(None) => return Ok(Effect::Clear),
            Err(panic) => return Ok(look.panicked(handlers, panic, attempts, told)),
        };
        let call = &chosen.call;
        let outcome = if call.handler.is_blocking() {
            self.watched(functions, || invoke_at_once(call, &self.about))
        } else {
            let Shared { invoker, setup, .. } = self.shared;
            let mut none = Patch::new();
            let attempt = attempt(invoker, setup.clock, &self.about, call, &mut none, || false);
            let longest = call
                .handler
                .timeout()
                .unwrap_or(LONGEST_CALL)
                .max(LONGEST_CALL);
            // Boxed: what is moved into a future is stored in it twice.
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
        watched(code, &self.context.logger, &self.about.uid, part)
    }
}
