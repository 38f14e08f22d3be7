//! Connects the admission webhooks of an operator with their handlers.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::admission::configuration::Found;
use crate::admission::review::ConnectionFacts;
use crate::cluster::Cluster;
use crate::conversion::graph::PATH;
use crate::engine::admission::Reviewer;
use crate::engine::conversion::{Converter, Definitions};
use crate::engine::invoke::{HandlerGroup, Invoker};
use crate::operator::admission::AdmissionWebhooks;
use crate::operator::admission::driver::Drivers;
use crate::operator::admission::endpoint::{Answer, Question, Responder};
use crate::operator::admission::policies::PolicyKeeper;
use crate::operator::admission::setup::AdmissionSetup;
use crate::operator::run::{CheckedOperator, OperatorError};
use crate::operator::settings::Settings;
use crate::rt::task;
use crate::state::naming;

impl CheckedOperator {
    /// Starts the webhooks, if there is any.
    pub(super) async fn admission(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> Result<Option<AdmissionWebhooks>, OperatorError> {
        if let Some(problem) = self.conversions.problem() {
            return Err(OperatorError::Admission(problem));
        }
        let is_asked = !self.admission_handlers.is_empty() || !self.conversions.is_empty();
        if !is_asked && settings.admission.server.is_none() {
            return Ok(None);
        }
        let setup = Arc::new(self.setup_of_webhooks(settings, cluster, found));
        let responder = self.responder(&setup);
        // Boxed, so that the many operators without webhooks do not carry its future.
        let started = Box::pin(AdmissionWebhooks::start(setup, responder)).await;
        started.map_err(OperatorError::Admission)
    }

    /// Keeps the policies of validation rules, and removes those of rules that no longer exist.
    pub(super) fn keep_policies(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> Drivers {
        let domain = naming::prefix(&self.name);
        let (rules, board) = (self.rules.clone(), self.board.clone());
        let keeper = PolicyKeeper::new(cluster, rules, domain, found, board, self.clock);
        keeper.start(settings.networking.backoff())
    }

    /// Waits until the webhooks cannot continue. Returns the reason.
    pub(super) async fn webhooks_fail(admission: Option<&mut AdmissionWebhooks>) -> OperatorError {
        match admission {
            Some(admission) => OperatorError::Admission(Box::pin(admission.failed()).await),
            None => std::future::pending().await,
        }
    }

    pub(super) fn setup_of_webhooks(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> AdmissionSetup {
        AdmissionSetup {
            operator: self.name.clone(),
            handlers: self.admission_handlers.clone(),
            definitions: Definitions::of(&self.conversions),
            conversions: self.conversions.clone(),
            settings: settings.clone(),
            cluster: cluster.clone(),
            clock: self.clock,
            found,
            once: self.once,
        }
    }

    /// Returns the responder. It has an invoker of its own, so that pending reviews are answered while the engine ends.
    fn responder(&self, setup: &AdmissionSetup) -> Responder {
        let workers = setup.settings.execution.max_workers;
        let invoker = Invoker::new(self.clock, workers, self.handlers_on.clone());
        let invoker = invoker.metered(self.endpoints.meter.clone());
        let group = HandlerGroup {
            handlers: setup.handlers.clone(),
            invoker: Arc::new(invoker),
            context: self.context.clone(),
        };
        let reviewer = Arc::new(Reviewer::new(group, true));
        let following = Arc::new(follow(reviewer.clone(), setup.found.clone()));
        let events = Some(self.posting.sink());
        let converter = Converter::new(setup.conversions.clone(), setup.definitions.clone(), events);
        Arc::new(move |question| {
            let (reviewer, following) = (reviewer.clone(), following.clone());
            let converter = converter.clone();
            async move {
                let answer = answer(&reviewer, &converter, question).await;
                drop(following);
                answer
            }
            .boxed()
        })
    }
}

async fn answer(reviewer: &Reviewer, converter: &Converter, question: Question) -> Answer {
    let Question { path, body, headers, sslpeer, within } = question;
    let reply = if path.starts_with(PATH) {
        converter.answer(&path, body, within).await
    } else {
        let connection = ConnectionFacts { headers, sslpeer };
        reviewer.review(&path, &body, connection, within).await
    };
    Answer { status: reply.status, body: reply.body }
}

/// Passes the served resources to the reviewer, whenever they change.
fn follow(reviewer: Arc<Reviewer>, mut found: watch::Receiver<Option<Found>>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(task::spawn(async move {
        loop {
            let resources = found.borrow_and_update().as_ref().map(|it| it.resources.clone());
            if let Some(resources) = resources {
                reviewer.served(resources);
            }
            if found.changed().await.is_err() {
                return;
            }
        }
    }))
}
