//! Tests the starts as a function of time, and the whole operator on an in-memory API server, under virtual time.

use kopf_rs::testing::{TestCluster, TestOperator, WorkloadOptions, review};
use kopf_rs::{AdmissionServer, Operator, Registry, Settings};

use super::*;

const EXAMPLE: &str = include_str!("../example-cronjob.yaml");
const KIND: &str = "/apis/batch.example.com/v1/namespaces/default/cronjobs";

fn spec(more: &Value) -> CronJobSpec {
    let mut spec = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": {}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}:00Z").parse().unwrap()
}

#[test]
fn the_newest_missed_start_is_due() {
    let start = |more, last, now| due(&spec(&more), at(last), at(now)).map(|it| it.missed).unwrap();
    assert_eq!(start(json!({}), "10:30", "10:59"), None);
    assert_eq!(start(json!({}), "10:30", "11:00"), Some(at("11:00")));
    assert_eq!(start(json!({}), "10:00", "12:30"), Some(at("12:00")));
    assert_eq!(start(json!({"startingDeadlineSeconds": 60}), "10:00", "12:30"), None);
    assert_eq!(due(&spec(&json!({})), at("10:00"), at("12:30")).unwrap().next, at("13:00"));
    let minutely = spec(&json!({"schedule": "* * * * *"}));
    assert!(
        due(&minutely, at("10:00"), at("12:30")).unwrap_err().to_string().contains("more than 100 starts")
    );
}

/// Starts an operator that has registered the kind.
async fn started(cluster: &TestCluster) -> TestOperator {
    let mut settings = Settings::default();
    settings.admission.server = Some(AdmissionServer::local());
    let operator = cluster.start(Operator::new(Registry::collected().unwrap()).settings(settings));
    cluster.line("Serving cronjobs").await;
    operator
}

async fn jobs(cluster: &TestCluster) -> Vec<Value> {
    cluster.list("/apis/batch/v1/namespaces/default/jobs").await
}

#[tokio::test(start_paused = true)]
async fn jobs_are_started_and_old_ones_are_deleted() {
    let cluster = TestCluster::new();
    cluster.server().workloads(WorkloadOptions::new());
    let operator = started(&cluster).await;
    cluster.apply(EXAMPLE).await;
    let first = cluster.until(KIND, "hello", |it| it["status"]["lastScheduleTime"].is_string()).await;
    let first = first["status"]["lastScheduleTime"].clone();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let jobs = jobs(&cluster).await;
    assert!((3..=4).contains(&jobs.len()), "{jobs:#?}");
    let object = cluster.get(KIND, "hello").await.unwrap();
    assert_ne!(object["status"]["lastScheduleTime"], first);
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn no_second_job_is_started_where_that_is_forbidden() {
    let cluster = TestCluster::new();
    let operator = started(&cluster).await;
    cluster.apply(&EXAMPLE.replace("Allow", "Forbid")).await;
    cluster.until(KIND, "hello", |it| it["status"]["active"].is_array()).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(jobs(&cluster).await.len(), 1);
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test(start_paused = true)]
async fn a_job_replaces_the_active_one() {
    let cluster = TestCluster::new();
    let operator = started(&cluster).await;
    cluster.apply(&EXAMPLE.replace("Allow", "Replace")).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(jobs(&cluster).await.len(), 1);
    let object = cluster.get(KIND, "hello").await.unwrap();
    let last: Timestamp = object["status"]["lastScheduleTime"].as_str().unwrap().parse().unwrap();
    let created: Timestamp = object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    assert!(last - SignedDuration::from_secs(300) > created);
    assert_eq!(operator.stop().await.failed, []);
}

#[tokio::test]
async fn schedules_that_cannot_be_read_are_refused() {
    let object = json!({
        "apiVersion": "batch.example.com/v1", "kind": "CronJob", "metadata": {"name": "hello"},
        "spec": {"schedule": "every day", "jobTemplate": {"spec": {}}},
    });
    let reviewed = review(object).by(Registry::collected().unwrap()).await;
    assert!(!reviewed.is_allowed);
}
