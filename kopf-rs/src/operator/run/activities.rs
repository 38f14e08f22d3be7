//! Runs an operator's startup and cleanup handlers.

use std::sync::Arc;

use crate::engine::invoke::{HandlerGroup, Invoker};
use crate::handler::cause::CauseContext;
use crate::handler::logger::Logger;
use crate::handler::subject::Activity;
use crate::operator::activity::Activities;
use crate::operator::run::CheckedOperator;

impl CheckedOperator {
    /// Returns the handlers of an activity, with a context that has its logger.
    pub(super) fn group_of(&self, activity: Activity) -> HandlerGroup {
        let all = self.handlers.iter();
        let handlers = all.filter(|handler| handler.activity() == Some(activity));
        HandlerGroup {
            handlers: handlers.cloned().collect(),
            invoker: self.invoker.clone(),
            context: CauseContext { logger: Logger::of_activity(activity), ..self.context.clone() },
        }
    }

    pub(super) async fn startup(&self) -> Result<(), Vec<String>> {
        let group = self.group_of(Activity::Startup);
        self.activity(Activity::Startup, &group).await
    }

    /// Runs cleanup handlers on the operator's own runtime, because handlers that block all their threads would delay the cleanup for ever.
    pub(super) async fn cleanup(&self) -> Result<(), Vec<String>> {
        let workers = self.settings.get().execution.max_workers;
        let invoker = Invoker::new(self.clock, workers, None).metered(self.endpoints.meter.clone());
        let group = HandlerGroup { invoker: Arc::new(invoker), ..self.group_of(Activity::Cleanup) };
        let cleaned = self.activity(Activity::Cleanup, &group);
        match &self.vault {
            Some(vault) => self.with_hope(vault, cleaned).await,
            None => cleaned.await,
        }
    }

    async fn activity(&self, activity: Activity, group: &HandlerGroup) -> Result<(), Vec<String>> {
        let activities = Activities {
            activity,
            group,
            rng: &self.rng,
            backoff: self.settings.get().execution.backoff(),
            patience: None,
            vault: self.vault.as_ref(),
        };
        let failed = activities.run().await.failed;
        if failed.is_empty() { Ok(()) } else { Err(failed.iter().map(ToString::to_string).collect()) }
    }
}
