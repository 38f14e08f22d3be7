//! Single reads: one object, one page.

use bytes::Bytes;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

impl Cluster {
    /// One object; `None` where it is not there.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Raw>, ClusterError> {
        let asked = Asked {
            verbs: &["get"],
            resource: Some(resource),
            namespace,
            subresource: None,
        };
        let call = Call::get(resource.path(namespace, Some(name), None), asked);
        match self.persist(&call).await {
            Ok(reply) => object(&reply).map(Some),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The object in a reply.
pub(super) fn object(reply: &Bytes) -> Result<Raw, ClusterError> {
    let text = std::str::from_utf8(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is no text: {error}")))?;
    Raw::parse(text).map_err(|error| ClusterError::Invalid(format!("the reply: {error}")))
}
