//! A claim for each volume, which grows with it.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kopf_rs::prelude::*;
use kube::api::{Api, Patch, PatchParams, PostParams};

#[on_create("volumes.example.com")]
async fn create(spec: &Value, name: &str, namespace: &str, client: Client) -> HandlerResult<Value> {
    let Some(size) = spec["size"].as_str() else {
        fail!("spec.size must be set, and not {}", spec["size"]);
    };
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    });
    let api = Api::<PersistentVolumeClaim>::namespaced(client, namespace);
    api.create(&PostParams::default(), &serde_json::from_value(claim)?)
        .await?;
    info!("claim {name} is made");
    Ok(json!({"claim": name}))
}

#[on_update("volumes.example.com", field = "spec.size")]
async fn resize(new: &Value, name: &str, namespace: &str, client: Client) -> HandlerResult {
    let api = Api::<PersistentVolumeClaim>::namespaced(client, namespace);
    let patch = json!({"spec": {"resources": {"requests": {"storage": new}}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
