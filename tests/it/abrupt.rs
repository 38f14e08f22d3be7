//! A handler that kills the process over one object: the operator identifies the handler and handles all other objects.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use kopf_rs_tests::{Program, TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cli::{self, PATIENCE};

scenarios! {
    an_object_that_kills_the_process_is_named_and_then_left_alone_until_it_changes [tcp];
    who_kills_the_process_is_found_among_those_who_were_called_at_the_same_time [tcp];
    a_deletion_that_kills_the_process_reports_its_obstacle [tcp];
    a_handler_that_no_deletion_waits_for_is_in_nobodys_way [tcp];
    a_process_killed_after_a_stop_signal_makes_no_suspects [tcp];
    a_second_signal_makes_no_suspects_even_if_the_operators_thread_is_blocked [tcp];
    an_object_whose_filter_ends_the_process_is_left_alone_until_it_changes [tcp];
    an_object_whose_patch_function_ends_the_process_is_suspended_and_its_deletion_reported [tcp];
    a_handler_of_an_object_that_is_deleted_is_accused_no_more [tcp];
}

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

async fn an_object_that_kills_the_process_is_named_and_then_left_alone_until_it_changes(
    cluster: TestCluster,
) {
    create(&cluster, "bomb", json!({"fuse": "lit"})).await;
    for crash in 1..=3 {
        let said = killed(&cluster, crash).await;
        let named = "/bomb] Handler 'explode' was being called when the operator ended abruptly";
        assert_eq!(said.contains(named), crash == 3, "crash {crash}:\n{said}");
    }
    let mut program = operator(&cluster, &["--once"]);
    assert_eq!(program.ended().await.code(), Some(1));
    let given_up = "Not handled: Handler 'explode' is suspended for ";
    let given_up = |line: &str| line.contains(given_up) && line.ends_with("/bomb");
    program.lines().until("of what is left", given_up).await;
    // A clean exit does not lift the suspension.
    let mut program = operator(&cluster, &[]);
    let told = program.lines().until("of the suspension", is_suspended("bomb"));
    assert!(told.await.contains("ERROR"));
    create(&cluster, "other", json!({})).await;
    until_handled(&cluster, "other").await;
    assert_eq!(program.lines().count(is_called("bomb")), 0);
    let out = json!({"data": {"fuse": "out"}});
    cluster.patch("configmaps", "bomb", &out).await;
    until_handled(&cluster, "bomb").await;
    end(&mut program).await;
}

async fn who_kills_the_process_is_found_among_those_who_were_called_at_the_same_time(cluster: TestCluster) {
    const OTHERS: usize = 5;
    for number in 0..OTHERS {
        create(&cluster, &format!("good-{number}"), json!({"fuse": "slow"})).await;
    }
    create(&cluster, "bomb", json!({"fuse": "slow", "then": "lit"})).await;
    for crash in 1..=3 {
        let said = killed(&cluster, crash).await;
        let many = ", and so were 5 other calls. The operator makes these calls one at a time";
        assert_eq!(said.contains(many), crash == 3, "crash {crash}:\n{said}");
    }
    let mut program = operator(&cluster, &[]);
    let told = program.lines().until("of the suspension", is_suspended("bomb"));
    told.await;
    for number in 0..OTHERS {
        until_handled(&cluster, &format!("good-{number}")).await;
    }
    let innocent = |line: &str| line.contains("/good-") && line.contains(" is suspended for");
    assert_eq!(program.lines().count(innocent), 0);
    assert_eq!(program.lines().count(is_called("bomb")), 0);
    end(&mut program).await;
}

async fn a_deletion_that_kills_the_process_reports_its_obstacle(cluster: TestCluster) {
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bomb", "labels": {"kept": "yes"}},
        }))
        .await;
    let mut program = operator(&cluster, &[]);
    let guarded = |object: Option<&Value>| finalizer(object).is_some();
    let object = cluster.until("it is held", "configmaps", "bomb", guarded).await;
    let finalizer = finalizer(Some(&object)).unwrap_or_default();
    end(&mut program).await;
    cluster.delete("configmaps", "bomb").await;
    for crash in 1..=3 {
        killed(&cluster, crash).await;
    }
    let mut program = operator(&cluster, &[]);
    let told = |line: &str| line.contains("/bomb] Handler 'keep' is suspended");
    let told = program.lines().until("of the suspension", told).await;
    let way = format!(
        "The deletion of the object waits for this handler. To delete the object without it, remove the finalizer '{finalizer}'"
    );
    assert!(told.contains(&way), "{told}");
    let_go(&cluster, "bomb").await;
    end(&mut program).await;
}

/// Removes all finalizers of an object that is being deleted.
async fn let_go(cluster: &TestCluster, name: &str) {
    let free = json!({"metadata": {"finalizers": null}});
    cluster.patch("configmaps", name, &free).await;
    let gone = |object: Option<&Value>| object.is_none();
    cluster.until("it is gone", "configmaps", name, gone).await;
}

