//! The scenarios: an operator beside the API server in one process, on one thread and in virtual time, so that each run computes the same.
//!
//! A run with a wrong number of handler calls is an error. Must not know how costs are counted.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kopf_rs::prelude::{Context, HandlerResult};
use kopf_rs::{Client, Operator, Registry, handler};
use kopf_rs_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::counted::{Counts, counts, look, measure, peak};
use crate::server::{Counted, InServer};

const KIND: (&str, &str, &str) = ("costs.kopf.rs", "v1", "costobjs");
const OBJECTS: &str = "/apis/costs.kopf.rs/v1/namespaces/default/costobjs";
const MARK: &str = "costs.kopf.rs/last-handled-configuration";
/// The virtual time in which the operator comes to rest.
const REST: Duration = Duration::from_secs(100);
const INTERVAL: Duration = Duration::from_secs(60);
const TICKS: u32 = 10;

static CALLS: AtomicI64 = AtomicI64::new(0);

/// The changes of the objects in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A start that lists objects which were handled before.
    Listed,
    /// The same start with a raw-event handler beside the one of changes.
    Watched,
    Created,
    Changed,
    /// Calls of timers.
    Ticked,
    /// A reconciler that applies a child of each object.
    Child,
}

/// The costs of a run.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The number of objects or of timer calls.
    pub units: i64,
    pub allocations: i64,
    pub bytes: i64,
    /// The bytes that are live at the end.
    pub live: i64,
    /// The maximum of live bytes.
    pub peak: i64,
}

impl Scenario {
    pub const ALL: [Self; 6] =
        [Self::Listed, Self::Watched, Self::Created, Self::Changed, Self::Ticked, Self::Child];

    pub fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Watched => "watched",
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Ticked => "ticked",
            Self::Child => "child",
        }
    }

    fn registry(self) -> Registry {
        let registry = Registry::new();
        let changed = || handler("changed", called);
        match self {
            Self::Listed | Self::Created => registry.on_create(KIND, changed()),
            Self::Watched => {
                registry.on_create(KIND, handler("created", called)).on_event(KIND, handler("seen", called))
            }
            Self::Changed => registry.on_update(KIND, changed()),
            Self::Ticked => registry.timer(KIND, handler("ticked", called).interval(INTERVAL.as_secs())),
            Self::Child => registry.reconcile(KIND, handler("keep", keep).owns("configmaps")),
        }
    }
}

async fn called(_: Context) -> HandlerResult {
    look();
    CALLS.fetch_add(1, Relaxed);
    Ok(())
}

async fn keep(context: Context) -> HandlerResult {
    CALLS.fetch_add(1, Relaxed);
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": context.name()}, "data": {"text": context.body()["spec"]["text"]},
    });
    context.children()?.apply(&child).await?;
    look();
    Ok(())
}

/// Runs a scenario with a number of objects.
pub fn run(scenario: Scenario, objects: u32) -> Result<Costs> {
    let stage = Stage::set(scenario)?;
    // Clients look up the runtime when they are created.
    let _entered = stage.runtime.enter();
    let is_start = matches!(scenario, Scenario::Listed | Scenario::Watched);
    if is_start {
        stage.load(0..objects, &stage.mark_of_handled()?)?;
    }
    let start =
        || drop(stage.runtime.spawn(stage.operator().run(stage.client(), std::future::pending::<()>())));
    if !is_start {
        start();
        stage.rest(REST);
    }
    // The first object pays for the state that all objects share.
    if !is_start {
        stage.load(objects..objects + 1, &json!({}))?;
        stage.rest(REST);
    }
    if matches!(scenario, Scenario::Changed | Scenario::Ticked) {
        stage.load(0..objects, &json!({}))?;
        stage.rest(2 * INTERVAL);
    }
    let measured = || match scenario {
        Scenario::Listed | Scenario::Watched => {
            start();
            stage.rest(REST);
            Ok(())
        }
        Scenario::Created | Scenario::Child => {
            stage.load(0..objects, &json!({}))?;
            stage.rest(REST);
            Ok(())
        }
        Scenario::Changed => {
            stage.change(0..objects)?;
            stage.rest(REST);
            Ok(())
        }
        Scenario::Ticked => {
            stage.rest(INTERVAL * TICKS);
            Ok::<_, anyhow::Error>(())
        }
    };
    let former = CALLS.load(Relaxed);
    let (before, mut result) = (counts(), Ok(()));
    peak();
    measure(&mut || result = measured());
    result?;
    let calls = CALLS.load(Relaxed) - former;
    let after = counts();
    let units = match scenario {
        Scenario::Ticked => calls,
        _ => objects.into(),
    };
    let expected = match scenario {
        Scenario::Listed => 0..=0,
        Scenario::Ticked => {
            let all = i64::from(objects * TICKS);
            all - i64::from(objects)..=all + i64::from(objects) + 20
        }
        _ => units..=units,
    };
    ensure!(
        expected.contains(&calls),
        "{} calls of handlers for {objects} objects, and not {expected:?}: the run is not what it should measure",
        calls
    );
    stage.check(scenario, objects)?;
    Ok(costs(units, before, after))
}

