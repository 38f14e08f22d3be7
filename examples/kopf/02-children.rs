//! An object creates another one, which Kubernetes deletes with it.
//!
//! ```sh
//! kopf-rs run examples/kopf/02-children.rs --embedded --apply examples/kopf --verbose
//! ```

use k8s_openapi::api::core::v1::Pod;
use kopf_rs::prelude::*;
use kube::api::{Api, PostParams};

#[on_create("kopfexamples")]
async fn create_fn(spec: &Value, namespace: &str, client: Client) -> HandlerResult<Value> {
    let field = spec["field"].as_str().unwrap_or("default-value");
    let duration = spec["duration"].as_str().unwrap_or("0");
    let mut pod: Pod = serde_json::from_value(json!({
        "spec": {"containers": [{
            "name": "the-only-one",
            "image": "busybox",
            "command": ["sh", "-x", "-c", format!("echo FIELD=$FIELD; sleep {duration}")],
            "env": [{"name": "FIELD", "value": field}],
        }]},
    }))?;
    // Sets the namespace, name, labels and owner reference of a child of the handled object.
    adopt(&mut pod)?;
    let pods = Api::<Pod>::namespaced(client, namespace);
    let pod = pods.create(&PostParams::default(), &pod).await?;
    Ok(json!({"children": [pod.metadata.uid]}))
}
