//! Go: client-go over protobuf, and a program with controller-runtime.
//!
//! Must not know what the programs in `tests/clients/go` do.

use std::path::Path;
use std::process::Command;

use kopf_rs_apiserver_tests::{ToolError, go_program, skipped};

use super::beside::same_beside;
use super::client::{Client, pinned};

#[test]
fn client_go_sees_the_same_on_both_servers() {
    compare(
        "client_go_sees_the_same_on_both_servers",
        "typed",
        "k8s.io/client-go ",
    );
}

#[test]
fn controller_runtime_does_the_same_on_both_servers() {
    compare(
        "controller_runtime_does_the_same_on_both_servers",
        "controller",
        "controller-runtime ",
    );
}

fn compare(test: &str, package: &str, library: &str) {
    let test = format!("clients::go::{test}");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go");
    let program = match go_program(&sources, package) {
        Ok(program) => program,
        Err(ToolError::Missing(missing)) => return skipped(&test, &missing),
        Err(error) => panic!("{error}"),
    };
    let client = Client {
        test: &test,
        name: &format!("go/{package}"),
        version: pinned("clients/go/go.mod", library),
        files: &["tests/clients/go"],
    };
    same_beside(&client, |_| Command::new(&program));
}
