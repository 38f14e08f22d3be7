//! `kopf-rs freeze` and `kopf-rs resume`: the program that they become, beside our operators and Kopf's.

use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::{TestCluster, built_program, scenarios};
use serde_json::{Value, json};

use super::kopf::{run_kopf, said};
use super::{creating, records, start, until, until_records, with_peering};
use crate::cli::{Ended, ended};
use crate::operating::TestOperator;

scenarios! {
    a_request_to_pause_holds_until_it_is_taken_back_by_its_name [tcp];
    a_request_to_pause_ends_with_its_lifetime [tcp];
    operators_for_the_whole_cluster_are_asked_in_their_own_peering [tcp];
    those_of_the_same_priority_pause_and_those_above_do_not [tcp];
    namespaces_are_chosen_by_patterns [tcp];
    no_operator_is_asked_without_a_peering [tcp];
    a_refusal_is_reported [tcp];
    kopf_is_frozen_and_resumed [tcp];
}

/// `freeze` or `resume`, on the server of the test, with the words of `line`; `%` is the namespace of the test.
async fn asked(test: &TestOperator, line: &str) -> Ended {
    asked_by("pause", test, line).await
}

/// The same by another program.
async fn asked_by(program: &str, test: &TestOperator, line: &str) -> Ended {
    let mut command = Command::new(built_program(program));
    let line = line.replace('%', test.cluster.namespace());
    command.args(line.split(' '));
    command.args(["--kubeconfig"]).arg(test.cluster.kubeconfig());
    ended(command).await
}

async fn a_request_to_pause_holds_until_it_is_taken_back_by_its_name(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    let told = asked(&test, "freeze -P default -n % -t 1h -i me -m moving").await;
    told.with(0, &["in the peering 'default' of the namespace", "pause for 3600 seconds, by 'me'"]);
    let line = test.line("Pausing operations in favour of [<Peer me: priority=100, lifetime=3600").await;
    assert!(line.contains("message=\"moving\""), "{line}");
    test.create("one", json!({})).await;
    let other = asked(&test, "resume -P default -n % -i other").await;
    other.with(0, &["'other' has not asked operators", "There are records of: ", "me"]);
    let object = until_records(&test, 2).await;
    assert!(records(&object).keys().any(|it| *it == "me"), "{object}");
    assert_eq!(test.calls.all(), [""; 0]);
    asked(&test, "resume -P default -n % -i me")
        .await
        .with(0, &["may resume, as far as they paused for 'me'"]);
    test.line("Resuming operations after the pause.").await;
    test.calls_until("c one").await;
    working.stop().await;
}

async fn a_request_to_pause_ends_with_its_lifetime(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    // Programs of operators have the command, too.
    asked_by("obey", &test, "freeze -P default -n % -t 3 -i me").await.with(0, &[]);
    test.line("Pausing operations in favour of [<Peer me: ").await;
    test.create("one", json!({})).await;
    test.line("Resuming operations after the pause.").await;
    test.calls_until("c one").await;
    let is_cleaned = |object: &Value| !records(object).keys().any(|it| *it == "me");
    until(&test, "the dead record is taken away", is_cleaned).await;
    working.stop().await;
}

async fn operators_for_the_whole_cluster_are_asked_in_their_own_peering(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let name = format!("of-{}", test.cluster.namespace());
    let peering =
        json!({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": name}});
    test.cluster.create(&peering).await;
    let operator = creating(&test, "c").all_namespaces();
    let working = start(&test, operator, |it| it.peering.name.clone_from(&name));
    test.line(&format!("Keep-alive in '{name}' cluster-wide: ok.")).await;
    let told = asked(&test, &format!("freeze -A -P {name} -t 3600 --dev -i me")).await;
    told.with(0, &["of the whole cluster with a priority up to 666"]);
    test.line("Pausing operations in favour of [<Peer me: priority=666").await;
    test.create("one", json!({})).await;
    assert_eq!(test.calls.all(), [""; 0]);
    asked(&test, &format!("resume -P {name} -i me")).await.with(0, &[]);
    test.calls_until("c one").await;
    working.stop().await;
}

async fn those_of_the_same_priority_pause_and_those_above_do_not(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |it| it.peering.priority = 7);
    until_records(&test, 1).await;
    asked(&test, "freeze -P default -n % -t 3600 -p 6 -i low").await.with(0, &[]);
    until_records(&test, 2).await;
    test.create("one", json!({})).await;
    test.calls_until("c one").await;
    asked(&test, "freeze -P default -n % -t 3600 -p 7 -i same").await.with(0, &[]);
    test.line("Pausing operations in favour of [<Peer same: priority=7").await;
    working.stop().await;
}

async fn namespaces_are_chosen_by_patterns(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let working = start(&test, creating(&test, "c"), |_| {});
    until_records(&test, 1).await;
    let told = asked(&test, "freeze -P default -n %* -t 3600 -i me").await;
    told.with(0, &["of the namespace '"]);
    test.line("Pausing operations in favour of [<Peer me: ").await;
    let none = asked(&test, "resume -P default -n no-such-* -i me").await;
    none.with(1, &["there is no object `default`", "in a namespace that matches"]);
    let absent = asked(&test, "resume -P default -n % -n absent -i me").await;
    absent.with(1, &["may resume, as far as they paused for", "in absent: no operator was asked there"]);
    test.line("Resuming operations after the pause.").await;
    working.stop().await;
}

async fn no_operator_is_asked_without_a_peering(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let told = asked(&test, "freeze -P default -n % -t 6").await;
    told.with(1, &["serves no kind `kopfpeerings` of the group `kopf.dev`"]);
    let wrong = asked(&test, "freeze -P default -n Prod -t 6").await;
    wrong.with(2, &["namespace pattern `Prod`"]);
    asked(&test, "freeze -P default -n %").await.with(2, &["--lifetime"]);
}

async fn a_refusal_is_reported(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let fault =
        kopf_rs_apiserver::Fault::answer(403).on(kopf_rs_apiserver::Verb::Patch).plural(super::PEERINGS);
    let _refusing = server.fault(fault);
    let told = asked(&test, "freeze -P default -n % -t 6").await;
    told.with(1, &["error: ", "forbidden"]);
}

async fn kopf_is_frozen_and_resumed(cluster: TestCluster) {
    let test = with_peering(cluster).await;
    let Some(program) = run_kopf(&test, "0") else {
        return;
    };
    test.create("one", json!({})).await;
    said(&program, "Kopf has seen one.").await;
    asked(&test, "freeze -P default -n % -t 3600 -i me -m moving").await.with(0, &[]);
    said(&program, "Pausing operations in favour of [<Peer me: priority=100").await;
    test.create("two", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = |line: &String| line.contains("Kopf has seen two.");
    assert!(!program.lines().all().iter().any(seen));
    asked(&test, "resume -P default -n % -i me").await.with(0, &[]);
    said(&program, "Kopf has seen two.").await;
    program.signal("TERM").await;
}
