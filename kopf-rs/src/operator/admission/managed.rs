//! Writes the two configurations that tell the API server what to ask, and keeps them right.
//!
//! Level-triggered: what should be there is computed anew from what is served, and written where something else is there. Promises that each is
//! written, and taken away at the end, whatever becomes of the other, and that the end does not wait for a server that does not answer. Must
//! not know how webhooks are answered.

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
use crate::operator::admission::looked_after::{KeptObject, Touched, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::rt::backoff::Backoff;

/// What the cluster serves, and for which namespaces the operator is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) resources: Vec<Resource>,
    /// `None`: all.
    pub(crate) namespaces: Option<BTreeSet<String>>,
}

/// What configurations are made of, but for what changes.
pub(super) struct ManagedSetup {
    pub(super) cluster: Cluster,
    pub(super) handlers: Vec<Arc<Handler>>,
    /// The name of both configurations.
    pub(super) name: String,
    pub(super) client: ClientConfig,
    pub(super) own_namespace: Option<String>,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
    /// `None` until the cluster was asked.
    pub(super) found: watch::Receiver<Option<Found>>,
    pub(super) trust: watch::Receiver<Trust>,
    /// Where it tells which generation both configurations hold.
    pub(super) publisher: Publisher,
}

/// Keeps both configurations right.
pub(super) struct Managed {
    setup: ManagedSetup,
    configurations: [Configuration; 2],
    failures: Backoff,
    /// Of those who were outrun by somebody else, who may be done by now.
    conflicts: Backoff,
}

/// One of them.
struct Configuration {
    kind: AdmissionKind,
    /// There may be something to take away at the end.
    is_ours: bool,
    /// A change of it was sent, and there is no answer.
    is_in_doubt: bool,
    /// The webhooks that it had when it was right.
    right: Option<Vec<Value>>,
    /// The kind of failure that was told last.
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

/// For so long, the operator tries to take webhooks away at its end.
const FAREWELL: Duration = Duration::from_secs(5);
/// After so short a time whoever was outrun looks again.
const OUTRUN: Duration = Duration::from_millis(20);
/// What was sent, and cut off by the end of the operator, arrives within that time.
const ARRIVAL: Duration = Duration::from_secs(1);

impl Managed {
    pub(super) fn new(setup: ManagedSetup) -> Self {
        let (first, longest) = setup.backoff;
        Self {
            setup,
            configurations: KINDS.map(Configuration::new),
            failures: Backoff::new(first, longest),
            conflicts: Backoff::new(OUTRUN, longest),
        }
    }

    /// Keep them right for ever. Ends where a webhook would block the operator itself, or is refused as wrong: why.
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

    /// Wait until somebody has touched one of them. Whoever contests it waits longer.
    async fn touched(&self, [mutating, validating]: &[Touched; 2]) {
        for configuration in &self.configurations {
            configuration.contest.over().await;
        }
        tokio::select! {
            () = mutating.touched() => {}
            () = validating.touched() => {}
        }
    }

    /// Leave only what is to stay without the operator. Whether something was taken away.
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

    /// When to come again at the latest; or why it makes no sense to go on.
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
            self.setup.publisher.holds(trust.newest, Instant::now());
            return Ok(Duration::MAX);
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
    fn new(kind: AdmissionKind) -> Self {
        Self {
            kind,
            is_ours: false,
            is_in_doubt: false,
            right: None,
            told: None,
            contest: Contest::new(),
        }
    }

    /// Keep it as the handlers want it.
    async fn keep(&mut self, setup: &ManagedSetup, source: Source<'_>) -> Result<(), Failure> {
        let wanted = guarded(|| webhooks(self.kind, source));
        let wanted = wanted.map_err(|panic| Failure::ForNow(panicked(&panic)))?;
        match self.put(setup, wanted).await {
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

    /// Make it so that the configuration has these webhooks: whether it has had others.
    async fn put(
        &mut self,
        setup: &ManagedSetup,
        wanted: Vec<Value>,
    ) -> Result<bool, ClusterError> {
        let object = object(setup, self.kind);
        let found = match setup.cluster.look_at(object.path(), false).await {
            Ok(found) => Some(found),
            Err(ClusterError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let is_right = |it: &Value| is_as_wanted(it, &wanted);
        if found.as_ref().map_or(wanted.is_empty(), is_right) {
            self.is_ours |= found.is_some();
            self.right = Some(wanted);
            return Ok(false);
        }
        self.send(setup, &object, found.as_ref(), &wanted).await?;
        report(AdmissionServing::Configured {
            configuration: self.shown(setup),
            webhooks: wanted.len(),
        });
        if self.right.as_ref() == Some(&wanted) {
            let (shown, rng) = (self.shown(setup), setup.cluster.rng());
            self.contest.repaired(&shown, found.as_ref(), rng);
        }
        self.right = Some(wanted);
        Ok(true)
    }

    async fn send(
        &mut self,
        setup: &ManagedSetup,
        object: &KeptObject,
        found: Option<&Value>,
        wanted: &[Value],
    ) -> Result<(), ClusterError> {
        let cluster = &setup.cluster;
        // Whoever is cut off now does not know whether it arrives.
        (self.is_ours, self.is_in_doubt) = (true, true);
        let sent = if let Some(found) = found {
            let version = &found["metadata"]["resourceVersion"];
            let merge = json!({"metadata": {"resourceVersion": version}, "webhooks": wanted});
            cluster.merge_kept(object.path(), &merge).await
        } else {
            let content = configuration(self.kind, &object.name, wanted);
            cluster.create_kept(object.path(), &content).await
        };
        self.is_in_doubt = sent.as_ref().is_err_and(ClusterError::may_have_landed);
        sent.map(drop)
    }

    /// Take away what is not to stay, while there is time: whether something was.
    async fn leave(&mut self, setup: &ManagedSetup, wanted: &[Value]) -> bool {
        let until = Instant::now() + FAREWELL;
        let mut backoff = Backoff::new(OUTRUN, setup.backoff.0);
        let (mut has_changed, mut error) = (false, "no answer".to_owned());
        let mut may_arrive = self.is_in_doubt;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, self.put(setup, wanted.to_vec())).await {
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

    /// Each kind of failure once, until it is over.
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

    /// For people.
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