fn costs(units: i64, before: Counts, after: Counts) -> Costs {
    Costs {
        units,
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
        // Includes the bytes from before: the cost of an object at rest, whenever it was created.
        live: after.live,
        peak: peak(),
    }
}

/// A cluster with a runtime.
struct Stage {
    runtime: Runtime,
    server: ApiServer,
    scenario: Scenario,
}

impl Stage {
    fn set(scenario: Scenario) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let server = ApiServer::new();
        let stage = Self { runtime, server, scenario };
        stage.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition())?;
        stage.rest(Duration::from_secs(1));
        Ok(stage)
    }

    fn operator(&self) -> Operator {
        let operator = Operator::new(self.scenario.registry()).name("costs").seed(1);
        operator.all_namespaces()
    }

    fn client(&self) -> Client {
        Client::new(Counted(self.server.service()), "default")
    }

    fn rest(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Returns the annotations of an object that the operator has handled.
    fn mark_of_handled(&self) -> Result<Value> {
        self.runtime.block_on(async {
            let operator = self.operator();
            let operator = tokio::spawn(operator.run(self.client(), tokio::time::sleep(REST)));
            ask(&self.server, "POST", OBJECTS, &object(0, &json!({}))).await?;
            operator.await??;
            let url = format!("{OBJECTS}/object-000000");
            let handled = ask(&self.server, "GET", &url, &Value::Null).await?;
            ask(&self.server, "DELETE", &url, &Value::Null).await?;
            ensure!(handled["metadata"]["annotations"][MARK].is_string(), "it was not handled: {handled}");
            Ok(handled["metadata"]["annotations"].clone())
        })
    }

    fn load(&self, numbers: std::ops::Range<u32>, annotations: &Value) -> Result<()> {
        self.runtime.block_on(InServer::new(|| async {
            for number in numbers {
                ask(&self.server, "POST", OBJECTS, &object(number, annotations)).await?;
                breathe(number).await;
            }
            Ok(())
        }))
    }

    fn change(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        self.runtime.block_on(InServer::new(|| async {
            for number in numbers {
                let url = format!("{OBJECTS}/object-{number:06}");
                ask(&self.server, "PATCH", &url, &json!({"spec": {"n": 7}})).await?;
                breathe(number).await;
            }
            Ok(())
        }))
    }

    fn ask(&self, verb: &str, url: &str, body: &Value) -> Result<Value> {
        self.runtime.block_on(ask(&self.server, verb, url, body))
    }

    /// Checks that the cluster is in the state that the run must lead to.
    fn check(&self, scenario: Scenario, objects: u32) -> Result<()> {
        let (url, annotation) = match scenario {
            Scenario::Ticked => return Ok(()),
            Scenario::Child => ("/api/v1/namespaces/default/configmaps", None),
            _ => (OBJECTS, Some(MARK)),
        };
        let list = self.ask("GET", url, &Value::Null)?;
        let items = list["items"].as_array().context("a list without items")?;
        let is_done =
            |it: &&Value| annotation.is_none_or(|key| it["metadata"]["annotations"][key].is_string());
        let done = items.iter().filter(is_done).count();
        ensure!(done >= objects as usize, "{done} of {objects} objects are handled");
        Ok(())
    }
}

/// Lets other tasks run from time to time, because clients do not send all requests at once.
async fn breathe(number: u32) {
    if number.is_multiple_of(16) {
        tokio::task::yield_now().await;
    }
}

async fn ask(server: &ApiServer, verb: &str, url: &str, body: &Value) -> Result<Value> {
    let kind = if verb == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let sent = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(verb).uri(url);
    let request = request.header("content-type", kind).body(Full::new(Bytes::from(sent)))?;
    let answer = server.service().oneshot(request).await?;
    let is_good = answer.status().is_success();
    let text = answer.into_body().collect().await?.to_bytes();
    if !is_good {
        bail!("{verb} {url}: {}", String::from_utf8_lossy(&text));
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Returns an object of one and a half kilobytes.
fn object(number: u32, annotations: &Value) -> Value {
    let metadata = json!({"name": format!("object-{number:06}"), "annotations": annotations});
    json!({
        "apiVersion": "costs.kopf.rs/v1", "kind": "CostObj",
        "metadata": metadata, "spec": {"n": 0, "text": "0123456789abcdef".repeat(64)},
    })
}

fn definition() -> Value {
    let spec = json!({"n": {"type": "integer"}, "text": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "costobjs.costs.kopf.rs"},
        "spec": {
            "group": "costs.kopf.rs", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "costobjs", "singular": "costobj", "kind": "CostObj"},
        },
    })
}
