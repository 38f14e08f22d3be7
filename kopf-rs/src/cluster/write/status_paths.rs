//! Whether there is a status subresource where discovery does not know of one: what requests to its path have shown.
//!
//! Must not know when it is asked for.

use std::sync::PoisonError;

use crate::cluster::Cluster;
use crate::object::resource::Resource;

impl Cluster {
    /// What the status path of the resource has answered; `None` where no request has gone there yet.
    pub(crate) fn status_path(&self, resource: &Resource) -> Option<bool> {
        let paths = self.shared.status_paths.lock();
        let paths = paths.unwrap_or_else(PoisonError::into_inner);
        if paths.is_empty() {
            return None;
        }
        paths.get(&resource.to_string()).copied()
    }

    /// An answer from that path.
    pub(crate) fn note_status_path(&self, resource: &Resource, is_there: bool) {
        let paths = self.shared.status_paths.lock();
        let mut paths = paths.unwrap_or_else(PoisonError::into_inner);
        paths.insert(resource.to_string(), is_there);
    }

    /// It was there, and is there no more: it may come back.
    pub(crate) fn forget_status_path(&self, resource: &Resource) {
        let paths = self.shared.status_paths.lock();
        let mut paths = paths.unwrap_or_else(PoisonError::into_inner);
        paths.remove(&resource.to_string());
    }
}
