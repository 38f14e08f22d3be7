//! The image of a new operator, without a container engine: its Dockerfile's command builds a program that needs nothing else.

use std::env::consts::ARCH;
use std::fs;
use std::process::Command;

use kopf_rs_tests::{Missing, TestCluster, scenarios, skipped};

use super::new::{created, shelled};
use crate::readme::Away;

scenarios! {
    its_program_works_in_an_empty_root_file_system [tcp];
}

/// Prepares what Alpine has: a static standard library, and a C compiler for it. Only root may change the root file system of a process.
const PREPARE: &str = r#"
[ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ]
rustup target add "$TARGET"
command -v musl-gcc || { [ "${CI-}" = true ] && apt-get update -qq && apt-get install -y -qq musl-tools; }"#;

async fn its_program_works_in_an_empty_root_file_system(cluster: TestCluster) {
    let target = format!("{ARCH}-unknown-linux-musl");
    let prepared =
        Command::new("sh").args(["-ec", PREPARE]).env("TARGET", &target).output().expect("sh starts");
    if !prepared.status.success() {
        let detail = String::from_utf8_lossy(&prepared.stderr).trim().to_owned();
        let what = format!("root's rights, {target} of rustup, or musl-gcc");
        return skipped("cli::image", &Missing { what, detail });
    }
    let folder = Away::new("image");
    folder.profile();
    created(&folder, &["packed"]).await;
    let dockerfile = fs::read_to_string(folder.0.join("packed/Dockerfile")).expect("it has a Dockerfile");
    let build = dockerfile.lines().find_map(|line| line.strip_prefix("RUN ")).expect("a command builds it");
    let user = dockerfile.lines().find_map(|line| line.strip_prefix("USER ")).expect("it has a user");
    // With the profile of the tests: an optimised program proves no more. `--locked` needs the lock file of a first build.
    let build = build.replace("--release --locked", &format!("--target {target}"));
    assert!(build.contains("--target"), "{dockerfile}");
    let root = folder.0.join("root");
    fs::create_dir_all(&root).expect("folders can be made");
    fs::copy(cluster.kubeconfig(), root.join("kubeconfig")).expect("the administrator's kubeconfig");
    let commands = format!(
        "cd packed\n{build}\ncp \"$CARGO_TARGET_DIR/{target}/debug/packed\" ../root/packed\nchmod a+r ../root/kubeconfig\n\
         cd ..\nchroot --userspec={user} root /packed --kubeconfig /kubeconfig -n default --once --timeout 60s"
    );
    let done = shelled(&folder, &commands).await;
    done.with(0, &["Activity 'register' succeeded."]);
    let definition =
        cluster.get("customresourcedefinitions.apiextensions.k8s.io", "packeds.example.com").await;
    assert!(definition.is_some(), "{}", done.said);
}
