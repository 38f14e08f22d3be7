//! A Deployment and a Service for every `WebApp`, as users of kube-rs write it: `kube::runtime::Controller`, typed objects, server-side
//! apply, default settings.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource as _, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

const MANAGER: &str = "webapp-operator";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "bench.kopf.rs",
    version = "v1",
    kind = "WebApp",
    namespaced,
    status = "WebAppStatus",
    schema = "disabled"
)]
struct WebAppSpec {
    image: String,
    replicas: i32,
    port: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WebAppStatus {
    available_replicas: i32,
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}

struct Context {
    client: Client,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("a child: {0}")]
    Child(#[from] serde_json::Error),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

async fn reconcile(app: Arc<WebApp>, context: Arc<Context>) -> Result<Action, Failure> {
    let (name, namespace) = (app.name_any(), app.namespace().unwrap_or_default());
    let params = PatchParams::apply(MANAGER).force();
    let deployment: Deployment = serde_json::from_value(deployment(&app))?;
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &namespace);
    let applied = deployments.patch(&name, &params, &Patch::Apply(&deployment)).await?;
    let service: Service = serde_json::from_value(service(&app))?;
    let services: Api<Service> = Api::namespaced(context.client.clone(), &namespace);
    services.patch(&name, &params, &Patch::Apply(&service)).await?;
    let available = applied.status.and_then(|it| it.available_replicas);
    let status = status(&app, available.unwrap_or_default());
    if app.status.as_ref() != Some(&status) {
        let apps: Api<WebApp> = Api::namespaced(context.client.clone(), &namespace);
        let patch = json!({"status": status});
        apps.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    info!("{namespace}/{name} reconciled");
    Ok(Action::await_change())
}

fn deployment(app: &WebApp) -> Value {
    let spec = &app.spec;
    let selected = json!({"app": app.name_any()});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(app),
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": selected},
                "spec": {"containers": [{
                    "name": "web",
                    "image": spec.image,
                    "ports": [{"containerPort": spec.port}],
                }]},
            },
        },
    })
}

fn service(app: &WebApp) -> Value {
    let port = app.spec.port;
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(app),
        "spec": {
            "clusterIP": "None",
            "selector": {"app": app.name_any()},
            "ports": [{"port": port, "targetPort": port}],
        },
    })
}

fn metadata(app: &WebApp) -> Value {
    json!({
        "name": app.name_any(),
        "labels": {"app": app.name_any(), "app.kubernetes.io/managed-by": MANAGER},
        "ownerReferences": [app.controller_owner_ref(&())],
    })
}

fn status(app: &WebApp, available: i32) -> WebAppStatus {
    let is_ready = available >= app.spec.replicas;
    let wanted = if is_ready { "True" } else { "False" };
    let conditions = app.status.iter().flat_map(|status| &status.conditions);
    let mut same = conditions.filter(|it| it.type_ == "Ready" && it.status == wanted);
    let since = same.next().map(|it| it.last_transition_time.clone());
    let ready = Condition {
        type_: "Ready".to_owned(),
        status: wanted.to_owned(),
        reason: if is_ready { "Available" } else { "Progressing" }.to_owned(),
        message: String::new(),
        observed_generation: app.meta().generation,
        last_transition_time: since.unwrap_or_else(|| Time(now())),
    };
    WebAppStatus {
        available_replicas: available,
        observed_generation: app.meta().generation,
        conditions: vec![ready],
    }
}

/// Returns the time in whole seconds, as Kubernetes stores it.
fn now() -> Timestamp {
    let now = Timestamp::now().as_second();
    Timestamp::from_second(now).unwrap_or_default()
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn error_policy(app: Arc<WebApp>, error: &Failure, _: Arc<Context>) -> Action {
    warn!("{}: {error}", app.name_any());
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let namespace = std::env::args().nth(1).ok_or("usage: bench-webapp-kube-rs NAMESPACE")?;
    let client = Client::try_default().await?;
    let apps: Api<WebApp> = Api::namespaced(client.clone(), &namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    Controller::new(apps, watcher::Config::default())
        .owns(deployments, watcher::Config::default())
        .owns(services, watcher::Config::default())
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
