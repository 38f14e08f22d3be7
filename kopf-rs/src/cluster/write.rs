//! One PATCH per cycle; a second one only for the status subresource.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::object;
use crate::cluster::request::{Call, escaped};
use crate::object::patch::Patch;
use crate::object::raw::{Facts, Raw};
use crate::object::resource::Resource;

mod operations;
mod pruned;
#[cfg(test)]
mod tests;

pub(super) const MERGE: &str = "application/merge-patch+json";
/// How often a write bound to a version is tried anew on an object that others write to, too.
const REBINDS: u32 = 5;

/// The object of a patch, and what must hold of it.
struct Target<'a> {
    resource: &'a Resource,
    facts: &'a Facts,
    finalizers: Option<&'a [String]>,
    /// The newest version seen.
    version: String,
}

/// One of the two requests a patch may need.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Everything, or everything but the status where that goes apart.
    Object {
        with_status: bool,
    },
    Status,
}

impl Cluster {
    /// Apply a merge patch to the object `facts` names, bound to its uid; the reply is the new state, `None` where the object is gone.
    ///
    /// Status goes first, so that a crash in between repeats the handler rather than lose its result. Where the status subresource has
    /// gone and the object is there, all goes in one.
    /// With `expected_finalizers` the patch only lands on an object that has exactly these: else [`ClusterError::Conflict`].
    /// A reply with the version of `facts` says that nothing has changed.
    pub(crate) async fn apply(
        &self,
        resource: &Resource,
        facts: &Facts,
        patch: &Patch,
        expected_finalizers: Option<&[String]>,
    ) -> Result<Option<Raw>, ClusterError> {
        let mut target = Target {
            resource,
            facts,
            finalizers: expected_finalizers,
            version: facts.resource_version.clone(),
        };
        let mut state = None;
        let parts = parts(resource, patch);
        if parts.is_empty() {
            return self.look(&target).await;
        }
        for part in parts {
            match self.send_part(&mut target, patch, part).await {
                Ok(Some(raw)) => state = Some(raw),
                Ok(None) => return Ok(None),
                Err(ClusterError::NotFound(_)) if part == Part::Status => {
                    self.warn_of_lost_status(resource);
                    let all = Part::Object { with_status: true };
                    return self.send_part(&mut target, patch, all).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(state)
    }

    /// Send one part, again and again with the newest version where it is bound to one.
    async fn send_part(
        &self,
        target: &mut Target<'_>,
        patch: &Patch,
        part: Part,
    ) -> Result<Option<Raw>, ClusterError> {
        let mut left = REBINDS;
        loop {
            let call = target.call(patch, part, self)?;
            let conflict = match self.persist(&call).await {
                Ok(reply) => {
                    let raw = object(&reply)?;
                    target.version.clone_from(&raw.facts().resource_version);
                    self.warn_if_pruned(target.resource, patch, part, &raw);
                    target.check_finalizers(&raw, part, patch)?;
                    return Ok(Some(raw));
                }
                Err(ClusterError::NotFound(_)) if part != Part::Status => return Ok(None),
                Err(error @ (ClusterError::Conflict(_) | ClusterError::NotFound(_))) => error,
                Err(error) => return Err(error),
            };
            let Some(raw) = self.look(target).await? else {
                return Ok(None);
            };
            target.check_all(&raw)?;
            let unchanged = raw.facts().resource_version == target.version;
            if left == 0 || unchanged || matches!(conflict, ClusterError::NotFound(_)) {
                return Err(conflict);
            }
            left -= 1;
            target.version.clone_from(&raw.facts().resource_version);
        }
    }

    /// Said once per resource: the definition has lost its status subresource.
    fn warn_of_lost_status(&self, resource: &Resource) {
        let resource = resource.to_string();
        if self.shared.statusless.add(&resource) {
            tracing::warn!(
                "{resource} has no status subresource any more: statuses are written with the rest of the object."
            );
        }
    }

    /// The target of a write to `path`: what it sets belongs to the operator.
    pub(super) fn owned(&self, path: String) -> String {
        path + "?fieldManager=" + &escaped(&self.shared.operator)
    }

    /// The object as it is now; `None` where it is gone, or another one has its name.
    async fn look(&self, target: &Target<'_>) -> Result<Option<Raw>, ClusterError> {
        let Target {
            resource, facts, ..
        } = target;
        let found = self
            .get(resource, facts.namespace.as_deref(), &facts.name)
            .await?;
        Ok(found.filter(|raw| raw.facts().uid == facts.uid))
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
}

impl Target<'_> {
    fn call(&self, patch: &Patch, part: Part, cluster: &Cluster) -> Result<Call<'_>, ClusterError> {
        let Self {
            resource, facts, ..
        } = self;
        let subresource = (part == Part::Status).then_some("status");
        let namespace = facts.namespace.as_deref();
        let wire = Wire {
            patch: patch.as_value(),
            part,
            uid: &facts.uid,
            version: Some(&self.version).filter(|version| self.bound(part) && !version.is_empty()),
        };
        let body = serde_json::to_vec(&wire)
            .map_err(|error| ClusterError::Invalid(format!("no patch can be made: {error}")))?;
        Ok(Call {
            method: Method::PATCH,
            target: cluster.owned(resource.path(namespace, Some(&facts.name), subresource)),
            accept: "application/json",
            body: Some((MERGE, Bytes::from(body))),
            asked: Asked {
                verbs: &["patch"],
                resource: Some(resource),
                namespace,
                subresource,
            },
        })
    }

    /// Custom resources take all metadata of a status patch from the stored object before they compare uids,
    /// so that only the version keeps a late status from the next object of the same name.
    fn bound(&self, part: Part) -> bool {
        part == Part::Status || self.finalizers.is_some()
    }

    /// After the status: the second part must still find the finalizers it expects.
    fn check_finalizers(&self, raw: &Raw, part: Part, patch: &Patch) -> Result<(), ClusterError> {
        if part == Part::Status && has(patch, |key| key != "status") {
            self.check_all(raw)
        } else {
            Ok(())
        }
    }

    fn check_all(&self, raw: &Raw) -> Result<(), ClusterError> {
        match self.finalizers {
            Some(expected) if finalizers(raw) != expected => Err(ClusterError::Conflict(
                "the finalizers have changed meanwhile".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

fn parts(resource: &Resource, patch: &Patch) -> Vec<Part> {
    let status = resource.has_status_subresource() && has(patch, |key| key == "status");
    let rest = has(patch, |key| !status || key != "status");
    let status_part = status.then_some(Part::Status);
    let rest_part = rest.then_some(Part::Object {
        with_status: !status,
    });
    status_part.into_iter().chain(rest_part).collect()
}

/// Whether the patch says anything under a key like this.
fn has(patch: &Patch, like: impl Fn(&str) -> bool) -> bool {
    let says = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
    let patch = patch.as_value().as_object().into_iter().flatten();
    patch
        .into_iter()
        .any(|(key, value)| like(key) && says(value))
}

fn finalizers(raw: &Raw) -> Vec<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let object = serde_json::from_str::<Object>(raw.text());
    object
        .map(|object| object.metadata.finalizers)
        .unwrap_or_default()
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
