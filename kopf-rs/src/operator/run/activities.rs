//! Runs an operator's startup and cleanup handlers.

use std::sync::Arc;

use crate::engine::invoke::Invoker;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::logger::Logger;
use crate::handler::subject::Activity;
use crate::operator::activity::Activities;
use crate::operator::run::CheckedOperator;

impl CheckedOperator {
    pub(super) fn handlers_of(&self, activity: Activity) -> Vec<Arc<Handler>> {
        let all = self.handlers.iter();
        all.filter(|handler| handler.activity() == Some(activity))
            .cloned()
            .collect()
    }

    pub(super) fn context_of(&self, activity: Activity) -> CauseContext {
        CauseContext {
            logger: Logger::of_activity(activity),
            ..self.context.clone()
        }
    }

    pub(super) async fn startup(&self) -> Result<(), Vec<String>> {
        self.activity(Activity::Startup, &self.invoker).await
    }

    /// Runs cleanup handlers on the operator's own runtime, because handlers that block all their threads would delay the cleanup for ever.
    pub(super) async fn cleanup(&self) -> Result<(), Vec<String>> {
        let workers = self.settings.get().execution.max_workers;
        let invoker = Invoker::new(self.clock, workers, None).metered(self.endpoints.meter());
        let cleaned = self.activity(Activity::Cleanup, &invoker);
        match &self.vault {
            Some(vault) => self.with_hope(vault, cleaned).await,
            None => cleaned.await,
        }
    }

    async fn activity(&self, activity: Activity, invoker: &Invoker) -> Result<(), Vec<String>> {
        let handlers = self.handlers_of(activity);
        let execution = self.settings.get().execution;
        let activities = Activities {
            activity,
            invoker,
            clock: self.clock,
            rng: &self.rng,
            context: self.context_of(activity),
            backoff: execution.backoff(),
            patience: None,
            vault: self.vault.as_ref(),
        };
        let named = |failed: Vec<Arc<str>>| failed.iter().map(ToString::to_string).collect();
        activities.run(handlers).await.map_err(named)
    }
}
