//! Asks running operators to pause or to resume, by records in their peering objects that are not renewed.
//!
//! Must not know the caller, nor the output.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::object::collection::Collection;
use crate::object::resource::Resource;
use crate::operator::scope::Scope;
use crate::reaction::peering::{PauseRequest, farewell, is_peering, plural};

/// A request to the operators of a scope.
pub(crate) struct PeeringQuestion {
    /// The name of the peering objects.
    pub(crate) name: String,
    /// The key of the record.
    pub(crate) identity: String,
    pub(crate) scope: Scope,
    /// `None` revokes an earlier request.
    pub(crate) pause: Option<PauseRequest>,
}

/// An existing peering object, and the result for it.
pub(crate) struct Asked {
    /// `None` for the object of the whole cluster.
    pub(crate) namespace: Option<String>,
    /// The record now exists, or is now gone. `false` if there was none to revoke.
    pub(crate) is_done: bool,
    /// The identities of the other records in the object.
    pub(crate) others: Vec<String>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PausingError {
    #[error("the cluster cannot be asked: {0}")]
    Cluster(#[from] ClusterError),
    #[error("to permit it, add {rule}\n  since the cluster says: {message}")]
    Denied { message: String, rule: String },
    #[error(
        "the cluster serves no kind `{plural}` of the group `kopf.dev`, so its operators take part in no peering; expected its definition, \
         which `kubectl get crd {plural}.kopf.dev` would show, or other namespaces (-n, -A)"
    )]
    NoKind { plural: &'static str },
    #[error(
        "there is no object `{name}` of the kind {plural} {places}: no operator was asked there; see: kubectl get {plural} -A"
    )]
    NoObject { name: String, plural: &'static str, places: String },
}

impl PeeringQuestion {
    /// Turns the request into one for a pause.
    pub(crate) fn pausing(mut self, priority: i64, lifetime: Duration, message: Option<String>) -> Self {
        self.pause = Some(PauseRequest { priority, lifetime, message });
        self
    }

    /// Sends the request. Returns the objects found, and an error if a named object does not exist or none exists at all.
    pub(crate) async fn ask(
        &self,
        cluster: &Cluster,
        now: Timestamp,
    ) -> Result<(Vec<Asked>, Option<PausingError>), PausingError> {
        let is_clusterwide = matches!(self.scope, Scope::All);
        let discovered = cluster.discover().await?;
        let kinds = discovered.iter().filter(|it| is_peering(it, is_clusterwide));
        let kinds: Vec<&Resource> = kinds.collect();
        let plural = plural(is_clusterwide);
        if kinds.is_empty() {
            return Err(PausingError::NoKind { plural });
        }
        let (mut asked, mut absent) = (Vec::new(), Vec::new());
        for namespace in self.namespaces(cluster, &kinds).await? {
            let before = asked.len();
            for kind in &kinds {
                asked.extend(self.ask_at(cluster, kind, namespace.as_deref(), now).await?);
            }
            if asked.len() == before {
                absent.push(namespace);
            }
        }
        let is_complete = absent.is_empty() && !asked.is_empty();
        let missing = (!is_complete).then(|| PausingError::NoObject {
            name: self.name.clone(),
            plural,
            places: self.places(&absent),
        });
        Ok((asked, missing))
    }

    /// Returns the named namespaces, or all matching ones that have such an object.
    async fn namespaces(
        &self,
        cluster: &Cluster,
        kinds: &[&Resource],
    ) -> Result<Vec<Option<String>>, PausingError> {
        let patterns = match &self.scope {
            Scope::All => return Ok(vec![None]),
            Scope::Some(patterns) if patterns.are_names() => {
                return Ok(patterns.literals().map(|it| Some(it.to_owned())).collect());
            }
            Scope::Some(patterns) => patterns,
        };
        let mut namespaces = Vec::new();
        for kind in kinds {
            for object in cluster.list_named(kind, &self.name).await.map_err(pausing_error)? {
                let namespace = object["metadata"]["namespace"].as_str();
                let matching = namespace.filter(|it| patterns.matches(it));
                namespaces.extend(matching.map(|it| Some(it.to_owned())));
            }
        }
        namespaces.sort();
        namespaces.dedup();
        Ok(namespaces)
    }

    async fn ask_at(
        &self,
        cluster: &Cluster,
        kind: &Resource,
        namespace: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Asked>, PausingError> {
        let before = match cluster.get(kind, namespace, &self.name).await {
            Ok(raw) => raw.body().map_err(|it| ClusterError::Invalid(it.to_string()))?,
            Err(ClusterError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(pausing_error(error)),
        };
        let none = Map::new();
        let records = before.status().as_object().unwrap_or(&none);
        let is_there = records.get(&self.identity).is_some_and(|it| !it.is_null());
        let others = records.iter().filter(|(key, it)| **key != self.identity && !it.is_null());
        let others = others.map(|(key, _)| key.clone()).collect();
        let change = match &self.pause {
            Some(pause) => Some(pause.change(&self.identity, now)),
            None => is_there.then(|| farewell(&self.identity)),
        };
        let is_done = match change {
            Some(change) => self.write(cluster, kind, namespace, &change).await?,
            None => false,
        };
        Ok(Some(Asked { namespace: namespace.map(str::to_owned), is_done, others }))
    }

    async fn write(
        &self,
        cluster: &Cluster,
        kind: &Resource,
        namespace: Option<&str>,
        change: &Value,
    ) -> Result<bool, PausingError> {
        let of = Collection { resource: kind.clone().into(), namespace: namespace.map(str::to_owned) };
        let written = cluster.patch_records(&of, &self.name, change).await;
        written.map(|_| true).map_err(pausing_error)
    }

    fn places(&self, absent: &[Option<String>]) -> String {
        let names: Vec<&str> = absent.iter().filter_map(Option::as_deref).collect();
        match (&self.scope, &names[..]) {
            (Scope::All, _) => "in the cluster".to_owned(),
            (_, []) => "in a namespace that matches".to_owned(),
            (_, names) => format!("in {}", names.join(", ")),
        }
    }
}

/// Adds the missing RBAC rule to an error.
fn pausing_error(error: ClusterError) -> PausingError {
    match error {
        ClusterError::Denied { message, rule } if !rule.is_empty() => PausingError::Denied { message, rule },
        error => error.into(),
    }
}
