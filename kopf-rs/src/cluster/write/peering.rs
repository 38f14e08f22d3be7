//! Records of operators in a peering object: one PATCH by name, whatever object has it, and wherever its definition keeps the status.
//!
//! Must not know what the records say.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::object;
use crate::cluster::request::Call;
use crate::cluster::write::MERGE;
use crate::object::collection::Collection;
use crate::object::raw::Raw;

impl Cluster {
    /// Merge into the status of the object of that name, once; its new state. It does not wait for other writes: a sign of life that comes late
    /// is none.
    pub(crate) async fn patch_records(
        &self,
        of: &Collection,
        name: &str,
        change: &Value,
    ) -> Result<Raw, ClusterError> {
        let resource = &*of.resource;
        let namespace = of.namespace.as_deref();
        let subresource = resource.has_status_subresource().then_some("status");
        let call = Call {
            method: Method::PATCH,
            target: self.owned(resource.path(namespace, Some(name), subresource)),
            accept: "application/json",
            body: Some((MERGE, Bytes::from(change.to_string()))),
            asked: Asked {
                verbs: &["patch"],
                resource: Some(resource),
                namespace,
                subresource,
            },
        };
        object(&self.exchange(&call).await?)
    }
}
