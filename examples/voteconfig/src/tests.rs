//! Tests the whole operator on an in-memory API server, under virtual time.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs::testing::{Fault, TestCluster, TestOperator, Verb, round_trips};

use super::*;

const CRD: &str = include_str!("../crd.yaml");
const EXAMPLE: &str = include_str!("../example-vote.yaml");
const NAME: &str = "example-vote";
const CONFIG: &str = "example-vote-config";

/// Returns a cluster with the operator and the example, whose `ConfigMap` exists.
async fn settled() -> (TestCluster, TestOperator) {
    let cluster = TestCluster::with(CRD).await;
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.apply(EXAMPLE).await;
    synced(&cluster).await;
    (cluster, operator)
}

/// Waits until `status.observedGeneration` is the generation of the object, and returns the object.
async fn synced(cluster: &TestCluster) -> Value {
    let is_synced = |vote: &Value| {
        let observed = &vote["status"]["observedGeneration"];
        vote["status"]["updated"].is_string() && *observed == vote["metadata"]["generation"]
    };
    cluster.until("voteconfigs", NAME, is_synced).await
}

#[tokio::test(start_paused = true)]
async fn the_config_map_is_in_sync() {
    let (cluster, operator) = settled().await;
    let before = synced(&cluster).await;
    assert_eq!(before["status"]["configMap"], CONFIG);
    assert_eq!(before["status"]["conditions"][0]["status"], "True");
    let made = cluster.get("configmaps", CONFIG).await.unwrap();
    assert_eq!(made["data"], json!({"title": "Pets", "options": "Cats\nDogs"}));

    let options = json!({"spec": {"options": ["Cats", "Dogs", "Birds"]}});
    cluster.patch("voteconfigs", NAME, options).await;
    cluster.until("configmaps", CONFIG, |it| it["data"]["options"] == "Cats\nDogs\nBirds").await;
    let after = synced(&cluster).await;
    assert_ne!(after["status"]["configMapVersion"], before["status"]["configMapVersion"]);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_status_triggers_no_call() {
    let (cluster, operator) = settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = || {
        cluster
            .requests()
            .iter()
            .filter(|it| it.verb != Verb::Watch && !it.path.contains("customresourcedefinitions"))
            .count()
    };
    let before = asked();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked(), before);
    // Changes without effect on the `ConfigMap` leave the time unchanged.
    let vote = synced(&cluster).await;
    cluster.patch("voteconfigs", NAME, json!({"metadata": {"labels": {"a": "b"}}})).await;
    cluster.patch("configmaps", CONFIG, json!({"metadata": {"labels": {"a": "b"}}})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(synced(&cluster).await["status"], vote["status"]);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_changes_are_corrected() {
    let (cluster, operator) = settled().await;
    let edit = json!({"data": {"options": "Cats", "theirs": "x"}});
    cluster.patch("configmaps", CONFIG, edit).await;
    let right = cluster.until("configmaps", CONFIG, |it| it["data"]["options"] == "Cats\nDogs").await;
    assert_eq!(right["data"]["theirs"], "x");
    cluster.delete("configmaps", CONFIG).await;
    let is_new = |it: &Value| it["metadata"]["uid"] != right["metadata"]["uid"] && it.is_object();
    let again = cluster.until("configmaps", CONFIG, is_new).await;
    assert_eq!(again["data"], json!({"title": "Pets", "options": "Cats\nDogs"}));
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_continues() {
    let cluster = TestCluster::with(CRD).await;
    // The `ConfigMap` is created, but the object's status is not written.
    let silence = cluster.fault(Fault::answer(503).on(Verb::Patch).plural("voteconfigs"));
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.apply(EXAMPLE).await;
    let made = cluster.until("configmaps", CONFIG, Value::is_object).await;
    operator.kill().await;
    silence.clear();
    // No operator watches this change.
    cluster.patch("configmaps", CONFIG, json!({"data": {"title": "Plants"}})).await;

    let operator = cluster.start(Registry::collected().unwrap());
    synced(&cluster).await;
    let after = cluster.get("configmaps", CONFIG).await.unwrap();
    assert_eq!(after["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(after["data"]["title"], "Pets");
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn equal_options_are_reported() {
    let (cluster, operator) = settled().await;
    let options = json!({"spec": {"options": ["Cats", "cats"]}});
    cluster.patch("voteconfigs", NAME, options).await;
    let told =
        cluster.until("voteconfigs", NAME, |it| it["status"]["conditions"][0]["status"] == "False").await;
    assert_eq!(told["status"]["conditions"][0]["message"], "cats");
    let line = "Reconciler 'sync' failed permanently: spec.options: cats stands there twice";
    cluster.line(line).await;
    let config = cluster.get("configmaps", CONFIG).await.unwrap();
    assert_eq!(config["data"]["options"], "Cats\nDogs");
    operator.stop().await;
}

const OLD: &str = "
apiVersion: voting.schoolofdevops.com/v1alpha1
kind: VoteConfig
metadata: {name: old-vote, namespace: default}
spec: {question: Pets, choices: 'Cats, Dogs'}
";

#[tokio::test]
async fn objects_of_the_old_version_are_served() {
    let cluster = TestCluster::with(CRD).await;
    let operator = cluster.start(Registry::collected().unwrap());
    let converts = |it: &Value| it["spec"]["conversion"]["strategy"] == "Webhook";
    let name = "voteconfigs.voting.schoolofdevops.com";
    cluster.until("customresourcedefinitions", name, converts).await;
    let [old] = cluster.apply(OLD).await.try_into().unwrap();
    assert_eq!(old["spec"]["choices"], "Cats, Dogs");
    let made = cluster.until("configmaps", "old-vote-config", Value::is_object).await;
    assert_eq!(made["data"]["options"], "Cats\nDogs");
    let new = cluster.get("voteconfigs", "old-vote").await.unwrap();
    assert_eq!(new["spec"], json!({"title": "Pets", "options": ["Cats", "Dogs"]}));
    operator.stop().await;
}

#[test]
fn nothing_is_lost_between_the_versions() {
    round_trips(&Registry::collected().unwrap(), CRD);
}

#[tokio::test(start_paused = true)]
async fn the_config_map_is_deleted_with_its_object() {
    let (cluster, operator) = settled().await;
    cluster.delete("voteconfigs", NAME).await;
    cluster.until_gone("voteconfigs", NAME).await;
    cluster.until_gone("configmaps", CONFIG).await;
    operator.stop().await;
}
