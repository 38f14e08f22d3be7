//! Timers that wait until their object has not changed for a while.
//!
//! ```sh
//! kopf-rs run examples/kopf/15-timers.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[timer("kopfexamples", idle = 5, interval = 2)]
fn every_few_seconds_sync(spec: &Value) {
    info!("Ping from a sync timer: field={}", spec["field"]);
}

#[timer("kopfexamples", idle = 10, interval = 4)]
async fn every_few_seconds_async(spec: &Value) {
    info!("Ping from an async timer: field={}", spec["field"]);
}
