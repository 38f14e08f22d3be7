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
use crate::operator::admission::driver::{Failure, Reconciler};
use crate::operator::admission::managed_object::{KeptObject, Touched, Unanswered, explained};
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
    unanswered: Unanswered,
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
            unanswered: Unanswered::default(),
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
        let (cluster, unanswered) = (&setup.cluster, &mut self.unanswered);
        let written = self.object.carry_out(cluster, Some(found), &plan, content, unanswered);
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
        self.contest.note(&plan, wanted, object, setup.cluster.rng());
        Ok(is_said || plan.decides)
    }

    /// Reports the missing conversions once. After a rollback, the definition still has versions of the newer release. The versions that this
    /// release knows are converted nevertheless.
    fn report_missing(&mut self, found: &Value) {
        let missing = self.setup.kind.missing_between(&versions(found));
        if let Some(missing) = missing.clone().filter(|_| self.missing != missing) {
            let definition = self.object.name.clone();
            report_of_operator(&Converting::Unreachable { definition, missing });
        }
        self.missing = missing;
    }

    async fn leave_list(&mut self) -> Result<(), ClusterError> {
        let setup = &mut self.setup;
        let found = self.object.look(&setup.cluster).await?;
        let plan = setup.sharing.plan(found.as_ref(), true, true);
        self.object.carry_out(&setup.cluster, found.as_ref(), &plan, Value::Null, &mut self.unanswered).await
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
            Some(_) => Converting::DefinitionFailed { definition, error, pause },
            None => Converting::DefinitionUnread { definition, error, pause },
        });
    }

    /// Deregisters this instance, so that an older one may decide. The definition stays, because objects need it.
    async fn release(&mut self) -> Result<bool, ClusterError> {
        if self.setup.publisher.is_none() {
            return Ok(false);
        }
        let may_arrive = !self.unanswered.is_empty();
        self.leave_list().await?;
        if may_arrive {
            Unanswered::arrive().await;
            self.leave_list().await?;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use kopf_rs_apiserver::{ApiServer, Fault, Verb};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::Client;
    use crate::conversion::graph::Conversions;
    use crate::conversion::graph::tests::between;
    use crate::handler::conversion::conversion;
    use crate::operator::admission::managed_object::tests::{enter_late, entered};
    use crate::operator::admission::publishing::Publishing;
    use crate::rt::clock::Clock;

    /// Returns the definition of things, which exists, for the instance `one`.
    async fn things(server: &ApiServer) -> Definition {
        let cluster = Cluster::new(Client::new(server.service(), "default"));
        let versions = ["v1alpha1", "v1"].map(|name| {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": versions,
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            }
        });
        cluster.apply_manifest(&definition).await.unwrap();
        let unchanged = conversion("f", |spec: Value| Ok(spec));
        let conversions = Conversions::of(&[between("v1alpha1", "v1", unchanged)]);
        Definition::new(DefinitionSetup {
            cluster,
            kind: conversions.kinds()[0].clone(),
            client: ClientConfig::Url("https://host:1".to_owned()),
            trust: watch::channel(Trust::default()).1,
            publisher: Some(Publishing::new().publisher()),
            known: Definitions::default(),
            sharing: Sharing::new("op.kopf.rs", "one", Clock::start()),
        })
    }

    /// Otherwise no other instance decides for the time after which one counts as gone.
    #[tokio::test(start_paused = true)]
    async fn a_write_that_the_end_has_cut_off_leaves_no_instance_on_the_list() {
        let server = ApiServer::new();
        let mut things = things(&server).await;
        let late = Fault::delay(Duration::from_secs(60)).on(Verb::Patch);
        let late = server.fault(late);
        let second = Duration::from_secs(1);
        assert!(timeout(second, things.reconcile()).await.is_err());
        assert_eq!(late.hits(), 1);
        late.clear();
        let (cluster, object) = (things.setup.cluster.clone(), things.object.clone());
        let (left, ()) = join(things.release(), enter_late(&cluster, &object)).await;
        assert!(left.is_ok());
        assert_eq!(entered(&cluster, &object).await, "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_the_list_is_repeated_where_the_server_is_busy() {
        let server = ApiServer::new();
        let mut things = things(&server).await;
        assert!(things.reconcile().await.is_ok());
        let busy = server.fault(Fault::answer(503).on(Verb::Patch).times(1));
        // The driver repeats it within its time limit.
        assert!(things.release().await.is_err());
        assert_eq!(busy.hits(), 1);
        assert!(things.release().await.is_ok());
        let list = entered(&things.setup.cluster, &things.object).await;
        assert_eq!(list, "{}");
    }
}
