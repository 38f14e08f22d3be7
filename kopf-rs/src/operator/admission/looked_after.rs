//! Objects that the operator keeps right: a task for each is woken when somebody else has touched it.
//!
//! Must not know what it holds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::child::ObjectPath;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::engine::report::report_outage_over;
use crate::object::resource::Resource;
use crate::operator::follow::follow;
use crate::rt::outage::Membership;

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
        let selection = Selection {
            fields: format!("metadata.name={}", self.name),
            ..Selection::default()
        };
        let watched = Watched::new(self.resource.clone(), self.namespace.clone(), pace);
        let watched = watched.selecting(selection).told_as(ObjectForm::Metadata);
        let outage = Membership::new(cluster.outages().clone(), report_outage_over);
        let wake = notify.clone();
        let following = follow(cluster.clone(), watched, outage, move |event| {
            if matches!(event, WatchEvent::Object(..)) {
                wake.notify_one();
            }
        });
        Touched {
            notify,
            _task: AbortOnDropHandle::new(tokio::spawn(following)),
        }
    }
}

impl Touched {
    /// Wait until it may have changed. Cancel-safe.
    pub(super) async fn touched(&self) {
        let _ = tokio::time::timeout(LOOK, self.notify.notified()).await;
    }
}

/// A resource of Kubernetes' own, which needs no discovery.
pub(super) fn known(group: &str, plural: &str, kind: &str, namespaced: bool) -> Arc<Resource> {
    Arc::new(Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        namespaced,
        preferred: true,
        ..Resource::default()
    })
}
