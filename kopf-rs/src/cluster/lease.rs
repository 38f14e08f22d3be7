//! The requests of an election: one Lease, read, created and replaced, each sent once.
//!
//! Must not know who is to hold it.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::object::resource::Resource;

/// All that an election needs, so that one refusal names the whole rule.
const VERBS: &[&str] = &["get", "list", "watch", "create", "update"];

static LEASES: LazyLock<Arc<Resource>> =
    LazyLock::new(|| Arc::new(Resource::built_in("coordination.k8s.io", "Lease", true)));

/// The kind.
pub(crate) fn leases() -> Arc<Resource> {
    LEASES.clone()
}

impl Cluster {
    /// Read it.
    pub(crate) async fn lease(&self, namespace: &str, name: &str) -> Result<Value, ClusterError> {
        let target = LEASES.path(Some(namespace), Some(name), None);
        let call = Call::get(target, Asked::of(&LEASES, Some(namespace), VERBS));
        read(&self.exchange(&call).await?)
    }

    /// Create it; [`ClusterError::Conflict`] where it is there.
    pub(crate) async fn create_lease(
        &self,
        namespace: &str,
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        self.write_lease(Method::POST, (namespace, None), lease)
            .await
    }

    /// Replace it in the version that `lease` names; [`ClusterError::Conflict`] where it is in another one.
    pub(crate) async fn replace_lease(
        &self,
        (namespace, name): (&str, &str),
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        self.write_lease(Method::PUT, (namespace, Some(name)), lease)
            .await
    }

    async fn write_lease(
        &self,
        method: Method,
        (namespace, name): (&str, Option<&str>),
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        let call = Call {
            method,
            target: self.owned(LEASES.path(Some(namespace), name, None)),
            accept: "application/json",
            body: Some(("application/json", Bytes::from(lease.to_string()))),
            asked: Asked::of(&LEASES, Some(namespace), VERBS),
        };
        read(&self.exchange(&call).await?)
    }
}

fn read(reply: &Bytes) -> Result<Value, ClusterError> {
    serde_json::from_slice(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is no object: {error}")))
}
