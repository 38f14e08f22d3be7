//! The example `MySQLCluster`, which registers its own definition.

// Links the handlers under test.
use mysqlcluster as _;

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::Tutorial;

scenarios! {
    a_database_lives_and_dies;
}

const KIND: &str = "mysqlclusters.databases.example.com";
const NAME: &str = "example-cluster";
const SECRET: &str = "example-password";

async fn a_database_lives_and_dies(cluster: TestCluster) {
    let test = Tutorial::of(cluster, "mysqlcluster").await;
    let first = test.start();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let is_served = |it: &Value| it["status"]["acceptedNames"]["kind"] == "MySQLCluster";
    test.until("it is registered", definitions, KIND, is_served).await;
    test.line("Serving mysqlclusters").await;
    test.apply("example-cluster.yaml").await;

    let is_there = |_: &Value| true;
    let secret = test.until("it is made", "secrets", SECRET, is_there).await;
    test.until("it is made", "statefulsets", NAME, is_there).await;
    first.kill().await;

    let second = test.start();
    servers_are_ready(&test, 2).await;
    let job = format!("{NAME}-restore");
    test.until("it is made", "jobs", &job, is_there).await;
    if test.cluster.real().is_some() {
        let done = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
        test.cluster.patch("jobs", &format!("{job}/status"), &done).await;
    }
    let database = with_condition(&test, "Ready", "True").await;
    assert_eq!(database["status"]["readyReplicas"], 2);
    assert_eq!(test.cluster.get("secrets", SECRET).await, Some(secret));

    let edit = json!({"spec": {"replicas": 5}});
    test.cluster.patch("statefulsets", NAME, &edit).await;
    let wanted = |it: &Value| it["spec"]["replicas"] == 2;
    test.until("it is put right", "statefulsets", NAME, wanted).await;
    test.cluster.delete("services", NAME).await;
    let headless = |it: &Value| it["spec"]["clusterIP"] == "None";
    test.until("it is made again", "services", NAME, headless).await;

    // A lost password is not generated again.
    test.cluster.delete("secrets", SECRET).await;
    test.line("failed permanently: the Secret example-password is gone").await;
    with_condition(&test, "Ready", "False").await;

    test.cluster.delete(KIND, NAME).await;
    test.until_gone(KIND, NAME).await;
    for (kind, name) in [("statefulsets", NAME), ("services", NAME), ("jobs", &job)] {
        test.until_gone(kind, name).await;
    }
    second.stop().await;
}

/// Marks the replicas of the `StatefulSet` as ready on a real server, which creates no Pods in tests.
async fn servers_are_ready(test: &Tutorial, count: u64) {
    if test.cluster.real().is_none() {
        return;
    }
    let ready = json!({"status": {"replicas": count, "readyReplicas": count}});
    let status_of = format!("{NAME}/status");
    test.cluster.patch("statefulsets", &status_of, &ready).await;
}

async fn with_condition(test: &Tutorial, kind: &str, status: &str) -> Value {
    let so = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == kind && it["status"] == status)
    };
    test.until("it has the condition", KIND, NAME, so).await
}
