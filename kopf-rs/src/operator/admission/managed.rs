//! Writes the two webhook configurations, and keeps them up to date.
//!
//! Level-triggered: computes the wanted state from the served resources, and writes it if the present one differs. The configurations belong
//! to the operator and not to a process: the newest of all instances writes them, and in a cluster they stay when instances end. A failure of
//! one does not affect the other. Must not know how webhooks are answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::blocking::blocking;
use crate::admission::configuration::{ClientConfig, Source, is_as_wanted, webhooks};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::handler::webhook::AdmissionKind;
use crate::happening::webhooks::AdmissionServing;
use crate::object::resource::Resource;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::driver::{Failure, Reconciler};
use crate::operator::admission::managed_object::{KeptObject, Touched, Unanswered, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::operator::admission::sharing::Sharing;

/// The served resources, and the namespaces of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) resources: Vec<Resource>,
    /// `None` for all namespaces.
    pub(crate) namespaces: Option<BTreeSet<String>>,
}

/// The constant parts of the configurations.
#[derive(Clone)]
pub(super) struct ManagedSetup {
    pub(super) cluster: Cluster,
    pub(super) handlers: Vec<Arc<Handler>>,
    /// The name of both configurations.
    pub(super) name: String,
    pub(super) client: ClientConfig,
    pub(super) own_namespace: Option<String>,
    /// This instance, among those that share the configurations.
    pub(super) sharing: Sharing,
    /// The operator runs in the cluster, where other instances or a restarted one may need the webhooks, so they stay when this instance
    /// ends.
    pub(super) persists: bool,
    /// `None` until discovery has ended.
    pub(super) found: watch::Receiver<Option<Found>>,
    pub(super) trust: watch::Receiver<Trust>,
}

/// Keeps one configuration up to date.
pub(super) struct Configuration {
    setup: ManagedSetup,
    kind: AdmissionKind,
    object: KeptObject,
    touched: Touched,
    /// Reports the generation of certificates that the configuration contains.
    publisher: Publisher,
    contest: Contest,
    /// There may be webhooks to remove at the end.
    is_ours: bool,
    unanswered: Unanswered,
    /// Webhooks were removed at the end.
    has_removed: bool,
}

const GROUP: &str = "admissionregistration.k8s.io";

impl Configuration {
    pub(super) fn new(setup: ManagedSetup, kind: AdmissionKind, publisher: Publisher) -> Self {
        let named = match kind {
            AdmissionKind::Validate => "ValidatingWebhookConfiguration",
            AdmissionKind::Mutate => "MutatingWebhookConfiguration",
        };
        let resource = Arc::new(Resource::built_in(GROUP, named, false));
        let object = KeptObject::of(resource, &setup.name);
        Self {
            kind,
            touched: object.watch(&setup.cluster),
            object,
            publisher,
            contest: Contest::new(),
            is_ours: false,
            unanswered: Unanswered::default(),
            has_removed: false,
            setup,
        }
    }

    /// Gives the configuration, as found, these webhooks, unless a newer instance decides. Returns whether it trusts the certificates that
    /// this instance knows.
    async fn put(
        &mut self,
        found: Option<Value>,
        wanted: Vec<Value>,
        is_ending: bool,
    ) -> Result<bool, ClusterError> {
        let setup = &mut self.setup;
        let is_kept = is_ending && setup.persists;
        let is_right = match &found {
            Some(found) => is_as_wanted(found, &wanted),
            None => wanted.is_empty(),
        };
        let found = found.as_ref();
        let plan = setup.sharing.plan(found, is_right || is_kept, is_ending);
        let holds = plan.decides || found.is_some_and(|it| trusts_alike(it, &wanted));
        self.is_ours |= found.is_some();
        if plan.annotations.is_some() {
            let mut content = json!({"webhooks": wanted});
            if let Some(owner) = owner(&self.setup).await {
                content["metadata"]["ownerReferences"] = json!([owner]);
            }
            self.is_ours = true;
            let (cluster, unanswered) = (&self.setup.cluster, &mut self.unanswered);
            self.object.carry_out(cluster, found, &plan, content, unanswered).await?;
        }
        if plan.writes {
            self.has_removed |= is_ending;
            report_of_operator(&AdmissionServing::Configured {
                configuration: self.object.shown(),
                webhooks: wanted.len(),
            });
        }
        let rng = self.setup.cluster.rng();
        self.contest.note(&plan, wanted.into(), (&self.object, found), rng);
        Ok(holds)
    }
}

