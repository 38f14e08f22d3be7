//! A `ConfigMap` for each site, deleted with it.

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs::prelude::*;
use kube::api::{Api, DeleteParams, PostParams};

#[on_startup]
fn configure(settings: StartupSettings) {
    settings.change(|settings| settings.execution.max_workers = 10);
    settings.change(|settings| settings.queueing.worker_limit = Some(50));
    info!("sites are served");
}

#[on_create("sites.example.com", retries = 5)]
async fn publish(cause: &Cause, client: Client, patch: &mut Patch) -> HandlerResult {
    let pages = &cause.body().spec()["pages"];
    let map = json!({"metadata": {"name": cause.name()}, "data": pages});
    let api = Api::<ConfigMap>::namespaced(client, cause.namespace().unwrap_or_default());
    api.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    patch.set("status.pages", pages.as_object().map_or(0, Map::len));
    Ok(())
}

#[on_delete("sites.example.com")]
async fn withdraw(name: &str, namespace: &str, client: Client) -> HandlerResult {
    let api = Api::<ConfigMap>::namespaced(client, namespace);
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => retry!(10, "{name} stays: {error}"),
        Ok(_) => {}
    }
    info!("{name} is withdrawn");
    Ok(())
}

#[on_cleanup]
fn end() {
    info!("no site is served any more");
}
