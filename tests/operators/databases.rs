//! Databases that are waited for.

use kopf_rs::prelude::*;

const ENGINES: [&str; 2] = ["postgres", "mysql"];

#[on_create("databases.example.com", timeout = 600, backoff = 10)]
async fn wait(cause: &Cause, spec: &Value, status: &Value, patch: &mut Patch) -> HandlerResult {
    let engine = spec["engine"].as_str().unwrap_or_default();
    if !ENGINES.contains(&engine) {
        fail!("spec.engine is {engine:?}: expected one of {ENGINES:?}");
    }
    if status["phase"] != "Running" {
        retry!(5, "not running after {:?}", cause.runtime());
    }
    patch.set("status.ready", true);
    let attempts = (cause.retry() + 1).to_string();
    patch.set("metadata.annotations.example.com/attempts", attempts);
    info!("{engine} is ready");
    Ok(())
}

#[on_update("databases.example.com", field = "spec.engine")]
async fn refuse(old: &Value, new: &Value) -> HandlerResult {
    fail!("a database of {old} cannot become one of {new}")
}

#[on_delete("databases.example.com", optional)]
async fn gone(name: &str) {
    info!("{name} is gone");
}