async fn a_handler_that_no_deletion_waits_for_is_in_nobodys_way(cluster: TestCluster) {
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bomb", "labels": {"held": "yes"}},
            "data": {"deletion": "watched"},
        }))
        .await;
    let mut program = operator(&cluster, &[]);
    let is_held = |object: Option<&Value>| finalizer(object).is_some();
    cluster.until("it is held", "configmaps", "bomb", is_held).await;
    end(&mut program).await;
    cluster.delete("configmaps", "bomb").await;
    for crash in 1..=3 {
        killed(&cluster, crash).await;
    }
    let mut program = operator(&cluster, &[]);
    let told = |line: &str| line.contains("/bomb] Handler 'watch' is suspended");
    let told = program.lines().until("of the suspension", told).await;
    assert!(!told.contains("finalizer"), "{told}");
    let gone = |object: Option<&Value>| object.is_none();
    cluster.until("it is gone", "configmaps", "bomb", gone).await;
    end(&mut program).await;
}

async fn a_process_killed_after_a_stop_signal_makes_no_suspects(cluster: TestCluster) {
    create(&cluster, "patient", json!({"fuse": "hangs"})).await;
    for end in ["KILL", "TERM", "TERM"] {
        let mut program = operator(&cluster, &["--verbose"]);
        let lines = program.lines().clone();
        lines.until("of the call", is_called("patient")).await;
        if end == "TERM" {
            program.signal("TERM").await;
            let stopping = |line: &str| line.contains("The request to stop the operator is noted");
            lines.until("that it stops", stopping).await;
        }
        program.signal("KILL").await;
        assert_eq!(program.ended().await.signal(), Some(SIGKILL));
    }
    let mut program = operator(&cluster, &[]);
    let lines = program.lines().clone();
    lines.until("of the call", is_called("patient")).await;
    let accused = |line: &str| line.contains("when the operator ended abruptly");
    assert_eq!(lines.count(accused), 0);
    end(&mut program).await;
}

async fn a_second_signal_makes_no_suspects_even_if_the_operators_thread_is_blocked(cluster: TestCluster) {
    create(&cluster, "patient", json!({"filter": "parks"})).await;
    let taken = |line: &str| line.contains("the operator's own thread is taken");
    for end in ["KILL", "TERM"] {
        let mut program = operator(&cluster, &[]);
        let lines = program.lines().clone();
        lines.until("that it is blocked", taken).await;
        program.signal(end).await;
        if end == "TERM" {
            let stopping = |line: &str| line.contains("Signal SIGTERM is received.");
            lines.until("that it stops", stopping).await;
        }
        // The operator takes signals that soon follow the first one for repetitions, so signal again until it exits.
        let ended = loop {
            if let Ok(ended) = timeout(Duration::from_secs(1), program.ended()).await {
                break ended;
            }
            program.signal(end).await;
        };
        assert!(!ended.success(), "{end}: {ended}");
    }
    let mut program = operator(&cluster, &[]);
    let lines = program.lines().clone();
    lines.until("that it is blocked", taken).await;
    let accused = |line: &str| line.contains("When the operator ended abruptly");
    assert_eq!(lines.count(accused), 0, "{}", lines.all().join("\n"));
    program.signal("KILL").await;
    program.ended().await;
}

async fn an_object_whose_filter_ends_the_process_is_left_alone_until_it_changes(cluster: TestCluster) {
    create(&cluster, "bomb", json!({"filter": "lit"})).await;
    create(&cluster, "second", json!({"filter": "lit"})).await;
    // The operator identifies each of the two objects separately.
    for crash in 1..=4 {
        let said = killed(&cluster, crash).await;
        let named = "it was running the filters of 'picky'";
        assert_eq!(said.contains(named), crash > 2, "crash {crash}:\n{said}");
    }
    killed(&cluster, 5).await;
    let mut program = operator(&cluster, &["--once"]);
    assert_eq!(program.ended().await.code(), Some(1));
    let given_up = |line: &str| {
        line.contains("Not handled: Functions on the operator's own thread are suspended for ")
            && line.ends_with("/bomb")
    };
    program.lines().until("of what is left", given_up).await;
    let mut program = operator(&cluster, &[]);
    let lines = program.lines().clone();
    for name in ["bomb", "second"] {
        let told = lines.until("of what is left alone", is_left_alone(name));
        let told = told.await;
        assert!(told.contains("ERROR") && told.contains("'picky'"), "{told}");
    }
    let current = |line: &str| line.contains("WARNING") && line.contains("ended abruptly");
    assert_eq!(lines.count(current), 0);
    create(&cluster, "other", json!({})).await;
    until_handled(&cluster, "other").await;
    let out = json!({"data": {"filter": "out"}});
    cluster.patch("configmaps", "bomb", &out).await;
    until_handled(&cluster, "bomb").await;
    cluster.delete("configmaps", "second").await;
    create(&cluster, "last", json!({})).await;
    until_handled(&cluster, "last").await;
    end(&mut program).await;
    let said = until_idle(&cluster, "idle").await;
    assert!(!said.contains("abruptly"), "{said}");
}

