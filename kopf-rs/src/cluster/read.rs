//! Single reads: one object, one request.

use bytes::Bytes;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

impl Cluster {
    /// One object, asked for once.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Raw, ClusterError> {
        object(&self.exchange(&get(resource, namespace, name)).await?)
    }

    /// One object, asked for a few times; `None` where it is not there.
    #[cfg(any(feature = "cli", test))]
    pub(super) async fn find(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Raw>, ClusterError> {
        match self.persist(&get(resource, namespace, name)).await {
            Ok(reply) => object(&reply).map(Some),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn get<'a>(resource: &'a Resource, namespace: Option<&'a str>, name: &str) -> Call<'a> {
    let asked = Asked {
        verbs: &["get"],
        resource: Some(resource),
        namespace,
        subresource: None,
    };
    Call::get(resource.path(namespace, Some(name), None), asked)
}

/// The object in a reply.
pub(super) fn object(reply: &Bytes) -> Result<Raw, ClusterError> {
    let text = std::str::from_utf8(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is no text: {error}")))?;
    Raw::parse(text).map_err(|error| ClusterError::Invalid(format!("the reply: {error}")))
}
