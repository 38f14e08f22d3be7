//! Startup and cleanup: handlers of the operator itself, retried in memory until all have ended.
//!
//! What an attempt means is judged as for handlers of objects. Must not know when activities are due.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

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

/// What an activity has come to.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// By handler, of those that have one.
    pub(crate) results: Vec<(Arc<str>, Value)>,
    /// The handlers that have failed for good.
    pub(crate) failed: Vec<Arc<str>>,
}

/// A handler, its progress, and what it has returned.
type Run = (Arc<Handler>, Record, Option<Value>);

impl Activities<'_> {
    /// Call `handlers`, again and again as they want, until each has succeeded or failed for good. Which have failed?
    pub(crate) async fn run(&self, handlers: Vec<Arc<Handler>>) -> Result<(), Vec<Arc<str>>> {
        let Ended { failed, .. } = self.results(handlers).await;
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// The same, with what they return.
    pub(crate) async fn results(&self, handlers: Vec<Arc<Handler>>) -> Ended {
        let now = self.clock.now();
        let begun = |handler| (handler, Record::begun(now), None);
        let mut runs: Vec<Run> = handlers.into_iter().map(begun).collect();
        while let Some(due) = next_due(&runs) {
            tokio::time::sleep_until(self.clock.instant(due)).await;
            for (handler, record, result) in &mut runs {
                if record.is_due(self.clock.now()) {
                    *result = self.attempt(handler, record).await;
                }
            }
        }
        let mut ended = Ended::default();
        for (handler, record, result) in runs {
            if record.failure {
                ended.failed.push(handler.id.clone());
            }
            ended
                .results
                .extend(result.map(|it| (handler.id.clone(), it)));
        }
        ended
    }

    async fn attempt(&self, handler: &Arc<Handler>, record: &mut Record) -> Option<Value> {
        let mut told = Vec::new();
        let mut result = None;
        if let Some(exhausted) = Exhausted::of(handler, record, self.clock.now()) {
            self.judge()
                .exhausted(handler, record, exhausted, &mut told);
        } else {
            record.begin(self.clock.now());
            match self.call(handler, record).await {
                Ok(outcome) => {
                    // There is no object whose status could keep a result: logins alone have a use for it.
                    result = self.judge().attempted(handler, record, outcome, &mut told);
                }
                Err(Cancelled) => record.failure = true,
            }
        }
        for handling in told {
            report(&self.context.logger, &Happening::Handling(handling));
        }
        result
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
    let open = runs.iter().filter(|(_, record, _)| !record.is_final());
    open.map(|(_, record, _)| record.delayed.unwrap_or(record.started))
        .min()
}
