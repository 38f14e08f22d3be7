//! Reads, writes and watches objects that the operator keeps up to date. Each write is bound to the version that was read.
//!
//! Must not know the contents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::request::ObjectPath;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::object::resource::Resource;
use crate::operator::admission::contest::Contest;
use crate::operator::admission::sharing::{Plan, Sharing};
use crate::operator::follow::follow_in_task;

/// One object by name, whether it exists or not.
#[derive(Clone, Debug)]
pub(super) struct KeptObject {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// Wakes when the object may have changed. Dropping it ends the watch.
pub(super) struct Touched {
    notify: Arc<Notify>,
    /// The watch has listed and works, so it reports every change.
    is_watched: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

/// An object that the operator's instances share, as this instance keeps it in its desired state.
pub(super) struct SharedObject {
    pub(super) kept: KeptObject,
    cluster: Cluster,
    sharing: Sharing,
    touched: Touched,
    contest: Contest,
    unanswered: Unanswered,
}

/// The objects that may still change because a write of this instance to them was not answered.
#[derive(Debug, Default)]
pub(super) struct Unanswered(BTreeSet<String>);

/// The time within which a request arrives that the end of the operator has cut off.
pub(super) const ARRIVAL: Duration = Duration::from_secs(1);

/// Looks at the object every 60 s while it cannot be watched, because no event reports changes then.
pub(super) const LOOK: Duration = Duration::from_secs(60);

impl KeptObject {
    /// Returns an object that belongs to no namespace.
    pub(super) fn of(resource: Arc<Resource>, name: &str) -> Self {
        Self { resource, namespace: None, name: name.to_owned() }
    }

    /// Returns the definition of a custom resource.
    pub(super) fn definition(name: &str) -> Self {
        let group = "apiextensions.k8s.io";
        let resource = Resource::built_in(group, "CustomResourceDefinition", false);
        Self::of(Arc::new(resource), name)
    }

    pub(super) fn path(&self) -> ObjectPath<'_> {
        ObjectPath { resource: &self.resource, namespace: self.namespace.as_deref(), name: &self.name }
    }

