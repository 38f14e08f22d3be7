//! Records whether resources have a status subresource that discovery does not list, as responses from its path have shown.
//!
//! This module does not know when this matters.

use crate::cluster::Cluster;
use crate::object::resource::Resource;

impl Cluster {
    /// Returns the finding for the status path of the resource, or `None` before the first request to it.
    pub(crate) fn status_path(&self, resource: &Resource) -> Option<bool> {
        let paths = self.shared.status_paths.lock();
        if paths.is_empty() {
            return None;
        }
        paths.get(&resource.to_string()).copied()
    }

    /// Records a response from that path.
    pub(crate) fn note_status_path(&self, resource: &Resource, is_there: bool) {
        let mut paths = self.shared.status_paths.lock();
        paths.insert(resource.to_string(), is_there);
    }

    /// Forgets a path that has disappeared, because it may come back.
    pub(crate) fn forget_status_path(&self, resource: &Resource) {
        let mut paths = self.shared.status_paths.lock();
        paths.remove(&resource.to_string());
    }
}
