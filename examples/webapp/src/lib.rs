//! `WebApp`: keeps a Deployment and a Service for every object of this kind, and publishes its name in the namespace
//! `published`.
//!
//! ```sh
//! kopf-rs run examples/webapp --embedded --workloads --apply examples/webapp
//! ```

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kopf_rs::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;

/// The desired state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(group = "apps.example.com", version = "v1", kind = "WebApp", namespaced)]
#[kube(status = "WebAppStatus")]
#[kube(printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image"}"#)]
#[kube(printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#)]
#[kube(printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"}"#)]
pub struct WebAppSpec {
    #[schemars(length(min = 1))]
    image: String,
    #[schemars(range(min = 1), extend("default" = 1))]
    replicas: i32,
    #[schemars(range(min = 1, max = 65535), extend("default" = 80))]
    port: i32,
}

/// The observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WebAppStatus {
    available_replicas: Option<i32>,
    observed_generation: Option<i64>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

/// Makes the Deployment and the Services match the object, and reports the number of available replicas.
///
/// # Errors
///
/// Fails if a child is rejected, or if it belongs to another owner.
#[reconcile(WebApp, owns = [Service], reads = [Deployment])]
pub async fn keep_in_shape(
    spec: WebAppSpec,
    name: &str,
    namespace: &str,
    children: Children,
    status: &mut Status<WebAppStatus>,
) -> HandlerResult {
    let labels = json!({"app": name, "app.kubernetes.io/managed-by": "webapp-operator"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"labels": labels},
        "spec": {"selector": {"app": name}, "ports": [{"port": spec.port, "targetPort": spec.port}]},
    });
    let container = json!({"name": "web", "image": spec.image, "ports": [{"containerPort": spec.port}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": labels},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    children.set([service, deployment]).await?;
    let outside = children.unowned();
    outside.apply(&published(name, namespace)).await?;
    let deployment = children.get::<Deployment>(name).await?;
    let available = deployment.and_then(|it| it.status?.available_replicas);
    let available = available.unwrap_or_default();
    status.available_replicas = Some(available);
    let all = available >= spec.replicas;
    let reason = if all { "AllReplicas" } else { "TooFewReplicas" };
    let message = format!("{available} of {} replicas are available", spec.replicas);
    let mut conditions = status.conditions();
    conditions.set("Available", all, reason, message);
    Ok(())
}

/// Deletes the published Service. Kubernetes collects the other children.
///
/// # Errors
///
/// Fails if the server does not delete it.
#[finalize(WebApp)]
pub async fn withdraw(name: &str, namespace: &str, children: Children) -> HandlerResult {
    let outside = children.unowned();
    outside.delete(&published(name, namespace)).await?;
    info!("{name} is withdrawn.");
    Ok(())
}

/// The Service that publishes the application. It is in another namespace, so it cannot have an owner reference, and
/// Kubernetes does not collect it.
fn published(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("{name}-{namespace}"), "namespace": "published"},
        "spec": {"type": "ExternalName", "externalName": format!("{name}.{namespace}.svc.cluster.local")},
    })
}

#[cfg(test)]
mod tests;
