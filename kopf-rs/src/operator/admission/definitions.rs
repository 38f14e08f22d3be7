//! Keeps the conversion stanza of a converted kind's definition up to date, and passes the definition to the converter.
//!
//! Writes it only if it differs, because each change of a definition ends all watches of its kind. Leaves it in place when the operator
//! ends, because objects need it. Must not know how objects are converted.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::admission::configuration::{ClientConfig, client_config};
use crate::cluster::error::ClusterError;
use crate::conversion::definition::{conversion, merge, says, versions};
use crate::conversion::graph::ConvertedKind;
use crate::conversion::rules::Rules;
use crate::engine::conversion::Definitions;
use crate::engine::report::report_of_operator;
use crate::happening::webhooks::Converting;
use crate::operator::admission::driver::{Failure, Reconciler};
use crate::operator::admission::managed_object::{SharedObject, explained};
use crate::operator::admission::publishing::{Publisher, Trust};

/// Keeps one definition up to date.
pub(super) struct Definition {
    pub(super) kind: ConvertedKind,
    pub(super) client: ClientConfig,
    pub(super) trust: watch::Receiver<Trust>,
    /// `None` if the definition is only read because another program manages it.
    pub(super) publisher: Option<Publisher>,
    pub(super) known: Definitions,
    pub(super) object: SharedObject,
    /// The missing conversions, as last reported.
    pub(super) missing: Option<String>,
    /// Dropped once the definition is written or a retry cannot help, so that the operator may list the objects.
    pub(super) unwritten: Option<mpsc::Sender<Infallible>>,
}

impl Definition {
    /// Compares the definition with the wanted one, and writes it if they differ.
    async fn keep(&mut self) -> Result<Duration, Failure> {
        let trust = self.trust.borrow_and_update().clone();
        let name = &self.kind.name;
        let is_right = match self.object.look().await {
            Ok(Some(found)) => {
                self.known.learn(name, Rules::of(&found));
                self.publisher.is_some() && self.put(&found, &trust).await?
            }
            // There is no definition yet, so no certificate has to be distributed.
            Ok(None) => {
                self.known.give_up(name);
                true
            }
            Err(error) => {
                if error.is_lasting() {
                    self.known.give_up(name);
                }
                return Err(error.into());
            }
        };
        if let Some(publisher) = self.publisher.as_ref().filter(|_| is_right) {
            publisher.holds(trust.newest, Instant::now());
        }
        Ok(self.object.pause())
    }

    /// Makes the definition name this operator as the converter, unless a newer instance decides. Returns whether it now says what this
    /// instance wants.
    async fn put(&mut self, found: &Value, trust: &Trust) -> Result<bool, Failure> {
        self.report_missing(found);
        let wanted = conversion(&client_config(&self.client, &self.kind.path(), &trust.bundle));
        let is_said = says(found, &wanted);
        let plan = self.object.plan(Some(found), is_said, false);
        let written = self.object.carry_out(Some(found), &plan, merge(found, &wanted));
        written.await.map_err(|error| match error {
            ClusterError::Invalid(_) => {
                Failure::Fatal(format!(
                    "the CustomResourceDefinition {} cannot be written, which must tell the API server that this operator converts its objects: {error}",
                    self.kind.name
                ))
            }
            error => Failure::Retry(error),
        })?;
        if plan.writes {
            report_of_operator(&Converting::Configured { definition: self.kind.name.clone() });
        }
        self.object.note(&plan, wanted, Some(found));
        Ok(is_said || plan.decides)
    }

    /// Reports the missing conversions once. After a rollback, the definition still has versions of the newer release. The versions that this
    /// release knows are converted nevertheless.
    fn report_missing(&mut self, found: &Value) {
        let missing = self.kind.missing_between(&versions(found));
        if let Some(missing) = missing.clone().filter(|_| self.missing != missing) {
            report_of_operator(&Converting::Unreachable { definition: self.kind.name.clone(), missing });
        }
        self.missing = missing;
    }
}

impl Reconciler for Definition {
    /// Fails for ever if the server rejects the definition as invalid.
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let kept = self.keep().await;
        if !matches!(&kept, Err(Failure::Retry(error)) if !error.is_lasting()) {
            self.unwritten = None;
        }
        kept
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.object.changed() => {}
            Ok(()) = self.trust.changed() => {}
        }
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        let (definition, error) = (self.kind.name.clone(), explained(error));
        report_of_operator(&match self.publisher {
            Some(_) => Converting::DefinitionFailed { definition, error, pause },
            None => Converting::DefinitionUnread { definition, error, pause },
        });
    }

    /// Deregisters this instance, so that an older one may decide. The definition stays, because objects need it.
    async fn leave(&mut self) -> Result<bool, ClusterError> {
        if self.publisher.is_some() {
            self.object.leave_list().await?;
        }
        Ok(false)
    }

    fn may_arrive(&self) -> bool {
        self.object.may_arrive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use kopf_rs_apiserver::{ApiServer, Fault, Verb};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::{Client, Cluster};
    use crate::conversion::graph::Conversions;
    use crate::conversion::graph::tests::between;
    use crate::handler::conversion::conversion;
    use crate::operator::admission::managed_object::KeptObject;
    use crate::operator::admission::managed_object::tests::{enter_late, entered};
    use crate::operator::admission::publishing::Publishing;
    use crate::operator::admission::sharing::Sharing;
    use crate::rt::clock::Clock;

    fn cluster(server: &ApiServer) -> Cluster {
        Cluster::new(Client::new(server.service(), "default"))
    }

    /// Returns the definition of things, which exists, for the instance `one`.
    async fn things(server: &ApiServer) -> Definition {
        let cluster = cluster(server);
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
        let sharing = Sharing::new("op.kopf.rs", "one", Clock::start());
        Definition {
            kind: conversions.kinds()[0].clone(),
            client: ClientConfig::Url("https://host:1".to_owned()),
            trust: watch::channel(Trust::default()).1,
            publisher: Some(Publishing::new().publisher()),
            known: Definitions::default(),
            object: SharedObject::new(KeptObject::definition("things.example.com"), &cluster, sharing),
            missing: None,
            unwritten: None,
        }
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
        let (cluster, object) = (cluster(&server), things.object.kept.clone());
        let (left, ()) = join(things.release(&mut false), enter_late(&cluster, &object)).await;
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
        assert!(things.release(&mut false).await.is_err());
        assert_eq!(busy.hits(), 1);
        assert!(things.release(&mut false).await.is_ok());
        let list = entered(&cluster(&server), &things.object.kept).await;
        assert_eq!(list, "{}");
    }
}
