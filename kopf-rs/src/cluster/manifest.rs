//! Applies a manifest to the cluster, as `--apply` does: creates the object, or changes the fields that differ.

use std::fmt;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::cluster::definition::{Verdict, verdict};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::read::object;
use crate::cluster::request::Call;
use crate::cluster::write::MERGE;
use crate::object::body::Body;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;

#[cfg(test)]
mod tests;

/// The result of applying a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The object did not exist.
    Created,
    /// The object existed and differed.
    Configured,
    /// The object existed and is unchanged.
    Unchanged,
}

/// The time limit for the server to serve a new kind.
const SERVED: Duration = Duration::from_secs(30);
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Asks for strict validation, as kubectl does: the server refuses a misspelt field instead of dropping it.
const STRICT: &str = "&fieldValidation=Strict";

/// The address of a manifest's object.
struct Home<'a> {
    resource: Resource,
    namespace: Option<String>,
    /// `None` if the server generates the name.
    name: Option<&'a str>,
    manifest: &'a Value,
}

impl Cluster {
    /// Creates the object that the manifest describes, or merges the manifest into the existing object. Waits until a definition of a kind is
    /// established.
    ///
    /// A manifest without a namespace uses the client's default namespace.
    pub(crate) async fn apply_manifest(&self, manifest: &Value) -> Result<Applied, ClusterError> {
        let home = self.home(manifest).await?;
        let (resource, namespace) = (&home.resource, home.namespace.as_deref());
        let before = match home.name {
            Some(name) => self.find(resource, namespace, name).await?,
            None => None,
        };
        let applied = match before {
            Some(before) => self.configure(&home, Some(&before)).await?,
            None => match self.create(resource, namespace, manifest).await {
                Ok(_) => Applied::Created,
                Err(ClusterError::Conflict(_)) if home.name.is_some() => self.configure(&home, None).await?,
                Err(error) => return Err(error),
            },
        };
        if resource.plural == "customresourcedefinitions"
            && let Some(name) = home.name
        {
            self.wait_until_established(resource, name).await?;
            self.shared.defined.add(&defined_kind(manifest));
        }
        Ok(applied)
    }

    /// Creates an object. Fails with [`ClusterError::Conflict`] if its name is taken.
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        content: &Value,
    ) -> Result<Raw, ClusterError> {
        let call = Call::with(
            Method::POST,
            self.owned(resource.path(namespace, None, None)) + STRICT,
            ("application/json", content),
            Asked::of(resource, namespace, &["create"]),
        );
        object(&self.exchange_in_turn(&call).await?)
    }

    async fn configure(&self, home: &Home<'_>, before: Option<&Raw>) -> Result<Applied, ClusterError> {
        let namespace = home.namespace.as_deref();
        let call = Call::with(
            Method::PATCH,
            self.owned(home.resource.path(namespace, home.name, None)) + STRICT,
            (MERGE, home.manifest),
            Asked::of(&home.resource, namespace, &["get", "create", "patch"]),
        );
        let after = object(&self.persist(&call).await?)?;
        let version = |raw: &Raw| raw.facts().resource_version.clone();
        let same = before.is_some_and(|before| version(before) == version(&after));
        Ok(if same { Applied::Unchanged } else { Applied::Configured })
    }

    async fn home<'a>(&self, manifest: &'a Value) -> Result<Home<'a>, ClusterError> {
        let text = |value: &'a Value| value.as_str().filter(|text| !text.is_empty());
        let missing = |what: &str| ClusterError::Invalid(format!("the manifest has no {what}"));
        let api_version = text(&manifest["apiVersion"]).ok_or_else(|| missing("apiVersion"))?;
        let kind = text(&manifest["kind"]).ok_or_else(|| missing("kind"))?;
        let metadata = &manifest["metadata"];
        let name = text(&metadata["name"]);
        if name.is_none() && text(&metadata["generateName"]).is_none() {
            return Err(missing("metadata.name"));
        }
        let resource = self.resolve(api_version, kind).await?;
        let namespace = resource.namespaced.then(|| {
            let own = text(&metadata["namespace"]);
            own.unwrap_or(self.client.default_namespace()).to_owned()
        });
        Ok(Home { resource, namespace, name, manifest })
    }

    /// Returns the resource of a kind. A kind that was just defined may take a moment to be discovered.
    async fn resolve(&self, api_version: &str, kind: &str) -> Result<Resource, ClusterError> {
        let fits = |resource: &Resource| resource.kind == kind && resource.api_version() == api_version;
        if let Some(known) = self.discovered().into_iter().find(fits) {
            return Ok(known);
        }
        let deadline = Instant::now() + SERVED;
        let mut backoff = Backoff::new(POLL.0, POLL.1);
        loop {
            if let Some(found) = self.discover().await?.into_iter().find(fits) {
                return Ok(found);
            }
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let is_coming = self.shared.defined.has(&format!("{kind}.{group}"));
            if !is_coming || Instant::now() > deadline {
                let message = format!(
                    "no kind \"{kind}\" in {api_version} is served: is its CustomResourceDefinition applied?"
                );
                return Err(ClusterError::NotFound(message.into()));
            }
            sleep(backoff.next_pause(self.rng())).await;
        }
    }

    async fn wait_until_established(&self, resource: &Resource, name: &str) -> Result<(), ClusterError> {
        let deadline = Instant::now() + SERVED;
        let mut backoff = Backoff::new(POLL.0, POLL.1);
        loop {
            let definition = self.find(resource, None, name).await?;
            let definition = definition.and_then(|raw| raw.body().ok());
            let status = definition.as_ref().map(Body::status);
            let conditions = status.and_then(|status| status["conditions"].as_array());
            let refusal = match verdict(conditions.map_or(&[], Vec::as_slice)) {
                Verdict::Established => return Ok(()),
                Verdict::Refused(message) => Some(message),
                Verdict::Pending => None,
            };
            if let Some(message) = refusal {
                return Err(ClusterError::Invalid(format!("{name} is not accepted: {message}")));
            }
            if Instant::now() > deadline {
                return Err(ClusterError::Unreachable(format!(
                    "{name} is not established within {} seconds",
                    SERVED.as_secs()
                )));
            }
            sleep(backoff.next_pause(self.rng())).await;
        }
    }
}

/// Returns `Kind.group` of a definition.
fn defined_kind(definition: &Value) -> String {
    let spec = &definition["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let group = spec["group"].as_str().unwrap_or_default();
    format!("{kind}.{group}")
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        })
    }
}
