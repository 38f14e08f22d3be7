//! Writes the two webhook configurations, and keeps them up to date.
//!
//! Level-triggered: computes the wanted state from the served resources, and writes it if the present one differs. The configurations belong
//! to the operator and not to a process: the newest of all instances writes them, and in a cluster they stay when instances end. A failure of
//! one does not affect the other. Must not know how webhooks are answered.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::blocking::blocking;
use crate::admission::configuration::{ClientConfig, Found, Source, is_as_wanted, webhooks};
use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::webhook::AdmissionKind;
use crate::happening::webhooks::AdmissionServing;
use crate::object::resource::Resource;
use crate::operator::admission::driver::{Failure, Reconciler};
use crate::operator::admission::managed_object::{KeptObject, SharedObject, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::operator::admission::setup::AdmissionSetup;
use crate::operator::admission::sharing::Plan;

/// Keeps one configuration up to date.
pub(super) struct Configuration {
    pub(super) setup: Arc<AdmissionSetup>,
    /// `None` until discovery has ended.
    pub(super) found: watch::Receiver<Option<Found>>,
    pub(super) trust: watch::Receiver<Trust>,
    /// Reports the generation of certificates that the configuration contains.
    pub(super) publisher: Publisher,
    pub(super) client: ClientConfig,
    pub(super) kind: AdmissionKind,
    pub(super) object: SharedObject,
    /// There may be webhooks to remove at the end.
    pub(super) is_ours: bool,
}

/// Returns the configuration of this name.
pub(super) fn configuration(kind: AdmissionKind, name: &str) -> KeptObject {
    let kind = match kind {
        AdmissionKind::Validate => "ValidatingWebhookConfiguration",
        AdmissionKind::Mutate => "MutatingWebhookConfiguration",
    };
    let resource = Resource::built_in("admissionregistration.k8s.io", kind, false);
    KeptObject::of(Arc::new(resource), name)
}

impl Configuration {
    fn source<'a>(&'a self, found: &'a Found, trust: &'a Trust) -> Source<'a> {
        Source {
            handlers: &self.setup.handlers,
            found,
            client: &self.client,
            bundle: &trust.bundle,
            domain: &self.object.kept.name,
            own_namespace: self.setup.own_namespace(),
            only_persistent: false,
        }
    }

    /// Gives the configuration, as found, these webhooks, unless a newer instance decides.
    async fn put(
        &mut self,
        found: Option<&Value>,
        wanted: Vec<Value>,
        is_ending: bool,
    ) -> Result<Plan, ClusterError> {
        let is_right = match found {
            Some(found) => is_as_wanted(found, &wanted),
            None => wanted.is_empty(),
        };
        let is_kept = is_ending && self.setup.persists();
        let plan = self.object.plan(found, is_right || is_kept, is_ending);
        self.is_ours |= found.is_some();
        if plan.annotations.is_some() {
            let mut content = json!({"webhooks": wanted});
            if let Some(owner) = owner(&self.setup).await {
                content["metadata"]["ownerReferences"] = json!([owner]);
            }
            self.is_ours = true;
            self.object.carry_out(found, &plan, content).await?;
        }
        if plan.writes {
            report_of_operator(&AdmissionServing::Configured {
                configuration: self.object.kept.shown(),
                webhooks: wanted.len(),
            });
        }
        self.object.note(&plan, wanted.into(), found);
        Ok(plan)
    }
}

impl Reconciler for Configuration {
    /// Fails for ever if a webhook would block the operator itself or is rejected as invalid.
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let found = self.found.borrow_and_update().clone();
        let trust = self.trust.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(Duration::MAX);
        };
        let source = self.source(&found, &trust);
        let made = guarded(|| (blocking(source), webhooks(self.kind, source)));
        let (why, wanted) = made.map_err(|panic| panicked(&panic))?;
        if let Some(why) = why {
            return Err(Failure::Fatal(why));
        }
        // An invalid request to read was refused by a proxy, which may accept it later.
        let present = self.object.look().await?;
        let trusts_alike = present.as_ref().is_some_and(|it| trusts_alike(it, &wanted));
        let plan = self.put(present.as_ref(), wanted, false).await.map_err(|error| match error {
            ClusterError::Invalid(error) => {
                let shown = self.object.kept.shown();
                Failure::Fatal(format!("{shown} cannot be written: invalid: {error}"))
            }
            error => Failure::Retry(error),
        })?;
        if plan.decides || trusts_alike {
            self.publisher.holds(trust.newest, Instant::now());
        }
        Ok(self.object.pause())
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.object.changed() => {}
            Ok(()) = self.found.changed() => {}
            Ok(()) = self.trust.changed() => {}
        }
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        report_of_operator(&AdmissionServing::ConfigurationFailed {
            configuration: self.object.kept.shown(),
            error: explained(error),
            pause,
        });
    }

    /// Removes the webhooks that must not stay: in a cluster none, else those that handlers do not declare persistent.
    async fn leave(&mut self) -> Result<bool, ClusterError> {
        let found = self.found.borrow().clone();
        let Some(found) = found.filter(|_| self.is_ours) else {
            return Ok(false);
        };
        let trust = self.trust.borrow().clone();
        let source = Source { only_persistent: true, ..self.source(&found, &trust) };
        let Ok(wanted) = guarded(|| webhooks(self.kind, source)) else {
            return Ok(false);
        };
        let present = self.object.look().await?;
        Ok(self.put(present.as_ref(), wanted, true).await?.writes)
    }

    fn may_arrive(&self) -> bool {
        self.object.may_arrive()
    }

    fn report_unreleased(&mut self, error: String) {
        let configuration = self.object.kept.shown();
        report_of_operator(&AdmissionServing::ConfigurationLeft { configuration, error });
    }
}

