//! A claim for each volume, which grows with it.

use kopf_rs::prelude::*;

#[on_create("volumes.example.com")]
#[on_update("volumes.example.com", field = "spec.size")]
async fn claim(spec: &Value, name: &str, children: Children) -> HandlerResult<Value> {
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
    if children.apply(&claim).await?.is_created() {
        info!("claim {name} is made");
    }
    Ok(json!({"claim": name}))
}
