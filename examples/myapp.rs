//! `MyApp` in a single file.
//!
//! ```sh
//! kopf-rs run examples/myapp.rs --embedded --apply examples/myapp --verbose
//! ```
//!
//! Its dependencies, as in Cargo.toml. Crates that are not named here, such as kopf-rs itself, have defaults:
//!
//! ```cargo
//! [dependencies]
//! k8s-openapi = { version = "0.29", default-features = false }
//! kube = { version = "5", default-features = false, features = ["client"] }
//! ```

use k8s_openapi::api::core::v1::Pod;
use kopf_rs::prelude::*;
use kube::api::{Api, PostParams};

#[derive(Deserialize)]
struct MyAppSpec {
    image: Option<String>,
    banner: Option<String>,
}

#[on_create("demo.rtfm.co.ua", "v1", "myapps")]
async fn create_myapp(
    spec: MyAppSpec,
    name: &str,
    namespace: &str,
    client: Client,
) -> HandlerResult {
    let Some(image) = spec.image else {
        fail!("Field 'spec.image' must be provided.");
    };
    let pod = serde_json::from_value(json!({
        "metadata": {"name": format!("{name}-pod"), "labels": {"app": name}},
        "spec": {"containers": [{
            "name": name,
            "image": image,
            "command": ["/bin/sh", "-c", "if [ -n \"$BANNER\" ]; then echo \"$BANNER\"; fi; exec sleep infinity"],
            "ports": [{"containerPort": 80}],
            "env": [{"name": "BANNER", "value": spec.banner.unwrap_or_default()}],
        }]},
    }))?;
    match Api::<Pod>::namespaced(client, namespace)
        .create(&PostParams::default(), &pod)
        .await
    {
        Ok(_) => info!("Pod {name}-pod created."),
        // An earlier attempt was interrupted after it had created the Pod.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
