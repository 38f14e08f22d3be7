//! Java: the fabric8 client.
//!
//! Must not know what the program in `tests/clients/java` does.

use std::path::Path;
use std::process::Command;

use kopf_rs_apiserver_tests::java_program_for;

use super::beside::same_beside;
use super::client::{Client, pinned};

#[test]
fn the_java_client_sees_the_same_on_both_servers() {
    let test = "clients::java::the_java_client_sees_the_same_on_both_servers";
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/java");
    let Some(words) = java_program_for(test, &sources) else {
        return;
    };
    let client = Client {
        test,
        name: "java",
        version: format!("fabric8 {}", pinned("clients/java/pom.xml", "<version>7")),
        files: &["tests/clients/java"],
    };
    same_beside(&client, |_| {
        let mut command = Command::new("java");
        command.arg("-Djava.util.logging.config.file=/dev/null");
        command.args(&words);
        command
    });
}
