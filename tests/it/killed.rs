//! An operator that is killed again and again in the middle of a retry: the attempts continue, and none is skipped.

use std::time::Duration;

use kopf_rs_tests::{Program, TestCluster, scenarios};
use serde_json::{Value, json};

use crate::cli::{self, PATIENCE};

scenarios! {
    attempts_continue_after_a_kill [tcp];
}

const KILLS: u64 = 20;

async fn attempts_continue_after_a_kill(cluster: TestCluster) {
    let mut lasting = Vec::new();
    for round in 0..KILLS {
        let name = format!("victim-{round}");
        cluster
            .create(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {"killed": "yes"}},
            }))
            .await;
        let mut attempts = Vec::new();
        let mut first = operator(&cluster).await;
        // Not a wait for a condition: the kill must hit arbitrary moments, before, in, between and after attempts.
        tokio::time::sleep(Duration::from_millis(random(round) % 900)).await;
        first.signal("KILL").await;
        first.ended().await;
        attempts.extend(attempts_of(&first, &name));
        let mut second = operator(&cluster).await;
        let done = |object: Option<&Value>| is_done(object.expect("nobody deletes it"));
        let object = cluster.until("the last attempt", "configmaps", &name, done).await;
        second.signal("TERM").await;
        assert_eq!(second.ended().await.code(), Some(0));
        attempts.extend(attempts_of(&second, &name));
        assert_none_is_skipped(&attempts, round);
        lasting.push(annotations(&object));
    }
    assert!(lasting.windows(2).all(|pair| pair[0] == pair[1]), "{lasting:#?}");
}

/// Starts the operator as a separate process, and waits until it watches.
async fn operator(cluster: &TestCluster) -> Program {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let args = ["--kubeconfig", &kubeconfig, "-n", cluster.namespace(), "--verbose"];
    let program = Program::start(cli::operator("lucky", &args), PATIENCE);
    let watching = |line: &str| line.contains("Starting the watch-stream for configmaps");
    program.lines().until("that it watches", watching).await;
    program
}

fn attempts_of(program: &Program, name: &str) -> Vec<u32> {
    let about = format!("/{name}] attempt ");
    let lines = program.lines().all();
    let numbers = lines.iter().filter_map(|line| line.split_once(about.as_str())?.1.trim().parse().ok());
    numbers.collect()
}

/// Asserts that an attempt without a stored result is repeated under the same number.
#[track_caller]
fn assert_none_is_skipped(attempts: &[u32], round: u64) {
    let steps_ahead = attempts.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1);
    let whole = attempts.first() == Some(&0) && attempts.last() == Some(&2);
    assert!(steps_ahead && whole, "round {round}: attempts {attempts:?}");
    assert!(attempts.len() <= 4, "round {round}: more than the one in flight ran twice: {attempts:?}");
}

/// Returns whether the object is handled: no progress is left, and the state handled last contains the result of the last attempt.
fn is_done(object: &Value) -> bool {
    let annotations = object["metadata"]["annotations"].as_object();
    let handled = |(key, value): (&String, &Value)| {
        key.ends_with("/last-handled-configuration")
            && value.as_str().is_some_and(|text| text.contains("attempts"))
    };
    annotations.is_some_and(|all| {
        all.iter().any(handled) && !all.keys().any(|key| key.ends_with("/third_time_lucky"))
    })
}

fn annotations(object: &Value) -> Value {
    object["metadata"]["annotations"].clone()
}

/// Returns the same moments in every run: a multiplicative hash of the round.
fn random(round: u64) -> u64 {
    (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}
