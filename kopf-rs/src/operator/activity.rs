//! Startup and cleanup: handlers of the operator itself, retried in memory until all have ended.
//!
//! What an attempt means is judged as for handlers of objects. Must not know when activities are due.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::attempt::attempt as call_once;
use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::report::report;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::handler::subject::Activity;
use crate::handler::subject::Subject;
use crate::happening::Happening;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::judge::Judge;
use crate::reaction::member::{Exhausted, attempt};
use crate::rt::clock::Clock;
use crate::rt::rng::Rng;
use crate::state::progress::Record;

/// Runs activities.
pub(crate) struct Activities<'a> {
    pub(crate) activity: Activity,
    pub(crate) invoker: &'a Invoker,
    pub(crate) clock: Clock,
    pub(crate) rng: &'a Rng,
    /// With the logger of the activity.
    pub(crate) context: CauseContext,
    /// First and longest delay after arbitrary errors.
    pub(crate) backoff: (Duration, Duration),
}

/// A handler and its progress.
type Run = (Arc<Handler>, Record);

impl Activities<'_> {
    /// Call `handlers`, again and again as they want, until each has succeeded or failed for good. Which have failed?
    pub(crate) async fn run(&self, handlers: Vec<Arc<Handler>>) -> Result<(), Vec<Arc<str>>> {
        let now = self.clock.now();
        let begun = |handler| (handler, Record::begun(now));
        let mut runs: Vec<Run> = handlers.into_iter().map(begun).collect();
        while let Some(due) = next_due(&runs) {
            tokio::time::sleep_until(self.clock.instant(due)).await;
            for (handler, record) in &mut runs {
                if record.is_due(self.clock.now()) {
                    self.attempt(handler, record).await;
                }
            }
        }
        let failed = runs.into_iter().filter(|(_, record)| record.failure);
        let failed: Vec<_> = failed.map(|(handler, _)| handler.id.clone()).collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    async fn attempt(&self, handler: &Arc<Handler>, record: &mut Record) {
        let mut told = Vec::new();
        if let Some(exhausted) = Exhausted::of(handler, record, self.clock.now()) {
            self.judge()
                .exhausted(handler, record, exhausted, &mut told);
        } else {
            record.begin(self.clock.now());
            match self.call(handler, record).await {
                Ok(outcome) => {
                    // There is no object whose status could keep a result.
                    self.judge().attempted(handler, record, outcome, &mut told);
                }
                Err(Cancelled) => record.failure = true,
            }
        }
        for handling in told {
            report(&self.context.logger, &Happening::Handling(handling));
        }
    }

    async fn call(&self, handler: &Arc<Handler>, record: &Record) -> Result<Outcome, Cancelled> {
        let handler = handler.clone();
        let attempt = attempt(record, self.clock.now());
        let subject = Subject::Activity(self.activity);
        let cause = HandlerCall::new(handler, self.context.clone(), attempt, subject);
        let (about, mut patch) = (Reference::default(), Patch::new());
        let deletion = || false;
        call_once(
            self.invoker,
            self.clock,
            &about,
            &cause,
            &mut patch,
            deletion,
        )
        .await
    }

    fn judge(&self) -> Judge {
        Judge {
            now: self.clock.now(),
            backoff: self.backoff,
            random: self.rng.next_f64(),
        }
    }
}

fn next_due(runs: &[Run]) -> Option<Timestamp> {
    let open = runs.iter().filter(|(_, record)| !record.is_final());
    open.map(|(_, record)| record.delayed.unwrap_or(record.started))
        .min()
}
