//! The operators of tutorials, as users write them: each goes through drift, an invalid object, a kill, and a deletion, on each server.
//!
//! Each also has in-memory tests beside its code, which use the testing kit.

mod mysqlcluster;
mod voteconfig;
mod webapp;

use std::time::Duration;

use kopf_rs::{Operator, Registry};
use kopf_rs_apiserver::WorkloadOptions;
use kopf_rs_tests::TestCluster;
use serde_json::{Value, json};

use crate::cli::root;
use crate::operating::Working;

/// One of the operators on a cluster.
struct Tutorial {
    cluster: TestCluster,
    example: &'static str,
}

impl Tutorial {
    async fn of(cluster: TestCluster, example: &'static str) -> Self {
        let tutorial = Self { cluster, example };
        tutorial.run_workloads().await;
        tutorial
    }

    /// Reads a file of the example, for the cluster's namespace.
    fn read(&self, file: &str) -> String {
        let path = root().join("examples").join(self.example).join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let namespace = format!("namespace: {}", self.cluster.namespace());
        text.replace("namespace: default", &namespace)
    }

    async fn apply(&self, file: &str) {
        self.cluster.apply(&self.read(file)).await;
    }

    fn start(&self) -> Working {
        let registry = Registry::in_module(self.example).expect("its handlers are in order");
        assert!(!registry.is_empty(), "{} has handlers", self.example);
        let operator = Operator::new(registry).name(self.example);
        let operator = operator.namespaces([self.cluster.namespace()]);
        Working::start(&self.cluster, operator)
    }

    async fn until(
        &self,
        what: &str,
        resource: &str,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let there = |object: Option<&Value>| object.is_some_and(&condition);
        self.cluster.until(what, resource, name, there).await
    }

    async fn until_gone(&self, resource: &str, name: &str) {
        let gone = |object: Option<&Value>| object.is_none();
        self.cluster.until("it is gone", resource, name, gone).await;
    }

    async fn line(&self, text: &str) -> String {
        let lines = self.cluster.lines();
        lines.until(text, |line| line.contains(text)).await
    }

    /// Makes the in-process server create Pods for Deployments and make them ready.
    async fn run_workloads(&self) {
        if let Some(server) = self.cluster.in_process() {
            let fast = Duration::from_millis(100);
            server.workloads(WorkloadOptions::new().ready_after(fast).job_time(fast));
            return;
        }
        self.cluster.start_controllers().await;
    }

    /// Marks this number of Pods as ready on a real server, which has no nodes in tests.
    async fn pods_are_ready(&self, count: usize) {
        if self.cluster.real().is_none() {
            return;
        }
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        loop {
            let mut pods = self.cluster.list("pods").await;
            pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            if pods.len() == count {
                for pod in pods {
                    let name = pod["metadata"]["name"].as_str().expect("a name");
                    let ready = json!({"type": "Ready", "status": "True"});
                    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
                    let status_of = format!("{name}/status");
                    self.cluster.patch("pods", &status_of, &status).await;
                }
                return;
            }
            pulse.tick().await;
        }
    }
}
