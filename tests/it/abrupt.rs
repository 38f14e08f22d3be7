//! A handler that kills the process over one object: it is found, and everybody else is handled.

use std::os::unix::process::ExitStatusExt as _;

use kopf_rs_tests::{Bed, Program, scenarios};
use serde_json::{Value, json};

use crate::cli::{Folder, PATIENCE, kopf_rs};

scenarios! {
    an_object_that_kills_the_process_is_named_and_then_left_alone_until_it_changes [tcp real];
}

const HANDLER: &str = r#"
use kopf_rs::prelude::*;

#[on_create("configmaps", labels = {"abrupt": PRESENT})]
async fn explode(body: &Value, patch: &mut Patch, logger: Logger) {
    info!(logger, "has the handler's attention");
    if body["data"]["fuse"] == "lit" {
        std::process::abort();
    }
    patch["metadata"]["annotations"]["handled"] = "yes".into();
}
"#;

const SIGABRT: i32 = 6;

async fn an_object_that_kills_the_process_is_named_and_then_left_alone_until_it_changes(bed: Bed) {
    create(&bed, "bomb", "lit").await;
    for crash in 1..=3 {
        let mut program = operator(&bed);
        let signal = program.ended().await.signal();
        program.lines().until_end().await;
        let said = program.lines().all().join("\n");
        assert_eq!(signal, Some(SIGABRT), "crash {crash}:\n{said}");
        let named = "/bomb] Handler 'explode' was being called when the operator ended abruptly";
        assert_eq!(said.contains(named), crash == 3, "crash {crash}:\n{said}");
    }
    let mut program = operator(&bed);
    let told = |line: &str| line.contains("/bomb] Handler 'explode' is not called");
    let told = program.lines().until("of the suspension", told).await;
    assert!(told.contains("ERROR"), "{told}");
    create(&bed, "other", "none").await;
    bed.until("it is handled", "configmaps", "other", is_handled)
        .await;
    let called = |line: &str| line.contains("/bomb] has the handler's attention");
    assert_eq!(program.lines().count(called), 0);
    let out = json!({"data": {"fuse": "out"}});
    bed.patch("configmaps", "bomb", &out).await;
    bed.until("it is handled", "configmaps", "bomb", is_handled)
        .await;
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
}

async fn create(bed: &Bed, name: &str, fuse: &str) {
    bed.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"abrupt": "yes"}},
        "data": {"fuse": fuse},
    }))
    .await;
}

fn is_handled(object: Option<&Value>) -> bool {
    object.is_some_and(|object| object["metadata"]["annotations"]["handled"] == "yes")
}

/// The operator as a process of its own.
fn operator(bed: &Bed) -> Program {
    let folder = Folder::new("abrupt").file("explode.rs", HANDLER);
    let kubeconfig = bed.kubeconfig().display().to_string();
    let file = folder.at("explode.rs");
    let args = ["run", &file, "--kubeconfig", &kubeconfig, "-n"];
    Program::start(kopf_rs(&[&args[..], &[bed.namespace()]].concat()), PATIENCE)
}
