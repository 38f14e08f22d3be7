//! The requests of a leader election: one Lease is read, created and replaced. Each request is sent once.
//!
//! This module does not know which instance is to hold the Lease.

use std::sync::{Arc, LazyLock};

use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::value;
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
        value(&self.exchange(&call).await?)
    }

    /// Creates the Lease. Fails with [`ClusterError::Conflict`] if it exists.
    pub(crate) async fn create_lease(&self, namespace: &str, lease: &Value) -> Result<Value, ClusterError> {
        self.write_lease(Method::POST, (namespace, None), lease).await
    }

    /// Replaces the Lease in the version that `lease` specifies. Fails with [`ClusterError::Conflict`] if its version differs.
    pub(crate) async fn replace_lease(
        &self,
        (namespace, name): (&str, &str),
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        self.write_lease(Method::PUT, (namespace, Some(name)), lease).await
    }

    async fn write_lease(
        &self,
        method: Method,
        (namespace, name): (&str, Option<&str>),
        lease: &Value,
    ) -> Result<Value, ClusterError> {
        let call = Call::with(
            method,
            self.owned(LEASES.path(Some(namespace), name, None)),
            ("application/json", lease),
            Asked::of(&LEASES, Some(namespace), VERBS),
        );
        value(&self.exchange(&call).await?)
    }
}
