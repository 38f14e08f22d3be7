//! Tests the whole operator on an in-memory API server, under virtual time.

use kopf_rs::Registry;
use kopf_rs::testing::TestCluster;

use super::*;

const EXAMPLE: &str = include_str!("../example-secret.yaml");
const SECRET: &str = "/api/v1/namespaces/team-a/secrets";

/// Returns a cluster and its operator, once the Secret of the example is in the namespace `team-a`.
async fn settled() -> (TestCluster, kopf_rs::testing::TestOperator) {
    let cluster = TestCluster::new();
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.apply(EXAMPLE).await;
    cluster.until(SECRET, "registry", |it| it["data"]["token"] == "ZXhhbXBsZQ==").await;
    (cluster, operator)
}

#[tokio::test(start_paused = true)]
async fn copies_follow_their_source() {
    let (cluster, operator) = settled().await;
    cluster.patch("secrets", "registry", json!({"stringData": {"token": "changed"}})).await;
    cluster.until(SECRET, "registry", |it| it["data"]["token"] == "Y2hhbmdlZA==").await;
    cluster.delete(SECRET, "registry").await;
    cluster.until(SECRET, "registry", |it| it["data"]["token"] == "Y2hhbmdlZA==").await;
    cluster.delete("secrets", "registry").await;
    cluster.until_gone(SECRET, "registry").await;
    cluster.until_gone("secrets", "registry").await;
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_gets_copies() {
    let (cluster, operator) = settled().await;
    cluster.in_namespace("other").await;
    cluster.in_namespace("prod").await;
    cluster.until("/api/v1/namespaces/prod/secrets", "registry", |it| it["kind"] == "Secret").await;
    assert_eq!(cluster.list("/api/v1/namespaces/other/secrets").await, [] as [Value; 0]);
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn copies_are_deleted_when_no_namespace_is_named() {
    let (cluster, operator) = settled().await;
    cluster.patch("secrets", "registry", json!({"metadata": {"annotations": {TO: ""}}})).await;
    cluster.until_gone(SECRET, "registry").await;
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn objects_of_others_stay() {
    let (cluster, operator) = settled().await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"by": "a user"}});
    cluster.in_namespace("team-a").await.create(other).await;
    let source = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "annotations": {TO: "team-a"}}, "data": {"by": "us"},
    });
    cluster.create(source).await;
    cluster.line("exists already and is not a child of this object").await;
    let kept = cluster.get("/api/v1/namespaces/team-a/configmaps", "settings").await.unwrap();
    assert_eq!(kept["data"]["by"], "a user");
    operator.stop().await;
}

#[test]
fn patterns_select_namespaces() {
    assert!(is_target("team-*, prod", "prod"));
    assert!(is_target("team-*,prod", "team-a"));
    assert!(!is_target("team-*,prod", "production"));
    assert!(!is_target("", "prod"));
}
