//! A `ConfigMap` for each site, deleted with it.

use kopf_rs::prelude::*;

#[on_startup]
fn configure(settings: StartupSettings) {
    settings.change(|settings| settings.execution.max_workers = 10);
    settings.change(|settings| settings.queueing.worker_limit = Some(50));
    info!("sites are served");
}

#[on_create("sites.example.com", retries = 5)]
async fn publish(spec: &Value, name: &str, children: Children, patch: &mut Patch) -> HandlerResult {
    let pages = &spec["pages"];
    let metadata = json!({"name": name});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": pages});
    children.apply(&map).await?;
    patch.set("status.pages", pages.as_object().map_or(0, Map::len));
    Ok(())
}

#[on_delete("sites.example.com")]
async fn withdraw(name: &str, children: Children) -> HandlerResult {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if let Err(error) = children.delete(&map).await {
        retry!(10, "{name} stays: {error}");
    }
    info!("{name} is withdrawn");
    Ok(())
}

#[on_cleanup]
fn end() {
    info!("no site is served any more");
}
