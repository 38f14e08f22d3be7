//! Sub-handlers at work: one call of a handler, with all that it runs within.
//!
//! Decisions are the nest's; here things are called. Promises that what a sub-handler has done is told however its parent ends.
//! Must not know what is written.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Shared;
use crate::engine::invoke::{Cancelled, outcome};
use crate::engine::key::Key;
use crate::handler::cause::Cause;
use crate::handler::error::{HandlerResult, PermanentError};
use crate::handler::outcome::Outcome;
use crate::handler::subhandlers::{Group, GroupFuture, RunGroup, Subhandlers, Unfinished};
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::children::{Nest, Offspring, Progress};
use crate::reaction::settle::Line;

/// One call of a handler of a change, and its sub-handlers of all levels. Clones share it.
#[derive(Clone)]
pub(super) struct Brood(Arc<Family>);

struct Family {
    shared: Arc<Shared>,
    key: Key,
    about: Arc<Reference>,
    /// Nothing once the call has ended: whoever kept the sub-handlers is late.
    young: Mutex<Option<Young>>,
}

struct Young {
    nest: Nest,
    patch: Patch,
}

/// Runs groups for one parent.
struct Runner {
    brood: Brood,
    parent: Cause,
}

/// The outcome of a call in the making.
type Calling<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Cancelled>> + Send + 'a>>;

impl Brood {
    pub(super) fn new(shared: Arc<Shared>, key: Key, about: Arc<Reference>, nest: Nest) -> Self {
        let patch = Patch::new();
        Self(Arc::new(Family {
            shared,
            key,
            about,
            young: Mutex::new(Some(Young { nest, patch })),
        }))
    }

    /// Call a handler, then those of its sub-handlers that it has not executed itself.
    pub(super) fn call<'a>(&'a self, mut cause: Cause, patch: &'a mut Patch) -> Calling<'a> {
        Box::pin(async move {
            let runner = Runner {
                brood: self.clone(),
                parent: cause.clone(),
            };
            let subs = Subhandlers::lent(Some(Box::new(runner)));
            cause.lend_subhandlers(&subs);
            let Family {
                shared, key, about, ..
            } = &*self.0;
            let called = shared.invoke(key, about, &cause, patch).await;
            let result = match called? {
                Outcome::Succeeded(result) => result,
                other => return Ok(other),
            };
            if let Err(error) = subs.execute().await {
                return Ok(outcome(Err(error)));
            }
            let young = self.young();
            let left = young
                .as_ref()
                .is_some_and(|young| young.nest.is_left(&cause.handler.id));
            Ok(if left {
                Outcome::Waiting
            } else {
                Outcome::Succeeded(result)
            })
        })
    }

    /// What the sub-handlers have come to, and what they want changed.
    pub(super) fn end(self, patch: &mut Patch) -> Vec<Offspring> {
        let Some(Young { nest, patch: own }) = self.young().take() else {
            return Vec::new();
        };
        patch.absorb(own);
        nest.into_children()
    }

    /// One pass over a group.
    async fn run(&self, parent: &Cause, group: Group) -> HandlerResult {
        let clock = self.0.shared.setup.clock;
        let Group {
            callbacks,
            lifecycle,
            tolerant,
        } = group;
        let (places, calls) = self.with(parent, |nest, lines| {
            let now = clock.now();
            let places = nest.enroll(parent, callbacks, now, lines);
            let places = places.map_err(PermanentError::new)?;
            let calls = nest.pick(&places, parent, lifecycle.as_ref(), now, lines);
            Ok((places, calls))
        })?;
        for (place, cause) in calls {
            let mut patch = Patch::new();
            let called = self.call(cause, &mut patch).await;
            let Ok(outcome) = called else {
                return Err(Unfinished.into());
            };
            if let Some(young) = self.young().as_mut() {
                young.patch.absorb(patch);
            }
            self.with(parent, |nest, lines| {
                lines.append(&mut nest.attempted(place, outcome, clock.now()));
                Ok(())
            })?;
        }
        match self.with(parent, |nest, _| Ok(nest.progress(&places)))? {
            Progress::Done => Ok(()),
            Progress::Left => Err(Unfinished.into()),
            Progress::Failed(_) if tolerant => Ok(()),
            Progress::Failed(told) => {
                let text = format!("sub-handlers have failed: {told}");
                Err(PermanentError::new(text).into())
            }
        }
    }

    /// Ask the nest, and log what it has to say.
    fn with<T>(
        &self,
        parent: &Cause,
        ask: impl FnOnce(&mut Nest, &mut Vec<Line>) -> HandlerResult<T>,
    ) -> HandlerResult<T> {
        let mut lines = Vec::new();
        let asked = match self.young().as_mut() {
            Some(young) => ask(&mut young.nest, &mut lines),
            None => Err(PermanentError::new("the handler of these sub-handlers has ended").into()),
        };
        for Line { level, text, .. } in lines {
            parent.logger().log(level, format_args!("{text}"));
        }
        asked
    }

    fn young(&self) -> MutexGuard<'_, Option<Young>> {
        self.0.young.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunGroup for Runner {
    fn run(&self, group: Group) -> GroupFuture {
        let (brood, parent) = (self.brood.clone(), self.parent.clone());
        Box::pin(async move { brood.run(&parent, group).await })
    }
}