    /// Returns the name for people.
    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.resource.kind, self.name)
    }

    /// Watches for changes by other writers.
    pub(super) fn watch(&self, cluster: &Cluster) -> Touched {
        let pace = WatchPace::default();
        let watched = Watched::new(self.resource.clone(), self.namespace.clone(), pace);
        wake(cluster, watched.selecting(Selection::named(&self.name)))
    }

    /// Reads the object, if it exists.
    pub(super) async fn look(&self, cluster: &Cluster) -> Result<Option<Value>, ClusterError> {
        match cluster.look_at(self.path(), false).await {
            Ok(found) => Ok(Some(found)),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Merges the content into the version that was found, or creates the object. Returns the new state.
    pub(super) async fn write(
        &self,
        cluster: &Cluster,
        found: Option<&Value>,
        mut content: Value,
    ) -> Result<Value, ClusterError> {
        if let Some(found) = found {
            let version = &found["metadata"]["resourceVersion"];
            content["metadata"]["resourceVersion"] = version.clone();
            let written = cluster.merge_kept(self.path(), &content).await;
            // If the object was deleted meanwhile, it has to be created. When it is created, a 404 means that its namespace or kind is missing.
            return written.map_err(|error| match error {
                ClusterError::NotFound(why) => ClusterError::Conflict(why.to_string()),
                error => error,
            });
        }
        content["apiVersion"] = self.resource.api_version().into();
        content["kind"] = self.resource.kind.as_str().into();
        content["metadata"]["name"] = self.name.as_str().into();
        if let Some(namespace) = &self.namespace {
            content["metadata"]["namespace"] = namespace.as_str().into();
        }
        cluster.create_kept(self.path(), &content).await
    }

    /// Writes what the plan requires: the content, or only its metadata with the list of instances. If it is cut off, the request may or may
    /// not arrive.
    pub(super) async fn carry_out(
        &self,
        cluster: &Cluster,
        found: Option<&Value>,
        plan: &Plan,
        mut content: Value,
        unanswered: &mut Unanswered,
    ) -> Result<(), ClusterError> {
        let Some(annotations) = &plan.annotations else {
            return Ok(());
        };
        if !plan.writes {
            content = json!({"metadata": content["metadata"]});
        }
        content["metadata"]["annotations"] = annotations.clone();
        let object = self.shown();
        let was_open = !unanswered.0.insert(object.clone());
        let sent = self.write(cluster, found, content).await.map(drop);
        // A refusal of this request says nothing about an earlier one.
        let is_open = |error: &ClusterError| was_open || error.may_have_landed();
        if !sent.as_ref().is_err_and(is_open) {
            unanswered.0.remove(&object);
        }
        sent
    }
}

impl SharedObject {
    pub(super) fn new(kept: KeptObject, cluster: &Cluster, sharing: Sharing) -> Self {
        Self {
            touched: kept.watch(cluster),
            kept,
            cluster: cluster.clone(),
            sharing,
            contest: Contest::default(),
            unanswered: Unanswered::default(),
        }
    }

    /// Reads the object, if it exists.
    pub(super) async fn look(&self) -> Result<Option<Value>, ClusterError> {
        self.kept.look(&self.cluster).await
    }

    /// Decides what this instance writes: see [`Sharing::plan`].
    pub(super) fn plan(&mut self, found: Option<&Value>, is_right: bool, is_ending: bool) -> Plan {
        self.sharing.plan(found, is_right, is_ending)
    }

    /// Writes what the plan requires.
    pub(super) async fn carry_out(
        &mut self,
        found: Option<&Value>,
        plan: &Plan,
        content: Value,
    ) -> Result<(), ClusterError> {
        self.kept.carry_out(&self.cluster, found, plan, content, &mut self.unanswered).await
    }

    /// Notes that the plan was carried out. It was a repair if the object had the wanted content before.
    pub(super) fn note(&mut self, plan: &Plan, wanted: Value, found: Option<&Value>) {
        self.contest.note(&self.kept.shown(), plan, wanted, found, self.cluster.rng());
    }

    /// Waits until the object may have changed, and may be repaired again. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.contest.over().await;
        self.touched.touched().await;
    }

    /// Returns the longest pause before the next look.
    pub(super) fn pause(&self) -> Duration {
        self.sharing.pause()
    }

    pub(super) fn may_arrive(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Removes this instance from the list of instances.
    pub(super) async fn leave_list(&mut self) -> Result<(), ClusterError> {
        let found = self.look().await?;
        let plan = self.plan(found.as_ref(), true, true);
        self.carry_out(found.as_ref(), &plan, Value::Null).await
    }
}

impl Unanswered {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Watches for changes to all objects of a kind with this label.
pub(super) fn watch_labelled(cluster: &Cluster, kind: Arc<Resource>, label: &str) -> Touched {
    let selection = Selection { labels: label.to_owned(), ..Selection::default() };
    let watched = Watched::new(kind, None, WatchPace::default());
    wake(cluster, watched.selecting(selection))
}

fn wake(cluster: &Cluster, watched: Watched) -> Touched {
    let notify = Arc::new(Notify::new());
    let watched = watched.in_form(ObjectForm::Metadata);
    let is_watched = Arc::new(AtomicBool::new(false));
    let (wake, works) = (notify.clone(), is_watched.clone());
    let task = follow_in_task(cluster, watched, move |event| match event {
        WatchEvent::Object(..) => wake.notify_one(),
        // An object that a listing lacks was deleted without an event.
        WatchEvent::Synced(_) => {
            works.store(true, Ordering::Relaxed);
            wake.notify_one();
        }
        WatchEvent::Resumed => works.store(true, Ordering::Relaxed),
        WatchEvent::Trouble(_) => works.store(false, Ordering::Relaxed),
        WatchEvent::Listing(_) | WatchEvent::Bookmark | WatchEvent::Silent => {}
    });
    Touched { notify, is_watched, _task: task }
}

impl Touched {
    /// Waits until the object may have changed. Cancel-safe.
    pub(super) async fn touched(&self) {
        let looked = || tokio::time::timeout(LOOK, self.notify.notified());
        while looked().await.is_err() && self.is_watched.load(Ordering::Relaxed) {}
    }
}

/// Formats an error for people, with the RBAC rule that would permit the request.
pub(super) fn explained(error: &ClusterError) -> String {
    match error {
        ClusterError::Denied { rule, .. } if !rule.is_empty() => {
            format!("{error}\nTo permit it, add {rule}")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::rt::clock::Clock;

    /// Enters this instance of `op.kopf.rs` in the list of the object.
    pub(in crate::operator::admission) async fn enter(
        cluster: &Cluster,
        object: &KeptObject,
        instance: &str,
    ) {
        let found = object.look(cluster).await.unwrap();
        let mut sharing = Sharing::new("op.kopf.rs", instance, Clock::start());
        let plan = sharing.plan(found.as_ref(), true, false);
        let mut unanswered = Unanswered::default();
        let entered = object.carry_out(cluster, found.as_ref(), &plan, Value::Null, &mut unanswered);
        entered.await.unwrap();
    }

    /// Enters the instance `one` after a while, as a request does that was cut off.
    pub(in crate::operator::admission) async fn enter_late(cluster: &Cluster, object: &KeptObject) {
        sleep(ARRIVAL / 2).await;
        enter(cluster, object, "one").await;
    }

    /// Returns the list of instances in the object.
    pub(in crate::operator::admission) async fn entered(cluster: &Cluster, object: &KeptObject) -> String {
        let found = object.look(cluster).await.unwrap().unwrap();
        let list = &found["metadata"]["annotations"]["op.kopf.rs/instances"];
        list.as_str().unwrap_or_default().to_owned()
    }
}
