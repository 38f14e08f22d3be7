//! A small but complete operator with kopf-rs, to measure build time, size and idle memory: a Pod for every `MyApp`.

use k8s_openapi::api::core::v1::Pod;
use kopf_rs::prelude::*;
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct MyAppSpec {
    image: Option<String>,
    banner: Option<String>,
}

#[on_create("bench.kopf.rs", "v1", "myapps")]
async fn create_myapp(
    spec: MyAppSpec,
    name: &str,
    namespace: &str,
    logger: Logger,
    client: Client,
) -> HandlerResult {
    let image = spec.image.ok_or_else(|| PermanentError::new("field spec.image must be provided"))?;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("{name}-pod"), "labels": {"app": name}},
        "spec": {"containers": [{
            "name": name,
            "image": image,
            "ports": [{"containerPort": 80}],
            "env": [{"name": "BANNER", "value": spec.banner.unwrap_or_default()}],
        }]},
    }))?;
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    pods.create(&PostParams::default(), &pod).await?;
    info!(logger, "pod {name}-pod created");
    Ok(())
}

kopf_rs::main!();
