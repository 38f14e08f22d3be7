//! The benchmark job with `kube::runtime::Controller`, as its documentation shows it: typed objects, default settings, one patch.
//!
//! The mark holds the spec as JSON, which is as large as the last-handled record of the frameworks that write one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

const HANDLED: &str = "bench.kopf.rs/handled";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.kopf.rs", version = "v1", kind = "BenchObj", plural = "benchobjs", namespaced)]
struct BenchSpec {
    n: i64,
    text: String,
}

#[derive(Serialize)]
struct Essence<'a> {
    spec: &'a BenchSpec,
}

struct Context {
    client: Client,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the essence: {0}")]
    Essence(#[from] serde_json::Error),
    #[error("the patch: {0}")]
    Patch(#[from] kube::Error),
}

async fn reconcile(object: Arc<BenchObj>, context: Arc<Context>) -> Result<Action, Failure> {
    let essence = serde_json::to_string(&Essence { spec: &object.spec })?;
    if object.annotations().get(HANDLED) == Some(&essence) {
        return Ok(Action::await_change());
    }
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let api: Api<BenchObj> = Api::namespaced(context.client.clone(), &namespace);
    let patch = json!({"metadata": {"annotations": {HANDLED: essence}}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    info!("{namespace}/{name} handled");
    Ok(Action::await_change())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn error_policy(object: Arc<BenchObj>, error: &Failure, _: Arc<Context>) -> Action {
    warn!("{}: {error}", object.name_any());
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let namespace = std::env::args().nth(1).ok_or("usage: bench-controller NAMESPACE")?;
    let client = Client::try_default().await?;
    let objects: Api<BenchObj> = Api::namespaced(client.clone(), &namespace);
    Controller::new(objects, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Context { client }))
        .for_each(|result| async move {
            if let Err(error) = result {
                warn!("reconcile failed: {error}");
            }
        })
        .await;
    Ok(())
}
