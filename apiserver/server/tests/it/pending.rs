//! Pods that cannot start, and changes that let them start, under virtual time.

use std::time::Duration;

use serde_json::{Value, json};

use super::workloads::{condition, until, world};
use super::{done, get};
use kopf_rs_apiserver::ApiServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODE: &str = "/api/v1/nodes/node-1";
const NONE: &str = "False Unschedulable";

/// Creates a Pod `p` with this spec and a container with these additional fields; returns its path.
async fn pod(server: &ApiServer, mut spec: Value, container: Value) -> String {
    let mut one = json!({"name": "c", "image": "i"});
    for (field, value) in container.as_object().into_iter().flatten() {
        one[field] = value.clone();
    }
    spec["containers"] = json!([one]);
    done(
        server,
        "POST",
        PODS,
        json!({"metadata": {"name": "p"}, "spec": spec}),
    )
    .await;
    format!("{PODS}/p")
}

/// Returns the Pod after ten seconds, in which it must not have started.
async fn later(server: &ApiServer, uri: &str) -> Value {
    tokio::time::sleep(Duration::from_secs(10)).await;
    let found = get(server, uri).await.1;
    assert_eq!(found["status"]["phase"], "Pending", "{found}");
    found
}

async fn starts(server: &ApiServer, uri: &str) {
    until(server, uri, |found| condition(found, "Ready") == "True ").await;
}

fn message(pod: &Value) -> &str {
    let list = pod["status"]["conditions"].as_array().unwrap();
    let found = list.iter().find(|found| found["type"] == "PodScheduled");
    found.unwrap()["message"].as_str().unwrap()
}

fn waiting(pod: &Value) -> (&str, &str) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let word = |field: &str| waiting[field].as_str().unwrap_or_default();
    (word("reason"), word("message"))
}

