//! Calls users' probes one after the other, once each, within one time limit.
//!
//! This module guarantees that a hanging probe is not called again before its call has ended. It must not depend on
//! the clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::invoke::{Cancelled, HandlerGroup};
use crate::engine::report::report_counted;
use crate::handler::cause::Attempt;
use crate::handler::definition::ErrorsMode;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::outcome::Outcome;
use crate::handler::subject::{Activity, Subject};
use crate::happening::handling::{Fate, Handling};
use crate::health::checks::Check;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::task;

/// Calls probes.
pub(crate) struct Prober {
    group: HandlerGroup,
    /// Calls that have exceeded the time limit, by the position of their handler.
    hanging: HashMap<usize, Call>,
}

/// A call in a task of its own.
type Call = AbortOnDropHandle<Result<Outcome, Cancelled>>;

/// The results of all probes.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// The results by id, without empty ones.
    pub(crate) results: Map<String, Value>,
    pub(crate) checks: Vec<Check>,
}

impl Prober {
    pub(crate) fn new(group: HandlerGroup) -> Self {
        Self { group, hanging: HashMap::new() }
    }

    /// Calls all probes. Probes that were not called in time count as failed.
    pub(crate) async fn collect(&mut self, bound: Duration) -> Probed {
        let deadline = Instant::now() + bound;
        let mut probed = Probed { results: Map::new(), checks: Vec::new() };
        for at in 0..self.group.handlers.len() {
            let handler = self.group.handlers[at].clone();
            let end = self.probe(at, &handler, (deadline, bound)).await;
            let (result, is_well) = self.judge(&handler, end);
            if let Some(result) = result {
                probed.results.insert(handler.id.to_string(), result);
            }
            // The reason may be secret, and every client can read the response.
            let trouble = (!is_well).then(|| "reason withheld".to_owned());
            probed.checks.push(Check::new(&*handler.id, trouble));
        }
        probed
    }

    async fn probe(
        &mut self,
        at: usize,
        handler: &Arc<Handler>,
        (deadline, bound): (Instant, Duration),
    ) -> Outcome {
        if self.hanging.get(&at).is_some_and(|call| !call.is_finished()) {
            return Outcome::permanent("its former call has not ended yet");
        }
        self.hanging.remove(&at);
        if Instant::now() >= deadline {
            return Outcome::permanent("the probes before it have taken all of the time");
        }
        let cancelled = CancellationToken::new();
        let mut call = self.call(handler.clone(), cancelled.clone());
        match timeout_at(deadline, &mut call).await {
            Ok(Ok(Ok(outcome))) => outcome,
            Ok(Ok(Err(Cancelled))) => Outcome::permanent("it was cut off"),
            Ok(Err(panic)) => Outcome::Arbitrary { message: panic.to_string() },
            Err(_) => {
                cancelled.cancel();
                self.hanging.insert(at, call);
                Outcome::TimedOut { after: bound }
            }
        }
    }

    fn call(&self, handler: Arc<Handler>, cancelled: CancellationToken) -> Call {
        let attempt = Attempt {
            retry: 0,
            is_first: true,
            started: self.group.invoker.clock.now(),
            runtime: Duration::ZERO,
            key: None,
        };
        let subject = Subject::Activity(Activity::Probe);
        let context = self.group.context.clone();
        let cause = HandlerCall::new(handler, context, attempt, subject);
        let invoker = self.group.invoker.clone();
        AbortOnDropHandle::new(task::spawn(async move {
            let (about, mut patch) = (Reference::default(), Patch::new());
            invoker.invoke_in_background(&cause, &about, &mut patch, &cancelled).await
        }))
    }

    /// Evaluates and reports an outcome: a probe is not retried within a request. Returns its result, and whether it has succeeded.
    fn judge(&self, handler: &Arc<Handler>, mut outcome: Outcome) -> (Option<Value>, bool) {
        let result = outcome.take_result();
        let is_error =
            matches!(outcome, Outcome::Arbitrary { .. } | Outcome::Panicked { .. } | Outcome::Waiting);
        let outcome = match outcome {
            _ if is_error && handler.errors() == ErrorsMode::Ignored => Outcome::Succeeded(None),
            outcome => outcome.without_subhandlers("it waits for sub-handlers, and activities have none"),
        };
        let is_well = matches!(outcome, Outcome::Succeeded(_));
        let fate = |delay: Option<Duration>| delay.map_or(Fate::Stopped, |delay| Fate::Retried { delay });
        if let Some(attempted) = Handling::attempted(handler, outcome, fate) {
            report_counted(self.group.invoker.meter(), &self.group.context.logger, &attempted);
        }
        (result, is_well)
    }
}
