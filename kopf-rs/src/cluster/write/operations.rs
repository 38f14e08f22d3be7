//! Writing what functions of the object have come to: JSON patches, bound to the version they were made from.

use bytes::Bytes;
use http::Method;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::object;
use crate::cluster::request::Call;
use crate::object::operations::Operations;
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

const JSON_PATCH: &str = "application/json-patch+json";

impl Cluster {
    /// Apply operations to the very version that `facts` names, the status first; the reply is the new state, `None` where the object is
    /// gone. On any other version, or another object of the name: [`ClusterError::Conflict`].
    pub(crate) async fn apply_operations(
        &self,
        resource: &Resource,
        facts: &Facts,
        operations: Operations,
    ) -> Result<Option<Raw>, ClusterError> {
        let (status, others) = if resource.has_status_subresource() {
            operations.split()
        } else {
            (Operations::default(), operations)
        };
        let mut state = None;
        let mut version = facts.resource_version.clone();
        for (subresource, part) in [(Some("status"), status), (None, others)] {
            if part.is_empty() {
                continue;
            }
            let namespace = facts.namespace.as_deref();
            let document = part.bound_to(&facts.uid, &version).to_string();
            let call = Call {
                method: Method::PATCH,
                target: self.owned(resource.path(namespace, Some(&facts.name), subresource)),
                accept: "application/json",
                body: Some((JSON_PATCH, Bytes::from(document))),
                asked: Asked {
                    verbs: &["patch"],
                    resource: Some(resource),
                    namespace,
                    subresource,
                },
            };
            let reply = match self.persist(&call).await {
                Ok(reply) => reply,
                Err(ClusterError::NotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            let raw = object(&reply)?;
            version.clone_from(&raw.facts().resource_version);
            state = Some(raw);
        }
        Ok(state)
    }
}
