//! Startup and cleanup: handlers of the operator itself, retried in memory until all have ended (engines.md 1.2).
//!
//! Must not know when they are due.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::Level;

use crate::engine::invoke::Invoker;
use crate::handler::cause::{Attempt, Cause, Surroundings};
use crate::handler::decl::{ErrorsMode, Handler};
use crate::handler::outcome::Outcome;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::clock::Clock;

/// Runs activities.
pub(crate) struct Activities<'a> {
    pub(crate) invoker: &'a Invoker,
    pub(crate) clock: Clock,
    pub(crate) surroundings: &'a Surroundings,
    /// First and longest delay after arbitrary errors.
    pub(crate) backoff: (Duration, Duration),
}

/// One handler on its way to an end.
struct Runner {
    handler: Arc<Handler>,
    started: Timestamp,
    retries: u32,
    due: Timestamp,
    ended: Option<Result<(), Failed>>,
}

#[derive(Clone, Copy)]
struct Failed;

/// What an attempt leads to.
enum Verdict {
    Succeeded,
    Failed,
    Again(Duration),
}

impl Activities<'_> {
    /// Call `handlers`, again and again as they want, until each has succeeded or failed for good. Which have failed?
    pub(crate) async fn run(&self, handlers: &[Arc<Handler>]) -> Result<(), Vec<Arc<str>>> {
        let now = self.clock.now();
        let mut runners: Vec<_> = handlers.iter().map(|h| Runner::new(h, now)).collect();
        while let Some(due) = next_due(&runners) {
            tokio::time::sleep_until(self.clock.instant(due)).await;
            for runner in &mut runners {
                if runner.ended.is_none() && runner.due <= self.clock.now() {
                    self.attempt(runner).await;
                }
            }
        }
        let failed: Vec<_> = runners
            .iter()
            .filter(|runner| matches!(runner.ended, Some(Err(Failed))))
            .map(|runner| runner.handler.id.clone())
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    async fn attempt(&self, runner: &mut Runner) {
        let id = &runner.handler.id;
        self.log(Level::DEBUG, format_args!("Activity '{id}' is invoked."));
        let cause = Cause {
            handler: runner.handler.clone(),
            surroundings: self.surroundings.clone(),
            attempt: Attempt {
                retry: runner.retries,
                started: runner.started,
                runtime: runner.runtime(self.clock.now()),
            },
            subject: None,
        };
        let mut patch = Patch::new();
        let about = Reference::default();
        let Ok(outcome) = self.invoker.invoke(&cause, &about, &mut patch).await else {
            runner.ended = Some(Err(Failed));
            return;
        };
        let now = self.clock.now();
        let (verdict, level, text) = self.judge(runner, outcome, now);
        self.log(level, format_args!("Activity '{id}' {text}"));
        runner.retries += 1;
        match verdict {
            Verdict::Succeeded => runner.ended = Some(Ok(())),
            Verdict::Failed => runner.ended = Some(Err(Failed)),
            Verdict::Again(delay) => runner.due = now.checked_add(delay).unwrap_or(Timestamp::MAX),
        }
    }

    fn judge(&self, runner: &Runner, outcome: Outcome, now: Timestamp) -> (Verdict, Level, String) {
        let error = |verdict, text| (verdict, Level::ERROR, text);
        match outcome {
            Outcome::Succeeded(_) => (Verdict::Succeeded, Level::INFO, "succeeded.".to_owned()),
            Outcome::Permanent { message } => {
                error(Verdict::Failed, format!("failed permanently: {message}"))
            }
            Outcome::TimedOut { after } => error(
                Verdict::Failed,
                format!("has timed out after {} seconds.", after.as_secs_f64()),
            ),
            Outcome::Temporary { message, delay } => match runner.limit(delay, now) {
                Some(limit) => error(
                    Verdict::Failed,
                    format!("failed temporarily but will {limit}: {message}"),
                ),
                None => error(
                    Verdict::Again(delay),
                    format!("failed temporarily: {message}"),
                ),
            },
            Outcome::Arbitrary { message } => self.judge_arbitrary(runner, &message, now),
        }
    }

    fn judge_arbitrary(
        &self,
        runner: &Runner,
        message: &str,
        now: Timestamp,
    ) -> (Verdict, Level, String) {
        let options = &runner.handler.options;
        let delay = options
            .backoff
            .unwrap_or_else(|| self.delay(runner.retries));
        let limit = runner.limit(delay, now);
        let (verdict, rest) = match (options.errors.unwrap_or(ErrorsMode::Temporary), limit) {
            (ErrorsMode::Ignored, _) => (Verdict::Succeeded, "ignore it".to_owned()),
            (ErrorsMode::Permanent, _) => (Verdict::Failed, "stop now".to_owned()),
            (ErrorsMode::Temporary, Some(limit)) => (
                Verdict::Failed,
                format!("stop now (it would {limit} on the next attempt)"),
            ),
            (ErrorsMode::Temporary, None) => (
                Verdict::Again(delay),
                format!("try again in {} seconds", delay.as_secs_f64()),
            ),
        };
        let text = format!("failed with an exception and will {rest}: {message}");
        (verdict, Level::ERROR, text)
    }

    fn delay(&self, retries: u32) -> Duration {
        let (first, longest) = self.backoff;
        first
            .saturating_mul(2_u32.saturating_pow(retries.min(20)))
            .min(longest)
    }

    fn log(&self, level: Level, line: std::fmt::Arguments<'_>) {
        self.surroundings.logger.log(level, line);
    }
}

impl Runner {
    fn new(handler: &Arc<Handler>, now: Timestamp) -> Self {
        Self {
            handler: handler.clone(),
            started: now,
            retries: 0,
            due: now,
            ended: None,
        }
    }

    fn runtime(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.started)).unwrap_or_default()
    }

    /// Which limit one more attempt after `delay` would break.
    fn limit(&self, delay: Duration, now: Timestamp) -> Option<String> {
        let options = &self.handler.options;
        if let Some(timeout) = options.timeout.filter(|t| self.runtime(now) + delay >= *t) {
            return Some(format!("time out after {} seconds", timeout.as_secs_f64()));
        }
        let retries = options.retries.filter(|limit| self.retries + 1 >= *limit)?;
        Some(format!("exceed {retries} retries"))
    }
}

fn next_due(runners: &[Runner]) -> Option<Timestamp> {
    let open = runners.iter().filter(|runner| runner.ended.is_none());
    open.map(|runner| runner.due).min()
}
