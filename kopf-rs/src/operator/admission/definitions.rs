//! Keeps the conversion stanza of a converted kind's definition up to date, and passes the definition to the converter.
//!
//! Writes it only if it differs, because each change of a definition ends all watches of its kind. Leaves it in place when the operator
//! ends, because objects need it. Must not know how objects are converted.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::configuration::{ClientConfig, client_config};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchPace;
use crate::conversion::definition::{conversion, merge, says, versions};
use crate::conversion::graph::ConvertedKind;
use crate::conversion::rules::Rules;
use crate::engine::conversion::Definitions;
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::converting::Converting;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::managed_object::{KeptObject, explained};
use crate::operator::admission::publishing::{Publisher, Trust};
use crate::operator::admission::sharing::Sharing;
use crate::rt::backoff::Backoff;

/// The parts that one kind needs.
pub(super) struct DefinitionSetup {
    pub(super) cluster: Cluster,
    pub(super) kind: ConvertedKind,
    pub(super) client: ClientConfig,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
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
    /// The missing conversions, as last reported.
    missing: Option<String>,
    /// The stanza when it was last correct.
    right: Option<Value>,
    /// The kind of failure that was last reported.
    told: Option<Discriminant<ClusterError>>,
    contest: Contest,
}

/// The delay after a write conflict.
const CONFLICT_RETRY: Duration = Duration::from_millis(20);

/// Why the definition is not as it should be.
enum Failure {
    ForGood(String),
    ForNow(ClusterError),
}

impl Definition {
    pub(super) fn new(setup: DefinitionSetup) -> Self {
        Self {
            setup,
            missing: None,
            right: None,
            told: None,
            contest: Contest::new(),
        }
    }

    /// Keeps the definition up to date for ever. Returns only if the server rejects it as invalid, with the reason.
    pub(super) async fn run(&mut self) -> String {
        let object = KeptObject::definition(&self.setup.kind.name);
        let touched = object.watch(&self.setup.cluster, self.setup.pace.clone());
        let (first, longest) = self.setup.backoff;
        let (mut backoff, mut conflicts) = (
            Backoff::new(first, longest),
            Backoff::new(CONFLICT_RETRY, longest),
        );
        loop {
            let pause = match self.reconcile(&object).await {
                Ok(()) => {
                    backoff.reset();
                    conflicts.reset();
                    self.told = None;
                    self.setup.sharing.pause()
                }
                Err(Failure::ForGood(why)) => return why,
                // Another writer has changed it in the meantime.
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

    /// Reports each kind of failure once, until it is over.
    fn tell(&mut self, error: &ClusterError, pause: Duration) {
        if self.told.replace(discriminant(error)) != Some(discriminant(error)) {
            let (definition, error) = (self.setup.kind.name.clone(), explained(error));
            report(match self.setup.publisher {
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
    }

    async fn reconcile(&mut self, object: &KeptObject) -> Result<(), Failure> {
        let trust = self.setup.trust.borrow_and_update().clone();
        let is_right = match self.setup.cluster.look_at(object.path(), false).await {
            Ok(found) => {
                self.setup.known.learn(&object.name, Rules::of(&found));
                self.setup.publisher.is_some() && self.put(object, &found, &trust).await?
            }
            // There is no definition yet, so no certificate has to be distributed.
            Err(ClusterError::NotFound(_)) => {
                self.setup.known.give_up(&object.name);
                true
            }
            Err(error) => {
                if error.is_lasting() {
                    self.setup.known.give_up(&object.name);
                }
                return Err(Failure::ForNow(error));
            }
        };
        if let Some(publisher) = self.setup.publisher.as_ref().filter(|_| is_right) {
            publisher.holds(trust.newest, Instant::now());
        }
        Ok(())
    }

    /// Deregisters this instance, so that an older one may decide. The definition stays, because objects need it.
    pub(super) async fn leave(&mut self) {
        if self.setup.publisher.is_none() {
            return;
        }
        let mut conflicts = Backoff::new(CONFLICT_RETRY, self.setup.backoff.1);
        // If two instances end together, one gets a conflict. The caller bounds the time of these retries.
        while let Err(ClusterError::Conflict(_)) = self.leave_list().await {
            tokio::time::sleep(conflicts.next_pause(self.setup.cluster.rng())).await;
        }
    }

    async fn leave_list(&mut self) -> Result<(), ClusterError> {
        let object = KeptObject::definition(&self.setup.kind.name);
        let cluster = &self.setup.cluster;
        let found = cluster.look_at(object.path(), false).await?;
        let all = self.setup.sharing.instances(Some(&found));
        if self.setup.sharing.is_in(&all) {
            let left = self.setup.sharing.left(&all);
            let version = &found["metadata"]["resourceVersion"];
            let annotations = self.setup.sharing.annotations(&left);
            let merge =
                json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
            cluster.merge_kept(object.path(), &merge).await?;
        }
        Ok(())
    }

    /// Makes the definition name this operator as the converter, unless a newer instance decides. Returns whether it now says what this
    /// instance wants.
    async fn put(
        &mut self,
        object: &KeptObject,
        found: &Value,
        trust: &Trust,
    ) -> Result<bool, Failure> {
        // After a rollback, the definition still has versions of the newer release. The versions that this release knows are converted
        // nevertheless.
        let missing = self.setup.kind.missing_between(&versions(found));
        if let Some(missing) = missing.clone().filter(|_| self.missing != missing) {
            let definition = object.name.clone();
            report(Converting::Unreachable {
                definition,
                missing,
            });
        }
        self.missing = missing;
        let all = self.setup.sharing.instances(Some(found));
        let decides = self.setup.sharing.decides(&all);
        let path = self.setup.kind.path();
        let wanted = conversion(&client_config(&self.setup.client, &path, &trust.bundle));
        let is_said = says(found, &wanted);
        let instances = self.setup.sharing.joined(&all);
        let is_kept = is_said || !decides;
        if !is_kept || instances != all {
            let mut merge = merge(found, &wanted);
            merge["metadata"]["annotations"] = self.setup.sharing.annotations(&instances);
            if is_kept {
                merge = json!({"metadata": merge["metadata"]});
            }
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
        }
        if !decides {
            self.right = None;
            return Ok(is_said);
        }
        if !is_said {
            let definition = object.name.clone();
            report(Converting::Configured { definition });
            if self.right.as_ref() == Some(&wanted) {
                let what = format!("CustomResourceDefinition {}", object.name);
                let rng = self.setup.cluster.rng();
                self.contest.repaired(&what, Some(found), rng);
            }
        }
        self.right = Some(wanted);
        Ok(true)
    }
}

fn report(happening: Converting) {
    report_of_operator(&Happening::Converting(happening));
}
