//! Rewrites objects unchanged, so that the server stores them in its newest version.
//!
//! This module does not know when, or how many objects at a time.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::{Call, ObjectPath, escaped};
use crate::cluster::write::MERGE;
use crate::object::resource::Resource;

/// A page of objects of a kind, by their metadata.
#[derive(Debug, Default)]
pub(crate) struct MetadataPage {
    pub(crate) objects: Vec<ObjectVersion>,
    /// The token to request the next page.
    pub(crate) next: Option<String>,
}

/// An object in the version that was read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectVersion {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectVersion,
}

const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

impl Cluster {
    /// Returns up to `limit` objects of the kind in all namespaces, starting after the previous page.
    pub(crate) async fn metadata_page(
        &self,
        resource: &Resource,
        limit: u32,
        after: Option<&str>,
    ) -> Result<MetadataPage, ClusterError> {
        let mut target = format!("{}?limit={limit}", resource.path(None, None, None));
        if let Some(after) = after {
            target.push_str("&continue=");
            target.push_str(&escaped(after));
        }
        let mut call = Call::get(target, Asked::of(resource, None, &["list"]));
        call.accept = METADATA_LIST;
        let reply = self.exchange(&call).await?;
        let list: List = serde_json::from_slice(&reply)
            .map_err(|error| ClusterError::Invalid(format!("the reply is not a list: {error}")))?;
        Ok(MetadataPage {
            objects: list.items.into_iter().map(|it| it.metadata).collect(),
            next: list.metadata.next.filter(|it| !it.is_empty()),
        })
    }

    /// Writes the object unchanged. Fails with [`ClusterError::Conflict`] if it has changed since it was read.
    pub(crate) async fn rewrite(
        &self,
        resource: &Resource,
        object: &ObjectVersion,
    ) -> Result<(), ClusterError> {
        let merge = json!({"metadata": {"uid": object.uid, "resourceVersion": object.resource_version}});
        let path = ObjectPath { resource, namespace: object.namespace.as_deref(), name: &object.name };
        self.merge_kept(path, &merge).await.map(drop)
    }

    /// Records in the status of a definition, in the version that was read, that objects are stored in this version only.
    pub(crate) async fn set_stored_version(
        &self,
        definitions: &Resource,
        definition: &Value,
        version: &str,
    ) -> Result<(), ClusterError> {
        let metadata = &definition["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let merge = json!({
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"storedVersions": [version]},
        });
        let mut asked = Asked::of(definitions, None, &["patch"]);
        asked.subresource = Some("status");
        let call = Call::with(
            Method::PATCH,
            self.owned(definitions.path(None, Some(name), Some("status"))),
            (MERGE, &merge),
            asked,
        );
        self.exchange_in_turn(&call).await.map(drop)
    }
}
