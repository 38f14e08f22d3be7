//! Tests of the harness itself on every server: objects, awaited conditions, and the features of the real server.

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs_tests::{TestCluster, scenarios};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

scenarios! {
    objects_are_created_changed_awaited_and_gone;
    a_crd_of_ones_own_is_served_when_applied;
    requests_of_others_are_distinguished;
    a_user_without_rights_is_refused [tcp real];
    controllers_collect_objects_without_an_owner [real];
    kubectl_sees_the_namespace [tcp real];
    events_of_a_scenario_become_its_lines;
}

async fn objects_are_created_changed_awaited_and_gone(cluster: TestCluster) {
    let stored =
        cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: '1'}}").await;
    assert_eq!(stored[0]["metadata"]["namespace"], cluster.namespace());
    let change = async {
        cluster.patch("configmaps", "settings", &json!({"data": {"a": "\u{1f680}"}})).await;
    };
    let seen = cluster.until("the change is there", "ConfigMap", "settings", |object| {
        object.is_some_and(|object| object["data"]["a"] == "\u{1f680}")
    });
    let ((), seen) = tokio::join!(change, seen);
    assert_eq!(cluster.get("configmaps", "settings").await.as_ref(), Some(&seen));
    assert_eq!(
        cluster
            .list("configmaps")
            .await
            .iter()
            .filter(|object| object["metadata"]["name"] == "settings")
            .count(),
        1
    );
    cluster.delete("configmaps", "settings").await;
    cluster.until("it is gone", "configmaps", "settings", |object| object.is_none()).await;
    assert_eq!(cluster.get("configmaps", "settings").await, None);
}

async fn a_crd_of_ones_own_is_served_when_applied(cluster: TestCluster) {
    let group = format!("{}.example.com", cluster.namespace());
    let yaml = format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: gadgets.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: gadgets, singular: gadget, kind: Gadget}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: {group}/v1
kind: Gadget
metadata: {{name: one}}
spec: {{size: 1}}
"
    );
    cluster.apply(&yaml).await;
    let again = cluster.apply(&yaml).await;
    assert_eq!(again[1]["metadata"]["generation"], 1);
    cluster.patch(&format!("gadgets.{group}"), "one/status", &json!({"status": {"ready": true}})).await;
    let gadget = cluster.get(&format!("Gadget.{group}"), "one").await.expect("the gadget is there");
    assert_eq!((&gadget["spec"]["size"], &gadget["status"]["ready"]), (&json!(1), &json!(true)));
}

async fn requests_of_others_are_distinguished(cluster: TestCluster) {
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let merge = Patch::Merge(json!({"data": {"a": "1"}}));
    maps.patch("settings", &PatchParams::default(), &merge).await.expect("the patch is taken");
    maps.get("settings").await.expect("the object is there");
    cluster.patch("configmaps", "settings", &json!({"data": {"a": "2"}})).await;

    let path = format!("/api/v1/namespaces/{}/configmaps/settings", cluster.namespace());
    let asked = cluster.asked().into_iter().filter(|asked| asked.path == path);
    assert_eq!(
        asked.map(|asked| (asked.verb, asked.code)).collect::<Vec<_>>(),
        [("patch".into(), 200), ("get".into(), 200)]
    );
    assert_eq!(cluster.writes_to("configmaps", "settings").await.len(), 1);
}

async fn a_user_without_rights_is_refused(cluster: TestCluster) {
    let user = cluster.restricted_user();
    let argument = format!("--token={user}-token");
    let Some(refused) = cluster.kubectl(&[&argument, "get", "pods"]).await else {
        return;
    };
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("Forbidden") && message.contains(&user), "{message}");
}

async fn controllers_collect_objects_without_an_owner(cluster: TestCluster) {
    cluster.start_controllers().await;
    let owner = cluster
        .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}))
        .await;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": reference}});
    cluster.create(&child).await;
    cluster.delete("configmaps", "owner").await;
    cluster.until("the child is collected", "configmaps", "child", |child| child.is_none()).await;
}

async fn kubectl_sees_the_namespace(cluster: TestCluster) {
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").await;
    let Some(output) = cluster.kubectl(&["get", "configmap", "settings", "--output=name"]).await else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "configmap/settings\n");
}

async fn events_of_a_scenario_become_its_lines(cluster: TestCluster) {
    tokio::spawn(async { tracing::warn!("from a task") }).await.expect("the task ends");
    cluster.lines().until("from the task", |line| line.contains("from a task")).await;
}
