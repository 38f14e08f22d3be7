//! Ports of Kopf's own examples: each of `examples/kopf` runs on an in-memory API server. `webhooks.rs` runs the example of admission
//! handlers on a server with sockets.

use kopf_rs::prelude::*;
use kopf_rs::testing::{Reviewed, TestCluster, TestOperator, review};
use kopf_rs::{Operator, Registry, Settings};

#[path = "../../examples/kopf/17-admission.rs"]
mod admission;
#[path = "../../examples/kopf/10-builtins.rs"]
mod builtins;
#[path = "../../examples/kopf/02-children.rs"]
mod children;
#[path = "../../examples/kopf/14-daemons.rs"]
mod daemons;
#[path = "../../examples/kopf/12-embedded.rs"]
#[expect(
    dead_code,
    clippy::unused_async,
    reason = "its `main` is for a program of its own, and its handlers have nothing to wait for"
)]
mod embedded;
#[path = "../../examples/kopf/04-events.rs"]
#[expect(clippy::unused_async, reason = "it has nothing to wait for")]
mod events;
#[path = "../../examples/kopf/03-exceptions.rs"]
mod exceptions;
#[path = "../../examples/kopf/11-filtering-handlers.rs"]
mod filtering_handlers;
#[path = "../../examples/kopf/05-handlers.rs"]
mod handlers;
#[path = "../../examples/kopf/13-hooks.rs"]
#[expect(clippy::unused_async, reason = "it has nothing to wait for")]
mod hooks;
#[path = "../../examples/kopf/16-indexing.rs"]
#[expect(clippy::unused_async, reason = "it has nothing to wait for")]
mod indexing;
#[path = "../../examples/kopf/01-minimal.rs"]
#[expect(clippy::unnecessary_wraps, reason = "a result is returned as one")]
mod minimal;
#[path = "../../examples/kopf/06-peering.rs"]
mod peering;
#[path = "../../examples/kopf/08-events.rs"]
mod raw_events;
#[path = "../../examples/kopf/07-subhandlers.rs"]
#[expect(clippy::unused_async, reason = "it has nothing to wait for")]
mod subhandlers;
#[path = "../../examples/kopf/09-testing.rs"]
mod testing;
#[path = "../../examples/kopf/15-timers.rs"]
#[expect(clippy::unused_async, reason = "it has nothing to wait for")]
mod timers;

const OBJECT: &str = include_str!("../../examples/kopf/object.yaml");
const NAME: &str = "kopf-example-1";

async fn cluster() -> TestCluster {
    TestCluster::with(include_str!("../../examples/kopf/crd.yaml")).await
}

fn registry(example: &str) -> Registry {
    let module = format!("{}::{example}", module_path!());
    let registry = Registry::in_module(&module).expect("valid handlers");
    assert!(!registry.is_empty(), "{module}");
    registry
}

fn start(cluster: &TestCluster, example: &str) -> TestOperator {
    cluster.start(Operator::new(registry(example)).name("kopf-example"))
}

/// Returns a cluster with the example and its object.
async fn at_work(example: &str) -> (TestCluster, TestOperator) {
    let cluster = cluster().await;
    let operator = start(&cluster, example);
    cluster.apply(OBJECT).await;
    (cluster, operator)
}

async fn delete(cluster: &TestCluster) {
    cluster.delete("kopfexamples", NAME).await;
    cluster.until_gone("kopfexamples", NAME).await;
}

