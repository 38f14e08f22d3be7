//! Runs the steps between the startup of an operator and the first handler: the definitions of converted kinds, and `--apply`.
//!
//! Guarantees that startup handlers have succeeded by then, and that the API server calls the webhooks that the operator manages. Must not
//! know the step.

use std::pin::Pin;
#[cfg(feature = "cli")]
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::admission::configuration::Found;
use crate::cluster::Cluster;
use crate::operator::admission::{AdmissionWebhooks, CONFIGURED};
use crate::operator::run::{CheckedOperator, Operator, OperatorError, Report, refused};
use crate::operator::scope::Scope;
#[cfg(feature = "cli")]
use crate::operator::settings::Settings;

impl Operator {
    /// Runs this step before anything is handled.
    #[cfg(feature = "cli")]
    pub(crate) fn prepared_by(mut self, preparation: crate::operator::run::preparation::Preparation) -> Self {
        self.preparation = Some(preparation);
        self
    }

    /// Declares that the API server is the one of kopf-rs on this machine, unless the settings say otherwise: it reaches the webhooks there,
    /// and it uses a changed configuration at once.
    #[cfg(feature = "cli")]
    pub(crate) fn asked_on_this_machine(mut self) -> Result<Self, OperatorError> {
        let name = self.check()?;
        let mut handlers = self.registry.handlers().iter();
        let is_asked = handlers.any(|it| it.admission().is_some());
        let is_asked = is_asked || !self.registry.conversions().is_empty();
        let admission = &mut self.settings.admission;
        if admission.propagation == Settings::default().admission.propagation {
            admission.propagation = Duration::ZERO;
        }
        if is_asked && admission.server.is_none() {
            admission.server = Some(crate::operator::settings::admission::AdmissionServer::local());
            let managed = &mut admission.managed;
            managed.get_or_insert_with(|| crate::state::naming::prefix(&name));
        }
        Ok(self)
    }
}

impl CheckedOperator {
    /// Runs the steps before anything is handled. Returns the result of the operator if the operator ends meanwhile.
    pub(super) async fn prepare(
        &self,
        cluster: &Cluster,
        found: &watch::Sender<Option<Found>>,
        admission: &mut Option<AdmissionWebhooks>,
        until: Pin<&mut impl Future>,
    ) -> Option<Result<Report, OperatorError>> {
        let ended = tokio::select! {
            biased;
            _ = until => Ok(Report::default()),
            failed = self.login_failed() => Err(failed),
            prepared = self.prepare_by(cluster, found, admission.as_mut()) => match prepared {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
        };
        if let Some(webhooks) = admission.take() {
            webhooks.finish().await;
        }
        Some(ended)
    }

    async fn prepare_by(
        &self,
        cluster: &Cluster,
        found: &watch::Sender<Option<Found>>,
        mut admission: Option<&mut AdmissionWebhooks>,
    ) -> Result<(), OperatorError> {
        if let Some(webhooks) = &mut admission {
            webhooks.wait_for_definitions().await;
        }
        let Some(preparation) = &self.preparation else {
            return Ok(());
        };
        if let Some(webhooks) = admission {
            let resources = cluster.discover().await.map_err(|error| refused(&error))?;
            let namespaces = match &self.scope {
                Scope::All => None,
                Scope::Some(patterns) => {
                    let named = preparation.namespaces.iter();
                    Some(named.filter(|it| patterns.matches(it)).cloned().collect())
                }
            };
            found.send_replace(Some(Found { resources, namespaces, namespace_expression: None }));
            let are_configured = timeout(CONFIGURED, webhooks.are_configured());
            tokio::select! {
                biased;
                _ = are_configured => {}
                why = webhooks.failed() => return Err(OperatorError::Admission(why)),
            }
        }
        let done = (preparation.run)(self.client.clone()).await;
        done.map_err(OperatorError::Preparation)
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;

    #[test]
    fn a_server_on_this_machine_is_not_waited_for() {
        let propagation = |settings: Settings| {
            let registry = Registry::new().on_event("pods", handler("f", |_| async { Ok(()) }));
            let operator = Operator::new(registry).name("op").settings(settings);
            operator.asked_on_this_machine().unwrap().settings.admission.propagation
        };
        assert_eq!(propagation(Settings::default()), Duration::ZERO);
        let chosen = Duration::from_secs(3);
        assert_eq!(propagation(Settings::with(|settings| settings.admission.propagation = chosen)), chosen);
    }
}