/// Returns the namespace of the operator as the owner of the configurations: when it is deleted and no instance can answer any more, the
/// cluster deletes them, too. Returns `None` if they do not stay, or if the namespace may not be read.
async fn owner(setup: &AdmissionSetup) -> Option<Value> {
    let name = setup.own_namespace().filter(|_| setup.persists())?;
    let namespace = Resource::built_in("", "Namespace", false);
    let namespace = KeptObject::of(Arc::new(namespace), name);
    let found = namespace.look(&setup.cluster).await.ok()??;
    let uid = &found["metadata"]["uid"];
    Some(json!({"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid}))
}

/// Returns whether the webhooks that a newer instance has written trust the same certificates.
fn trusts_alike(found: &Value, wanted: &[Value]) -> bool {
    let bundle = wanted.first().map(|it| &it["clientConfig"]["caBundle"]);
    let mut found = found["webhooks"].as_array().into_iter().flatten();
    bundle.is_none_or(|bundle| found.all(|it| it["clientConfig"]["caBundle"] == *bundle))
}

pub(super) fn panicked(panic: &str) -> ClusterError {
    let error = format!("a function that selects resources has panicked: {panic}");
    ClusterError::Invalid(error)
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::{ApiServer, Fault, Verb};

    use super::*;
    use crate::cluster::fake::{Answer, Fake};
    use crate::cluster::{Client, Cluster};
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::operator::admission::publishing::Publishing;
    use crate::operator::admission::setup::tests::setup;
    use crate::operator::admission::sharing::Sharing;

    /// Returns the configuration of one webhook for pods, which must not outlive the instance.
    fn configuration(cluster: Cluster) -> Configuration {
        let check = handler("check", |_| async { Ok(()) });
        let found = Found { resources: vec![Resource::built_in("", "Pod", true)], ..Found::default() };
        let mut setup = setup(cluster);
        setup.handlers = Registry::new().on_validate("pods", check).handlers().to_vec();
        let kind = AdmissionKind::Validate;
        let sharing = Sharing::new("op.kopf.rs", "one", setup.clock);
        Configuration {
            found: watch::channel(Some(found)).1,
            trust: watch::channel(Trust::default()).1,
            publisher: Publishing::new().publisher(),
            client: ClientConfig::Url("https://host:1".to_owned()),
            kind,
            object: SharedObject::new(super::configuration(kind, "op.kopf.rs"), &setup.cluster, sharing),
            is_ours: false,
            setup: Arc::new(setup),
        }
    }

    fn cluster(server: &ApiServer) -> Cluster {
        Cluster::new(Client::new(server.service(), "default"))
    }

    /// A proxy before the server may give such answers.
    #[tokio::test(start_paused = true)]
    async fn a_read_is_repeated_whatever_its_answer_is() {
        let page = |code| Answer::new(code, "<html></html>");
        let garbled = Fake::new((0..9).map(|_| page(200)));
        let mut configuration = configuration(garbled.cluster());
        assert!(matches!(configuration.reconcile().await, Err(Failure::Retry(_))));
        let server = ApiServer::new();
        let refused = server.fault(Fault::answer(413).on(Verb::Get).times(1));
        let mut configuration = self::configuration(cluster(&server));
        assert!(matches!(configuration.reconcile().await, Err(Failure::Retry(_))));
        assert_eq!(refused.hits(), 1);
        assert!(configuration.reconcile().await.is_ok());
        let garbled = Fake::new([page(201)]).cluster();
        let path = configuration.object.kept.path();
        let created = garbled.create_kept(path, &json!({})).await;
        assert!(created.is_err_and(|error| error.is_transient() && error.may_have_landed()));
    }

    /// An endpoint that closes right after its webhooks were removed would fail requests of servers that still call it.
    #[tokio::test(start_paused = true)]
    async fn a_removal_counts_even_if_the_release_fails_or_is_repeated() {
        let server = ApiServer::new();
        let mut configuration = configuration(cluster(&server));
        let plural = "validatingwebhookconfigurations";
        // So the release looks at the configuration twice.
        let lost = Fault::drop_after().on(Verb::Create).plural(plural);
        let _lost = server.fault(lost.times(1));
        assert!(configuration.reconcile().await.is_err());
        let failed = Fault::answer(500).on(Verb::Get).plural(plural);
        let failed = server.fault(failed.nth(2).times(1));
        let mut removed = false;
        assert!(configuration.release(&mut removed).await.is_err());
        assert_eq!(failed.hits(), 1);
        assert!(removed);
        assert!(configuration.release(&mut removed).await.is_ok());
        assert!(removed);
    }
}
