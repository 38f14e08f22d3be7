//! Only daemons and timers are stopped, and see their object change.

use kopf_rs::prelude::*;

#[on_create("myapps")]
async fn create_fn(stopped: &Stopped) {
    stopped.wait().await;
}

#[on_update("myapps")]
async fn update_fn(live: Live) {
    drop(live);
}

fn main() {}
