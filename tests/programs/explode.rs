//! Ends the process if a `ConfigMap` demands it: `it abrupt::` starts it.

use std::time::Duration;

use kopf_rs::prelude::*;

#[on_create("configmaps", labels = {"abrupt": PRESENT})]
async fn explode(body: &Value, patch: &mut Patch) {
    info!("has the handler's attention");
    match body["data"]["fuse"].as_str() {
        Some("lit") => std::process::abort(),
        Some("slow") => tokio::time::sleep(Duration::from_millis(100)).await,
        Some("hangs") => std::future::pending().await,
        _ => {}
    }
    if body["data"]["then"] == "lit" {
        std::process::abort();
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    patch["metadata"]["annotations"]["handled"] = "yes".into();
    if body["data"]["then"] == "transform" {
        patch.transform(|_| std::process::abort());
    }
}

fn kills(cause: &Cause) -> bool {
    if cause.body()["data"]["filter"] == "lit" {
        std::process::abort();
    }
    if cause.body()["data"]["filter"] == "parks" {
        eprintln!("the operator's own thread is taken");
        loop {
            std::thread::park();
        }
    }
    false
}

#[on_create("configmaps", labels = {"abrupt": PRESENT}, when = kills)]
fn picky() {}

#[on_delete("configmaps", labels = {"held": PRESENT})]
fn hold() {}

#[on_event("configmaps", labels = {"held": PRESENT})]
fn watch(body: &Value) {
    if !body["metadata"]["deletionTimestamp"].is_null() && body["data"]["deletion"] == "watched" {
        std::process::abort();
    }
}

#[on_delete("configmaps", labels = {"kept": PRESENT})]
fn keep() {
    std::process::abort();
}

kopf_rs::main!();
