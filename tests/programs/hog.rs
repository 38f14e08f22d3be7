//! `hog` takes a thread for good. The others are called as the engine can call them, on threads of their own: `it blocking::` starts it.

#![expect(clippy::unused_async, reason = "async handlers are what is to block")]

use kopf_rs::prelude::*;

#[on_create("configmaps", labels = {"hog": PRESENT})]
async fn hog() -> HandlerResult {
    info!("takes a thread");
    loop {
        std::thread::park();
    }
}

#[on_event("secrets", labels = {"seen": PRESENT})]
fn see() {
    info!("seen meanwhile");
}

#[on_create("secrets", labels = {"seen": PRESENT})]
fn keep(patch: &mut Patch) {
    patch["metadata"]["annotations"]["kept"] = "yes".into();
}

kopf_rs::main!();
