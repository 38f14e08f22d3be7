//! Storage migration: if objects may be stored in former versions, writes each of them again unchanged, slowly, and then removes those
//! versions from the definition's status.
//!
//! Idempotent: a restarted migration stores nothing a second time, because the server ignores writes that change nothing. Must not know how
//! objects are converted.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::cluster::error::ClusterError;
use crate::cluster::migration::ObjectVersion;
use crate::conversion::definition::{Migration, migrates_by_itself, migration};
use crate::conversion::graph::ConvertedKind;
use crate::engine::report::report_of_operator;
use crate::happening::webhooks::{MigratedKind, Migrating};
use crate::object::resource::Resource;
use crate::operator::admission::driver::{Failure, Reconciler};
use crate::operator::admission::managed_object::{KeptObject, Touched, explained};
use crate::operator::admission::setup::AdmissionSetup;
use crate::rt::backoff::Backoff;

/// Migrates the objects of one kind, whenever its definition requires it.
pub(super) struct StorageMigration {
    setup: Arc<AdmissionSetup>,
    kind: ConvertedKind,
    definition: KeptObject,
    touched: Touched,
    /// The last report: each is made once, for as long as it lasts.
    reported: Option<Migration>,
    /// The last attempt has failed. The next one writes all objects again, so only time ends the pause before it.
    has_failed: bool,
}

/// The number of objects in one request.
const PAGE: u32 = 250;
/// The number of attempts for an object while the server is busy.
const TRIES: u32 = 5;
/// The pause before objects that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(600);

impl StorageMigration {
    pub(super) fn new(setup: Arc<AdmissionSetup>, kind: ConvertedKind) -> Self {
        let definition = KeptObject::definition(&kind.name);
        let touched = definition.watch(&setup.cluster);
        Self { touched, definition, setup, kind, reported: None, has_failed: false }
    }