#[tokio::test(start_paused = true)]
async fn a_node_selector_waits_for_its_label() {
    let server = world();
    let uri = pod(
        &server,
        json!({"nodeSelector": {"disk": "fast"}}),
        json!({}),
    )
    .await;
    let found = later(&server, &uri).await;
    assert_eq!(condition(&found, "PodScheduled"), NONE);
    let told = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(message(&found), told);
    assert!(found["spec"].get("nodeName").is_none());
    let labels = json!({"metadata": {"labels": {"disk": "fast"}}});
    done(&server, "PATCH", NODE, labels).await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn an_affinity_that_no_node_has_keeps_a_pod() {
    let server = world();
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["linux"]}]});
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    let uri = pod(
        &server,
        json!({"affinity": {"nodeAffinity": required}}),
        json!({}),
    )
    .await;
    assert_eq!(condition(&later(&server, &uri).await, "PodScheduled"), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_takes_pods_again_later() {
    let server = world();
    done(
        &server,
        "PATCH",
        NODE,
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let uri = pod(&server, json!({}), json!({})).await;
    let told = "0/1 nodes are available: 1 node(s) were unschedulable.";
    assert_eq!(message(&later(&server, &uri).await), told);
    done(
        &server,
        "PATCH",
        NODE,
        json!({"spec": {"unschedulable": false}}),
    )
    .await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn a_tainted_node_takes_those_who_bear_it() {
    let server = world();
    let taints = json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]);
    done(&server, "PATCH", NODE, json!({"spec": {"taints": taints}})).await;
    let uri = pod(&server, json!({}), json!({})).await;
    let told = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
    assert_eq!(message(&later(&server, &uri).await), told);
    done(&server, "DELETE", &uri, Value::Null).await;
    until(&server, &uri, |found| found["code"] == 404).await;
    let bears = json!({"tolerations": [{"key": "a", "operator": "Exists"}]});
    let uri = pod(&server, bears, json!({})).await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn without_nodes_no_pod_starts() {
    let server = world();
    tokio::time::sleep(Duration::from_secs(1)).await;
    done(&server, "DELETE", NODE, Value::Null).await;
    let uri = pod(&server, json!({}), json!({})).await;
    let found = later(&server, &uri).await;
    assert_eq!(message(&found), "no nodes available to schedule pods");
}

#[tokio::test(start_paused = true)]
async fn other_schedulers_and_other_nodes_do_nothing() {
    for spec in [
        json!({"schedulerName": "mine"}),
        json!({"nodeName": "elsewhere"}),
    ] {
        let server = world();
        let uri = pod(&server, spec, json!({})).await;
        let found = later(&server, &uri).await;
        assert!(
            found["status"].get("containerStatuses").is_none(),
            "{found}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_more_than_there_is_waits_until_there_is_room() {
    let server = world();
    let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let first = json!({"metadata": {"name": "first"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "7"}}}]}});
    done(&server, "POST", PODS, first).await;
    let uri = pod(&server, json!({}), asks("1500m")).await;
    let told = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(message(&later(&server, &uri).await), told);
    done(&server, "DELETE", &format!("{PODS}/first"), Value::Null).await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn volumes_and_environment_wait_for_what_they_name() {
    let creating = ("ContainerCreating", "");
    let error = "CreateContainerConfigError";
    let cases = [
        (
            "configmaps",
            json!({"volumes": [{"name": "v", "configMap": {"name": "x"}}]}),
            json!({}),
            creating,
        ),
        (
            "secrets",
            json!({"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
            json!({}),
            creating,
        ),
        (
            "configmaps",
            json!({}),
            json!({"envFrom": [{"configMapRef": {"name": "x"}}]}),
            (error, "configmap \"x\" not found"),
        ),
        (
            "secrets",
            json!({}),
            json!({"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]}),
            (error, "secret \"x\" not found"),
        ),
    ];
    for (plural, spec, container, told) in cases {
        let server = world();
        let uri = pod(&server, spec, container).await;
        let found = later(&server, &uri).await;
        assert_eq!(condition(&found, "PodScheduled"), "True ");
        assert_eq!(waiting(&found), told);
        let field = if plural == "secrets" {
            "stringData"
        } else {
            "data"
        };
        let made = json!({"metadata": {"name": "x"}, field: {"k": "v"}});
        done(
            &server,
            "POST",
            &format!("/api/v1/namespaces/default/{plural}"),
            made,
        )
        .await;
        starts(&server, &uri).await;
        done(
            &server,
            "DELETE",
            &format!("/api/v1/namespaces/default/{plural}/x"),
            Value::Null,
        )
        .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(get(&server, &uri).await.1["status"]["phase"], "Running");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_optional_is_not_waited_for() {
    let server = world();
    let spec = json!({"volumes": [{"name": "v", "configMap": {"name": "x", "optional": true}}]});
    let container = json!({"envFrom": [{"secretRef": {"name": "x", "optional": true}}]});
    let uri = pod(&server, spec, container).await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_waited_for() {
    let server = world();
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
    let uri = pod(&server, json!({"volumes": volumes}), json!({})).await;
    let told = "0/1 nodes are available: persistentvolumeclaim \"x\" not found.";
    assert_eq!(message(&later(&server, &uri).await), told);
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let made = json!({"metadata": {"name": "x"}, "spec": spec});
    done(
        &server,
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        made,
    )
    .await;
    starts(&server, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_wants_no_pod_where_no_node_is_chosen() {
    let server = world();
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let spec =
        json!({"nodeSelector": {"disk": "fast"}, "containers": [{"name": "c", "image": "i"}]});
    let labels = json!({"app": "a"});
    let set = json!({"metadata": {"name": "w"}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec},
    }});
    done(&server, "POST", sets, set).await;
    let uri = format!("{sets}/w");
    let wants =
        |count: i64| move |found: &Value| found["status"]["desiredNumberScheduled"] == count;
    until(&server, &uri, |found| {
        found["status"]["observedGeneration"] == 1
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(wants(0)(&get(&server, &uri).await.1));
    assert_eq!(get(&server, PODS).await.1["items"], json!([]));
    done(
        &server,
        "PATCH",
        NODE,
        json!({"metadata": {"labels": {"disk": "fast"}}}),
    )
    .await;
    until(&server, &uri, |found| {
        found["status"]["numberAvailable"] == 1
    })
    .await;
    done(
        &server,
        "PATCH",
        NODE,
        json!({"metadata": {"labels": {"disk": null}}}),
    )
    .await;
    until(&server, &uri, wants(0)).await;
    until(&server, PODS, |found| found["items"] == json!([])).await;
    done(
        &server,
        "PATCH",
        NODE,
        json!({"metadata": {"labels": {"disk": "fast"}}}),
    )
    .await;
    until(&server, &uri, wants(1)).await;
    done(&server, "DELETE", NODE, Value::Null).await;
    until(&server, &uri, wants(0)).await;
}
