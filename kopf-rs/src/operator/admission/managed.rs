//! Writes the two webhook configurations, and keeps them up to date.
//!
//! Level-triggered: computes the wanted state from the served resources, and writes it if the present one differs. The configurations belong
//! to the operator and not to a process: the newest of all instances writes them, and in a cluster they stay when instances end. Guarantees
//! that a failure of one does not affect the other, neither for writing nor for the removal at the end of a local process, and that the end
//! does not wait for a server that does not answer. Must not know how webhooks are answered.

use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::admission::blocking::blocking;
use crate::admission::configuration::{
    ClientConfig, Source, configuration, is_as_wanted, webhooks,
};
use crate::admission::instances::Instances;
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchPace;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::handler::webhook::AdmissionKind;
use crate::happening::Happening;
use crate::happening::admission::AdmissionServing;
use crate::object::resource::Resource;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::managed_object::{KeptObject, Touched, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::operator::admission::sharing::Sharing;
use crate::rt::backoff::Backoff;

/// The served resources, and the namespaces of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) resources: Vec<Resource>,
    /// `None` for all namespaces.
    pub(crate) namespaces: Option<BTreeSet<String>>,
}

/// The constant parts of the configurations.
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
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
    /// `None` until discovery has ended.
    pub(super) found: watch::Receiver<Option<Found>>,
    pub(super) trust: watch::Receiver<Trust>,
    /// Reports the generation that both configurations contain.
    pub(super) publisher: Publisher,
}

/// Keeps both configurations up to date.
pub(super) struct Managed {
    setup: ManagedSetup,
    configurations: [Configuration; 2],
    failures: Backoff,
    /// The back-off after write conflicts.
    conflicts: Backoff,
}

/// One configuration.
struct Configuration {
    kind: AdmissionKind,
    /// There may be webhooks to remove at the end.
    is_ours: bool,
    /// A change was sent and not answered.
    is_in_doubt: bool,
    /// The webhooks that it had when it was last correct.
    right: Option<Vec<Value>>,
    /// It contains the certificates that this instance knows, even if another instance has written them.
    holds: bool,
    sharing: Sharing,
    /// The kind of failure that was last reported.
    told: Option<Discriminant<ClusterError>>,
    contest: Contest,
}

/// Why a configuration is not as it should be.
enum Failure {
    ForGood(String),
    ForNow(ClusterError),
}

const GROUP: &str = "admissionregistration.k8s.io";
const KINDS: [AdmissionKind; 2] = [AdmissionKind::Mutate, AdmissionKind::Validate];

/// The time limit for removing webhooks at the end.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay after a write conflict.
const CONFLICT_RETRY: Duration = Duration::from_millis(20);
/// The time within which a request arrives that the end of the operator has cut off.
const ARRIVAL: Duration = Duration::from_secs(1);

impl Managed {
    pub(super) fn new(setup: ManagedSetup) -> Self {
        let (first, longest) = setup.backoff;
        let configurations = KINDS.map(|kind| Configuration::new(kind, setup.sharing.clone()));
        Self {
            setup,
            configurations,
            failures: Backoff::new(first, longest),
            conflicts: Backoff::new(CONFLICT_RETRY, longest),
        }
    }

    /// Keeps the configurations up to date for ever. Returns only if a webhook would block the operator itself or is rejected as invalid,
    /// with the reason.
    pub(super) async fn run(&mut self) -> String {
        let touched = KINDS.map(|kind| {
            let object = object(&self.setup, kind);
            object.watch(&self.setup.cluster, self.setup.pace.clone())
        });
        loop {
            let pause = match self.reconcile().await {
                Ok(pause) => pause,
                Err(why) => return why,
            };
            let (mut found, mut trust) = (self.setup.found.clone(), self.setup.trust.clone());
            tokio::select! {
                () = sleep(pause) => {}
                () = self.touched(&touched) => {}
                Ok(()) = found.changed() => {}
                Ok(()) = trust.changed() => {}
            }
        }
    }

