//! `kopf-rs dev`: a running operator is replaced by a successful build only, its objects stay, and everything ends together.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs_tests::{Lines, Program};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::{Folder, PATIENCE, ended, kopf_rs};

/// Returns an operator that logs each `ConfigMap` with this word.
fn code(word: &str) -> String {
    format!(
        "use kopf_rs::prelude::*;\n\n#[on_event(\"configmaps\")]\nasync fn seen(name: &str, logger: Logger) {{\n    \
         info!(logger, \"{word} sees {{name}}\");\n}}\n"
    )
}

fn map(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}}}\n")
}

/// Waits until this many lines contain the text.
async fn until(lines: &Lines, times: usize, text: &str) -> String {
    let has_text = |line: &str| line.contains(text);
    lines.until(text, |line| has_text(line) && lines.count(has_text) >= times).await
}

async fn maps(kubeconfig: &str) -> kube::Api<ConfigMap> {
    let file = Kubeconfig::read_from(kubeconfig).expect("the server writes valid kubeconfigs");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.expect("a complete kubeconfig"));
    kube::Api::namespaced(client.expect("a client"), "default")
}

#[tokio::test]
async fn a_change_that_compiles_replaces_the_operator_and_the_objects_stay() {
    let folder = Folder::new("dev");
    let (file, manifest) = (folder.path().join("dev-op.rs"), folder.path().join("map.yaml"));
    let save = |path: &Path, text: &str| fs::write(path, text).expect("files can be written");
    save(&file, &code("one"));
    save(&manifest, &map("first"));
    let (file_arg, manifest_arg) = (folder.at("dev-op.rs"), folder.at("map.yaml"));
    let args = ["dev", "--offline", &file_arg, "--apply", &manifest_arg];
    let mut program = Program::start(kopf_rs(&args), PATIENCE);
    let lines = program.lines().clone();
    let kubeconfig = until(&lines, 1, "export KUBECONFIG=").await;
    let kubeconfig = kubeconfig.split_once('=').map(|(_, path)| path.to_owned()).expect("NAME=VALUE");
    until(&lines, 1, "one sees first").await;
    let maps = maps(&kubeconfig).await;
    let first = maps.get("first").await.expect("it is applied");

    save(&file, &code("two"));
    until(&lines, 1, "two sees first").await;
    let unchanged = maps.get("first").await.expect("it stays");
    assert_eq!(unchanged.metadata.uid, first.metadata.uid);

    save(&file, &code("broken").replace("name: &str", "name: &u8str"));
    until(&lines, 1, "keeps running until a change compiles").await;
    save(&manifest, &map("second"));
    // The sources still do not compile, so the running operator does not apply the file.
    until(&lines, 2, "keeps running until a change compiles").await;
    maps.delete("first", &kube::api::DeleteParams::default()).await.expect("it can be deleted");
    until(&lines, 2, "two sees first").await;

    save(&file, &code("three"));
    until(&lines, 1, "three sees second").await;
    assert!(maps.get("first").await.is_err(), "a file is applied again only when it was saved");
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
    assert!(!Path::new(&kubeconfig).exists(), "{kubeconfig} is left behind");
    let said = lines.all().join("\n");
    assert!(said.contains("dev-op.rs:4:"), "the compiler names the place: {said}");
    assert_eq!(said.matches("Starting the operator.").count(), 3, "{said}");
}

#[tokio::test]
async fn wrong_flags_and_an_occupied_port_are_named_with_a_remedy() {
    let folder = Folder::new("dev-wrong").file("op.rs", "");
    let (absent, op) = (folder.at("absent.rs"), folder.at("op.rs"));
    for (args, texts) in [
        (&["dev", &absent][..], ["absent.rs does not exist", "expected the folder of a crate"]),
        (&["dev", &op, "--once"], ["--once ends the operator", "kopf-rs run PATH --once"]),
        (&["dev", &op, "--apply", "-"], ["--apply -: standard input", "name a file or a folder"]),
    ] {
        ended(kopf_rs(args)).await.with(2, &texts);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = taken.local_addr().expect("it has an address").port();
    let in_use = format!("the port {port} of --embedded cannot be used: Address already in use");
    let occupied = ended(kopf_rs(&["dev", &op, &format!("--embedded={port}")])).await;
    occupied.with(1, &[&in_use, "choose another one by --embedded=PORT"]);
}
