//! Runs the startup, cleanup and login handlers of the operator itself, and retries them in memory until all have ended.
//!
//! Outcomes are judged as for handlers of objects, except that nothing is retried when requests can get no credentials. Must not know when
//! activities are due.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::login::Vault;
use crate::engine::attempt::attempt as call_once;
use crate::engine::invoke::{Cancelled, HandlerGroup};
use crate::engine::report::report_counted;
use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::handler::subject::Activity;
use crate::handler::subject::Subject;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::reaction::judge::{Judge, attempt, limit_reached};
use crate::rt::clock::Clock;
use crate::rt::rng::Rng;
use crate::state::progress::Record;

/// Runs activities.
pub(crate) struct Activities<'a> {
    pub(crate) activity: Activity,
    /// The handlers, and the context of their calls, with the logger of the activity.
    pub(crate) group: &'a HandlerGroup,
    pub(crate) rng: &'a Rng,
    /// The first and the longest back-off after arbitrary errors.
    pub(crate) backoff: (Duration, Duration),
    /// The time limit of an async call without a timeout of its own. A call that exceeds it has failed.
    pub(crate) patience: Option<Duration>,
    /// The source of credentials for requests of the handlers. If no credentials can be had, nothing is retried.
    pub(crate) vault: Option<&'a Vault>,
}

/// The result of an activity.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The results by handler, for handlers that returned one.
    pub(crate) results: Vec<(Arc<str>, Value)>,
    /// The handlers that failed permanently.
    pub(crate) failed: Vec<Arc<str>>,
}

/// A handler, its progress, and its result.
type Run = (Arc<Handler>, Record, Option<Value>);

impl Activities<'_> {
    /// Calls the handlers, with retries, until each has succeeded or failed permanently.
    pub(crate) async fn run(&self) -> Ended {
        let now = self.clock().now();
        let begun = |handler| (handler, Record::begun(now), None);
        let handlers = self.group.handlers.iter().cloned();
        let mut runs: Vec<Run> = handlers.map(begun).collect();
        while let Some(due) = next_due(&runs) {
            let is_last = tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.clock().instant(due)) => false,
                () = self.no_credentials() => true,
            };
            for (handler, record, result) in &mut runs {
                let is_open = is_last && !record.is_final();
                if is_open || record.is_due(self.clock().now()) {
                    *result = self.attempt(handler, record).await;
                }
            }
        }
        let mut ended = Ended::default();
        for (handler, record, result) in runs {
            if record.failure {
                ended.failed.push(handler.id.clone());
            }
            ended.results.extend(result.map(|it| (handler.id.clone(), it)));
        }
        ended
    }

    async fn attempt(&self, handler: &Arc<Handler>, record: &mut Record) -> Option<Value> {
        let mut happenings = Vec::new();
        let mut result = None;
        if let Some(end) = limit_reached(handler, record, self.clock().now()) {
            self.judge().enter(handler, record, end, &mut happenings);
        } else {
            record.begin(self.clock().now());
            match self.call(handler, record).await {
                Ok(outcome) => {
                    // There is no object whose status could keep a result: only logins use it.
                    result = self.judge().attempted(handler, record, outcome, &mut happenings);
                }
                Err(Cancelled) => record.failure = true,
            }
        }
        if !record.is_final() && self.vault.is_some_and(Vault::has_failed) {
            record.failure = true;
            happenings.iter_mut().for_each(stop);
        }
        for handling in happenings {
            report_counted(self.group.invoker.meter(), &self.group.context.logger, &handling);
        }
        result
    }

    async fn call(&self, handler: &Arc<Handler>, record: &Record) -> Result<Outcome, Cancelled> {
        let handler = handler.clone();
        let attempt = attempt(record, self.clock().now());
        let subject = Subject::Activity(self.activity);
        let cause = HandlerCall::new(handler, self.group.context.clone(), attempt, subject);
        let (about, mut patch) = (Reference::default(), Patch::new());
        let deletion = || false;
        let call = call_once(&self.group.invoker, &about, &cause, &mut patch, deletion);
        let has_own_bound = cause.handler.retry.timeout.is_some() || cause.handler.is_blocking();
        let Some(patience) = self.patience.filter(|_| !has_own_bound) else {
            return call.await;
        };
        let cut_off = || Outcome::Arbitrary {
            message: format!(
                "the call was cut off, because it had not returned after {} seconds",
                patience.as_secs_f64()
            ),
        };
        let ended = tokio::time::timeout(patience, call).await;
        ended.unwrap_or_else(|_| Ok(cut_off()))
    }

    fn clock(&self) -> Clock {
        self.group.invoker.clock
    }

    /// Waits until no credentials can be had any more.
    async fn no_credentials(&self) {
        match self.vault {
            Some(vault) => drop(vault.failed().await),
            None => std::future::pending().await,
        }
    }

    fn judge(&self) -> Judge {
        Judge { now: self.clock().now(), backoff: self.backoff, random: self.rng.next_f64() }
    }
}

/// Marks a failed attempt as the last one, since the handler is not called again.
fn stop(handling: &mut Handling) {
    if let Handling::Attempted {
        end: AttemptEnd::Arbitrary { fate, .. } | AttemptEnd::Temporary { fate, .. },
        ..
    } = handling
    {
        *fate = Fate::Stopped;
    }
}

fn next_due(runs: &[Run]) -> Option<Timestamp> {
    let open = runs.iter().filter(|(_, record, _)| !record.is_final());
    open.map(|(_, record, _)| record.delayed.unwrap_or(record.started)).min()
}
