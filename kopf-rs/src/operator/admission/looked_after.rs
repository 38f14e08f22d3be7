//! Objects that the operator keeps right: a task for each is woken when somebody else has touched it.
//!
//! Must not know what it holds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::child::ObjectPath;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::object::resource::Resource;
use crate::operator::follow::follow_in_task;

/// One object, by its name, whether it is there or not.
#[derive(Clone, Debug)]
pub(super) struct KeptObject {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// Wakes when the object may have changed. Dropping it ends the watch.
pub(super) struct Touched {
    notify: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// So often the object is looked at in any case: who may not watch it has no other way.
const LOOK: Duration = Duration::from_secs(60);

impl KeptObject {
    /// The definition of a custom resource.
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

    /// Watch for what others do to it.
    pub(super) fn watch(&self, cluster: &Cluster, pace: WatchPace) -> Touched {
        let notify = Arc::new(Notify::new());
        let watched = Watched::new(self.resource.clone(), self.namespace.clone(), pace);
        let watched = watched.selecting(Selection::named(&self.name));
        let watched = watched.told_as(ObjectForm::Metadata);
        let wake = notify.clone();
        let task = follow_in_task(cluster, watched, move |event| {
            if matches!(event, WatchEvent::Object(..)) {
                wake.notify_one();
            }
        });
        Touched {
            notify,
            _task: task,
        }
    }
}

impl Touched {
    /// Wait until it may have changed. Cancel-safe.
    pub(super) async fn touched(&self) {
        let _ = tokio::time::timeout(LOOK, self.notify.notified()).await;
    }
}

/// For people: with what would permit it.
pub(super) fn explained(error: &ClusterError) -> String {
    match error {
        ClusterError::Denied { rule, .. } if !rule.is_empty() => {
            format!("{error}\nTo permit it, add {rule}")
        }
        error => error.to_string(),
    }
}