impl Reconciler for Configuration {
    /// Fails for ever if a webhook would block the operator itself or is rejected as invalid.
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let found = self.setup.found.borrow_and_update().clone();
        let trust = self.setup.trust.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(Duration::MAX);
        };
        let source = source(&self.setup, &found, &trust);
        let made = guarded(|| (blocking(source), webhooks(self.kind, source)));
        let (why, wanted) = made.map_err(|panic| panicked(&panic))?;
        if let Some(why) = why {
            return Err(Failure::Fatal(why));
        }
        // An invalid request to read was refused by a proxy, which may accept it later.
        let present = self.object.look(&self.setup.cluster).await?;
        match self.put(present, wanted, false).await {
            Ok(true) => self.publisher.holds(trust.newest, Instant::now()),
            Ok(false) => {}
            Err(ClusterError::Invalid(error)) => {
                let shown = self.object.shown();
                let why = format!("{shown} cannot be written: invalid: {error}");
                return Err(Failure::Fatal(why));
            }
            Err(error) => return Err(error.into()),
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
            Ok(()) = self.setup.found.changed() => {}
            Ok(()) = self.setup.trust.changed() => {}
        }
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        report_of_operator(&AdmissionServing::ConfigurationFailed {
            configuration: self.object.shown(),
            error: explained(error),
            pause,
        });
    }

    /// Removes the webhooks that must not stay: in a cluster none, else those that handlers do not declare persistent.
    async fn release(&mut self) -> Result<bool, ClusterError> {
        let found = self.setup.found.borrow().clone();
        let Some(found) = found.filter(|_| self.is_ours) else {
            return Ok(false);
        };
        let trust = self.setup.trust.borrow().clone();
        let source = Source { only_persistent: true, ..source(&self.setup, &found, &trust) };
        let Ok(wanted) = guarded(|| webhooks(self.kind, source)) else {
            return Ok(false);
        };
        let may_arrive = !self.unanswered.is_empty();
        let present = self.object.look(&self.setup.cluster).await?;
        self.put(present, wanted.clone(), true).await?;
        if may_arrive {
            Unanswered::arrive().await;
            let present = self.object.look(&self.setup.cluster).await?;
            self.put(present, wanted, true).await?;
        }
        Ok(self.has_removed)
    }

    fn report_unreleased(&mut self, error: String) -> bool {
        let configuration = self.object.shown();
        report_of_operator(&AdmissionServing::ConfigurationLeft { configuration, error });
        self.has_removed
    }
}

/// Returns the namespace of the operator as the owner of the configurations: when it is deleted and no instance can answer any more, the
/// cluster deletes them, too. Returns `None` if they do not stay, or if the namespace may not be read.
async fn owner(setup: &ManagedSetup) -> Option<Value> {
    let name = setup.own_namespace.as_ref().filter(|_| setup.persists)?;
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

fn source<'a>(setup: &'a ManagedSetup, found: &'a Found, trust: &'a Trust) -> Source<'a> {
    Source {
        handlers: &setup.handlers,
        resources: &found.resources,
        client: &setup.client,
        bundle: &trust.bundle,
        domain: &setup.name,
        namespaces: found.namespaces.as_ref(),
        namespace_expression: None,
        own_namespace: setup.own_namespace.as_deref(),
        only_persistent: false,
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::{ApiServer, Fault, Verb};

    use super::*;
    use crate::cluster::Client;
    use crate::cluster::fake::{Answer, Fake};
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::operator::admission::publishing::Publishing;
    use crate::rt::clock::Clock;

    /// Returns the configuration of one webhook for pods, which must not outlive the instance.
    fn configuration(cluster: Cluster) -> Configuration {
        let check = handler("check", |_| async { Ok(()) });
        let found = Found { resources: vec![Resource::built_in("", "Pod", true)], namespaces: None };
        let setup = ManagedSetup {
            cluster,
            handlers: Registry::new().on_validate("pods", check).handlers().to_vec(),
            name: "op.kopf.rs".to_owned(),
            client: ClientConfig::Url("https://host:1".to_owned()),
            own_namespace: None,
            sharing: Sharing::new("op.kopf.rs", "one", Clock::start()),
            persists: false,
            found: watch::channel(Some(found)).1,
            trust: watch::channel(Trust::default()).1,
        };
        let publisher = Publishing::new().publisher();
        Configuration::new(setup, AdmissionKind::Validate, publisher)
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
        let path = configuration.object.path();
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
        assert!(configuration.release().await.is_err());
        assert_eq!(failed.hits(), 1);
        assert!(configuration.report_unreleased(String::new()));
        assert!(matches!(configuration.release().await, Ok(true)));
    }
}
