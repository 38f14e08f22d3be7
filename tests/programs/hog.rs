//! `hog` blocks a thread forever. The engine runs the blocking handlers on separate threads, and must call the async cleanup handler
//! while other threads are still blocked. `it blocking::` starts it.

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

#[on_cleanup]
async fn clean() {
    info!("cleans up");
}

kopf_rs::main!();
