//! Daemons: one polls its stop flag, the other one is cancelled. A plain `fn` would run on its own thread, and wait
//! with `wait_blocking`.
//!
//! ```sh
//! kopf-rs run examples/kopf/14-daemons.rs --embedded --apply examples/kopf --verbose
//! ```

use std::time::Duration;

use kopf_rs::prelude::*;

/// Fails three times, then runs for half a minute unless it is stopped.
#[daemon("kopfexamples", backoff = 3)]
async fn background_flag(live: Live, retry: u32, patch: &mut Patch, stopped: &Stopped) -> HandlerResult {
    if retry < 3 {
        patch.set("status.message", format!("Failed {} times.", retry + 1));
        retry!(1, "Simulated failure.");
    }
    for _ in 0..6 {
        let spec: Value = live.spec()?;
        info!("=> Ping from a daemon with a flag: field={}, retry={retry}", spec["field"]);
        if stopped.wait_for(Duration::from_secs(5)).await {
            break;
        }
    }
    patch.set("status.message", "Accompanying is finished.");
    Ok(())
}

/// Fails three times, then runs until it is cancelled.
#[daemon("kopfexamples", backoff = 3, cancellation_backoff = 1.0, cancellation_timeout = 0.5, annotations = {"someannotation": "somevalue"})]
async fn background_async(live: Live, retry: u32) -> HandlerResult {
    if retry < 3 {
        retry!(1, "Simulated failure.");
    }
    loop {
        let spec: Value = live.spec()?;
        info!("=> Ping from an async daemon: field={}", spec["field"]);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}
