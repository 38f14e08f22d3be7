//! `kopf-rs apiserver`: the program that it becomes, and the flags that it takes. `apiserver/` tests that program.

use std::fs;
use std::process::Command;

use kopf_rs_tests::{Program, kopf_rs_binary};

use super::{Folder, PATIENCE, ended, kopf_rs};

/// Returns the flags in a help text.
fn flags(said: &str) -> Vec<String> {
    let words = said.split_whitespace().filter(|word| word.starts_with("--"));
    let mut flags: Vec<String> = words.map(str::to_owned).collect();
    flags.retain(|flag| !flag.contains("version"));
    flags.sort();
    flags.dedup();
    flags
}

#[tokio::test]
async fn it_becomes_the_server_whose_flags_it_takes() {
    let mut program = Program::start(kopf_rs(&["apiserver"]), PATIENCE);
    let lines = program.lines().with_patience(PATIENCE);
    let is_ready = |line: &str| line.contains("export KUBECONFIG=");
    lines.until("the line for kubectl", is_ready).await;
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
    // Built beside it just now.
    let mut server = Command::new(kopf_rs_binary().with_file_name("kopf-rs-apiserver"));
    server.arg("--help");
    let own = ended(server).await;
    let checked = ended(kopf_rs(&["apiserver", "--help"])).await;
    own.with(0, &["--data-dir <DIR>"]);
    checked.with(0, &["--data-dir <DIR>"]);
    assert_eq!(flags(&own.said), flags(&checked.said));
}

#[tokio::test]
async fn wrong_flags_are_refused_before_anything_is_built() {
    for wrong in [&["apiserver", "--port", "high"][..], &["apiserver", "--prot", "1"], &["apiserver", "x"]] {
        ended(kopf_rs(wrong)).await.with(2, &["error: "]);
    }
}

/// A copied program with a copied server in the same folder.
#[tokio::test]
async fn the_server_beside_an_installed_program_needs_no_build() {
    use std::os::unix::fs::PermissionsExt as _;
    let version = env!("CARGO_PKG_VERSION");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo kopf-rs-apiserver {version} || echo \"beside: $*\"\n"
    );
    let folder = Folder::new("beside").file("kopf-rs-apiserver", &script);
    let beside = folder.path().join("kopf-rs-apiserver");
    fs::set_permissions(beside, fs::Permissions::from_mode(0o755)).expect("files can be written");
    let this = folder.path().join("kopf-rs");
    fs::copy(kopf_rs_binary(), &this).expect("files can be written");
    let mut command = Command::new(this);
    command.args(["apiserver", "--port", "0"]);
    ended(command).await.with(0, &["beside: --port 0"]);
}
