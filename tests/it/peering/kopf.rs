//! The same among Kopf operators and this one: each understands the records of the other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::{Package, Program, TestCluster, python_for, scenarios};
use serde_json::json;

use super::{creating, start, until_records, with_peering};
use crate::operating::TestOperator;

scenarios! {
    kopf_with_a_higher_priority_pauses_us_until_it_ends [tcp];
    kopf_with_the_same_priority_pauses_itself [tcp];
    a_higher_priority_of_ours_pauses_kopf [tcp];
    kopf_freezes_and_resumes_us [tcp];
}

const PATIENCE: Duration = Duration::from_secs(60);

/// A command of Kopf's program for the cluster's namespace; nothing where Kopf is not there.
fn kopf(test: &TestOperator, arguments: &[&str]) -> Option<Program> {
    let mut command = Command::new(python_for("peering", Package::Kopf)?);
    command.args(["-m", "kopf"]).args(arguments);
    command.args(["--peering=default", "-n", test.cluster.namespace()]);
    command.env("KUBECONFIG", test.cluster.kubeconfig());
    command.env("PEERING_GROUP", &test.group);
    Some(Program::start(command, PATIENCE))
}

pub(super) fn run_kopf(test: &TestOperator, priority: &str) -> Option<Program> {
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "kopf", "peering.py"].iter().collect();
    let script: &Path = &script;
    let script = script.to_str().expect("a path in Unicode");
    let flags = ["run", "--verbose", "--priority", priority, script];
    kopf(test, &flags)
}

pub(super) async fn said(program: &Program, text: &str) {
    let lines = program.lines();
    lines.until(text, |line| line.contains(text)).await;
}

async fn kopf_with_a_higher_priority_pauses_us_until_it_ends(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    let Some(program) = run_kopf(&test, "100") else {
        return;
    };
    test.line("Pausing operations in favour of [<Peer ").await;
    test.create("two", json!({})).await;
    said(&program, "Kopf has seen two.").await;
    assert_eq!(test.calls.all(), ["c one"]);
    program.signal("TERM").await;
    test.line("Resuming operations after the pause.").await;
    test.calls_until("c two").await;
    working.stop().await;
}

async fn kopf_with_the_same_priority_pauses_itself(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    let Some(program) = run_kopf(&test, "0") else {
        return;
    };
    said(&program, "Possibly conflicting operators with the same priority: [<Peer ").await;
    test.line("Possibly conflicting operators with the same priority: [<Peer ").await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    working.stop().await;
    said(&program, "Resuming operations after the pause").await;
    said(&program, "Kopf has seen one.").await;
    program.signal("TERM").await;
}

async fn a_higher_priority_of_ours_pauses_kopf(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let Some(program) = run_kopf(&test, "0") else {
        return;
    };
    test.create("one", json!({})).await;
    said(&program, "Kopf has seen one.").await;
    let working = start(&test, creating(&test, "c"), |it| it.peering.priority = 10);
    said(&program, "Pausing operations in favour of").await;
    test.create("two", json!({})).await;
    test.calls_until("c two").await;
    let seen = |line: &String| line.contains("Kopf has seen two.");
    assert!(!program.lines().all().iter().any(seen));
    working.stop().await;
    said(&program, "Kopf has seen two.").await;
    program.signal("TERM").await;
}

async fn kopf_freezes_and_resumes_us(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    let freeze = ["freeze", "--verbose", "--id", "me", "--lifetime", "3600", "--priority", "100"];
    let Some(program) = kopf(&test, &freeze) else {
        return;
    };
    said(&program, "Keep-alive in").await;
    test.line("Pausing operations in favour of [<Peer me: priority=100, lifetime=3600").await;
    drop(program);
    test.create("one", json!({})).await;
    let program = kopf(&test, &["resume", "--id", "me"]).expect("Kopf is there");
    test.line("Resuming operations after the pause.").await;
    test.calls_until("c one").await;
    drop(program);
    working.stop().await;
}
