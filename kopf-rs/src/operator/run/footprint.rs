//! Describes what an operator leaves in a cluster: its finalizer on objects, its children, and the objects that its instances share.
//!
//! Calls no handlers and writes nothing. Must not know who removes it.

use std::collections::BTreeSet;

use crate::cluster::{Client, Cluster};
use crate::object::child::ChildMarks;
use crate::object::resource::Resource;
use crate::operator::matching::match_handlers;
use crate::operator::run::{CheckedOperator, Operator, OperatorError, refused};
use crate::state::{Persistence, naming};

/// The objects that an operator leaves, for the kinds that the server serves at present.
#[derive(Debug)]
pub(crate) struct Footprint {
    pub(crate) operator: String,
    /// The finalizer that its handlers need.
    pub(crate) finalizer: String,
    /// The resources that have handlers.
    pub(crate) handled: Vec<Resource>,
    /// The resources of children.
    pub(crate) children: Vec<Resource>,
    /// The label of children.
    pub(crate) child_label: String,
    /// The namespace of the Lease, if it is not that of the operator, and its name.
    pub(crate) lease: (Option<String>, String),
    /// The name of the Secret with the certificates of webhooks.
    pub(crate) secret: String,
}

impl Operator {
    /// Returns what this operator leaves in the cluster.
    pub(crate) async fn footprint(self, client: Client) -> Result<Footprint, OperatorError> {
        let name = self.check()?;
        CheckedOperator::new(self, name, client)?.footprint().await
    }
}

impl CheckedOperator {
    async fn footprint(&self) -> Result<Footprint, OperatorError> {
        let settings = self.settings.get();
        let cluster: Cluster = self.cluster(&settings);
        let resources = cluster.discover().await.map_err(|error| refused(&error))?;
        let matched = match_handlers(&self.handlers, &resources, &BTreeSet::new());
        let kinds = self.handlers.iter().flat_map(|it| it.kinds_of_children());
        let mut children: Vec<Resource> = Vec::new();
        for resource in kinds.filter_map(|it| it.select_one(&resources)) {
            if !children.contains(resource) {
                children.push(resource.clone());
            }
        }
        let persistence = settings.persistence.clone().unwrap_or_else(|| Persistence::named(&self.name));
        let marks = ChildMarks { manager: naming::prefix(&self.name) };
        let lease = &settings.lease;
        Ok(Footprint {
            operator: self.name.clone(),
            finalizer: persistence.finalizer.to_string(),
            handled: matched.resources.into_iter().map(|it| it.resource).collect(),
            children,
            child_label: marks.label(),
            lease: (lease.namespace.clone(), lease.name.clone().unwrap_or_else(|| self.name.clone())),
            secret: settings.admission.secret.clone().unwrap_or_else(|| format!("{}-webhook", self.name)),
        })
    }
}
