//! The example `WebApp`.

// Links the handlers under test.
use webapp as _;

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::Tutorial;

scenarios! {
    a_web_application_lives_and_dies;
}

const KIND: &str = "webapps.apps.example.com";
const NAME: &str = "example-webapp";
const PUBLISHED: &str = "/api/v1/namespaces/published/services";

async fn a_web_application_lives_and_dies(cluster: TestCluster) {
    let test = Tutorial::of(cluster, "webapp").await;
    test.apply("crd.yaml").await;
    test.apply("example-webapp.yaml").await;
    let public = format!("{NAME}-{}", test.cluster.namespace());
    let is_there = |_: &Value| true;

    // The kill comes between the creation of its children, or after it.
    let first = test.start();
    let service = test.until("it is made", "services", NAME, is_there).await;
    first.kill().await;

    let second = test.start();
    test.pods_are_ready(2).await;
    let app = available(&test, 2).await;
    assert_eq!(app["status"]["conditions"][0]["reason"], "AllReplicas");
    test.until("it is published", PUBLISHED, &public, is_there).await;
    let after = test.cluster.get("services", NAME).await;
    let after = after.expect("it is there");
    assert_eq!(after["metadata"]["uid"], service["metadata"]["uid"]);

    // Foreign changes.
    let edit = json!({"spec": {"replicas": 7}, "metadata": {"labels": {"theirs": "x"}}});
    test.cluster.patch("deployments", NAME, &edit).await;
    let wanted = |it: &Value| it["spec"]["replicas"] == 2;
    let right = test.until("it is put right", "deployments", NAME, wanted).await;
    assert_eq!(right["metadata"]["labels"]["theirs"], "x");
    test.cluster.delete("services", NAME).await;
    let is_new = |it: &Value| it["metadata"]["uid"] != service["metadata"]["uid"];
    test.until("it is made again", "services", NAME, is_new).await;

    // A change of the object.
    test.cluster.patch(KIND, NAME, &json!({"spec": {"replicas": 1}})).await;
    test.pods_are_ready(1).await;
    available(&test, 1).await;

    // This name is invalid for a Service.
    let bad = json!({"apiVersion": "apps.example.com/v1", "kind": "WebApp", "metadata": {"name": "a.b"}, "spec": {"image": "x"}});
    test.cluster.create(&bad).await;
    test.line("failed permanently: Service `a.b` is refused").await;

    test.cluster.delete(KIND, NAME).await;
    test.until_gone(KIND, NAME).await;
    test.until_gone(PUBLISHED, &public).await;
    for kind in ["deployments", "services"] {
        test.until_gone(kind, NAME).await;
    }
    second.stop().await;
}

async fn available(test: &Tutorial, replicas: u64) -> Value {
    let so = |app: &Value| {
        app["status"]["availableReplicas"] == replicas
            && app["status"]["observedGeneration"] == app["metadata"]["generation"]
    };
    test.until("all are available", KIND, NAME, so).await
}
