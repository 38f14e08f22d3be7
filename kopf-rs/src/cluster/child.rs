//! Server-side apply and the requests around it: one object, one request, sent once.
//!
//! This module must not depend on the owner of the object.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::read::value;
use crate::cluster::request::{Call, JSON, ObjectPath, escaped};
use crate::cluster::write::MERGE;
use crate::object::resource::Resource;

/// The content type of server-side apply. It demands YAML, and JSON is valid YAML.
pub(super) const APPLY: &str = "application/apply-patch+yaml";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(super) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The parameters of one apply request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyRequest<'a> {
    pub(crate) object: ObjectPath<'a>,
    pub(crate) manager: &'a str,
    /// Take ownership of fields that other managers own.
    pub(crate) force: bool,
    /// The server validates the request and stores nothing.
    pub(crate) dry_run: bool,
    pub(crate) body: &'a Value,
}

/// When a deleted object disappears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// At once. Its dependents follow.
    Background,
    /// After its dependents.
    Foreground,
}

/// The response to an apply.
#[derive(Debug)]
pub(crate) struct ApplyReply {
    /// True if the apply created the object.
    pub(crate) created: bool,
    pub(crate) object: Value,
}

impl<'a> ApplyRequest<'a> {
    pub(super) fn call(&self) -> Call<'a> {
        let mut call = Call::on(Method::PATCH, self.object, (APPLY, self.body), &["create", "patch"]);
        let (manager, force) = (escaped(self.manager), self.force);
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        let query = format!("?fieldManager={manager}&force={force}&fieldValidation=Strict{dry_run}");
        call.target.push_str(&query);
        call
    }
}

impl Cluster {
    /// Applies the complete configuration that a manager wants of an object.
    pub(crate) async fn apply(&self, request: ApplyRequest<'_>) -> Result<ApplyReply, ClusterError> {
        let call = request.call();
        let (code, reply) = self.exchange_in_turn_coded(&call, None).await?;
        Ok(ApplyReply { created: code == 201, object: value(&reply)? })
    }

    /// Reads an object including its `managedFields`; with `metadata_only`, only the metadata. Falls back to a list where the object may not
    /// be read by itself.
    pub(crate) async fn look_at(
        &self,
        object: ObjectPath<'_>,
        metadata_only: bool,
    ) -> Result<Value, ClusterError> {
        let forms = if metadata_only { (METADATA, METADATA_LIST) } else { (JSON, JSON) };
        let find = |page: &Bytes| {
            let mut page = value(page)?;
            let items = page["items"].as_array_mut();
            let mut items = items.into_iter().flatten();
            let found = items.find(|it| it["metadata"]["name"] == *object.name);
            Ok(found.map(|found| {
                name_kind(found, object.resource);
                found.take()
            }))
        };
        self.get_or_list(object, forms, value, find).await
    }

    /// Lists the objects with this label, including their `managedFields`, in a namespace or in the cluster.
    pub(crate) async fn list_labelled(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        label: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        // The semaphore is never closed.
        let _permit = self.shared.reads.acquire().await.ok();
        let query = format!("labelSelector={}", escaped(label));
        let mut listed = self.list_all(resource, namespace, &query).await?;
        for item in &mut listed {
            name_kind(item, resource);
        }
        Ok(listed)
    }

    /// Deletes an object in this version, and its dependents. Returns the object if it still exists because finalizers, dependents or a grace
    /// period delay the deletion.
    ///
    /// Fails with [`ClusterError::Conflict`] if the uid or the version differs.
    pub(crate) async fn delete(
        &self,
        object: ObjectPath<'_>,
        uid: &str,
        version: &str,
        propagation: Propagation,
    ) -> Result<Option<Value>, ClusterError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
            "propagationPolicy": format!("{propagation:?}"),
        });
        let call = Call::on(Method::DELETE, object, (JSON, &options), &["delete"]);
        let reply = self.exchange_in_turn(&call).await?;
        let reply: Value = serde_json::from_slice(&reply).unwrap_or_default();
        let metadata = &reply["metadata"];
        let is_waited_for = metadata["finalizers"].as_array().is_some_and(|it| !it.is_empty())
            || metadata["deletionGracePeriodSeconds"].as_u64() > Some(0);
        let is_there = !metadata["deletionTimestamp"].is_null() && is_waited_for;
        Ok(is_there.then_some(reply))
    }

    /// Changes a part of an object by a JSON merge patch.
    pub(crate) async fn merge(
        &self,
        object: ObjectPath<'_>,
        manager: &str,
        change: &Value,
    ) -> Result<Value, ClusterError> {
        let mut call = Call::on(Method::PATCH, object, (MERGE, change), &["patch"]);
        call.target.extend(["?fieldManager=", &escaped(manager)]);
        value(&self.exchange_in_turn(&call).await?)
    }
}

