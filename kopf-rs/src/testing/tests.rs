//! Tests the kit as its users see it: its view of an operator, and its failures.

use std::time::Duration;

use crate::prelude::{TemporaryError, Value, handler, handler_blocking, json};
use crate::testing::recording::recording_in;
use crate::testing::{Fault, TestCluster, TestOperator, Verb};
use crate::{Operator, Registry};

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Returns a handler that sets a label, and one that is retried after a minute.
fn registry() -> Registry {
    let label = handler("label", async |cause: crate::Context| {
        cause.patch(|patch| patch["metadata"]["labels"]["seen"] = json!("yes"));
        Ok(())
    });
    let wait = handler_blocking("wait", |cause, _| {
        if cause.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(60).into());
        }
        tracing::info!("waited long enough");
        Ok(())
    });
    Registry::new().on_create("configmaps", label).on_create("configmaps", wait)
}

fn operator() -> Operator {
    Operator::new(registry()).name("kit")
}

/// Returns the panic message of a failing test.
async fn failure(test: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(test).await.unwrap_err().into_panic();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn an_operator_handles_an_object_in_virtual_time() {
    let cluster = TestCluster::new();
    let operator = cluster.start(operator());
    cluster.create(map("x")).await;
    let labelled = |map: &Value| map["metadata"]["labels"]["seen"] == "yes";
    cluster.until("configmaps", "x", labelled).await;
    // Logged from a separate thread, after a virtual minute.
    cluster.line("[default/x] waited long enough").await;
    cluster.delete("ConfigMap", "x").await;
    cluster.until_gone("configmaps", "x").await;
    assert_eq!(cluster.get("configmaps", "x").await, None);
    assert_eq!(operator.stop().await.failed, []);
    assert!(cluster.requests().iter().any(|it| it.verb == Verb::Watch));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_other_tests_are_not_seen() {
    let cluster = TestCluster::new();
    let elsewhere = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let other = TestCluster::new();
            tracing::info!("of another runtime");
            other.line("of another runtime").await;
        });
    });
    tokio::task::spawn_blocking(|| tracing::info!("of this one")).await.unwrap();
    elsewhere.join().unwrap();
    cluster.line("of this one").await;
    assert_eq!(cluster.lines().count(|line| line.contains("another")), 0);
}

#[tokio::test(start_paused = true)]
async fn faults_concern_operators_and_not_the_test() {
    let cluster = TestCluster::new();
    let conflicts = cluster.fault(Fault::answer(409).on(Verb::Patch).times(2));
    let silence = cluster.fault(Fault::stall());
    cluster.create(map("x")).await;
    cluster.patch("configmaps", "x", json!({"data": {"a": "b"}})).await;
    assert_eq!(conflicts.hits(), 0);
    let operator = cluster.start(operator());
    cluster.line("'label' succeeded").await;
    let labelled = |map: &Value| map["metadata"]["labels"]["seen"] == "yes";
    cluster.until("configmaps", "x", labelled).await;
    assert_eq!(conflicts.hits(), 2);
    drop(silence);
    operator.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_shows_the_place_the_object_and_the_lines() {
    let said = failure(async {
        let cluster = TestCluster::new().patience(Duration::from_secs(5));
        cluster.create(map("x")).await;
        tracing::warn!("this was logged");
        cluster.until("configmaps", "x", |map| map["data"]["a"] == "b").await;
    });
    let said = said.await;
    for part in [
        "testing/tests.rs:",
        "configmaps/x does not meet the condition after 5s",
        "\"name\": \"x\"",
        "this was logged",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_a_test_are_named() {
    let said = failure(async {
        TestCluster::new().get("myapps", "x").await;
    });
    assert!(said.await.contains("the cluster serves no myapps"));
    let said = failure(async {
        let nothing = Operator::new(Registry::new());
        TestCluster::new().start(nothing).stop().await;
    });
    assert!(said.await.contains("there are no handlers"));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_operator_that_cannot_start_ends_immediately() {
    let empty = || Operator::new(Registry::new()).name("kit");
    let begun = tokio::time::Instant::now();
    let said = failure(async move {
        let cluster = TestCluster::new();
        cluster.create(map("x")).await;
        let _operator = cluster.start(empty());
        cluster.until("configmaps", "x", Value::is_null).await;
    });
    let said = said.await;
    let expected = "does not meet the condition since the operator has ended: there are no handlers";
    assert!(said.contains(expected), "{said}");
    let said = failure(async move {
        let cluster = TestCluster::new();
        let _operator = cluster.start(empty());
        cluster.line("'check' succeeded").await;
    });
    let said = said.await;
    let expected = "the operator has ended: there are no handlers";
    assert!(said.contains(expected), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "nothing was waited for");
    // A failed operator does not affect waits while others run.
    let cluster = TestCluster::new();
    let failed = cluster.start(empty());
    let _working = cluster.start(operator());
    cluster.create(map("x")).await;
    cluster.line("'label' succeeded").await;
    assert!(failed.end().await.is_err());
}

#[tokio::test]
async fn programs_reach_the_cluster_over_tls() {
    let cluster = TestCluster::new();
    let command = cluster.command("sh").await;
    let file = command.get_envs().find(|(name, _)| *name == "KUBECONFIG");
    let file = file.and_then(|(_, file)| file).unwrap().to_owned();
    assert!(std::fs::read_to_string(&file).unwrap().contains("https://127.0.0.1"));
    drop(cluster);
    assert!(!std::path::Path::new(&file).exists());
}

#[tokio::test(start_paused = true)]
async fn requests_of_handlers_are_recorded_with_the_test_and_those_of_the_framework_are_not() {
    let folder = std::env::temp_dir().join(format!("kopf-rs-recorded-{}", std::process::id()));
    let cluster = TestCluster::new();
    let asking = handler("asking", async |cause: crate::Context| {
        let request = http::Request::get("/api/v1/namespaces/default/secrets/none").body(Vec::new())?;
        let client = cause.client()?;
        assert!(client.request::<Value>(request).await.is_err(), "there is no such Secret");
        Ok(())
    });
    let operator = Operator::new(Registry::new().on_create("configmaps", asking)).name("kit");
    let client = recording_in(folder.clone(), &cluster.client());
    let operator = TestOperator::start(client, operator, cluster.lines().clone());
    cluster.create(map("x")).await;
    cluster.line("Handler 'asking' succeeded").await;
    operator.stop().await;
    let recorded = std::fs::read_to_string(folder.join(format!("{}.jsonl", std::process::id()))).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let test = std::thread::current().name().unwrap().to_owned();
    let expected = json!({"test": test, "verb": "get", "group": "", "resource": "secrets", "name": "none"});
    assert_eq!(recorded.lines().map(|it| it.parse::<Value>().unwrap()).collect::<Vec<_>>(), [expected]);
}
