//! Keeps the conversion stanza of a converted kind's definition up to date, and passes the definition to the converter.
//!
//! Writes it only if it differs, because each change of a definition ends all watches of its kind. Leaves it in place when the operator
//! ends, because objects need it. Must not know how objects are converted.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::configuration::{ClientConfig, client_config};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::conversion::definition::{conversion, merge, says, versions};
use crate::conversion::graph::ConvertedKind;
use crate::conversion::rules::Rules;
use crate::engine::conversion::Definitions;
use crate::engine::report::report_of_operator;
use crate::happening::webhooks::Converting;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::driver::{Failure, Reconciler, unless_conflict};
use crate::operator::admission::managed_object::{KeptObject, Touched, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::operator::admission::sharing::Sharing;

/// The parts that one kind needs.
pub(super) struct DefinitionSetup {
    pub(super) cluster: Cluster,
    pub(super) kind: ConvertedKind,
    pub(super) client: ClientConfig,
    pub(super) trust: watch::Receiver<Trust>,
    /// `None` if the definition is only read because another program manages it.
    pub(super) publisher: Option<Publisher>,
    pub(super) known: Definitions,
    /// This instance, among those that share the definition.
    pub(super) sharing: Sharing,
}

/// Keeps one definition up to date.
pub(super) struct Definition {
    setup: DefinitionSetup,
    object: KeptObject,
    touched: Touched,
    /// The missing conversions, as last reported.
    missing: Option<String>,
    contest: Contest,
}

impl Definition {
    pub(super) fn new(setup: DefinitionSetup) -> Self {
        let object = KeptObject::definition(&setup.kind.name);
        Self {
            touched: object.watch(&setup.cluster),
            object,
            setup,
            missing: None,
            contest: Contest::new(),
        }
    }

    /// Makes the definition name this operator as the converter, unless a newer instance decides. Returns whether it now says what this
    /// instance wants.
    async fn put(&mut self, found: &Value, trust: &Trust) -> Result<bool, Failure> {
        self.report_missing(found);
        let setup = &mut self.setup;
        let path = setup.kind.path();
        let wanted = conversion(&client_config(&setup.client, &path, &trust.bundle));
        let is_said = says(found, &wanted);
        let plan = setup.sharing.plan(Some(found), is_said, false);
        let content = merge(found, &wanted);
        let written = self
            .object
            .carry_out(&setup.cluster, Some(found), &plan, content);
        written.await.map_err(|error| match error {
            ClusterError::Invalid(_) => {
                Failure::Fatal(format!(
                    "the CustomResourceDefinition {} cannot be written, which must tell the API server that this operator converts its objects: {error}",
                    self.object.name
                ))
            }
            error => Failure::Retry(error),
        })?;
        if plan.writes {
            let definition = self.object.name.clone();
            report_of_operator(&Converting::Configured { definition });
        }
        let object = (&self.object, Some(found));
        self.contest
            .note(&plan, wanted, object, setup.cluster.rng());
        Ok(is_said || plan.decides)
    }

    /// Reports the missing conversions once. After a rollback, the definition still has versions of the newer release. The versions that this
    /// release knows are converted nevertheless.
    fn report_missing(&mut self, found: &Value) {
        let missing = self.setup.kind.missing_between(&versions(found));
        if let Some(missing) = missing.clone().filter(|_| self.missing != missing) {
            let definition = self.object.name.clone();
            report_of_operator(&Converting::Unreachable {
                definition,
                missing,
            });
        }
        self.missing = missing;
    }

    async fn leave_list(&mut self) -> Result<(), ClusterError> {
        let setup = &mut self.setup;
        let found = self.object.look(&setup.cluster).await?;
        let plan = setup.sharing.plan(found.as_ref(), true, true);
        self.object
            .carry_out(&setup.cluster, found.as_ref(), &plan, Value::Null)
            .await
    }
}

impl Reconciler for Definition {
    /// Fails for ever if the server rejects the definition as invalid.
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let trust = self.setup.trust.borrow_and_update().clone();
        let name = &self.object.name;
        let is_right = match self.object.look(&self.setup.cluster).await {
            Ok(Some(found)) => {
                self.setup.known.learn(name, Rules::of(&found));
                self.setup.publisher.is_some() && self.put(&found, &trust).await?
            }
            // There is no definition yet, so no certificate has to be distributed.
            Ok(None) => {
                self.setup.known.give_up(name);
                true
            }
            Err(error) => {
                if error.is_lasting() {
                    self.setup.known.give_up(name);
                }
                return Err(error.into());
            }
        };
        if let Some(publisher) = self.setup.publisher.as_ref().filter(|_| is_right) {
            publisher.holds(trust.newest, Instant::now());
        }
        Ok(self.setup.sharing.pause())
    }

    async fn changed(&mut self) {
        let touched = async {
            self.contest.over().await;
            self.touched.touched().await;
        };
        tokio::select! {
            () = touched => {}
            Ok(()) = self.setup.trust.changed() => {}
        }
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        let (definition, error) = (self.object.name.clone(), explained(error));
        report_of_operator(&match self.setup.publisher {
            Some(_) => Converting::DefinitionFailed {
                definition,
                error,
                pause,
            },
            None => Converting::DefinitionUnread {
                definition,
                error,
                pause,
            },
        });
    }

    /// Deregisters this instance, so that an older one may decide. The definition stays, because objects need it.
    async fn release(&mut self) -> Result<bool, ClusterError> {
        match self.setup.publisher {
            Some(_) => unless_conflict(self.leave_list().await),
            None => Ok(false),
        }
    }
}
