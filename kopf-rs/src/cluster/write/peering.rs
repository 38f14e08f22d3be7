//! Writes records of operators into a peering object by one PATCH, addressed by name only, with or without a status subresource.
//!
//! This module must not depend on the content of the records.

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
    /// Merges a patch into the status of the object of that name, with one attempt, and returns its new state. It bypasses the write limit,
    /// because a late keep-alive is useless.
    pub(crate) async fn patch_records(
        &self,
        of: &Collection,
        name: &str,
        change: &Value,
    ) -> Result<Raw, ClusterError> {
        let resource = &*of.resource;
        let namespace = of.namespace.as_deref();
        let subresource = resource.has_status_subresource().then_some("status");
        let call = Call::with(
            Method::PATCH,
            self.owned(resource.path(namespace, Some(name), subresource)),
            (MERGE, change),
            Asked { verbs: &["patch"], resource: Some(resource), namespace, subresource },
        );
        object(&self.exchange(&call).await?)
    }
}
