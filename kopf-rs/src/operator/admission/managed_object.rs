//! Objects that the operator keeps up to date: a task for each is woken when another writer has touched it.
//!
//! Must not know the contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::child::ObjectPath;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::object::resource::Resource;
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

/// Looks at the object every 60 s while it cannot be watched, because no event reports changes then.
pub(super) const LOOK: Duration = Duration::from_secs(60);

impl KeptObject {
    /// Returns the definition of a custom resource.
    pub(super) fn definition(name: &str) -> Self {
        let group = "apiextensions.k8s.io";
        let resource = Resource::built_in(group, "CustomResourceDefinition", false);
        Self {
            resource: Arc::new(resource),
            namespace: None,
            name: name.to_owned(),
        }
    }

    pub(super) fn path(&self) -> ObjectPath<'_> {
        ObjectPath {
            resource: &self.resource,
            namespace: self.namespace.as_deref(),
            name: &self.name,
        }
    }

    /// Watches for changes by other writers.
    pub(super) fn watch(&self, cluster: &Cluster, pace: WatchPace) -> Touched {
        let watched = Watched::new(self.resource.clone(), self.namespace.clone(), pace);
        wake(cluster, watched.selecting(Selection::named(&self.name)))
    }
}

/// Watches for changes to all objects of a kind with this label.
pub(super) fn watch_labelled(
    cluster: &Cluster,
    kind: Arc<Resource>,
    label: &str,
    pace: WatchPace,
) -> Touched {
    let selection = Selection {
        labels: label.to_owned(),
        ..Selection::default()
    };
    wake(cluster, Watched::new(kind, None, pace).selecting(selection))
}

fn wake(cluster: &Cluster, watched: Watched) -> Touched {
    let notify = Arc::new(Notify::new());
    let watched = watched.told_as(ObjectForm::Metadata);
    let is_watched = Arc::new(AtomicBool::new(false));
    let (wake, works) = (notify.clone(), is_watched.clone());
    let task = follow_in_task(cluster, watched, move |event| match event {
        WatchEvent::Object(..) => wake.notify_one(),
        // An object that a listing lacks was deleted without an event.
        WatchEvent::Synced => {
            works.store(true, Ordering::Relaxed);
            wake.notify_one();
        }
        WatchEvent::Resumed => works.store(true, Ordering::Relaxed),
        WatchEvent::Trouble(_) => works.store(false, Ordering::Relaxed),
        WatchEvent::Listing(_) | WatchEvent::Bookmark | WatchEvent::Silent => {}
    });
    Touched {
        notify,
        is_watched,
        _task: task,
    }
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
