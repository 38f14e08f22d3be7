//! Reads single objects: one object, one request.
//!
//! Roles without the verb `get` are common, for example the role in Kopf's documentation. With such a role, an object is read by a list that
//! is limited to its name, because an operator that watches objects may also list them.

use bytes::Bytes;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError, NotFound};
use crate::cluster::request::{Call, JSON, ObjectPath, escaped};
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
        let object = ObjectPath { resource, namespace, name };
        let api_version = resource.api_version();
        let find = |page: &Bytes| {
            let mut found = None;
            let read = read_page(page, &mut |item| {
                let raw = Raw::parse_item(item, &api_version, &resource.kind)?;
                if raw.facts().name == name {
                    found = Some(raw);
                }
                Ok(())
            });
            read.map_err(|error| ClusterError::Invalid(format!("the reply is not a list: {error}")))?;
            Ok(found)
        };
        self.get_or_list(object, (JSON, JSON), self::object, find).await
    }

    /// Reads an object with one attempt, including all fields that the server keeps.
    pub(crate) async fn get_whole(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, ClusterError> {
        value(&self.exchange(&get(resource, namespace, name)).await?)
    }

    /// Reads an object by itself, or as the only item of a list where it may not be read by itself.
    pub(super) async fn get_or_list<T>(
        &self,
        object: ObjectPath<'_>,
        (accept, accept_list): (&'static str, &'static str),
        parse: impl FnOnce(&Bytes) -> Result<T, ClusterError>,
        find: impl FnOnce(&Bytes) -> Result<Option<T>, ClusterError>,
    ) -> Result<T, ClusterError> {
        let ObjectPath { resource, namespace, name } = object;
        // The semaphore is never closed.
        let _permit = self.shared.reads.acquire().await.ok();
        let collection = resource.path(namespace, None, None);
        let mut denied = None;
        if !self.shared.ungettable.has(&collection) {
            let mut call = get(resource, namespace, name);
            call.accept = accept;
            match self.exchange(&call).await {
                Err(error @ ClusterError::Denied { .. }) => denied = Some(error),
                reply => return parse(&reply?),
            }
        }
        let only = escaped(name);
        let target = format!("{collection}?fieldSelector=metadata.name%3D{only}");
        let mut call = Call::get(target, Asked::of(resource, namespace, &["list"]));
        call.accept = accept_list;
        let listed = self.exchange(&call).await;
        if let Some(denied) = denied {
            if matches!(listed, Err(ClusterError::Denied { .. })) {
                return Err(denied);
            }
            self.shared.ungettable.add(&collection);
        }
        find(&listed?)?.ok_or_else(|| {
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

/// Parses the JSON value in a response.
pub(super) fn value(reply: &Bytes) -> Result<Value, ClusterError> {
    serde_json::from_slice(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is not an object: {error}")))
}

/// Parses the object in a response.
pub(super) fn object(reply: &Bytes) -> Result<Raw, ClusterError> {
    let text = std::str::from_utf8(reply)
        .map_err(|error| ClusterError::Invalid(format!("the reply is not text: {error}")))?;
    Raw::parse(text).map_err(|error| ClusterError::Invalid(format!("the reply: {error}")))
}
