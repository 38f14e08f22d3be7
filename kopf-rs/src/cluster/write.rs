//! One PATCH, sent once: bound to the uid of the object, and to its version where that is needed.
//!
//! Must not know what is to be done about the answer.

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

/// What is to be changed on an object.
#[derive(Clone, Debug)]
pub(crate) enum Changes {
    /// Whatever else is there by then.
    Merge(Arc<Patch>),
    /// On one version of the object only: what functions have come to.
    Operations {
        operations: Operations,
        /// The whole object as it is to become.
        wanted: Value,
    },
}

/// One of the requests that changes may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// To the status subresource.
    Status,
    /// Everything, or everything but the status where that goes apart.
    Object { with_status: bool },
}

/// One PATCH.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatchRequest<'a> {
    pub(crate) resource: &'a Resource,
    /// The object, in the version that the request may be bound to.
    pub(crate) facts: &'a Facts,
    pub(crate) changes: &'a Changes,
    pub(crate) part: Part,
    /// On any other version: [`ClusterError::Conflict`]. Always so for the status, for conditions and for operations.
    pub(crate) is_bound: bool,
}

impl Cluster {
    /// Send it, and the reply is the new state. On another object of the name: [`ClusterError::OtherObject`] or
    /// [`ClusterError::Conflict`]. A reply in the version of `facts` says that nothing has changed.
    ///
    /// Where a Lease must be held, this is a write of the term of that number; `None`: of whichever there is.
    pub(crate) async fn patch(
        &self,
        request: PatchRequest<'_>,
        term: Option<u64>,
    ) -> Result<Raw, ClusterError> {
        let is_bound = request.is_bound || self.fence.is_some();
        let call = self.call(PatchRequest {
            is_bound,
            ..request
        })?;
        object(&self.exchange_in_turn_coded(&call, term).await?.1)
    }

    fn call<'a>(&self, request: PatchRequest<'a>) -> Result<Call<'a>, ClusterError> {
        let PatchRequest {
            resource, facts, ..
        } = request;
        let (kind, body) = request.body()?;
        let subresource = (request.part == Part::Status).then_some("status");
        let namespace = facts.namespace.as_deref();
        Ok(Call {
            method: Method::PATCH,
            target: self.owned(resource.path(namespace, Some(&facts.name), subresource)),
            accept: "application/json",
            body: Some((kind, body)),
            asked: Asked {
                verbs: &["patch"],
                resource: Some(resource),
                namespace,
                subresource,
            },
        })
    }

    /// Whether it is news that the definition has lost its status subresource.
    pub(crate) fn is_first_without_status(&self, resource: &Resource) -> bool {
        self.shared.statusless.add(&resource.to_string())
    }

    /// The target of a write to `path`: what it sets belongs to the operator.
    pub(super) fn owned(&self, path: String) -> String {
        path + "?fieldManager=" + &escaped(&self.shared.operator)
    }
}

impl Part {
    /// Whether the top-level `key` goes with this part; the metadata are another matter.
    fn takes(self, key: &str) -> bool {
        match self {
            Self::Status => key == "status",
            Self::Object { with_status } => key != "metadata" && (with_status || key != "status"),
        }
    }

    /// Whether what is in the status goes with this part, and whether all else does.
    fn content(self) -> (bool, bool) {
        match self {
            Self::Status => (true, false),
            Self::Object { with_status } => (with_status, true),
        }
    }
}

impl Changes {
    /// Whether this part would say anything.
    pub(crate) fn has(&self, part: Part) -> bool {
        let (status, others) = part.content();
        match self {
            Self::Merge(patch) => says(patch, |key| if key == "status" { status } else { others }),
            Self::Operations { operations, .. } => {
                status && operations.has(true) || others && operations.has(false)
            }
        }
    }

    /// Whether they were made for one state of the status.
    fn depend_on_the_status(&self) -> bool {
        matches!(self, Self::Merge(patch) if !patch.status_edits().is_empty())
    }

    /// Whether `found` is as this part makes it.
    pub(crate) fn are_in(&self, part: Part, found: &Value) -> bool {
        let (status, others) = part.content();
        match self {
            // To be asked for again, so that the server says what it makes of it.
            Self::Merge(_) => false,
            Self::Operations { operations, .. } => operations.hold_in(status, others, found),
        }
    }
}

impl PatchRequest<'_> {
    fn body(&self) -> Result<(&'static str, Bytes), ClusterError> {
        let Facts {
            uid,
            resource_version: version,
            ..
        } = self.facts;
        match self.changes {
            Changes::Operations { operations, .. } => {
                let (status, others) = self.part.content();
                let document = operations.bound_to(status, others, uid, version);
                Ok((JSON_PATCH, Bytes::from(document.to_string())))
            }
            Changes::Merge(patch) => {
                let version =
                    Some(version).filter(|version| self.is_bound() && !version.is_empty());
                let wire = Wire {
                    patch: patch.as_value(),
                    part: self.part,
                    uid,
                    version,
                };
                let body = serde_json::to_vec(&wire).map_err(|error| {
                    ClusterError::Invalid(format!("no patch can be made: {error}"))
                })?;
                Ok((MERGE, Bytes::from(body)))
            }
        }
    }

    /// Custom resources take all metadata of a status patch from the stored object before they compare uids,
    /// so that only the version keeps a late status from the next object of the same name.
    fn is_bound(&self) -> bool {
        let (status, _) = self.part.content();
        self.is_bound || self.part == Part::Status || status && self.changes.depend_on_the_status()
    }
}

/// Whether the patch says anything under a key like this.
fn says(patch: &Patch, like: impl Fn(&str) -> bool) -> bool {
    let says = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
    let patch = patch.as_value().as_object().into_iter().flatten();
    patch
        .into_iter()
        .any(|(key, value)| like(key) && says(value))
}

// === the patch as it goes over the wire ===

/// The user's and the framework's changes, with the preconditions added, and without a copy of them.
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
        let metadata = self
            .patch
            .get("metadata")
            .filter(|_| self.part != Part::Status);
        map.serialize_entry(
            "metadata",
            &WireMetadata {
                wire: self,
                metadata,
            },
        )?;
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
