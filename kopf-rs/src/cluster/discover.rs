//! Which resources the cluster serves.

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::object::resource::Resource;

impl Cluster {
    /// All resources in all versions, subresources folded in.
    pub(crate) async fn discover(&self) -> Result<Vec<Resource>, ClusterError> {
        todo!("cluster")
    }
}