    /// Migrates if that is due. Returns the pause after that.
    async fn migrate(&mut self) -> Result<Duration, ClusterError> {
        let Some((found, planned)) = self.planned().await? else {
            self.reported = None;
            return Ok(Duration::MAX);
        };
        let is_news = self.reported.as_ref() != Some(&planned);
        self.reported = Some(planned.clone());
        if migrates_by_itself(&found) {
            if is_news {
                self.report_of(|of| Migrating::LeftToCluster { of });
            }
            return Ok(Duration::MAX);
        }
        if is_news {
            let admission = &self.setup.settings.admission;
            let (after, rate) = (admission.propagation, admission.migration_rate);
            self.report_of(|of| Migrating::Planned { of, from: planned.from.clone(), after, rate });
            // API servers may still store objects in a former version.
            sleep(after).await;
        }
        let Some(resource) = self.resource(&found, &planned) else {
            return Ok(Duration::MAX);
        };
        let (objects, failed) = self.rewrite_all(&resource).await?;
        if failed > 0 {
            self.report_of(|of| Migrating::Incomplete { of, failed, pause: AGAIN });
            self.has_failed = true;
            return Ok(AGAIN);
        }
        let now = self.planned().await?;
        let now = now.filter(|(found, now)| *now == planned && !migrates_by_itself(found));
        let noted = match now {
            Some((found, _)) => {
                let (cluster, definitions) = (&self.setup.cluster, &self.definition.resource);
                cluster.set_stored_version(definitions, &found, &planned.version).await
            }
            None => Err(ClusterError::Conflict(String::new())),
        };
        match noted {
            Ok(()) => {
                self.report_of(|of| Migrating::Done { of, objects });
                Ok(Duration::MAX)
            }
            Err(ClusterError::Conflict(_)) => {
                self.report_of(|of| Migrating::Changed { of });
                Ok(Duration::ZERO)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the present task, with the definition that requires it.
    async fn planned(&self) -> Result<Option<(Value, Migration)>, ClusterError> {
        let found = self.definition.look(&self.setup.cluster).await?;
        Ok(found.and_then(|found| migration(&found).map(|migration| (found, migration))))
    }

    /// Returns the kind in its storage version, if that is served.
    fn resource(&self, definition: &Value, planned: &Migration) -> Option<Resource> {
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array()?;
        let served =
            versions.iter().find(|it| it["name"] == planned.version.as_str() && it["served"] == true);
        served?;
        Some(Resource {
            group: self.kind.group.clone(),
            version: planned.version.clone(),
            plural: spec["names"]["plural"].as_str()?.to_owned(),
            kind: spec["names"]["kind"].as_str()?.to_owned(),
            namespaced: spec["scope"] == "Namespaced",
            ..Resource::default()
        })
    }

    /// Writes all objects again. Returns their number, and the number of those that could not be written.
    async fn rewrite_all(&self, resource: &Resource) -> Result<(usize, usize), ClusterError> {
        let rate = self.setup.settings.admission.migration_rate.max(1);
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut objects, mut failed) = (0, 0);
        let mut next: Option<String> = None;
        // Servers list objects in the order of their names. After a list has expired, all objects up to the last one are written already, or
        // are new.
        let (mut last, mut done) = (String::new(), String::new());
        loop {
            let page = self.setup.cluster.metadata_page(resource, PAGE, next.as_deref());
            let page = match page.await {
                Ok(page) => page,
                Err(ClusterError::Gone(_)) if next.is_some() => {
                    next = None;
                    done.clone_from(&last);
                    self.report_of(|of| Migrating::Listed { of, objects });
                    continue;
                }
                Err(error) => return Err(error),
            };
            for object in page.objects {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let name = format!("{namespace}/{}", object.name);
                let name = name.trim_start_matches('/').to_owned();
                if name <= done {
                    continue;
                }
                ticks.tick().await;
                objects += 1;
                if let Err(error) = self.rewrite(resource, &object).await {
                    let (error, object) = (error.to_string(), name.clone());
                    self.report_of(|of| Migrating::ObjectFailed { of, object, error });
                    failed += 1;
                }
                last = name;
            }
            next = page.next;
            if next.is_none() {
                return Ok((objects, failed));
            }
        }
    }

    /// Writes one object again. An object that another writer has changed meanwhile is in the newest version already.
    async fn rewrite(&self, resource: &Resource, object: &ObjectVersion) -> Result<(), ClusterError> {
        let (first, longest) = self.setup.settings.networking.backoff();
        let (mut backoff, mut tries) = (Backoff::new(first, longest), 1);
        loop {
            let error = match self.setup.cluster.rewrite(resource, object).await {
                Ok(()) => return Ok(()),
                Err(ClusterError::Conflict(_) | ClusterError::NotFound(_) | ClusterError::OtherObject(_)) => {
                    return Ok(());
                }
                Err(error) => error,
            };
            if tries == TRIES || !error.is_transient() {
                return Err(error);
            }
            tries += 1;
            let asked_for = error.retry_after().unwrap_or_default();
            sleep(backoff.next_pause_after(asked_for, self.setup.cluster.rng())).await;
        }
    }

    fn report_of(&self, news: impl FnOnce(MigratedKind) -> Migrating) {
        let version = self.reported.as_ref().map(|it| it.version.clone());
        report_of_operator(&news(MigratedKind {
            definition: self.definition.name.clone(),
            version: version.unwrap_or_default(),
        }));
    }
}

impl Reconciler for StorageMigration {
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        self.has_failed = false;
        let migrated = self.migrate().await;
        self.has_failed |= migrated.is_err();
        Ok(migrated?)
    }

    async fn changed(&mut self) {
        if self.has_failed {
            return pending().await;
        }
        self.touched.touched().await;
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        let error = explained(error);
        self.report_of(|of| Migrating::Failed { of, error, pause });
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::{ApiServer, Fault, Verb};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::{Client, Cluster};
    use crate::conversion::graph::Conversions;
    use crate::conversion::graph::tests::between;
    use crate::handler::conversion::conversion;
    use crate::handler::logger::tests::Lines;
    use crate::operator::admission::driver::Driver;
    use crate::operator::admission::setup::tests::setup;

    fn migrating(server: &ApiServer) -> StorageMigration {
        let unchanged = conversion("f", |spec: Value| Ok(spec));
        let conversions = Conversions::of(&[between("v1alpha1", "v1", unchanged)]);
        let cluster = Cluster::new(Client::new(server.service(), "default"));
        StorageMigration::new(Arc::new(setup(cluster)), conversions.kinds()[0].clone())
    }

    /// The definition, with the version that objects are to be stored in.
    fn definition(stored: &str) -> Value {
        let versions = ["v1alpha1", "v1"].map(|name| {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            json!({"name": name, "served": true, "storage": name == stored, "schema": {"openAPIV3Schema": schema}})
        });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": versions,
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            }
        })
    }

    /// Creates this number of objects in each of two namespaces, stored in the former version.
    async fn fill(cluster: &Cluster, count: usize) {
        let former = Resource {
            group: "example.com".to_owned(),
            version: "v1alpha1".to_owned(),
            plural: "things".to_owned(),
            kind: "Thing".to_owned(),
            namespaced: true,
            ..Resource::default()
        };
        cluster.apply_manifest(&definition("v1alpha1")).await.unwrap();
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default-b"}});
        cluster.apply_manifest(&other).await.unwrap();
        for namespace in ["default", "default-b"] {
            for number in 0..count {
                let name = format!("n{number}");
                let object = json!({"apiVersion": "example.com/v1alpha1", "kind": "Thing", "metadata": {"name": name}});
                let created = cluster.create(&former, Some(namespace), &object);
                created.await.unwrap();
            }
        }
        cluster.apply_manifest(&definition("v1")).await.unwrap();
    }

    /// Servers expire a list within minutes: with many objects, a migration that starts again each time would never end.
    #[tokio::test(start_paused = true)]
    async fn after_a_list_was_forgotten_no_object_is_written_again() {
        let server = ApiServer::new();
        let mut migration = migrating(&server);
        fill(&migration.setup.cluster, 150).await;
        let forgotten = Fault::compact().on(Verb::List).plural("things");
        let forgotten = server.fault(forgotten.nth(2).times(1));
        server.journal().clear();
        assert_eq!(migration.migrate().await.unwrap(), Duration::MAX);
        assert_eq!(forgotten.hits(), 1);
        let requests = server.journal().entries();
        let of_things = |verb| requests.iter().filter(move |it| it.plural == "things" && it.verb == verb);
        assert!(of_things(Verb::List).any(|it| it.code == 410));
        assert_eq!(of_things(Verb::Patch).count(), 300);
        assert_eq!(migration.planned().await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_the_definition_ends_no_pause_after_a_failure() {
        let server = ApiServer::new();
        let mut migration = migrating(&server);
        fill(&migration.setup.cluster, 1).await;
        let refused = server.fault(Fault::answer(403).on(Verb::List).plural("things"));
        let hour = Duration::from_secs(3600);
        assert!(migration.reconcile().await.is_err());
        assert!(timeout(hour, migration.changed()).await.is_err());
        refused.clear();
        assert!(migration.reconcile().await.is_ok());
        assert!(timeout(hour, migration.changed()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_must_not_be_read_is_reported_once() {
        let server = ApiServer::new();
        let _forbidden = server.fault(Fault::answer(403).plural("customresourcedefinitions"));
        let lines = Lines::default();
        // With a single subscriber, threads without one would switch off the events that they register first.
        let _second = tracing::Dispatch::new(lines.clone());
        let _captured = tracing::subscriber::set_default(lines.clone());
        let migration = migrating(&server);
        let setup = migration.setup.clone();
        let mut driver = Driver::new(migration, &setup.cluster, setup.settings.networking.backoff());
        let ended = timeout(Duration::from_secs(3600), driver.run()).await;
        assert!(ended.is_err());
        let reported = lines.0.lock().clone();
        let reported: Vec<_> = reported.iter().filter(|it| it.contains("it cannot go on")).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].starts_with("WARN "), "{reported:?}");
        assert!(reported[0].contains("Storage migration of things.example.com: "), "{reported:?}");
    }
}