async fn an_object_whose_patch_function_ends_the_process_is_suspended_and_its_deletion_reported(
    cluster: TestCluster,
) {
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bomb", "labels": {"abrupt": "yes", "held": "yes"}},
            "data": {"then": "transform"},
        }))
        .await;
    for name in ["good-0", "good-1"] {
        create(&cluster, name, json!({"fuse": "slow"})).await;
    }
    for crash in 1..=3 {
        let said = killed(&cluster, crash).await;
        let named =
            "/bomb] When the operator ended abruptly, it was running the patch functions of 'explode'";
        assert_eq!(said.contains(named), crash == 3, "crash {crash}:\n{said}");
    }
    let mut program = operator(&cluster, &[]);
    let lines = program.lines().clone();
    let told = lines.until("of what is left alone", is_left_alone("bomb"));
    let told = told.await;
    assert!(!told.contains("finalizer"), "{told}");
    for name in ["good-0", "good-1"] {
        until_handled(&cluster, name).await;
    }
    assert_eq!(lines.count(is_called("bomb")), 0);
    cluster.delete("configmaps", "bomb").await;
    let way = |line: &str| is_left_alone("bomb")(line) && line.contains("the finalizer '");
    lines.until("what is in the way", way).await;
    let_go(&cluster, "bomb").await;
    end(&mut program).await;
}

async fn a_handler_of_an_object_that_is_deleted_is_accused_no_more(cluster: TestCluster) {
    create(&cluster, "bomb", json!({"fuse": "lit"})).await;
    for crash in 1..=3 {
        killed(&cluster, crash).await;
    }
    let mut program = operator(&cluster, &[]);
    let lines = program.lines().clone();
    lines.until("of the suspension", is_suspended("bomb")).await;
    end(&mut program).await;
    cluster.delete("configmaps", "bomb").await;
    let known = "INFO ";
    let said = until_idle(&cluster, "first").await;
    let told: Vec<&str> = said.lines().filter(|it| it.contains("/bomb]")).collect();
    let is_known = |it: &&str| it.contains(known) && it.contains(" since 20");
    assert!(told.len() == 1 && told.iter().all(is_known), "{said}");
    let said = until_idle(&cluster, "second").await;
    assert!(!said.contains("/bomb]"), "{said}");
}

/// Runs an operator until it has listed all objects and handled two, stops it, and returns its output.
async fn until_idle(cluster: &TestCluster, name: &str) -> String {
    let mut program = operator(cluster, &[]);
    for number in 0..2 {
        let name = format!("{name}-{number}");
        create(cluster, &name, json!({})).await;
        until_handled(cluster, &name).await;
    }
    end(&mut program).await;
    program.lines().all().join("\n")
}

// === objects ===

async fn create(cluster: &TestCluster, name: &str, data: Value) {
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"abrupt": "yes"}},
            "data": data,
        }))
        .await;
}

async fn until_handled(cluster: &TestCluster, name: &str) {
    let is_handled = |object: Option<&Value>| {
        object.is_some_and(|object| object["metadata"]["annotations"]["handled"] == "yes")
    };
    cluster.until("it is handled", "configmaps", name, is_handled).await;
}

fn finalizer(object: Option<&Value>) -> Option<String> {
    Some(object?["metadata"]["finalizers"][0].as_str()?.to_owned())
}

// === the operator ===

/// Returns the operator as a separate process.
fn operator(cluster: &TestCluster, flags: &[&str]) -> Program {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let args = ["--kubeconfig", &kubeconfig, "-n", cluster.namespace()];
    let command = cli::operator("explode", &[&args[..], flags].concat());
    Program::start(command, PATIENCE)
}

/// Waits until a handler kills the operator, and returns its output.
async fn killed(cluster: &TestCluster, crash: u32) -> String {
    let mut program = operator(cluster, &[]);
    let signal = program.ended().await.signal();
    let said = program.lines().all().join("\n");
    assert_eq!(signal, Some(SIGABRT), "crash {crash}:\n{said}");
    said
}

async fn end(program: &mut Program) {
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
}

fn is_suspended(name: &str) -> impl Fn(&str) -> bool {
    let text = format!("/{name}] Handler 'explode' is suspended for this object");
    move |line| line.contains(&text)
}

fn is_left_alone(name: &str) -> impl Fn(&str) -> bool {
    let text = format!("/{name}] The object is skipped");
    move |line| line.contains(&text)
}

fn is_called(name: &str) -> impl Fn(&str) -> bool {
    let text = format!("/{name}] has the handler's attention");
    move |line| line.contains(&text)
}
