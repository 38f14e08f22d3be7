//! The requests that install an operator and remove it. Each is idempotent, and repeated a few times if the server cannot answer.
//!
//! This module does not know which objects an operator has, nor in which order they are sent.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::child::{ApplyRequest, METADATA_LIST};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::value;
use crate::cluster::request::{Call, JSON, ObjectPath, escaped};
use crate::cluster::write::MERGE;
use crate::object::resource::Resource;

/// The number of objects in a page of a list.
const PAGE: u32 = 500;

impl Cluster {
    /// Asks by a `SelfSubjectAccessReview` whether the caller has a permission.
    pub(crate) async fn is_permitted(&self, review: &Value) -> Result<bool, ClusterError> {
        let reviews = Resource::built_in("authorization.k8s.io", "SelfSubjectAccessReview", false);
        let asked = Asked::of(&reviews, None, &["create"]);
        let target = reviews.path(None, None, None);
        let call = Call::with(Method::POST, target, (JSON, review), asked);
        let reply = value(&self.persist(&call).await?)?;
        Ok(reply["status"]["allowed"] == true)
    }

    /// Reads an object with all of its fields; `None` if it does not exist.
    pub(crate) async fn read_whole(&self, object: ObjectPath<'_>) -> Result<Option<Value>, ClusterError> {
        let ObjectPath { resource, namespace, name } = object;
        let asked = Asked::of(resource, namespace, &["get"]);
        let call = Call::get(resource.path(namespace, Some(name), None), asked);
        match self.persist(&call).await {
            Ok(reply) => value(&reply).map(Some),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies the complete configuration of an object. Returns the object that results.
    pub(crate) async fn put(&self, request: ApplyRequest<'_>) -> Result<Value, ClusterError> {
        value(&self.persist(&request.call()).await?)
    }

    /// Merges a change into an object. Returns false if the object is gone, or is not in the version that the change names.
    pub(crate) async fn merge_if_there(
        &self,
        object: ObjectPath<'_>,
        manager: &str,
        change: &Value,
    ) -> Result<bool, ClusterError> {
        let mut call = Call::on(Method::PATCH, object, (MERGE, change), &["patch"]);
        call.target.extend(["?fieldManager=", &escaped(manager)]);
        self.unless_changed(&call).await
    }

    /// Deletes the object with this uid, and its dependents in the background. Returns false if it is gone.
    pub(crate) async fn delete_if_there(
        &self,
        object: ObjectPath<'_>,
        uid: &str,
    ) -> Result<bool, ClusterError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        self.unless_changed(&Call::on(Method::DELETE, object, (JSON, &options), &["delete"])).await
    }

    async fn unless_changed(&self, call: &Call<'_>) -> Result<bool, ClusterError> {
        match self.persist(call).await {
            Ok(_) => Ok(true),
            Err(ClusterError::NotFound(_) | ClusterError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists all objects of a kind with these labels in a namespace, or in all of them; with `metadata_only`, only their metadata. A kind that
    /// is not served has none.
    pub(crate) async fn list_pages(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        labels: &str,
        metadata_only: bool,
    ) -> Result<Vec<Value>, ClusterError> {
        let path = resource.path(namespace, None, None);
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let target = format!("{path}?limit={PAGE}&labelSelector={}&continue={next}", escaped(labels));
            let mut call = Call::get(target, Asked::of(resource, namespace, &["list"]));
            call.accept = if metadata_only { METADATA_LIST } else { JSON };
            let mut page = match self.persist(&call).await {
                Ok(reply) => value(&reply)?,
                Err(ClusterError::NotFound(_)) => return Ok(all),
                Err(error) => return Err(error),
            };
            if let Value::Array(items) = page["items"].take() {
                all.extend(items);
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = escaped(token),
                _ => return Ok(all),
            }
        }
    }
}
