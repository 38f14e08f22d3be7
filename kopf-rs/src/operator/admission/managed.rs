//! Writes the two configurations that tell the API server what to ask, and keeps them right.
//!
//! Level-triggered: what should be there is computed anew from what is served, and written where something else is there. Must not know how
//! webhooks are answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

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
use crate::operator::admission::keeper::Trust;
use crate::operator::admission::looked_after::KeptObject;
use crate::operator::admission::publishing::Publisher;
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;

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
    pub(super) clock: Clock,
    /// `None` until the cluster was asked.
    pub(super) found: watch::Receiver<Option<Found>>,
    pub(super) trust: watch::Receiver<Trust>,
    /// Where it tells which generation both configurations hold.
    pub(super) publisher: Publisher,
}

/// Keeps both configurations right.
pub(super) struct Managed {
    setup: ManagedSetup,
    /// Both configurations were right once: there is something to take away at the end.
    has_managed: bool,
}

const GROUP: &str = "admissionregistration.k8s.io";
const KINDS: [AdmissionKind; 2] = [AdmissionKind::Mutate, AdmissionKind::Validate];

impl Managed {
    pub(super) fn new(setup: ManagedSetup) -> Self {
        Self {
            setup,
            has_managed: false,
        }
    }

    /// Keep them right for ever. Ends where a webhook would block the operator itself, or may not be written: why.
    pub(super) async fn run(&mut self) -> String {
        let touched = KINDS.map(|kind| {
            let object = self.object(kind);
            object.watch(&self.setup.cluster, self.setup.pace.clone())
        });
        let (first, longest) = self.setup.backoff;
        let mut backoff = Backoff::new(first, longest);
        loop {
            let pause = match self.reconcile().await {
                Ok(()) => {
                    backoff.reset();
                    Duration::MAX
                }
                Err(Failure::ForGood(why)) => return why,
                // Somebody else was faster.
                Err(Failure::ForNow(_, ClusterError::Conflict(_))) => Duration::ZERO,
                Err(Failure::ForNow(configuration, error)) => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let rng = self.setup.cluster.rng();
                    let pause = backoff.next_pause_after(asked_for, rng);
                    report(AdmissionServing::ConfigurationFailed {
                        configuration,
                        error: error.to_string(),
                        pause,
                    });
                    pause
                }
            };
            let [mutating, validating] = &touched;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = mutating.touched() => {}
                () = validating.touched() => {}
                Ok(()) = self.setup.found.changed() => {}
                Ok(()) = self.setup.trust.changed() => {}
            }
        }
    }

    /// Leave only what is to stay without the operator. Whether something was taken away.
    pub(super) async fn leave(&self) -> bool {
        let mut has_changed = false;
        let found = self.setup.found.borrow().clone();
        let Some(found) = found.filter(|_| self.has_managed) else {
            return false;
        };
        let trust = self.setup.trust.borrow().clone();
        for kind in KINDS {
            let source = Source {
                only_persistent: true,
                ..self.source(&found, &trust)
            };
            for _ in 0..4 {
                let Ok(wanted) = guarded(|| webhooks(kind, source)) else {
                    break;
                };
                match self.put(kind, &wanted).await {
                    Ok(changed) => {
                        has_changed |= changed;
                        break;
                    }
                    Err(error) => self.tell(kind, &error).await,
                }
            }
        }
        has_changed
    }

    async fn tell(&self, kind: AdmissionKind, error: &ClusterError) {
        let pause = self.setup.backoff.0;
        report(AdmissionServing::ConfigurationFailed {
            configuration: self.shown(kind),
            error: error.to_string(),
            pause,
        });
        tokio::time::sleep(pause).await;
    }

    async fn reconcile(&mut self) -> Result<(), Failure> {
        let found = self.setup.found.borrow_and_update().clone();
        let trust = self.setup.trust.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(());
        };
        let source = self.source(&found, &trust);
        let panicked = |kind, panic| {
            let error = format!("a function that selects resources has panicked: {panic}");
            Failure::ForNow(self.shown(kind), ClusterError::Invalid(error))
        };
        let harm = guarded(|| blocking(source)).map_err(|panic| panicked(KINDS[0], panic))?;
        if let Some(why) = harm {
            return Err(Failure::ForGood(why));
        }
        for kind in KINDS {
            let wanted = guarded(|| webhooks(kind, source));
            let wanted = wanted.map_err(|panic| panicked(kind, panic))?;
            let put = self.put(kind, &wanted).await;
            put.map_err(|error| match error {
                ClusterError::Denied { .. } | ClusterError::Invalid(_) => {
                    let shown = self.shown(kind);
                    Failure::ForGood(format!("{shown} cannot be written: {error}"))
                }
                error => Failure::ForNow(self.shown(kind), error),
            })?;
        }
        self.has_managed = true;
        let now = self.setup.clock.now();
        self.setup.publisher.holds(trust.newest, now);
        Ok(())
    }

    fn source<'a>(&'a self, found: &'a Found, trust: &'a Trust) -> Source<'a> {
        Source {
            handlers: &self.setup.handlers,
            resources: &found.resources,
            client: &self.setup.client,
            bundle: &trust.bundle,
            domain: &self.setup.name,
            namespaces: found.namespaces.as_ref(),
            own_namespace: self.setup.own_namespace.as_deref(),
            only_persistent: false,
        }
    }

    fn object(&self, kind: AdmissionKind) -> KeptObject {
        let kind = match kind {
            AdmissionKind::Validate => "ValidatingWebhookConfiguration",
            AdmissionKind::Mutate => "MutatingWebhookConfiguration",
        };
        KeptObject {
            resource: Arc::new(Resource::built_in(GROUP, kind, false)),
            namespace: None,
            name: self.setup.name.clone(),
        }
    }

    /// For people.
    fn shown(&self, kind: AdmissionKind) -> String {
        let object = self.object(kind);
        format!("{} {}", object.resource.kind, object.name)
    }

    /// Make it so that the configuration has these webhooks: whether it has had others.
    async fn put(&self, kind: AdmissionKind, webhooks: &[Value]) -> Result<bool, ClusterError> {
        let object = self.object(kind);
        let cluster = &self.setup.cluster;
        match cluster.look_at(object.path(), false).await {
            Ok(found) if is_as_wanted(&found, webhooks) => return Ok(false),
            Ok(found) => {
                let version = &found["metadata"]["resourceVersion"];
                let merge = json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks});
                cluster.merge_kept(object.path(), &merge).await?;
            }
            Err(ClusterError::NotFound(_)) if webhooks.is_empty() => return Ok(false),
            Err(ClusterError::NotFound(_)) => {
                let content = configuration(kind, &object.name, webhooks);
                cluster.create_kept(object.path(), &content).await?;
            }
            Err(error) => return Err(error),
        }
        report(AdmissionServing::Configured {
            configuration: self.shown(kind),
            webhooks: webhooks.len(),
        });
        Ok(true)
    }
}

/// Why the configurations are not as they should be.
enum Failure {
    ForGood(String),
    /// Which one, and why.
    ForNow(String, ClusterError),
}

fn report(happening: AdmissionServing) {
    report_of_operator(&Happening::Admission(happening));
}
