//! Creates the parts of a running operator: its engine, and the observer that feeds it.

use tokio::sync::watch;

use crate::admission::configuration::Found;
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::engine::calls_in_flight::CallsInFlight;
use crate::engine::last_lines::LastLines;
use crate::engine::shared::{Limits, Setup};
use crate::operator::leasing::Role;
use crate::operator::observe::{Observer, ObserverSetup};
use crate::operator::run::CheckedOperator;
use crate::operator::settings::Settings;
use crate::reaction::input::Policy;
use crate::state::Persistence;

impl CheckedOperator {
    /// Returns the engine, and the observer that feeds it.
    pub(in crate::operator) fn parts(
        &self,
        settings: Settings,
        cluster: Cluster,
        found: watch::Sender<Option<Found>>,
        role: Option<watch::Receiver<Role>>,
    ) -> (Engine, Observer) {
        let engine = Engine::new(self.setup(&settings, cluster.clone()));
        let observer = Observer::new(ObserverSetup {
            engine: engine.clone(),
            cluster,
            handlers: self.handlers.clone(),
            scope: self.scope.clone(),
            clock: self.clock,
            peer: self.peer(&settings),
            role,
            settings,
            board: self.board.clone(),
            admission_handlers: self.admission_handlers.clone(),
            found,
        });
        (engine, observer)
    }

    fn setup(&self, settings: &Settings, cluster: Cluster) -> Setup {
        let (execution, networking) = (&settings.execution, &settings.networking);
        let times = settings.lease.times();
        Setup {
            cluster,
            clock: self.clock,
            persistence: settings.persistence.clone().unwrap_or_else(|| Persistence::named(&self.name)),
            policy: Policy {
                spreads_first_calls: !self.once,
                lifecycle: execution.lifecycle.clone(),
                backoff: execution.backoff(),
                cancellation_polling: settings.background.cancellation_polling,
                shows_outcomes: settings.status.conditions,
            },
            limits: Limits {
                workers: settings.queueing.worker_limit,
                blocking: execution.max_workers,
                reconciles: execution.max_reconciles,
                backoff: networking.backoff(),
                exit: settings.queueing.exit_timeout,
                handover: times.last_write().saturating_sub(times.renew_deadline),
            },
            extensions: self.context.extensions.clone(),
            children: self.children.clone(),
            triggers: self.triggers.clone(),
            handlers: self.handlers_on.clone(),
            calls: self.board.as_ref().map(|_| CallsInFlight::default()),
            last_lines: self.board.as_ref().map(|_| LastLines::new(self.endpoints.web.is_some())),
            notes: self.notes.clone(),
            memo: self.context.memo.clone(),
            once: self.once,
            meter: self.endpoints.meter.clone(),
        }
    }
}
