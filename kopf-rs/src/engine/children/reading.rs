//! Reads children: from their watch if handlers read their kind, else by a request.
//!
//! Guarantees that a result is never older than the operator's own last write.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::error::ClusterError;
use crate::cluster::request::ObjectPath;
use crate::engine::children::ChildApplier;
use crate::engine::children::child_table::KnownBody;
use crate::engine::children::directory::OfOwner;
use crate::engine::children::task::Target;
use crate::engine::object_table::StreamId;
use crate::handler::child_requests::{ChildError, ChildWish};
use crate::object::child::{ChildName, Claim, Ownership, claim};

impl ChildApplier {
    /// Reads a child of the owner; `None` if it does not exist.
    pub(super) async fn read_child(&self, wish: &ChildWish) -> Result<Option<Value>, ChildError> {
        let task = self.task(wish).await?;
        let (target, context) = (&task.target, &wish.context);
        let owner = &*task.owner.uid;
        let known = self.watched.lock().table.body(&target.child, &target.resource, owner);
        match known {
            KnownBody::There(body) => {
                let read = parsed(target, &body).map(Some);
                return read.map_err(|error| unread(target, error.to_string()));
            }
            // A child that has lost its label exists, although its watch does not show it.
            KnownBody::Absent if !is_applied(wish, &target.child) => return Ok(None),
            KnownBody::Absent | KnownBody::Unknown => {}
        }
        let found = match target.cluster.look_at(target.path(), false).await {
            Ok(found) => found,
            Err(ClusterError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(unread(target, error.to_string())),
        };
        match claim(&found, &task.owner, context.ownership, &self.marks) {
            Claim::Ours | Claim::Terminating => {}
            Claim::Unclaimed(_) | Claim::Stranger(_) => return Ok(None),
        }
        Ok(Some(without_managers(found)))
    }

    /// Lists the children of the owner that have the kind of the wish: in the owner's namespace, or everywhere for a cluster-scoped owner and
    /// for children without a reference to their owner.
    pub(super) async fn list_children(&self, wish: &ChildWish) -> Result<Vec<Value>, ChildError> {
        let task = self.task(wish).await?;
        let (target, ownership) = (&task.target, wish.context.ownership);
        let is_local = target.resource.namespaced && ownership == Ownership::Controller;
        let namespace = task.owner.namespace.as_deref().filter(|_| is_local);
        let (watches, known) = {
            let table = &self.watched.lock().table;
            let watches = table.watches_of(&target.resource, namespace);
            let ids: Vec<StreamId> = watches.iter().map(|(id, _)| *id).collect();
            let known = table.bodies(&ids, &target.resource, &task.owner.uid);
            (watches, known)
        };
        let unlisted = |error: String| ChildError::Unlisted { kind: target.child.kind.clone(), error };
        let mut children = Vec::new();
        if let Some(known) = known {
            for body in known {
                children.push(parsed(target, &body).map_err(|error| unlisted(error.to_string()))?);
            }
        } else {
            let places: BTreeSet<Option<String>> = match namespace {
                None if !watches.is_empty() => watches.into_iter().map(|(_, of)| of).collect(),
                namespace => BTreeSet::from([namespace.map(str::to_owned)]),
            };
            let label = self.label();
            for place in places {
                let listed = target.cluster.list_labelled(&target.resource, place.as_deref(), &label).await;
                let listed = listed.map_err(|error| unlisted(explained(error)))?;
                let is_ours = |found: &Value| {
                    let claim = claim(found, &task.owner, ownership, &self.marks);
                    matches!(claim, Claim::Ours | Claim::Terminating)
                };
                children.extend(listed.into_iter().filter(is_ours).map(without_managers));
            }
        }
        let name = |child: &Value| {
            let metadata = &child["metadata"];
            [&metadata["namespace"], &metadata["name"]].map(|it| it.as_str().map(str::to_owned))
        };
        children.sort_by_cached_key(name);
        Ok(children)
    }

    /// Reads the object of this name.
    pub(super) async fn read_object(
        &self,
        api_version: &str,
        child: &ChildName,
    ) -> Result<Value, ChildError> {
        let cluster = self.cluster.get().ok_or(ChildError::NoOperator)?;
        let resource = self.resource(cluster, api_version, &child.kind).await?;
        let object =
            ObjectPath { resource: &resource, namespace: child.namespace.as_deref(), name: &child.name };
        let read = cluster.look_at(object, false).await;
        read.map_err(|error| ChildError::Unread { child: child.clone(), error: error.to_string() })
    }
}

/// Returns whether the operator has applied the child, and nothing has contradicted that since.
fn is_applied(wish: &ChildWish, child: &ChildName) -> bool {
    let of_owner = wish.context.memo.get::<OfOwner>();
    of_owner.is_some_and(|it| it.with(|memory| memory.last(child).is_some()))
}

/// Parses an item of a list, and adds the `kind` and `apiVersion` that list items lack.
fn parsed(target: &Target<'_>, body: &str) -> Result<Value, serde_json::Error> {
    let mut object: Value = serde_json::from_str(body)?;
    object["apiVersion"] = target.resource.api_version().into();
    object["kind"] = target.child.kind.clone().into();
    Ok(object)
}

fn without_managers(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Returns the text of an error, with the RBAC rule that is missing.
fn explained(error: ClusterError) -> String {
    match error {
        ClusterError::Denied { message, rule } if !rule.is_empty() => {
            format!("{message}\nTo grant it, add {rule}")
        }
        error => error.to_string(),
    }
}

fn unread(target: &Target<'_>, error: String) -> ChildError {
    let child = target.child.clone();
    ChildError::Unread { child, error }
}
