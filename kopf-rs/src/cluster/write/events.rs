//! Creates and updates Kubernetes Events, with one request each that is sent once.
//!
//! This module must not depend on their content.

use std::sync::LazyLock;

use http::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::{Call, escaped};
use crate::cluster::write::MERGE;
use crate::object::resource::Resource;

static EVENTS: LazyLock<Resource> = LazyLock::new(|| Resource {
    group: "events.k8s.io".to_owned(),
    version: "v1".to_owned(),
    plural: "events".to_owned(),
    kind: "Event".to_owned(),
    namespaced: true,
    ..Resource::default()
});

impl Cluster {
    /// Creates an Event, or merges a patch into the one with that name. An existing Event counts as created: names are generated, so it stems
    /// from an attempt whose response was lost.
    pub(crate) async fn send_event(
        &self,
        namespace: &str,
        name: Option<&str>,
        body: &Value,
    ) -> Result<(), ClusterError> {
        let (method, content) = match name {
            Some(_) => (Method::PATCH, MERGE),
            None => (Method::POST, "application/json"),
        };
        let call = Call::with(
            method,
            self.owned(EVENTS.path(Some(namespace), name, None)),
            (content, body),
            Asked::of(&EVENTS, Some(namespace), &["create", "patch"]),
        );
        match self.exchange_in_turn(&call).await {
            Err(ClusterError::Conflict(_)) if name.is_none() => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Returns the Events about the object with that uid. Events about cluster-scoped objects are in the namespace `default`.
    pub(crate) async fn events_about(
        &self,
        namespace: Option<&str>,
        uid: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let namespace = namespace.unwrap_or("default");
        let selector = escaped(&format!("regarding.uid={uid}"));
        let collection = EVENTS.path(Some(namespace), None, None);
        let target = format!("{collection}?fieldSelector={selector}&limit=100");
        let asked = Asked::of(&EVENTS, Some(namespace), &["list"]);
        let reply = self.exchange(&Call::get(target, asked)).await?;
        let list: Value = serde_json::from_slice(&reply)
            .map_err(|error| ClusterError::Invalid(format!("the reply is not a list: {error}")))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::cluster::error::ClusterError;
    use crate::cluster::fake::{Answer, Fake};

    #[tokio::test(start_paused = true)]
    async fn events_are_made_and_counted_on_and_a_missing_right_is_named() {
        let denial = r#"events.events.k8s.io is forbidden: User "op" cannot create resource "events" in API group "events.k8s.io" in the namespace "ns""#;
        let fake = Fake::new([
            Answer::new(201, "{}"),
            Answer::refusal(409, "events \"e\" already exists"),
            Answer::new(200, "{}"),
            Answer::refusal(403, denial),
        ]);
        let cluster = fake.cluster();
        let event = json!({"note": "n"});
        assert!(cluster.send_event("ns", None, &event).await.is_ok());
        assert!(cluster.send_event("ns", None, &event).await.is_ok());
        assert!(cluster.send_event("ns", Some("e"), &event).await.is_ok());
        let refused = cluster.send_event("ns", None, &event).await;
        let Err(ClusterError::Denied { rule, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            rule.ends_with("\n  - apiGroups: [\"events.k8s.io\"]\n    resources: [\"events\"]\n    verbs: [\"create\", \"patch\"]"),
            "{rule}"
        );
        let path = "/apis/events.k8s.io/v1/namespaces/ns/events";
        assert_eq!(
            fake.lines(),
            [
                format!("POST {path}?fieldManager=kopf-rs"),
                format!("POST {path}?fieldManager=kopf-rs"),
                format!("PATCH {path}/e?fieldManager=kopf-rs"),
                format!("POST {path}?fieldManager=kopf-rs"),
            ]
        );
        let seen = fake.seen();
        assert_eq!(seen[0].headers["content-type"], "application/json");
        assert_eq!(seen[2].headers["content-type"], "application/merge-patch+json");
    }
}
