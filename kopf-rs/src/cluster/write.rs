//! Sends one PATCH once: bound to the uid of the object, and to its version where needed.
//!
//! This module does not know how the caller reacts to the response.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::object;
use crate::cluster::request::{Call, escaped};
use crate::object::operations::Operations;
use crate::object::patch::Patch;
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

mod events;
mod peering;
mod pruned;
mod status_paths;
#[cfg(test)]
mod tests;

pub(super) const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// The changes to make to an object.
#[derive(Clone, Debug)]
pub(crate) enum Changes {
    /// A merge that applies regardless of the object's current state.
    Merge(Arc<Patch>),
    /// Changes that apply to one version of the object only: the results of functions.
    Operations {
        operations: Operations,
        /// The complete object after the change.
        wanted: Value,
    },
}

/// One of the requests that changes may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A request to the status subresource.
    Status,
    /// A request to the object itself, with or without the status.
    Object { with_status: bool },
}

/// One PATCH request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatchRequest<'a> {
    pub(crate) resource: &'a Resource,
    /// The identity of the object, and the version that the request may be bound to.
    pub(crate) facts: &'a Facts,
    pub(crate) changes: &'a Changes,
    pub(crate) part: Part,
    /// Fail with [`ClusterError::Conflict`] on any other version. Always implied for the status, for conditions and for operations.
    pub(crate) is_bound: bool,
}

impl Cluster {
    /// Sends the patch, and returns the new state. A response in the version of `facts` means that nothing has changed.
    ///
    /// If a Lease is required, the write belongs to the term with that number, or to any current term if `None`.
    ///
    /// Fails with [`ClusterError::OtherObject`] or [`ClusterError::Conflict`] if another object has the name.
    pub(crate) async fn patch(
        &self,
        request: PatchRequest<'_>,
        term: Option<u64>,
    ) -> Result<Raw, ClusterError> {
        let is_bound = request.is_bound || self.fence.is_some();
        let call = self.call(PatchRequest { is_bound, ..request })?;
        object(&self.exchange_in_turn_coded(&call, term).await?.1)
    }

    fn call<'a>(&self, request: PatchRequest<'a>) -> Result<Call<'a>, ClusterError> {
        let PatchRequest { resource, facts, .. } = request;
        let (kind, body) = request.body()?;
        let subresource = (request.part == Part::Status).then_some("status");
        let namespace = facts.namespace.as_deref();
        Ok(Call {
            method: Method::PATCH,
            target: self.owned(resource.path(namespace, Some(&facts.name), subresource)),
            accept: "application/json",
            body: Some((kind, body)),
            asked: Asked { verbs: &["patch"], resource: Some(resource), namespace, subresource },
        })
    }

    /// Records that the definition has lost its status subresource, and returns true the first time.
    pub(crate) fn is_first_without_status(&self, resource: &Resource) -> bool {
        self.shared.statusless.add(&resource.to_string())
    }

    /// Returns the target of a write to `path`, with the operator as the field manager.
    pub(super) fn owned(&self, path: String) -> String {
        path + "?fieldManager=" + &escaped(&self.shared.operator)
    }
}

impl Part {
    /// Returns true if the top-level `key` belongs to this part. Metadata is handled separately.
    fn takes(self, key: &str) -> bool {
        match self {
            Self::Status => key == "status",
            Self::Object { with_status } => key != "metadata" && (with_status || key != "status"),
        }
    }

    /// Returns the members of a merge patch that belong to this part, except for the metadata.
    pub(crate) fn members(self, patch: &Patch) -> impl Iterator<Item = (&str, &Value)> {
        let members = patch.as_value().as_object().into_iter().flatten();
        let members = members.map(|(key, value)| (key.as_str(), value));
        members.filter(move |(key, _)| self.takes(key))
    }

