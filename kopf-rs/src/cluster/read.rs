//! Reads single objects: one object, one request.
//!
//! Roles without the verb `get` are common, for example the role in Kopf's documentation. With such a role, an object is read by a list that
//! is limited to its name, because an operator that watches objects may also list them.

use bytes::Bytes;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError, NotFound};
use crate::cluster::request::{Call, escaped};
use crate::cluster::watch::pages::read_page;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

impl Cluster {
    /// Reads an object with one attempt.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Raw, ClusterError> {
        // The semaphore is never closed.
        let _permit = self.shared.reads.acquire().await.ok();
        let collection = resource.path(namespace, None, None);
        if self.shared.ungettable.has(&collection) {
            return self
                .get_listed(&collection, resource, namespace, name)
                .await;
        }
        let denied = match self.exchange(&get(resource, namespace, name)).await {
            Ok(reply) => return object(&reply),
            Err(error @ ClusterError::Denied { .. }) => error,
            Err(error) => return Err(error),
        };
        match self
            .get_listed(&collection, resource, namespace, name)
            .await
        {
            Err(ClusterError::Denied { .. }) => Err(denied),
            found => {
                self.shared.ungettable.add(&collection);
                found
            }
        }
    }

    /// Reads an object with one attempt, including all fields that the server keeps.
    pub(crate) async fn get_whole(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, ClusterError> {
        let reply = self.exchange(&get(resource, namespace, name)).await?;
        serde_json::from_slice(&reply)
            .map_err(|error| ClusterError::Invalid(format!("the reply is no object: {error}")))
    }

    /// Reads the object as the only item of a list.
    async fn get_listed(
        &self,
        collection: &str,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Raw, ClusterError> {
        let escaped_name = escaped(name);
        let target = format!("{collection}?fieldSelector=metadata.name%3D{escaped_name}");
        let asked = Asked::of(resource, namespace, &["list"]);
        let page = self.exchange(&Call::get(target, asked)).await?;
        let api_version = resource.api_version();
        let mut found = None;
        let read = read_page(&page, &mut |item| {
            let raw = Raw::parse_item(item, &api_version, &resource.kind)?;
            if raw.facts().name == name {
                found = Some(raw);
            }
            Ok(())
        });
        read.map_err(|error| ClusterError::Invalid(format!("the reply is no list: {error}")))?;
        found.ok_or_else(|| {
            let message = format!("{resource} \"{name}\" not found");
            ClusterError::NotFound(NotFound::of_object(name, message))
        })
    }

    /// Reads an object with a few attempts; `None` if it does not exist.
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
    let asked = Asked::of(resource, namespace, &["get"]);
    Call::get(resource.path(namespace, Some(name), None), asked)
}

/// Parses the object in a response.
pub(super) fn object(reply: &Bytes) -> Result<Raw, ClusterError> {
    let text = std::str::from_utf8(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is no text: {error}")))?;
    Raw::parse(text).map_err(|error| ClusterError::Invalid(format!("the reply: {error}")))
}
