//! Discovers the resources that the cluster serves.
//!
//! This module guarantees that one broken API does not affect the others: its previously known resources stay known,
//! and a version without any is listed by `unknown_versions`. Each resource has one preferred version: that of its
//! group, or else the first version in the group's order that has the resource. It does not know who needs the
//! resources.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join;
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::cluster::discover::aggregated::{Found, Group, found, or_empty};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::object::resource::Resource;

mod aggregated;
#[cfg(test)]
mod tests;

/// Asks for aggregated discovery in one response. The last type makes an older server answer with its own kind, which the error names.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// The kind of the expected response.
const KIND: &str = "APIGroupDiscoveryList";

/// The response to `/api` or `/apis`.
#[derive(Deserialize)]
struct Root {
    kind: String,
    #[serde(default, deserialize_with = "or_empty")]
    items: Vec<Group>,
}

impl Cluster {
    /// Returns all resources in all versions, with their subresources folded in.
    pub(crate) async fn discover(&self) -> Result<Vec<Resource>, ClusterError> {
        let (mut all, named) = try_join(self.root("/api"), self.root("/apis")).await?;
        all.extend(named);
        let mut known = self.known_resources();
        let (mut resources, mut unknown) = (Vec::new(), BTreeSet::new());
        for found in all {
            let name = name(&found.group, &found.version);
            let before = known.remove(&name).unwrap_or_default();
            let is_empty = found.resources.is_empty();
            let broken = found.broken.is_some();
            self.note_health(&name, found.broken);
            let believed = if broken && is_empty { before } else { found.resources };
            if believed.is_empty() {
                unknown.insert(name);
            }
            resources.extend(believed);
        }
        prefer_first(&mut resources);
        let mut kept = self.shared.unknown.lock();
        *kept = unknown;
        drop(kept);
        let mut kept = self.shared.discovered.lock();
        kept.clone_from(&resources);
        Ok(resources)
    }

    /// Logs once when an API breaks, and once when it recovers.
    fn note_health(&self, name: &str, broken: Option<String>) {
        match broken {
            Some(reason) if self.shared.broken.add(name) => {
                tracing::warn!("Discovery of the API {name} failed; other APIs are served: {reason}");
            }
            None if self.shared.broken.remove(name) => {
                tracing::info!("Discovery of the API {name} works again.");
            }
            _ => {}
        }
    }

    /// Returns the versions (`group/version`) that the last discovery saw but could not inspect.
    pub(crate) fn unknown_versions(&self) -> BTreeSet<String> {
        self.shared.unknown.lock().clone()
    }

    /// Returns the resources that the last discovery found.
    pub(super) fn discovered(&self) -> Vec<Resource> {
        self.shared.discovered.lock().clone()
    }

    /// Returns the resource of a kind if the last discovery found it.
    pub(crate) fn discovered_kind(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let kept = self.shared.discovered.lock();
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

    async fn root(&self, path: &str) -> Result<Vec<Found>, ClusterError> {
        let asked = Asked { verbs: &["get"], resource: None, namespace: None, subresource: None };
        let mut call = Call::get(path.to_owned(), asked);
        call.accept = ACCEPT;
        let reply = self.persist(&call).await?;
        let refused = |why: String| ClusterError::Invalid(format!("the answer to {path}: {why}"));
        let root: Root = serde_json::from_slice(&reply).map_err(|error| refused(error.to_string()))?;
        if root.kind != KIND {
            let kind = root.kind;
            return Err(refused(format!(
                "expected {KIND}, which Kubernetes serves since 1.27, but it is {kind}; use a newer server"
            )));
        }
        Ok(found(root.items))
    }
}

fn name(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Prefers the first version of each resource that the preferred version of its group does not have.
fn prefer_first(resources: &mut [Resource]) {
    let identity = |it: &Resource| (it.group.clone(), it.plural.clone());
    let mut known: BTreeSet<_> = resources.iter().filter(|it| it.preferred).map(identity).collect();
    for resource in resources {
        if known.insert(identity(resource)) {
            resource.preferred = true;
        }
    }
}
