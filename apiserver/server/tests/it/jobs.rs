//! Jobs with failing Pods, under virtual time.

use std::time::Duration;

use serde_json::{Value, json};

use super::workloads::{condition, until, world};
use super::{done, get};
use kopf_rs_apiserver::ApiServer;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates a Job whose Pods fail.
async fn job(server: &ApiServer, name: &str, rules: Value) -> String {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["false"]}]}});
    let mut spec = json!({"backoffLimit": 2, "template": template});
    if !rules.is_null() {
        spec["podFailurePolicy"] = json!({"rules": rules});
    }
    done(
        server,
        "POST",
        JOBS,
        json!({"metadata": {"name": name}, "spec": spec}),
    )
    .await;
    format!("{JOBS}/{name}")
}

async fn pods(server: &ApiServer) -> Vec<Value> {
    let list = get(server, PODS).await.1;
    list["items"].as_array().unwrap().clone()
}

fn on_codes(action: &str, operator: &str) -> Value {
    json!([{"action": action, "onExitCodes": {"containerName": "c", "operator": operator, "values": [1]}}])
}

#[tokio::test(start_paused = true)]
async fn a_policy_fails_a_job_at_once() {
    let server = world();
    let uri = job(&server, "j", on_codes("FailJob", "In")).await;
    let failed = |found: &Value| condition(found, "Failed") == "True PodFailurePolicy";
    let found = until(&server, &uri, failed).await;
    assert_eq!(condition(&found, "FailureTarget"), "True PodFailurePolicy");
    assert_eq!(found["status"]["failed"], 1);
    let pods = pods(&server).await;
    assert_eq!(pods.len(), 1);
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let list = found["status"]["conditions"].as_array().unwrap();
    let told = list.iter().find(|found| found["type"] == "Failed").unwrap();
    let why = format!(
        "Container c for pod default/{name} failed with exit code 1 matching FailJob rule at index 0"
    );
    assert_eq!(told["message"], why);
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_other_codes_leaves_the_limit() {
    let server = world();
    let uri = job(&server, "j", on_codes("FailJob", "NotIn")).await;
    let failed = |found: &Value| condition(found, "Failed") == "True BackoffLimitExceeded";
    let found = until(&server, &uri, failed).await;
    assert_eq!(found["status"]["failed"], 3);
}

#[tokio::test(start_paused = true)]
async fn ignored_failures_do_not_count() {
    let server = world();
    let uri = job(&server, "j", on_codes("Ignore", "In")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let found = get(&server, &uri).await.1;
    assert!(pods(&server).await.len() > 3);
    assert!(found["status"].get("failed").is_none(), "{found}");
    assert_eq!(condition(&found, "Failed"), "");
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_longer_after_each_failure() {
    let server = world();
    let uri = job(&server, "j", Value::Null).await;
    let mut counts = Vec::new();
    for seconds in [5, 10, 10, 10] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        counts.push(pods(&server).await.len());
    }
    // A Pod fails one second after its creation, so the next ones follow after about 11 and 32 seconds.
    assert_eq!(counts, [1, 2, 2, 3]);
    let found = get(&server, &uri).await.1;
    assert_eq!(condition(&found, "Failed"), "True BackoffLimitExceeded");
}