    /// Waits until another writer has touched one of them; longer if it contests them.
    async fn touched(&self, [mutating, validating]: &[Touched; 2]) {
        for configuration in &self.configurations {
            configuration.contest.over().await;
        }
        tokio::select! {
            () = mutating.touched() => {}
            () = validating.touched() => {}
        }
    }

    /// Removes the webhooks that must not stay: in a cluster none, else those that handlers do not declare persistent. Returns whether any
    /// were removed.
    pub(super) async fn leave(&mut self) -> bool {
        let found = self.setup.found.borrow().clone();
        let Some(found) = found else {
            return false;
        };
        let trust = self.setup.trust.borrow().clone();
        let source = Source {
            only_persistent: true,
            ..source(&self.setup, &found, &trust)
        };
        let setup = &self.setup;
        let own = self.configurations.iter_mut().filter(|it| it.is_ours);
        let leaving = own.map(|configuration| async move {
            let wanted = guarded(|| webhooks(configuration.kind, source));
            match wanted {
                Ok(wanted) => configuration.leave(setup, &wanted).await,
                Err(_) => false,
            }
        });
        join_all(leaving).await.contains(&true)
    }

    /// Returns the time of the next look at the latest; the error is a reason to give up.
    async fn reconcile(&mut self) -> Result<Duration, String> {
        let found = self.setup.found.borrow_and_update().clone();
        let trust = self.setup.trust.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(Duration::MAX);
        };
        let source = source(&self.setup, &found, &trust);
        let mut failed = Vec::new();
        match guarded(|| blocking(source)) {
            Ok(Some(why)) => return Err(why),
            Ok(None) => {
                for configuration in &mut self.configurations {
                    let done = configuration.keep(&self.setup, source).await;
                    failed.extend(done.err().map(|failure| (configuration, failure)));
                }
            }
            Err(panic) => {
                let failure = Failure::ForNow(panicked(&panic));
                failed.push((&mut self.configurations[0], failure));
            }
        }
        if failed.is_empty() {
            self.failures.reset();
            self.conflicts.reset();
            if self.configurations.iter().all(|it| it.holds) {
                self.setup.publisher.holds(trust.newest, Instant::now());
            }
            let pauses = self.configurations.iter().map(|it| it.sharing.pause());
            return Ok(pauses.min().unwrap_or(Duration::MAX));
        }
        let rng = self.setup.cluster.rng();
        let is_outrun = |(_, failure): &(&mut Configuration, Failure)| {
            matches!(failure, Failure::ForNow(ClusterError::Conflict(_)))
        };
        let pause = if failed.iter().all(is_outrun) {
            self.conflicts.next_pause(rng)
        } else {
            let asked_for = failed
                .iter()
                .filter_map(|(_, failure)| failure.retry_after());
            let asked_for = asked_for.max().unwrap_or_default();
            self.failures.next_pause_after(asked_for, rng)
        };
        for (configuration, failure) in failed {
            configuration.tell(&self.setup, failure, pause)?;
        }
        Ok(pause)
    }
}

impl Configuration {
    fn new(kind: AdmissionKind, sharing: Sharing) -> Self {
        Self {
            kind,
            holds: false,
            sharing,
            is_ours: false,
            is_in_doubt: false,
            right: None,
            told: None,
            contest: Contest::new(),
        }
    }

    /// Keeps the configuration as the handlers want it.
    async fn keep(&mut self, setup: &ManagedSetup, source: Source<'_>) -> Result<(), Failure> {
        let wanted = guarded(|| webhooks(self.kind, source));
        let wanted = wanted.map_err(|panic| Failure::ForNow(panicked(&panic)))?;
        match self.put(setup, wanted, false).await {
            Ok(_) => {
                self.told = None;
                Ok(())
            }
            Err(ClusterError::Invalid(error)) => {
                let shown = self.shown(setup);
                let why = format!("{shown} cannot be written: invalid: {error}");
                Err(Failure::ForGood(why))
            }
            Err(error) => Err(Failure::ForNow(error)),
        }
    }

