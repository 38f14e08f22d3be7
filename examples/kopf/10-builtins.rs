//! Built-in resources: deletes each Pod after half a minute, except system Pods. The daemon needs no
//! cancellation by hand, since it stops with its object.
//!
//! ```sh
//! kopf-rs run examples/kopf/10-builtins.rs --embedded --apply examples/kopf --verbose
//! ```

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kopf_rs::prelude::*;
use kube::api::{Api, DeleteParams};

const TIMEOUT: Duration = Duration::from_secs(30);

fn is_ours(cause: &Cause) -> bool {
    cause.namespace().is_some_and(|namespace| !namespace.starts_with("kube-"))
}

#[daemon("pods", when = is_ours, cancellation_timeout = 1)]
async fn pod_killer(name: &str, namespace: &str, client: Client, stopped: &Stopped) -> HandlerResult {
    info!("=== Pod killing happens in {}s.", TIMEOUT.as_secs());
    if stopped.wait_for(TIMEOUT).await {
        info!("=== Pod killing is cancelled!");
        return Ok(());
    }
    info!("=== Pod killing happens NOW!");
    let pods = Api::<Pod>::namespaced(client, namespace);
    pods.delete(name, &DeleteParams::default()).await?;
    Ok(())
}
