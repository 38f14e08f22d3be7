//! Tests the whole operator on an in-memory API server, under virtual time.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs::testing::{Fault, TestCluster, TestOperator, Verb, WorkloadOptions};
use kube::CustomResourceExt as _;
use kube::api::{DeleteParams, PostParams};

use super::*;

const CRD: &str = include_str!("../crd.yaml");
const EXAMPLE: &str = include_str!("../example-webapp.yaml");
const NAME: &str = "example-webapp";

/// Returns a cluster in which Pods become ready, with the operator and the example, once all of its replicas are
/// available.
async fn settled() -> (TestCluster, TestOperator) {
    let cluster = TestCluster::with(CRD).await;
    cluster.server().workloads(WorkloadOptions::new());
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.apply(EXAMPLE).await;
    available(&cluster, 2).await;
    (cluster, operator)
}

async fn available(cluster: &TestCluster, replicas: i64) -> Value {
    let is_so = |app: &Value| {
        app["status"]["availableReplicas"] == replicas
            && app["status"]["observedGeneration"] == app["metadata"]["generation"]
    };
    cluster.until("webapps", NAME, is_so).await
}

#[test]
fn the_definition_is_made_from_the_types() {
    let made = serde_saphyr::to_string(&WebApp::crd()).unwrap();
    assert!(CRD == made, "crd.yaml is to be:\n{made}");
    // Clients can apply single conditions.
    assert!(made.contains("x-kubernetes-list-type: map"), "{made}");
}

#[tokio::test(start_paused = true)]
async fn an_application_gets_its_children() {
    let (cluster, operator) = settled().await;
    let app = available(&cluster, 2).await;
    let condition = &app["status"]["conditions"][0];
    assert_eq!(condition["type"], "Available");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["message"], "2 of 2 replicas are available");
    let deployment = cluster.get("deployments", NAME).await.unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:1.29");
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["name"], &owner["controller"]), (&json!(NAME), &json!(true)));
    let service = cluster.get("services", NAME).await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    let published = cluster.in_namespace("published").await;
    let public = published.get("services", "example-webapp-default").await.unwrap();
    assert_eq!(public["spec"]["externalName"], "example-webapp.default.svc.cluster.local");

    cluster.patch("webapps", NAME, json!({"spec": {"replicas": 3}})).await;
    available(&cluster, 3).await;
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_at_rest() {
    let (cluster, operator) = settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = || cluster.requests().iter().filter(|it| it.verb != Verb::Watch).count();
    let before = asked();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked(), before);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_changes_are_corrected() {
    let (cluster, operator) = settled().await;
    let edit = json!({"spec": {"replicas": 7, "paused": true}});
    cluster.patch("deployments", NAME, edit).await;
    let right = cluster.until("deployments", NAME, |it| it["spec"]["replicas"] == 2).await;
    assert_eq!(right["spec"]["paused"], true, "the operator wants nothing of this field");
    cluster.delete("services", NAME).await;
    cluster.until("services", NAME, |it| it["spec"]["ports"][0]["port"] == 80).await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_continues() {
    let cluster = TestCluster::with(CRD).await;
    cluster.server().workloads(WorkloadOptions::new());
    // The Service is created, but the Deployment is not.
    let refusal = cluster.fault(Fault::answer(503).on(Verb::Patch).plural("deployments"));
    let operator = cluster.start(Registry::collected().unwrap());
    cluster.apply(EXAMPLE).await;
    let service = cluster.until("services", NAME, |it| !it.is_null()).await;
    operator.kill().await;
    refusal.clear();

    let operator = cluster.start(Registry::collected().unwrap());
    available(&cluster, 2).await;
    let after = cluster.get("services", NAME).await.unwrap();
    assert_eq!(after["metadata"]["uid"], service["metadata"]["uid"]);
    assert_eq!(after["metadata"]["resourceVersion"], service["metadata"]["resourceVersion"]);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_spec_is_refused_or_reported() {
    let (cluster, operator) = settled().await;
    let api = kube::Api::<WebApp>::namespaced(cluster.client(), "default");
    for (image, replicas, port) in [("", 1, 80), ("nginx", 0, 80), ("nginx", 1, 65536)] {
        let image = image.to_owned();
        let bad = WebApp::new("bad", WebAppSpec { image, replicas, port });
        let refused = api.create(&PostParams::default(), &bad).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.is_invalid()));
    }
    // A Service must not have such a name.
    cluster
        .apply("{apiVersion: apps.example.com/v1, kind: WebApp, metadata: {name: a.b}, spec: {image: nginx}}")
        .await;
    cluster.line("[default/a.b] Reconciler 'keep_in_shape' failed permanently").await;
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_application_leaves_nothing_behind() {
    let (cluster, operator) = settled().await;
    cluster.delete("webapps", NAME).await;
    cluster.line("[default/example-webapp] example-webapp is withdrawn.").await;
    for kind in ["webapps", "deployments", "services"] {
        cluster.until_gone(kind, NAME).await;
    }
    let published = cluster.in_namespace("published").await;
    published.until_gone("services", "example-webapp-default").await;
    operator.stop().await;
}

/// Kubernetes deletes the children first.
#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_recreates_no_child() {
    let (cluster, operator) = settled().await;
    let deployment = cluster.writes_to("deployments", NAME).await.len();
    let service = cluster.writes_to("services", NAME).await.len();
    let api = kube::Api::<WebApp>::namespaced(cluster.client(), "default");
    api.delete(NAME, &DeleteParams::foreground()).await.unwrap();
    cluster.until_gone("webapps", NAME).await;
    for kind in ["deployments", "services"] {
        assert_eq!(cluster.get(kind, NAME).await, None);
    }
    operator.stop().await;
    assert_eq!(cluster.writes_to("deployments", NAME).await.len(), deployment);
    assert_eq!(cluster.writes_to("services", NAME).await.len(), service);
}

/// The operator misses the edit until it finds that the watch is dead.
#[tokio::test(start_paused = true)]
async fn foreign_changes_behind_a_silent_watch_are_corrected() {
    let (cluster, operator) = settled().await;
    let silence = cluster.fault(Fault::stall().plural("deployments"));
    let edit = json!({"spec": {"replicas": 7}});
    cluster.patch("deployments", NAME, edit).await;
    // The open watch stays silent; the next one does not.
    silence.clear();
    cluster.until("deployments", NAME, |it| it["spec"]["replicas"] == 2).await;
    operator.stop().await;
}
