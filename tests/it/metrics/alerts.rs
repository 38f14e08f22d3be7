//! The alerts in the repository, evaluated by promtool over generated metrics for each of them.
//!
//! Each alert has a case in which it fires and no other alert does. This module must not depend on operators.

use std::process::Command;

use kopf_rs_tests::{Tool, ToolError, documents, skipped, tool};
use serde_json::Value;

use crate::cli::root;

/// The input of promtool.
const CASES: &str = "tests/prometheus/alerts.yaml";

fn document(path: &str) -> Value {
    let text = std::fs::read_to_string(root().join(path));
    let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
    let [document]: [Value; 1] = documents(&text).try_into().expect("one document");
    document
}

#[test]
fn each_alert_has_a_case() {
    let rules = document("deploy/prometheus/alerts.yaml");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules").clone();
    let cases = document(CASES)["tests"].to_string();
    for rule in &rules {
        let alert = rule["alert"].as_str().expect("a name");
        let fires = format!(r#"{{alertname=\"{alert}\"}}"#);
        assert!(cases.contains(&fires), "{CASES} has no case in which {alert} fires");
    }
}

#[test]
fn exactly_the_intended_alert_fires() {
    let promtool = match tool(Tool::Promtool) {
        Ok(promtool) => promtool,
        Err(ToolError::Missing(missing)) => {
            skipped("metrics::alerts::exactly_the_intended_alert_fires", &missing);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut command = Command::new(promtool);
    command.args(["test", "rules", CASES]).current_dir(root());
    let output = command.output().expect("promtool starts");
    let (said, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complaints}");
}
