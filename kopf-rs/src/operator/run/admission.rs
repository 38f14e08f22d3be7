//! The admission webhooks of an operator: who answers them.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::admission::review::ConnectionFacts;
use crate::cluster::Cluster;
use crate::conversion::graph::PATH;
use crate::engine::admission::{Reviewer, ReviewerSetup};
use crate::engine::conversion::Converter;
use crate::engine::invoke::Invoker;
use crate::operator::admission::endpoint::{Answer, Question, Responder};
use crate::operator::admission::managed::Found;
use crate::operator::admission::{AdmissionSetup, AdmissionWebhooks};
use crate::operator::run::{CheckedOperator, OperatorError};
use crate::operator::settings::Settings;

#[cfg(any(feature = "cli", test))]
mod manifests;

impl CheckedOperator {
    /// Answer the API server, where there is something to answer.
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
        let responder = self.responder(settings, found.clone());
        let setup = self.setup_of_webhooks(settings, cluster, found);
        // Most operators have none of this: its futures are no part of theirs.
        let started = Box::pin(AdmissionWebhooks::start(setup, responder)).await;
        started.map_err(OperatorError::Admission)
    }

    /// Wait until the webhooks cannot go on.
    pub(super) async fn webhooks_fail(admission: Option<&mut AdmissionWebhooks>) -> OperatorError {
        match admission {
            Some(admission) => OperatorError::Admission(Box::pin(admission.run()).await),
            None => std::future::pending().await,
        }
    }

    fn setup_of_webhooks<'a>(
        &'a self,
        settings: &'a Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> AdmissionSetup<'a> {
        AdmissionSetup {
            operator: &self.name,
            handlers: self.admission_handlers.clone(),
            conversions: self.conversions.clone(),
            settings,
            cluster: cluster.clone(),
            clock: self.clock,
            found,
            once: self.once,
        }
    }

    /// The handlers, with an invoker of their own: reviews under way are answered while the engine ends.
    fn responder(&self, settings: &Settings, found: watch::Receiver<Option<Found>>) -> Responder {
        let workers = settings.execution.max_workers;
        let invoker = Invoker::new(self.clock, workers, self.handlers_on.clone());
        let invoker = invoker.metered(self.endpoints.meter());
        let reviewer = Arc::new(Reviewer::new(ReviewerSetup {
            handlers: self.admission_handlers.clone(),
            invoker: Arc::new(invoker),
            context: self.context.clone(),
            clock: self.clock,
            has_discovery: true,
        }));
        let following = Arc::new(follow(reviewer.clone(), found));
        let converter = Converter::new(self.conversions.clone());
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
    let Question {
        path,
        body,
        headers,
        sslpeer,
        within,
    } = question;
    let reply = if path.starts_with(PATH) {
        converter.answer(&path, body, within).await
    } else {
        let connection = ConnectionFacts { headers, sslpeer };
        reviewer.review(&path, &body, connection, within).await
    };
    Answer {
        status: reply.status,
        body: reply.body,
    }
}

/// Tell the reviewer what the cluster serves, whenever that changes.
fn follow(
    reviewer: Arc<Reviewer>,
    mut found: watch::Receiver<Option<Found>>,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let resources = found
                .borrow_and_update()
                .as_ref()
                .map(|it| it.resources.clone());
            if let Some(resources) = resources {
                reviewer.served(resources);
            }
            if found.changed().await.is_err() {
                return;
            }
        }
    }))
}
