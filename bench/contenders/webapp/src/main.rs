//! A Deployment and a Service for every `WebApp`, as a user of kopf-rs writes it.

use kopf_rs::prelude::*;

#[derive(Deserialize)]
struct WebAppSpec {
    image: String,
    replicas: u64,
    port: u16,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WebAppStatus {
    available_replicas: Option<u64>,
    observed_generation: Option<i64>,
}

#[reconcile("bench.kopf.rs", "v1", "webapps", owns = ["services"], reads = [("apps", "deployments")])]
async fn keep_in_shape(
    spec: WebAppSpec,
    name: &str,
    children: Children,
    status: &mut Status<WebAppStatus>,
) -> HandlerResult {
    let labels = json!({"app": name, "app.kubernetes.io/managed-by": "webapp-operator"});
    let selected = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": selected},
                "spec": {"containers": [{
                    "name": "web",
                    "image": spec.image,
                    "ports": [{"containerPort": spec.port}],
                }]},
            },
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "selector": selected,
            "ports": [{"port": spec.port, "targetPort": spec.port}],
        },
    });
    let deployment = children.apply(&deployment).await?.object().await?;
    children.apply(&service).await?;
    let available = deployment["status"]["availableReplicas"].as_u64();
    let available = available.unwrap_or_default();
    let is_ready = available >= spec.replicas;
    let reason = if is_ready { "Available" } else { "Progressing" };
    status.available_replicas = Some(available);
    status.conditions().set("Ready", is_ready, reason, "");
    Ok(())
}

kopf_rs::main!();