    /// Gives the configuration these webhooks, unless a newer instance decides. Returns whether it had others.
    async fn put(
        &mut self,
        setup: &ManagedSetup,
        wanted: Vec<Value>,
        is_ending: bool,
    ) -> Result<bool, ClusterError> {
        let object = object(setup, self.kind);
        let found = match setup.cluster.look_at(object.path(), false).await {
            Ok(found) => Some(found),
            Err(ClusterError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let all = self.sharing.instances(found.as_ref());
        let decides = self.sharing.decides(&all);
        if !decides && !is_ending {
            return self.stand_by(setup, found.as_ref(), &wanted, &all).await;
        }
        let is_right = |it: &Value| is_as_wanted(it, &wanted);
        let is_right = found.as_ref().map_or(wanted.is_empty(), is_right);
        let is_kept = is_right || is_ending && (setup.persists || !decides);
        let instances = if is_ending {
            self.sharing.left(&all)
        } else {
            self.sharing.joined(&all)
        };
        if is_kept && (found.is_none() || instances == all) {
            self.is_ours |= found.is_some();
            (self.right, self.holds) = (Some(wanted), true);
            return Ok(false);
        }
        let webhooks = (!is_kept).then_some(wanted.as_slice());
        let annotations = self.sharing.annotations(&instances);
        self.send(setup, &object, found.as_ref(), (annotations, webhooks))
            .await?;
        if !is_kept {
            report(AdmissionServing::Configured {
                configuration: self.shown(setup),
                webhooks: wanted.len(),
            });
            if self.right.as_ref() == Some(&wanted) {
                let (shown, rng) = (self.shown(setup), setup.cluster.rng());
                self.contest.repaired(&shown, found.as_ref(), rng);
            }
        }
        (self.right, self.holds) = (Some(wanted), true);
        Ok(!is_kept)
    }

    /// Leaves the decision to a newer instance, and sends a heartbeat if necessary. Returns `false`, since it changes no webhooks.
    async fn stand_by(
        &mut self,
        setup: &ManagedSetup,
        found: Option<&Value>,
        wanted: &[Value],
        all: &Instances,
    ) -> Result<bool, ClusterError> {
        (self.right, self.is_ours) = (None, found.is_some());
        self.holds = found.is_some_and(|it| trusts_alike(it, wanted));
        let joined = self.sharing.joined(all);
        if found.is_some() && joined != *all {
            let annotations = self.sharing.annotations(&joined);
            let object = object(setup, self.kind);
            self.send(setup, &object, found, (annotations, None))
                .await?;
        }
        Ok(false)
    }

    /// Sends a change; `None` leaves the webhooks as they are.
    async fn send(
        &mut self,
        setup: &ManagedSetup,
        object: &KeptObject,
        found: Option<&Value>,
        (annotations, webhooks): (Value, Option<&[Value]>),
    ) -> Result<(), ClusterError> {
        let cluster = &setup.cluster;
        let mut metadata = json!({"annotations": annotations});
        if let Some(owner) = owner(setup).await {
            metadata["ownerReferences"] = json!([owner]);
        }
        // If the request is cut off from here on, it may or may not arrive.
        (self.is_ours, self.is_in_doubt) = (true, true);
        let sent = if let Some(found) = found {
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
            let mut merge = json!({"metadata": metadata});
            if let Some(webhooks) = webhooks {
                merge["webhooks"] = webhooks.into();
            }
            cluster.merge_kept(object.path(), &merge).await
        } else {
            let mut content = configuration(self.kind, &object.name, webhooks.unwrap_or_default());
            metadata["name"] = object.name.as_str().into();
            content["metadata"] = metadata;
            cluster.create_kept(object.path(), &content).await
        };
        self.is_in_doubt = sent.as_ref().is_err_and(ClusterError::may_have_landed);
        sent.map(drop)
    }

    /// Removes the webhooks that must not stay, within the time limit. Returns whether any were removed.
    async fn leave(&mut self, setup: &ManagedSetup, wanted: &[Value]) -> bool {
        let until = Instant::now() + CLEANUP_TIMEOUT;
        let mut backoff = Backoff::new(CONFLICT_RETRY, setup.backoff.0);
        let (mut has_changed, mut error) = (false, "no answer".to_owned());
        let mut may_arrive = self.is_in_doubt;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, self.put(setup, wanted.to_vec(), true)).await {
                Ok(Ok(changed)) => {
                    has_changed |= changed;
                    if !std::mem::take(&mut may_arrive) {
                        return has_changed;
                    }
                    sleep(ARRIVAL).await;
                }
                Ok(Err(failure)) => {
                    error = explained(&failure);
                    if failure.is_lasting() {
                        break;
                    }
                    sleep(backoff.next_pause(setup.cluster.rng())).await;
                }
                Err(_) => break,
            }
        }
        let configuration = self.shown(setup);
        report(AdmissionServing::ConfigurationLeft {
            configuration,
            error,
        });
        has_changed
    }

