//! Objects that the operator keeps for itself: it creates them, and changes them only in the version that it has read.
//!
//! This module must not depend on their content.

use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::pod;
use crate::cluster::read::value;
use crate::cluster::request::{Call, JSON, ObjectPath, escaped};
use crate::object::resource::Resource;

impl Cluster {
    /// Returns the namespace of the Pod that this process runs in, or `None` outside of a cluster.
    pub(crate) fn own_namespace(&self) -> Option<&str> {
        pod::namespace().map(|_| self.client.default_namespace())
    }

    /// Lists all objects of a kind in the cluster that have this label.
    pub(crate) async fn list_kept(
        &self,
        resource: &Resource,
        label: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        self.list_all(resource, None, &format!("labelSelector={}", escaped(label))).await
    }

    /// Lists all objects of a kind in the cluster that have this name: at most one per namespace.
    #[cfg(feature = "cli")]
    pub(crate) async fn list_named(
        &self,
        resource: &Resource,
        name: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let selector = escaped(&format!("metadata.name={name}"));
        self.list_all(resource, None, &format!("fieldSelector={selector}")).await
    }

    /// Returns one object of a kind in the cluster; `None` if there is none.
    pub(crate) async fn first_of(&self, resource: &Resource) -> Result<Option<Value>, ClusterError> {
        Ok(self.list_all(resource, None, "limit=1").await?.into_iter().next())
    }

    /// Lists the objects of a kind that the query selects, in this namespace or in the cluster.
    pub(super) async fn list_all(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        query: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let target = format!("{}?{query}", resource.path(namespace, None, None));
        let call = Call::get(target, Asked::of(resource, namespace, &["list"]));
        let mut list = value(&self.exchange(&call).await?)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Creates the object. Fails with [`ClusterError::Conflict`] if the name is taken.
    pub(crate) async fn create_kept(
        &self,
        object: ObjectPath<'_>,
        content: &Value,
    ) -> Result<Value, ClusterError> {
        let mut call = Call::on(Method::POST, object, (JSON, content), &["create"]);
        call.target = self.owned(call.target);
        value(&self.exchange_in_turn(&call).await?)
    }

    /// Merges the change into the object. Fails with [`ClusterError::Conflict`] if it specifies a `metadata.resourceVersion` that is
    /// outdated.
    pub(crate) async fn merge_kept(
        &self,
        object: ObjectPath<'_>,
        merge: &Value,
    ) -> Result<Value, ClusterError> {
        self.merge(object, &self.shared.operator, merge).await
    }
}
