//! Keeps the definition of a converted kind right: it tells the API server who converts its objects.
//!
//! It is written only where it says something else, for each change of a definition ends all watches of its kind. It stays as it is when the operator
//! ends: objects need it. Must not know how objects are converted.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::configuration::{ClientConfig, client_config};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchPace;
use crate::conversion::definition::{conversion, merge, says, versions};
use crate::conversion::graph::ConvertedKind;
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::converting::Converting;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::looked_after::{KeptObject, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::rt::backoff::Backoff;

/// What is needed for one kind.
pub(super) struct DefinitionSetup {
    pub(super) cluster: Cluster,
    pub(super) kind: ConvertedKind,
    pub(super) client: ClientConfig,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
    pub(super) trust: watch::Receiver<Trust>,
    pub(super) publisher: Publisher,
}

/// Keeps one definition right.
pub(super) struct Definition {
    setup: DefinitionSetup,
    /// It was right once: a version that nobody converts has come later.
    has_begun: bool,
    /// What is missing, as it was told.
    missing: Option<String>,
    /// What it said when it was right.
    right: Option<Value>,
    /// The kind of failure that was told last.
    told: Option<Discriminant<ClusterError>>,
    contest: Contest,
}

/// After so short a time whoever was outrun looks again.
const OUTRUN: Duration = Duration::from_millis(20);

/// Why it is not as it should be.
enum Failure {
    ForGood(String),
    ForNow(ClusterError),
}

impl Definition {
    pub(super) fn new(setup: DefinitionSetup) -> Self {
        Self {
            setup,
            has_begun: false,
            missing: None,
            right: None,
            told: None,
            contest: Contest::new(),
        }
    }

    /// Keep it right for ever. Ends where it is refused as wrong, or has versions that nobody converts: why.
    pub(super) async fn run(&mut self) -> String {
        let object = KeptObject::definition(&self.setup.kind.name);
        let touched = object.watch(&self.setup.cluster, self.setup.pace.clone());
        let (first, longest) = self.setup.backoff;
        let (mut backoff, mut conflicts) =
            (Backoff::new(first, longest), Backoff::new(OUTRUN, longest));
        loop {
            let pause = match self.reconcile(&object).await {
                Ok(()) => {
                    backoff.reset();
                    conflicts.reset();
                    self.told = None;
                    Duration::MAX
                }
                Err(Failure::ForGood(why)) => return why,
                // Somebody else was faster.
                Err(Failure::ForNow(ClusterError::Conflict(_))) => {
                    conflicts.next_pause(self.setup.cluster.rng())
                }
                Err(Failure::ForNow(error)) => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let pause = backoff.next_pause_after(asked_for, self.setup.cluster.rng());
                    self.tell(&error, pause);
                    pause
                }
            };
            let contest = &self.contest;
            let touched = async {
                contest.over().await;
                touched.touched().await;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = touched => {}
                Ok(()) = self.setup.trust.changed() => {}
            }
        }
    }

    /// Each kind of failure once, until it is over.
    fn tell(&mut self, error: &ClusterError, pause: Duration) {
        if self.told.replace(discriminant(error)) != Some(discriminant(error)) {
            report(Converting::DefinitionFailed {
                definition: self.setup.kind.name.clone(),
                error: explained(error),
                pause,
            });
        }
    }

    async fn reconcile(&mut self, object: &KeptObject) -> Result<(), Failure> {
        let trust = self.setup.trust.borrow_and_update().clone();
        match self.setup.cluster.look_at(object.path(), false).await {
            Ok(found) => self.put(object, &found, &trust).await?,
            // Nobody has to trust anybody.
            Err(ClusterError::NotFound(_)) => {}
            Err(error) => return Err(Failure::ForNow(error)),
        }
        self.setup.publisher.holds(trust.newest, Instant::now());
        Ok(())
    }

    /// Make it so that the definition names the operator.
    async fn put(
        &mut self,
        object: &KeptObject,
        found: &Value,
        trust: &Trust,
    ) -> Result<(), Failure> {
        if let Some(missing) = self.setup.kind.missing_between(&versions(found)) {
            if !self.has_begun {
                return Err(Failure::ForGood(missing));
            }
            if self.missing.as_ref() != Some(&missing) {
                self.missing = Some(missing.clone());
                let definition = object.name.clone();
                report(Converting::Unreachable {
                    definition,
                    missing,
                });
            }
            return Ok(());
        }
        self.missing = None;
        let path = self.setup.kind.path();
        let wanted = conversion(&client_config(&self.setup.client, &path, &trust.bundle));
        if !says(found, &wanted) {
            let merge = merge(found, &wanted);
            let written = self.setup.cluster.merge_kept(object.path(), &merge).await;
            written.map_err(|error| match error {
                ClusterError::Invalid(_) => {
                    Failure::ForGood(format!(
                        "the CustomResourceDefinition {} cannot be written, which must tell the API server that this operator converts its objects: {error}",
                        object.name
                    ))
                }
                error => Failure::ForNow(error),
            })?;
            let definition = object.name.clone();
            report(Converting::Configured { definition });
            if self.right.as_ref() == Some(&wanted) {
                let what = format!("CustomResourceDefinition {}", object.name);
                let rng = self.setup.cluster.rng();
                self.contest.repaired(&what, Some(found), rng);
            }
        }
        self.right = Some(wanted);
        self.has_begun = true;
        Ok(())
    }
}

fn report(happening: Converting) {
    report_of_operator(&Happening::Converting(happening));
}
