//! Startup, cleanup and probes, which `--liveness http://0.0.0.0:8080/healthz` shows. Login functions use
//! `#[on_login]`, and need a cluster that accepts their credentials: see its documentation.
//!
//! ```sh
//! kopf-rs run examples/kopf/13-hooks.rs --embedded --apply examples/kopf --verbose
//! ```

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use kopf_rs::prelude::*;

/// The Pods seen so far, as `namespace/name`. Created at startup.
#[derive(Default)]
struct Seen(Mutex<BTreeSet<String>>);

impl Seen {
    fn all(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[on_startup]
async fn startup_fn_simple(memo: Memo) {
    info!("Initialising what Pods were seen...");
    memo.insert(Seen::default());
}

#[on_startup]
async fn startup_fn_retried(retry: u32) -> HandlerResult {
    if retry < 3 {
        retry!(1, "Going to succeed in {}s", 3 - retry);
    }
    info!("Starting retried...");
    Ok(())
}

#[on_cleanup]
async fn cleanup_fn(memo: Memo) {
    let seen = memo.get_or_default::<Seen>().all().len();
    info!("Cleaning up after {seen} Pods...");
}

#[on_probe]
async fn tasks_count(memo: Memo) -> HandlerResult<usize> {
    Ok(memo.get_or_default::<Seen>().all().len())
}

#[on_probe]
async fn monitored_objects(memo: Memo) -> HandlerResult<Vec<String>> {
    Ok(memo.get_or_default::<Seen>().all().into_iter().collect())
}

#[on_event("v1", "pods")]
async fn pod_task(namespace: &str, name: &str, memo: Memo) {
    let seen = memo.get_or_default::<Seen>();
    let mut pods = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
    if pods.insert(format!("{namespace}/{name}")) {
        info!("Seen for the first time.");
    }
}
