//! Tests the whole operator on an in-memory API server, under virtual time.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs::testing::{Fault, TestCluster, TestOperator, Verb, WorkloadOptions};

use kube::api::{Patch as ApiPatch, PatchParams};

use super::*;

const EXAMPLE: &str = include_str!("../example-cluster.yaml");
const KIND: &str = "/apis/databases.example.com/v1/namespaces/default/mysqlclusters";
const NAME: &str = "example-cluster";
const SECRET: &str = "example-password";

/// Returns a cluster in which Pods become ready and Jobs succeed.
fn cluster() -> TestCluster {
    let cluster = TestCluster::new();
    cluster.server().workloads(WorkloadOptions::new());
    cluster
}

/// Starts an operator, and waits until it has registered its CRD.
async fn started(cluster: &TestCluster) -> TestOperator {
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.line("Serving mysqlclusters").await;
    operator
}

/// Returns the cluster and the operator with the example, once its servers are ready and restored.
async fn settled() -> (TestCluster, TestOperator) {
    let cluster = cluster();
    let operator = started(&cluster).await;
    cluster.apply(EXAMPLE).await;
    with_condition(&cluster, "Ready", "True").await;
    (cluster, operator)
}

async fn with_condition(cluster: &TestCluster, kind: &str, status: &str) -> Value {
    let is_so = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == kind && it["status"] == status)
    };
    cluster.until(KIND, NAME, is_so).await
}

#[tokio::test(start_paused = true)]
async fn servers_are_ready_and_filled() {
    let (cluster, operator) = settled().await;
    let object = with_condition(&cluster, "Restored", "True").await;
    assert_eq!(object["status"]["readyReplicas"], 2);
    let secret = cluster.get("secrets", SECRET).await.unwrap();
    assert!(secret["data"]["password"].is_string());
    let service = cluster.get("services", NAME).await.unwrap();
    assert_eq!(service["spec"]["clusterIP"], "None");
    let servers = cluster.get("statefulsets", NAME).await.unwrap();
    let volume = &servers["spec"]["volumeClaimTemplates"][0];
    assert_eq!(volume["spec"]["resources"]["requests"]["storage"], "2Gi");
    let job = cluster.get("jobs", "example-cluster-restore").await.unwrap();
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"][0]["value"], "https://backups.example.com/example.sql");
    // The restored content stays even if the Job is deleted.
    cluster.delete("jobs", "example-cluster-restore").await;
    cluster.until_gone("jobs", "example-cluster-restore").await;
    cluster.patch(KIND, NAME, json!({"spec": {"replicas": 1}})).await;
    cluster.until(KIND, NAME, |it| it["status"]["readyReplicas"] == 1).await;
    assert!(cluster.get("jobs", "example-cluster-restore").await.is_none());
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_at_rest() {
    let (cluster, operator) = settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = || {
        let requests = cluster.requests();
        requests.iter().filter(|it| it.verb != Verb::Watch).count()
    };
    let before = asked();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked(), before);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_there_is_used_as_it_is() {
    let cluster = cluster();
    let operator = started(&cluster).await;
    let mine = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": {"password": "mine"}});
    let mine = cluster.create(mine).await;
    cluster.apply(EXAMPLE).await;
    with_condition(&cluster, "Ready", "True").await;
    assert_eq!(cluster.get("secrets", SECRET).await.unwrap(), mine);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_changes_are_corrected_and_no_password_is_invented() {
    let (cluster, operator) = settled().await;
    cluster.patch("statefulsets", NAME, json!({"spec": {"replicas": 5}})).await;
    cluster.until("statefulsets", NAME, |it| it["spec"]["replicas"] == 2).await;
    cluster.delete("services", NAME).await;
    cluster.until("services", NAME, |it| it["spec"]["clusterIP"] == "None").await;
    cluster.delete("secrets", SECRET).await;
    let object = with_condition(&cluster, "Ready", "False").await;
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|it| it["reason"] == "PasswordLost"));
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_continues() {
    let cluster = cluster();
    // The servers are ready, but the Job is not created.
    let refusal = cluster.fault(Fault::answer(503).on(Verb::Patch).plural("jobs"));
    let operator = started(&cluster).await;
    cluster.apply(EXAMPLE).await;
    let ready = |it: &Value| it["status"]["readyReplicas"] == 2;
    cluster.until("statefulsets", NAME, ready).await;
    let secret = cluster.get("secrets", SECRET).await;
    operator.kill().await;
    refusal.clear();
    let operator = started(&cluster).await;
    with_condition(&cluster, "Ready", "True").await;
    assert_eq!(cluster.get("secrets", SECRET).await, secret);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_keeps_its_size() {
    let (cluster, operator) = settled().await;
    let clusters = Api::<MySQLCluster>::default_namespaced(cluster.client());
    let larger = json!({"spec": {"storage": "9Gi"}});
    let refused = clusters.patch(NAME, &PatchParams::default(), &ApiPatch::Merge(larger)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("volumes keep their size"), "{refused}");
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn children_go_with_their_object() {
    let (cluster, operator) = settled().await;
    cluster.delete(KIND, NAME).await;
    for (kind, name) in [(KIND, NAME), ("statefulsets", NAME), ("services", NAME), ("secrets", SECRET)] {
        cluster.until_gone(kind, name).await;
    }
    operator.stop().await;
}
