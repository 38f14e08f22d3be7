//! The requests of a leader election: one Lease is read, created and replaced. Each request is sent once.
//!
//! Must not know which instance is to hold the Lease.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::object::resource::Resource;

/// All verbs that an election needs, so that one refusal names the whole rule.
const VERBS: &[&str] = &["get", "list", "watch", "create", "update"];

static LEASES: LazyLock<Arc<Resource>> =
    LazyLock::new(|| Arc::new(Resource::built_in("coordination.k8s.io", "Lease", true)));

/// Returns the resource of Leases.
pub(crate) fn leases() -> Arc<Resource> {
    LEASES.clone()
}

impl Cluster {
    /// Reads the Lease.
    pub(crate) async fn lease(&self, namespace: &str, name: &str) -> Result<Value, ClusterError> {
        let target = LEASES.path(Some(namespace), Some(name), None);
        let call = Call::get(target, Asked::of(&LEASES, Some(namespace), VERBS));
        read(&self.exchange(&call).await?)
    }

    /// Creates the Lease. Fails with [`ClusterError::Conflict`] if it exists.
    pub(crate) async fn create_lease(
        &self,
        namespace: &str,
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        self.write_lease(Method::POST, (namespace, None), lease)
            .await
    }

    /// Replaces the Lease in the version that `lease` specifies. Fails with [`ClusterError::Conflict`] if its version differs.
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
