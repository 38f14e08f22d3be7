//! A controller on kube-rs, and its user, in one program: reflector, finalizer, events, server-side apply, a lease for the leader.
//!
//! What both see is printed; the server is that of `$KUBECONFIG`.

#![forbid(unsafe_code)]

mod kinds;
mod user;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, ResourceExt as _};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Client, Resource as _};
use serde_json::json;

use kinds::Garden;

/// Where everything happens.
pub const NAMESPACE: &str = "kube-rs";
const FINALIZER: &str = "kube-rs.example.com/cleanup";
const MANAGER: &str = "gardener";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a reconciliation needs.
struct Context {
    client: Client,
    recorder: Recorder,
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        Self(error.to_string())
    }
}

async fn reconcile(garden: Arc<Garden>, context: Arc<Context>) -> Result<Action, Failed> {
    let gardens: Api<Garden> = Api::namespaced(context.client.clone(), NAMESPACE);
    let done = finalizer(&gardens, FINALIZER, garden, |event| async {
        match event {
            Finalizer::Apply(garden) => tend(&garden, &context).await,
            Finalizer::Cleanup(garden) => clear(&garden, &context).await,
        }
    });
    done.await.map_err(|error| Failed(error.to_string()))
}

/// Makes what a garden wants, and says so in its status and in an event.
async fn tend(garden: &Garden, context: &Context) -> Result<Action, Failed> {
    let (name, client) = (garden.name_any(), context.client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let owner = garden
        .controller_owner_ref(&())
        .expect("what was read has a name");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"flowers": garden.spec.flowers.to_string()},
    });
    let ours = PatchParams::apply(MANAGER).force();
    maps.patch(&name, &ours, &Patch::Apply(&map)).await?;
    let status = json!({
        "apiVersion": "kube-rs.example.com/v1", "kind": "Garden",
        "status": {"planted": garden.spec.flowers},
    });
    let gardens: Api<Garden> = Api::namespaced(client, NAMESPACE);
    gardens
        .patch_status(&name, &ours, &Patch::Apply(&status))
        .await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "Planted".into(),
        note: Some(format!("{name} is planted")),
        action: "Planting".into(),
        secondary: None,
    };
    context
        .recorder
        .publish(&event, &garden.object_ref(&()))
        .await?;
    Ok(Action::await_change())
}

async fn clear(garden: &Garden, context: &Context) -> Result<Action, Failed> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), NAMESPACE);
    let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}-cleared", garden.name_any())}});
    let ours = PatchParams::apply(MANAGER);
    maps.patch(
        &format!("{}-cleared", garden.name_any()),
        &ours,
        &Patch::Apply(&note),
    )
    .await?;
    Ok(Action::await_change())
}

/// Runs until it is dropped.
async fn operate(client: Client) {
    let gardens: Api<Garden> = Api::namespaced(client.clone(), NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let reporter = Reporter {
        controller: MANAGER.into(),
        instance: None,
    };
    let context = Context {
        recorder: Recorder::new(client.clone(), reporter),
        client,
    };
    let again =
        |_: Arc<Garden>, _: &Failed, _: Arc<Context>| Action::requeue(Duration::from_millis(100));
    Controller::new(gardens, watcher::Config::default().streaming_lists())
        .owns(maps, watcher::Config::default())
        .run(reconcile, again, Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let client = Client::try_default().await?;
    user::prepare(&client).await?;
    let running = tokio::spawn(operate(client.clone()));
    user::garden(&client).await?;
    user::watch(&client).await?;
    user::lead(&client).await?;
    running.abort();
    user::leave(&client).await
}
