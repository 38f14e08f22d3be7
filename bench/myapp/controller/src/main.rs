//! The same small operator with `kube::runtime::Controller`: a Pod for every `MyApp`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.kopf.rs", version = "v1", kind = "MyApp", namespaced)]
struct MyAppSpec {
    image: Option<String>,
    banner: Option<String>,
}

struct Context {
    client: Client,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("field spec.image must be provided")]
    NoImage,
    #[error("the pod: {0}")]
    Pod(#[from] serde_json::Error),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

async fn reconcile(app: Arc<MyApp>, context: Arc<Context>) -> Result<Action, Failure> {
    let (name, namespace) = (app.name_any(), app.namespace().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let pod_name = format!("{name}-pod");
    if pods.get_opt(&pod_name).await?.is_some() {
        return Ok(Action::await_change());
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": pod_name, "labels": {"app": name}},
        "spec": {"containers": [{
            "name": name,
            "image": app.spec.image.as_ref().ok_or(Failure::NoImage)?,
            "ports": [{"containerPort": 80}],
            "env": [{"name": "BANNER", "value": app.spec.banner.clone().unwrap_or_default()}],
        }]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    info!("pod {name}-pod created");
    Ok(Action::await_change())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn error_policy(app: Arc<MyApp>, error: &Failure, _: Arc<Context>) -> Action {
    warn!("{}: {error}", app.name_any());
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let namespace = std::env::args().nth(1).ok_or("usage: myapp-controller NAMESPACE")?;
    let client = Client::try_default().await?;
    let apps: Api<MyApp> = Api::namespaced(client.clone(), &namespace);
    Controller::new(apps, watcher::Config::default())
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