fn pod(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn example_01_minimal() {
    let (cluster, operator) = at_work("minimal").await;
    let is_done = |it: &Value| it["status"]["create_fn"]["message"] == "hello world";
    cluster.until("kopfexamples", NAME, is_done).await;
    cluster.line("[default/kopf-example-1] And here we are! Creating: {").await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_02_children() {
    let (cluster, operator) = at_work("children").await;
    let has_children = |it: &Value| it["status"]["create_fn"]["children"][0].is_string();
    let parent = cluster.until("kopfexamples", NAME, has_children).await;
    let pods = cluster.list("pods").await;
    assert_eq!(pods.len(), 1);
    let child = &pods[0]["metadata"];
    assert_eq!(child["ownerReferences"][0]["uid"], parent["metadata"]["uid"]);
    assert_eq!(child["labels"]["somelabel"], "somevalue");
    assert_eq!(child["uid"], parent["status"]["create_fn"]["children"][0]);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_03_exceptions() {
    let (cluster, operator) = at_work("exceptions").await;
    for line in [
        "Handler 'instant_failure_with_only_a_message' failed permanently: Fail once and for all.",
        "Handler 'eventual_success_with_a_few_messages' failed temporarily: Expected recoverable error.",
        "Handler 'eventual_success_with_a_few_messages' succeeded.",
        "Creation is processed",
    ] {
        cluster.line(line).await;
    }
    assert_eq!(operator.stop().await.failed.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn example_04_events() {
    let (cluster, operator) = at_work("events").await;
    cluster.line("Handler 'create_fn' succeeded.").await;
    operator.stop().await;
    let events = cluster.list("events.events.k8s.io").await;
    let mut told: Vec<_> = events
        .iter()
        .map(|event| format!("{} {}", event["type"], event["reason"]).replace('"', ""))
        .collect();
    told.sort();
    for expected in ["Normal SomeReason", "Normal SomeOtherReason", "Warning SomeReason"] {
        assert!(told.contains(&expected.to_owned()), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn example_05_handlers() {
    let (cluster, operator) = at_work("handlers").await;
    cluster.line("CREATED 1st").await;
    cluster.line("CREATED 2nd").await;
    cluster.line("Creation is processed").await;
    operator.stop().await;
    let operator = start(&cluster, "handlers");
    cluster.line("RESUMED 1st").await;
    cluster.line("RESUMED 2nd").await;
    let changed = json!({"spec": {"field": "changed"}});
    cluster.patch("kopfexamples", NAME, changed).await;
    cluster.line("UPDATED").await;
    cluster.line("FIELD CHANGED: \"value\" -> \"changed\"").await;
    delete(&cluster).await;
    cluster.line("DELETED 1st").await;
    cluster.line("DELETED 2nd").await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_06_peering() {
    let cluster = cluster().await;
    let peering = include_str!("../../examples/kopf/peering/peering.yaml");
    cluster.apply(peering).await;
    let with_priority = |priority| {
        let operator = Operator::new(registry("peering")).name("kopf-example");
        let settings = Settings::with(|it| it.peering.priority = priority);
        cluster.start(operator.all_namespaces().settings(settings))
    };
    let low = with_priority(0);
    cluster.apply(OBJECT).await;
    cluster.line("Handler 'create_fn' succeeded.").await;
    let high = with_priority(100);
    cluster.line("Pausing operations in favour of [<Peer ").await;
    high.stop().await;
    cluster.line("Resuming operations after the pause.").await;
    low.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_07_subhandlers() {
    let (cluster, operator) = at_work("subhandlers").await;
    cluster.line("=== Handling creation for item1. ===").await;
    cluster.line("=== Handling creation for item2. ===").await;
    cluster.line("Handler 'create_fn/item2' succeeded.").await;
    cluster.line("Handler 'create_fn' succeeded.").await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_08_events() {
    let (cluster, operator) = at_work("raw_events").await;
    cluster.line("Event received: ").await;
    cluster.line("Handler 'event_fn_with_error' failed").await;
    let object = cluster.get("kopfexamples", NAME).await.unwrap();
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
    cluster.delete("kopfexamples", NAME).await;
    cluster.line("Event received: Some(Deleted) of kopf-example-1").await;
    operator.stop().await;
    assert_eq!(cluster.writes_to("kopfexamples", NAME).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn example_10_builtins() {
    let cluster = TestCluster::new();
    let operator = start(&cluster, "builtins");
    let system = cluster.in_namespace("kube-system").await;
    cluster.create(pod("victim", "default")).await;
    system.create(pod("dns", "kube-system")).await;
    cluster.create(pod("early", "default")).await;
    cluster.line("[default/early] === Pod killing happens in 30s.").await;
    cluster.delete("pods", "early").await;
    cluster.line("[default/early] === Pod killing is cancelled!").await;
    cluster.until_gone("pods", "victim").await;
    cluster.line("[default/victim] === Pod killing happens NOW!").await;
    assert!(system.get("pods", "dns").await.is_some());
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_11_filtering_handlers() {
    let (cluster, operator) = at_work("filtering_handlers").await;
    cluster.line("Creation is processed").await;
    cluster.line("Field daemon is satisfied.").await;
    let changed = json!({"spec": {"field": "changed"}});
    cluster.patch("kopfexamples", NAME, changed).await;
    for line in [
        "Label is matching.",
        "Label is present.",
        "Label is absent.",
        "Label callback matching.",
        "Annotation is matching.",
        "Annotation is present.",
        "Annotation is absent.",
        "Filter satisfied.",
        "Field value is satisfied.",
        "Field presence is satisfied.",
        "Field change is satisfied.",
    ] {
        cluster.line(line).await;
    }
    operator.stop().await;
    let others = ["mismatch", "not satisfied."];
    let told = |line: &str| others.iter().any(|other| line.contains(other));
    assert_eq!(cluster.lines().count(told), 0);
}

#[tokio::test(start_paused = true)]
async fn example_12_embedded() {
    let cluster = cluster().await;
    let report = embedded::app(cluster.client(), registry("embedded"), async || {
        for step in 1..=3 {
            let name = format!("step-{step}");
            cluster.apply(&OBJECT.replace(NAME, &name)).await;
            cluster.line(&format!("Hello, {name}!")).await;
            let done = format!("[default/{name}] Handler 'create_fn' succeeded.");
            cluster.line(&done).await;
            cluster.delete("kopfexamples", &name).await;
            cluster.until_gone("kopfexamples", &name).await;
        }
    });
    assert_eq!(report.await.unwrap().failed, []);
    let told = |text: &'static str| cluster.lines().count(|line| line.contains(text));
    assert_eq!((told("Hello, step"), told("Good bye, step")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn example_13_hooks() {
    let cluster = TestCluster::new();
    let operator = start(&cluster, "hooks");
    cluster.line("Going to succeed in 1s").await;
    cluster.line("Starting retried...").await;
    cluster.create(pod("one", "default")).await;
    cluster.line("[default/one] Seen for the first time.").await;
    operator.stop().await;
    cluster.line("Cleaning up after 1 Pods...").await;
}

#[tokio::test(start_paused = true)]
async fn example_14_daemons() {
    let (cluster, operator) = at_work("daemons").await;
    let failed = |it: &Value| it["status"]["message"] == "Failed 3 times.";
    cluster.until("kopfexamples", NAME, failed).await;
    cluster.line("=> Ping from a daemon with a flag: field=\"value\", retry=3").await;
    let finished = |it: &Value| it["status"]["message"] == "Accompanying is finished.";
    cluster.until("kopfexamples", NAME, finished).await;
    cluster.line("=> Ping from an async daemon: field=\"value\"").await;
    delete(&cluster).await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_15_timers() {
    let (cluster, operator) = at_work("timers").await;
    cluster.line("Ping from a sync timer: field=\"value\"").await;
    cluster.line("Ping from an async timer: field=\"value\"").await;
    delete(&cluster).await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn example_16_indexing() {
    let (cluster, operator) = at_work("indexing").await;
    let mut labelled = pod("one", "default");
    labelled["metadata"]["labels"] = json!({"app": "web"});
    cluster.create(labelled).await;
    cluster.create(pod("two", "default")).await;
    let running = json!({"status": {"phase": "Running"}});
    cluster.patch("pods", "two/status", running).await;
    let is_listed = |it: &Value| it["status"]["running-pods"] == json!(["default::two"]);
    cluster.until("kopfexamples", NAME, is_listed).await;
    cluster.line("There are Pods with 1 labels.").await;
    cluster.delete("pods", "two").await;
    let is_empty = |it: &Value| it["status"]["running-pods"] == json!([]);
    cluster.until("kopfexamples", NAME, is_empty).await;
    operator.stop().await;
}

#[tokio::test]
async fn example_17_admission_handlers_without_a_server() {
    let with_field = async |field: &str| -> Reviewed {
        let [mut object] = kopf_rs_tests::documents(OBJECT).try_into().expect("one object");
        object["spec"]["field"] = json!(field);
        review(object).create().by(registry("admission")).await
    };
    let allowed = with_field("value").await;
    assert!(allowed.is_allowed, "{allowed:?}");
    assert_eq!(allowed.object["spec"]["injected"], 123);
    assert_eq!(allowed.warnings.len(), 2);
    let wrong = with_field("wrong").await;
    assert_eq!((wrong.code, wrong.message.as_str()), (500, "spec.field is wrong"));
    assert_eq!(with_field("not-allowed").await.code, 555);
}
