//! One PATCH per cycle; a second one only for the status subresource.

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::object::patch::Patch;
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

impl Cluster {
    /// Apply a merge patch to the object `facts` names, bound to its uid; the reply is the new state, `None` where the object is gone.
    ///
    /// Status goes first, so that a crash in between repeats the handler rather than lose its result.
    /// With `expected_finalizers` the patch only lands on an object that has exactly these: else [`ClusterError::Conflict`].
    pub(crate) async fn apply(
        &self,
        resource: &Resource,
        facts: &Facts,
        patch: &Patch,
        expected_finalizers: Option<&[String]>,
    ) -> Result<Option<Raw>, ClusterError> {
        let _ = (resource, facts, patch, expected_finalizers, &self.client);
        todo!("cluster")
    }
}