/// Adds the `apiVersion` and the `kind`, which items of a list lack.
fn name_kind(item: &mut Value, resource: &Resource) {
    item["apiVersion"] = resource.api_version().into();
    item["kind"] = resource.kind.clone().into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::FieldConflict;
    use crate::cluster::fake::{Answer, Fake};

    #[tokio::test(start_paused = true)]
    async fn an_object_that_may_not_be_read_by_itself_is_listed() {
        let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "cannot get"});
        let list = json!({"items": [{"metadata": {"name": "c", "uid": "u"}}]});
        let fake = Fake::new([
            Answer::new(403, denied.to_string()),
            Answer::new(200, list.to_string()),
            Answer::new(200, json!({"items": []}).to_string()),
            Answer::new(200, list.to_string()),
        ]);
        let resource = Resource {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            namespaced: true,
            ..Resource::default()
        };
        let object = ObjectPath { resource: &resource, namespace: Some("ns"), name: "c" };
        let cluster = fake.cluster();
        let found = cluster.look_at(object, true).await.unwrap();
        assert_eq!(found["metadata"]["uid"], "u");
        let gone = cluster.look_at(object, true).await.unwrap_err();
        assert!(matches!(gone, ClusterError::NotFound(_)), "{gone:?}");
        let whole = cluster.look_at(object, false).await.unwrap();
        assert_eq!(whole["kind"], "ConfigMap");
        let list = "GET /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dc";
        let get = "GET /api/v1/namespaces/ns/configmaps/c";
        assert_eq!(fake.lines(), [get, list, list, list]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_apply_names_its_manager_and_a_conflict_its_fields() {
        let conflict = json!({
            "kind": "Status", "code": 409, "message": "Apply failed with 1 conflict",
            "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using v1", "field": ".data.a"}]},
        });
        let fake = Fake::new([
            Answer::new(201, r#"{"metadata":{"name":"c"}}"#),
            Answer::new(409, conflict.to_string()),
            Answer::new(200, r#"{"metadata":{"name":"c"}}"#),
            Answer::new(200, "{}"),
        ]);
        let resource = Resource {
            version: "v1".into(),
            plural: "configmaps".into(),
            namespaced: true,
            ..Resource::default()
        };
        let object = ObjectPath { resource: &resource, namespace: Some("ns"), name: "c" };
        let body = json!({"data": {}});
        let request =
            ApplyRequest { object, manager: "op.kopf.rs", force: false, dry_run: false, body: &body };
        let cluster = fake.cluster();
        assert!(cluster.apply(request).await.unwrap().created);
        let refused = cluster.apply(request).await.unwrap_err();
        let field = FieldConflict {
            field: ".data.a".to_owned(),
            message: "conflict with \"kubectl\" using v1".to_owned(),
        };
        assert!(matches!(&refused, ClusterError::FieldConflicts(all) if *all == [field]), "{refused:?}");
        let forced = ApplyRequest { force: true, ..request };
        assert!(!cluster.apply(forced).await.unwrap().created);
        assert!(cluster.delete(object, "u", "7", Propagation::Foreground).await.is_ok());
        let path = "/api/v1/namespaces/ns/configmaps/c";
        let apply =
            |force| format!("PATCH {path}?fieldManager=op.kopf.rs&force={force}&fieldValidation=Strict");
        let expected = [apply(false), apply(false), apply(true), format!("DELETE {path}")];
        assert_eq!(fake.lines(), expected);
        let deletion: Value = serde_json::from_str(&fake.seen()[3].body).unwrap();
        let preconditions = json!({"uid": "u", "resourceVersion": "7"});
        assert_eq!(deletion["preconditions"], preconditions);
        assert_eq!(deletion["propagationPolicy"], "Foreground");
    }
}
