//! Storage migration: where objects may be stored in former versions, writes each of them again as it is, slowly, and then notes in the definition that
//! none is left.
//!
//! Idempotent: whoever begins anew writes nothing a second time, since the server stores nothing that is stored already. Must not know how objects are
//! converted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::migration::ObjectVersion;
use crate::cluster::watch::WatchPace;
use crate::conversion::definition::{Migration, migrates_by_itself, migration};
use crate::conversion::graph::ConvertedKind;
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::migrating::{Migrating, MigrationNews};
use crate::object::resource::Resource;
use crate::operator::admission::looked_after::KeptObject;
use crate::rt::backoff::Backoff;

/// What is needed for one kind.
pub(super) struct MigrationSetup {
    pub(super) cluster: Cluster,
    pub(super) kind: ConvertedKind,
    /// Objects a second.
    pub(super) rate: u32,
    /// For so long, API servers may still store objects in a former version.
    pub(super) propagation: Duration,
    pub(super) backoff: (Duration, Duration),
    pub(super) pace: WatchPace,
}

/// Migrates the objects of one kind, whenever its definition asks for it.
pub(super) struct StorageMigration {
    setup: MigrationSetup,
    definition: KeptObject,
    /// What was told last: each once, for as long as it lasts.
    told: Option<Migration>,
}

/// What has become of a try.
enum End {
    /// Nothing is to be done, or nothing by us.
    Rest,
    /// The definition was changed.
    Anew,
    /// So many objects could not be written.
    Incomplete(Migration, usize),
}

/// Objects in one request.
const PAGE: u32 = 250;
/// An object whose server is busy is tried so often.
const TRIES: u32 = 5;
/// Objects that cannot be written are tried again after so long.
const AGAIN: Duration = Duration::from_secs(600);

impl StorageMigration {
    pub(super) fn new(setup: MigrationSetup) -> Self {
        Self {
            definition: KeptObject::definition(&setup.kind.name),
            setup,
            told: None,
        }
    }