    /// Returns the operations that belong to this part, except for those on the metadata: the path, and the value that is to be there.
    pub(crate) fn operations(self, operations: &Operations) -> impl Iterator<Item = (&str, Option<&Value>)> {
        let (status, others) = self.content();
        let parts = operations.values(status, others);
        parts.filter(|(path, _)| !path.starts_with("/metadata"))
    }

    /// Returns whether this part contains the status, and whether it contains everything else.
    fn content(self) -> (bool, bool) {
        match self {
            Self::Status => (true, false),
            Self::Object { with_status } => (with_status, true),
        }
    }
}

impl Changes {
    /// Returns true if this part would change anything.
    pub(crate) fn has(&self, part: Part) -> bool {
        let (status, others) = part.content();
        match self {
            Self::Merge(patch) => says(patch, |key| if key == "status" { status } else { others }),
            Self::Operations { operations, .. } => {
                status && operations.has(true) || others && operations.has(false)
            }
        }
    }

    /// Returns true if the changes were computed from one state of the status.
    fn depend_on_the_status(&self) -> bool {
        matches!(self, Self::Merge(patch) if !patch.status_edits().is_empty())
    }

    /// Returns true if `found` already has the changes of this part.
    pub(crate) fn are_in(&self, part: Part, found: &Value) -> bool {
        let (status, others) = part.content();
        match self {
            // A merge is sent again, so that the server decides.
            Self::Merge(_) => false,
            Self::Operations { operations, .. } => operations.hold_in(status, others, found),
        }
    }
}

impl PatchRequest<'_> {
    fn body(&self) -> Result<(&'static str, Bytes), ClusterError> {
        let Facts { uid, resource_version: version, .. } = self.facts;
        match self.changes {
            Changes::Operations { operations, .. } => {
                let (status, others) = self.part.content();
                let document = operations.bound_to(status, others, uid, version);
                Ok((JSON_PATCH, Bytes::from(document.to_string())))
            }
            Changes::Merge(patch) => {
                let version = Some(version).filter(|version| self.is_bound() && !version.is_empty());
                let wire = Wire { patch: patch.as_value(), part: self.part, uid, version };
                let body = serde_json::to_vec(&wire)
                    .map_err(|error| ClusterError::Invalid(format!("no patch can be made: {error}")))?;
                Ok((MERGE, Bytes::from(body)))
            }
        }
    }

    /// Custom resources take all metadata of a status patch from the stored object before they compare uids, so only the version keeps a late
    /// status from the next object of the same name.
    fn is_bound(&self) -> bool {
        let (status, _) = self.part.content();
        self.is_bound || self.part == Part::Status || status && self.changes.depend_on_the_status()
    }
}

/// Returns true if the patch has content under a matching key.
fn says(patch: &Patch, like: impl Fn(&str) -> bool) -> bool {
    let says = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
    let patch = patch.as_value().as_object().into_iter().flatten();
    patch.into_iter().any(|(key, value)| like(key) && says(value))
}

// === the patch as it goes over the wire ===

/// The changes of the user and the framework, plus the preconditions, serialized without a copy.
struct Wire<'a> {
    patch: &'a Value,
    part: Part,
    uid: &'a str,
    version: Option<&'a String>,
}

struct WireMetadata<'a> {
    wire: &'a Wire<'a>,
    metadata: Option<&'a Value>,
}

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let metadata = self.patch.get("metadata").filter(|_| self.part != Part::Status);
        map.serialize_entry("metadata", &WireMetadata { wire: self, metadata })?;
        for (key, value) in self.patch.as_object().into_iter().flatten() {
            if self.part.takes(key) {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

impl Serialize for WireMetadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uid", self.wire.uid)?;
        if let Some(version) = self.wire.version {
            map.serialize_entry("resourceVersion", version)?;
        }
        let changes = self.metadata.and_then(Value::as_object);
        for (key, value) in changes.into_iter().flatten() {
            if key != "uid" && key != "resourceVersion" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}
