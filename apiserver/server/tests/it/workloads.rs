//! Simulated workloads under virtual time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask_as, done, get};
use kopf_rs_apiserver::{ApiServer, WorkloadOptions};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 80}]}]}})
}

fn workload(kind: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template("i:1")},
    })
}

pub(super) fn world() -> ApiServer {
    let server = ApiServer::new();
    server.workloads(WorkloadOptions::new());
    server
}

/// Changes the image in a workload's template.
async fn renew(server: &ApiServer, uri: &str) {
    let change = json!({"spec": {"template": template("i:2")}});
    done(server, "PATCH", uri, change).await;
}

/// Waits until the object meets a condition, while virtual time passes.
pub(super) async fn until(server: &ApiServer, uri: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    for _ in 0..600 {
        seen = get(server, uri).await.1;
        if holds(&seen) {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{uri} never came to be so: {seen}");
}

pub(super) fn condition(object: &Value, of: &str) -> String {
    let list = object["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|found| found["type"] == of);
    found.map_or_else(String::new, |found| {
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    })
}

async fn pods(server: &ApiServer) -> Vec<Value> {
    let list = get(server, &format!("{PODS}?labelSelector=app=a")).await.1;
    list["items"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_makes_pods_that_become_ready() {
    let server = world();
    done(&server, "POST", DEPLOYMENTS, workload("Deployment", 3)).await;
    let uri = format!("{DEPLOYMENTS}/w");
    let one = until(&server, &uri, |found| {
        found["status"]["availableReplicas"] == 3
    })
    .await;
    assert_eq!(
        condition(&one, "Available"),
        "True MinimumReplicasAvailable"
    );
    assert_eq!(
        condition(&one, "Progressing"),
        "True NewReplicaSetAvailable"
    );
    assert_eq!(
        one["status"]["observedGeneration"],
        one["metadata"]["generation"]
    );
    assert_eq!(
        one["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    let pods = pods(&server).await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(condition(pod, "Ready"), "True ");
        assert_eq!(pod["spec"]["nodeName"], "node-1");
        assert!(
            pod["status"]["podIP"]
                .as_str()
                .unwrap()
                .starts_with("10.244.")
        );
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_template_rolls_out_and_the_old_pods_go() {
    let server = world();
    done(&server, "POST", DEPLOYMENTS, workload("Deployment", 4)).await;
    let uri = format!("{DEPLOYMENTS}/w");
    until(&server, &uri, |found| {
        found["status"]["availableReplicas"] == 4
    })
    .await;
    renew(&server, &uri).await;
    let finished = |found: &Value| {
        found["status"]["updatedReplicas"] == 4
            && found["status"]["replicas"] == 4
            && found["status"]["availableReplicas"] == 4
            && found["status"]["observedGeneration"] == 2
    };
    let mut least = 4;
    for _ in 0..600 {
        let found = get(&server, &uri).await.1;
        least = least.min(
            found["status"]["availableReplicas"]
                .as_i64()
                .unwrap_or_default(),
        );
        if finished(&found) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(least >= 3, "a quarter may be away, but {least} were left");
    until(&server, &uri, finished).await;
    for pod in pods(&server).await {
        if pod["metadata"].get("deletionTimestamp").is_none() {
            assert_eq!(pod["spec"]["containers"][0]["image"], "i:2");
        }
    }
    let sets = get(&server, SETS).await.1;
    let mut sizes: Vec<i64> = sets["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| set["spec"]["replicas"].as_i64().unwrap())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_and_goes_with_all_it_made() {
    let server = world();
    done(&server, "POST", DEPLOYMENTS, workload("Deployment", 1)).await;
    let uri = format!("{DEPLOYMENTS}/w");
    let scale = json!({"spec": {"replicas": 3}});
    done(&server, "PATCH", &format!("{uri}/scale"), scale).await;
    until(&server, &uri, |found| found["status"]["readyReplicas"] == 3).await;
    done(&server, "PATCH", &uri, json!({"spec": {"replicas": 0}})).await;
    until(&server, PODS, |found| found["items"] == json!([])).await;
    done(&server, "DELETE", &uri, Value::Null).await;
    until(&server, SETS, |found| found["items"] == json!([])).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_pulled_never_starts() {
    let server = world();
    let mut one = workload("Deployment", 1);
    one["spec"]["template"] = template("registry.example/missing:1");
    one["spec"]["progressDeadlineSeconds"] = 10.into();
    done(&server, "POST", DEPLOYMENTS, one).await;
    let uri = format!("{DEPLOYMENTS}/w");
    let late = |found: &Value| condition(found, "Progressing") == "False ProgressDeadlineExceeded";
    let one = until(&server, &uri, late).await;
    assert_eq!(
        condition(&one, "Available"),
        "False MinimumReplicasUnavailable"
    );
    let pod = &pods(&server).await[0];
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
}

/// Returns a Pod with these init containers and one other container.
fn with_init(init: &Value, image: &str) -> Value {
    let spec = json!({"initContainers": init, "containers": [{"name": "c", "image": image}]});
    json!({"metadata": {"name": "p"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_runs_beside_the_others() {
    let server = world();
    let init = json!([{"name": "side", "image": "i", "restartPolicy": "Always"}, {"name": "before", "image": "i"}]);
    done(&server, "POST", PODS, with_init(&init, "i")).await;
    let uri = format!("{PODS}/p");
    let pod = until(&server, &uri, |found| condition(found, "Ready") == "True ").await;
    let [side, before] = [0, 1].map(|at| &pod["status"]["initContainerStatuses"][at]);
    assert!(side["state"].get("running").is_some(), "{side}");
    assert_eq!(
        (&side["ready"], &side["started"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(before["state"]["terminated"]["reason"], "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_container_of_a_pod_that_cannot_be_pulled_is_told_beside_init_containers() {
    let server = world();
    let init = json!([{"name": "before", "image": "i"}]);
    done(&server, "POST", PODS, with_init(&init, "missing")).await;
    let uri = format!("{PODS}/p");
    let told = |found: &Value| {
        let waiting = &found["status"]["containerStatuses"][0]["state"]["waiting"];
        waiting["reason"] == "ImagePullBackOff"
    };
    let pod = until(&server, &uri, told).await;
    let before = &pod["status"]["initContainerStatuses"][0];
    assert_eq!(before["state"]["terminated"]["reason"], "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_counts_its_pods() {
    let server = world();
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = workload("StatefulSet", 3);
    set["spec"]["serviceName"] = "w".into();
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    done(&server, "POST", sets, set).await;
    let uri = format!("{sets}/w");
    let set = until(&server, &uri, |found| found["status"]["readyReplicas"] == 3).await;
    assert_eq!(
        set["status"]["currentRevision"],
        set["status"]["updateRevision"]
    );
    let names: Vec<String> = pods(&server)
        .await
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["w-0", "w-1", "w-2"]);
    let claim = "/api/v1/namespaces/default/persistentvolumeclaims/data-w-1";
    assert_eq!(get(&server, claim).await.1["status"]["phase"], "Bound");
    renew(&server, &uri).await;
    let renewed = |found: &Value| {
        found["status"]["updatedReplicas"] == 3
            && found["status"]["readyReplicas"] == 3
            && found["status"]["currentRevision"] == found["status"]["updateRevision"]
    };
    until(&server, &uri, renewed).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_or_fail_and_cron_jobs_make_them() {
    let server = world();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, command: &str| {
        json!({"metadata": {"name": name}, "spec": {"completions": 2, "backoffLimit": 1, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": [command]}],
        }}}})
    };
    done(&server, "POST", jobs, job("good", "true")).await;
    done(&server, "POST", jobs, job("bad", "false")).await;
    let good = until(&server, &format!("{jobs}/good"), |found| {
        condition(found, "Complete").starts_with("True")
    })
    .await;
    assert_eq!(good["status"]["succeeded"], 2);
    assert!(good["status"].get("completionTime").is_some());
    let bad = until(&server, &format!("{jobs}/bad"), |found| {
        condition(found, "Failed").starts_with("True")
    })
    .await;
    assert_eq!(condition(&bad, "Failed"), "True BackoffLimitExceeded");
    let crons = "/apis/batch/v1/namespaces/default/cronjobs";
    let spec = json!({"schedule": "* * * * *", "jobTemplate": job("", "true")});
    let mut cron = json!({"metadata": {"name": "often"}, "spec": spec});
    cron["spec"]["jobTemplate"]
        .as_object_mut()
        .unwrap()
        .remove("metadata");
    done(&server, "POST", crons, cron).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    let found = until(&server, &format!("{crons}/often"), |found| {
        found["status"]["lastSuccessfulTime"].is_string()
    })
    .await;
    assert!(found["status"]["lastScheduleTime"].is_string());
}

#[tokio::test(start_paused = true)]
async fn services_lead_to_ready_pods_and_daemons_are_everywhere() {
    let server = world();
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 8080, "targetPort": "http"}]}});
    done(&server, "POST", services, service).await;
    let mut set = workload("DaemonSet", 1);
    set["spec"].as_object_mut().unwrap().remove("replicas");
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    done(&server, "POST", sets, set).await;
    until(&server, &format!("{sets}/w"), |found| {
        found["status"]["numberAvailable"] == 1
    })
    .await;
    let ready = |found: &Value| found["subsets"][0]["addresses"].is_array();
    let found = until(&server, "/api/v1/namespaces/default/endpoints/s", ready).await;
    assert_eq!(found["subsets"][0]["ports"][0]["port"], 80);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=s";
    let slices = get(&server, slices).await.1;
    assert_eq!(
        slices["items"][0]["endpoints"][0]["conditions"]["ready"],
        true
    );
}

#[tokio::test(start_paused = true)]
async fn pods_without_the_named_port_are_no_endpoints() {
    let server = world();
    done(&server, "POST", DEPLOYMENTS, workload("Deployment", 1)).await;
    until(&server, &format!("{DEPLOYMENTS}/w"), |found| {
        found["status"]["availableReplicas"] == 1
    })
    .await;
    let of = |name: &str, ports: Value| json!({"metadata": {"name": name}, "spec": {"selector": {"app": "a"}, "ports": ports}});
    let nowhere = json!([{"port": 1, "targetPort": "nowhere"}]);
    let both = json!([{"name": "a", "port": 1, "targetPort": "http"}, {"name": "b", "port": 2, "targetPort": "nowhere"}]);
    let services = "/api/v1/namespaces/default/services";
    done(&server, "POST", services, of("none", nowhere)).await;
    done(&server, "POST", services, of("some", both)).await;
    let endpoints = "/api/v1/namespaces/default/endpoints";
    let some = until(&server, &format!("{endpoints}/some"), |found| {
        found["subsets"][0]["addresses"].is_array()
    })
    .await;
    let ports = json!([{"name": "a", "port": 80, "protocol": "TCP"}]);
    assert_eq!(some["subsets"][0]["ports"], ports);
    let none = get(&server, &format!("{endpoints}/none")).await.1;
    assert_eq!(none["metadata"]["name"], "none");
    assert!(none.get("subsets").is_none(), "{none}");
}

#[tokio::test(start_paused = true)]
async fn pods_end_within_their_grace() {
    let server = world();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    done(&server, "POST", PODS, pod).await;
    let uri = format!("{PODS}/p");
    until(&server, &uri, |found| found["status"]["phase"] == "Running").await;
    let (code, answer) = ask_as(&server, "DELETE", &uri, "application/json", Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(get(&server, &uri).await.0, 200);
    until(&server, &uri, |found| found["code"] == 404).await;
}

#[tokio::test]
async fn without_being_asked_nothing_moves() {
    let server = ApiServer::new();
    done(&server, "POST", DEPLOYMENTS, workload("Deployment", 1)).await;
    assert_eq!(get(&server, SETS).await.1["items"], json!([]));
    assert_eq!(get(&server, "/api/v1/nodes").await.1["items"], json!([]));
}