    /// Reports each kind of failure once, until it is over. Returns an error if retries cannot help.
    fn tell(
        &mut self,
        setup: &ManagedSetup,
        failure: Failure,
        pause: Duration,
    ) -> Result<(), String> {
        let error = match failure {
            Failure::ForGood(why) => return Err(why),
            Failure::ForNow(ClusterError::Conflict(_)) => return Ok(()),
            Failure::ForNow(error) => error,
        };
        if self.told.replace(discriminant(&error)) != Some(discriminant(&error)) {
            report(AdmissionServing::ConfigurationFailed {
                configuration: self.shown(setup),
                error: explained(&error),
                pause,
            });
        }
        Ok(())
    }

    /// Returns the name for people.
    fn shown(&self, setup: &ManagedSetup) -> String {
        let object = object(setup, self.kind);
        format!("{} {}", object.resource.kind, object.name)
    }
}

impl Failure {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::ForGood(_) => None,
            Self::ForNow(error) => error.retry_after(),
        }
    }
}

/// Returns the namespace of the operator as the owner of the configurations: when it is deleted and no instance can answer any more, the
/// cluster deletes them, too. Returns `None` if they do not stay, or if the namespace may not be read.
async fn owner(setup: &ManagedSetup) -> Option<Value> {
    let name = setup.own_namespace.as_ref().filter(|_| setup.persists)?;
    let namespace = KeptObject {
        resource: Arc::new(Resource::built_in("", "Namespace", false)),
        namespace: None,
        name: name.clone(),
    };
    let found = setup.cluster.look_at(namespace.path(), false).await.ok()?;
    let uid = &found["metadata"]["uid"];
    Some(json!({"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid}))
}

/// Returns whether the webhooks that a newer instance has written trust the same certificates.
fn trusts_alike(found: &Value, wanted: &[Value]) -> bool {
    let bundle = wanted.first().map(|it| &it["clientConfig"]["caBundle"]);
    let mut found = found["webhooks"].as_array().into_iter().flatten();
    bundle.is_none_or(|bundle| found.all(|it| it["clientConfig"]["caBundle"] == *bundle))
}

fn panicked(panic: &str) -> ClusterError {
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

fn object(setup: &ManagedSetup, kind: AdmissionKind) -> KeptObject {
    let kind = match kind {
        AdmissionKind::Validate => "ValidatingWebhookConfiguration",
        AdmissionKind::Mutate => "MutatingWebhookConfiguration",
    };
    KeptObject {
        resource: Arc::new(Resource::built_in(GROUP, kind, false)),
        namespace: None,
        name: setup.name.clone(),
    }
}

fn report(happening: AdmissionServing) {
    report_of_operator(&Happening::Admission(happening));
}
