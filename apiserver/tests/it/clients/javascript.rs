//! JavaScript: the official client.
//!
//! Must not know what the program in `tests/clients/javascript` does.

use std::path::Path;
use std::process::Command;

use kopf_rs_apiserver_tests::node_program_for;

use super::beside::same_beside;
use super::client::{Client, pinned};

#[test]
fn the_javascript_client_sees_the_same_on_both_servers() {
    let test = "clients::javascript::the_javascript_client_sees_the_same_on_both_servers";
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/javascript");
    let Some(program) = node_program_for(test, &sources) else {
        return;
    };
    let client = Client {
        test,
        name: "javascript",
        version: pinned("clients/javascript/package.json", "@kubernetes/client-node"),
        files: &["tests/clients/javascript"],
    };
    same_beside(&client, |_| {
        let mut command = Command::new("node");
        command.arg("--no-warnings").arg(&program);
        command
    });
}
