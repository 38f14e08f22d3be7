//! Discovers the resources that the cluster serves.
//!
//! Guarantees that one broken API does not affect the others: its previously known resources stay known, and a version without any is listed
//! by `unknown_versions`. Each resource has one preferred version: that of its group, or else the first version in the group's order that has
//! the resource. Must not know who needs the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use futures_util::future::try_join;
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::cluster::discover::found::{Found, call, name, or_empty};
use crate::cluster::error::ClusterError;
use crate::object::resource::Resource;

mod aggregated;
mod found;
mod legacy;
#[cfg(test)]
mod tests;

/// Asks for aggregated discovery in one response, with the legacy lists as the fallback.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// The response to `/api` or `/apis`, in either form.
#[derive(Deserialize)]
struct Root {
    kind: String,
    #[serde(default, deserialize_with = "or_empty")]
    items: Vec<aggregated::Group>,
    #[serde(default, deserialize_with = "or_empty")]
    groups: Vec<legacy::Group>,
    #[serde(default, deserialize_with = "or_empty")]
    versions: Vec<String>,
}

impl Cluster {
    /// Returns all resources in all versions, with their subresources folded in.
    pub(crate) async fn discover(&self) -> Result<Vec<Resource>, ClusterError> {
        let (core, named) = try_join(self.root("/api"), self.root("/apis")).await?;
        let mut all = self.group_versions(core).await?;
        all.extend(self.group_versions(named).await?);
        let mut known = self.known_resources();
        let (mut resources, mut unknown) = (Vec::new(), BTreeSet::new());
        for found in all {
            let name = name(&found.group, &found.version);
            let before = known.remove(&name).unwrap_or_default();
            let is_empty = found.resources.is_empty();
            let broken = found.broken.is_some();
            self.note_health(&name, found.broken);
            let believed = if broken && is_empty {
                before
            } else {
                found.resources
            };
            if believed.is_empty() {
                unknown.insert(name);
            }
            resources.extend(believed);
        }
        prefer_first(&mut resources);
        let mut kept = self
            .shared
            .unknown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *kept = unknown;
        drop(kept);
        let mut kept = self
            .shared
            .discovered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.clone_from(&resources);
        Ok(resources)
    }

    /// Logs once when an API breaks, and once when it recovers.
    fn note_health(&self, name: &str, broken: Option<String>) {
        match broken {
            Some(reason) if self.shared.broken.add(name) => {
                tracing::warn!(
                    "Discovery of the API {name} failed; other APIs are served: {reason}"
                );
            }
            None if self.shared.broken.remove(name) => {
                tracing::info!("Discovery of the API {name} works again.");
            }
            _ => {}
        }
    }

    /// Returns the versions (`group/version`) that the last discovery saw but could not inspect.
    pub(crate) fn unknown_versions(&self) -> BTreeSet<String> {
        let unknown = self.shared.unknown.lock();
        unknown.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the resources that the last discovery found.
    pub(super) fn discovered(&self) -> Vec<Resource> {
        let kept = self.shared.discovered.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the resource of a kind if the last discovery found it.
    pub(crate) fn discovered_kind(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let kept = self.shared.discovered.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        let mut all = kept.iter();
        let found = all.find(|it| it.kind == kind && it.api_version() == api_version);
        found.cloned()
    }

    fn known_resources(&self) -> BTreeMap<String, Vec<Resource>> {
        let mut known = BTreeMap::<_, Vec<Resource>>::new();
        for resource in self.discovered() {
            let name = name(&resource.group, &resource.version);
            known.entry(name).or_default().push(resource);
        }
        known
    }

    async fn root(&self, path: &str) -> Result<Root, ClusterError> {
        let mut call = call(path.to_owned());
        call.accept = ACCEPT;
        let reply = self.persist(&call).await?;
        serde_json::from_slice(&reply)
            .map_err(|error| ClusterError::Invalid(format!("the answer to {path}: {error}")))
    }

    async fn group_versions(&self, root: Root) -> Result<Vec<Found>, ClusterError> {
        if root.kind == "APIGroupDiscoveryList" {
            Ok(aggregated::found(root.items))
        } else {
            self.ask_each(root.versions, root.groups).await
        }
    }
}

/// Prefers the first version of each resource that the preferred version of its group does not have.
fn prefer_first(resources: &mut [Resource]) {
    let identity = |it: &Resource| (it.group.clone(), it.plural.clone());
    let mut known: BTreeSet<_> = resources
        .iter()
        .filter(|it| it.preferred)
        .map(identity)
        .collect();
    for resource in resources {
        if known.insert(identity(resource)) {
            resource.preferred = true;
        }
    }
}