    /// Follow the definition for ever.
    pub(super) async fn run(&mut self) -> String {
        let touched = self
            .definition
            .watch(&self.setup.cluster, self.setup.pace.clone());
        let (first, longest) = self.setup.backoff;
        let mut backoff = Backoff::new(first, longest);
        loop {
            let pause = match self.turn().await {
                Ok(End::Rest) => {
                    backoff.reset();
                    Duration::MAX
                }
                Ok(End::Anew) => Duration::ZERO,
                Ok(End::Incomplete(migration, failed)) => {
                    let pause = AGAIN;
                    self.tell(&migration, MigrationNews::Incomplete { failed, pause });
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Err((migration, error)) => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let pause = backoff.next_pause_after(asked_for, self.setup.cluster.rng());
                    if let Some(migration) = migration {
                        let error = error.to_string();
                        self.tell(&migration, MigrationNews::Failed { error, pause });
                    }
                    tokio::time::sleep(pause).await;
                    continue;
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = touched.touched() => {}
            }
        }
    }

    async fn turn(&mut self) -> Result<End, (Option<Migration>, ClusterError)> {
        let Some((found, planned)) = self.planned().await.map_err(|error| (None, error))? else {
            self.told = None;
            return Ok(End::Rest);
        };
        let is_news = self.told.as_ref() != Some(&planned);
        self.told = Some(planned.clone());
        if migrates_by_itself(&found) {
            if is_news {
                self.tell(&planned, MigrationNews::LeftToCluster);
            }
            return Ok(End::Rest);
        }
        if is_news {
            let (from, after) = (planned.from.clone(), self.setup.propagation);
            let rate = self.setup.rate;
            self.tell(&planned, MigrationNews::Planned { from, after, rate });
            tokio::time::sleep(after).await;
        }
        let named = |error| (Some(planned.clone()), error);
        let Some(resource) = self.resource(&found, &planned) else {
            return Ok(End::Rest);
        };
        let (objects, failed) = self.rewrite_all(&planned, &resource).await.map_err(named)?;
        if failed > 0 {
            return Ok(End::Incomplete(planned, failed));
        }
        let now = self.planned().await.map_err(named)?;
        let Some((found, _)) =
            now.filter(|(found, now)| *now == planned && !migrates_by_itself(found))
        else {
            self.tell(&planned, MigrationNews::Changed);
            return Ok(End::Anew);
        };
        let definitions = &self.definition.resource;
        let noted = self
            .setup
            .cluster
            .set_stored_version(definitions, &found, &planned.version);
        match noted.await {
            Ok(()) => {
                self.tell(&planned, MigrationNews::Done { objects });
                Ok(End::Rest)
            }
            Err(ClusterError::Conflict(_)) => {
                self.tell(&planned, MigrationNews::Changed);
                Ok(End::Anew)
            }
            Err(error) => Err(named(error)),
        }
    }

    /// What there is to do now, with the definition that says so.
    async fn planned(&self) -> Result<Option<(Value, Migration)>, ClusterError> {
        let found = self
            .setup
            .cluster
            .look_at(self.definition.path(), false)
            .await;
        match found {
            Ok(found) => Ok(migration(&found).map(|migration| (found, migration))),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The kind in the version that it is stored in, if that is served.
    fn resource(&self, definition: &Value, planned: &Migration) -> Option<Resource> {
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array()?;
        let served = versions
            .iter()
            .find(|it| it["name"] == planned.version.as_str() && it["served"] == true);
        served?;
        Some(Resource {
            group: self.setup.kind.group.clone(),
            version: planned.version.clone(),
            plural: spec["names"]["plural"].as_str()?.to_owned(),
            kind: spec["names"]["kind"].as_str()?.to_owned(),
            namespaced: spec["scope"] == "Namespaced",
            ..Resource::default()
        })
    }

    /// Write all objects again: how many there were, and how many could not be written.
    async fn rewrite_all(
        &self,
        planned: &Migration,
        resource: &Resource,
    ) -> Result<(usize, usize), ClusterError> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / self.setup.rate.max(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut objects, mut failed) = (0, BTreeSet::new());
        let mut next: Option<String> = None;
        loop {
            let page = self
                .setup
                .cluster
                .metadata_page(resource, PAGE, next.as_deref());
            let page = match page.await {
                Ok(page) => page,
                // The list is too old by now: those that were written are done.
                Err(ClusterError::Gone(_)) if next.is_some() => {
                    next = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for object in page.objects {
                ticks.tick().await;
                objects += 1;
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let name = format!("{namespace}/{}", object.name);
                let name = name.trim_start_matches('/').to_owned();
                match self.rewrite(resource, &object).await {
                    Ok(()) => {
                        failed.remove(&name);
                    }
                    Err(error) => {
                        let error = error.to_string();
                        let object = name.clone();
                        self.tell(planned, MigrationNews::ObjectFailed { object, error });
                        failed.insert(name);
                    }
                }
            }
            next = page.next;
            if next.is_none() {
                return Ok((objects, failed.len()));
            }
        }
    }

    /// Write one object again. What somebody else has written meanwhile is in the newest version by that.
    async fn rewrite(
        &self,
        resource: &Resource,
        object: &ObjectVersion,
    ) -> Result<(), ClusterError> {
        let (first, longest) = self.setup.backoff;
        let mut backoff = Backoff::new(first, longest);
        for _ in 1..TRIES {
            match self.setup.cluster.rewrite(resource, object).await {
                Err(error) if error.is_transient() => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let pause = backoff.next_pause_after(asked_for, self.setup.cluster.rng());
                    tokio::time::sleep(pause).await;
                }
                done => return or_gone(done),
            }
        }
        or_gone(self.setup.cluster.rewrite(resource, object).await)
    }

    fn tell(&self, migration: &Migration, news: MigrationNews) {
        report_of_operator(&Happening::Migrating(Migrating {
            definition: self.definition.name.clone(),
            version: migration.version.clone(),
            news,
        }));
    }
}

fn or_gone(written: Result<(), ClusterError>) -> Result<(), ClusterError> {
    match written {
        Err(
            ClusterError::Conflict(_) | ClusterError::NotFound(_) | ClusterError::OtherObject(_),
        ) => Ok(()),
        written => written,
    }
}
