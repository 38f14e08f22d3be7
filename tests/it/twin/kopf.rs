//! Kopf's side: runs `tests/twin/operator.py` under `kopf run` and reads the calls from its output.

use std::process::Command;

use kopf_rs_tests::{Package, Program, Server, python_of};
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::side::Place;
use crate::operating::TestOperator;

pub(super) struct Python(Program);

const MARK: &str = "TWIN ";

impl Python {
    pub(super) fn start(test: &TestOperator, scenario: &Scenario, place: &Place) -> Self {
        let python = python_of(Package::Kopf).unwrap_or_else(|error| panic!("{error}"));
        let plan = json!({
            "group": test.group, "lifecycle": scenario.lifecycle, "posting": scenario.posting, "handlers": scenario.handlers,
        });
        let mut command = Command::new(python);
        command.args(["-m", "kopf", "run", "--standalone", "-n"]).arg(test.cluster.namespace());
        if scenario.probes() {
            command.arg(format!("--liveness={}", place.liveness()));
        }
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/twin/operator.py"))
            .env("KUBECONFIG", test.cluster.kubeconfig())
            .env("TWIN_PLAN", plan.to_string())
            .env("TWIN_SERVER", place.server.to_string())
            .env("TWIN_GATES", &place.gates)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Self(Program::start(command, Server::Real.patience()))
    }

    /// Waits until it exits by itself, and returns the exit code.
    pub(super) async fn failed(&mut self) -> i32 {
        let status = self.0.ended().await;
        self.0.lines().until_end().await;
        status.code().unwrap_or_default()
    }

    pub(super) async fn end(&mut self, signal: &str) {
        self.0.signal(signal).await;
        self.0.ended().await;
        self.0.lines().until_end().await;
    }

    pub(super) fn calls(&self) -> Vec<Value> {
        let lines = self.0.lines().all();
        let calls = lines.iter().filter_map(|line| line.strip_prefix(MARK));
        calls
            .map(|call| serde_json::from_str(call).unwrap_or_else(|error| panic!("{error} in {call}")))
            .collect()
    }

    pub(super) async fn until_calls(&self, count: usize) {
        let numbered = format!("{MARK}{{\"number\": {count},");
        if count > 0 {
            let reached = |line: &str| line.starts_with(&numbered);
            self.0.lines().until(&format!("{count} calls"), reached).await;
        }
    }
}
