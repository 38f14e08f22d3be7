//! Rust: a controller with kube-rs.
//!
//! Must not know what the program in `tests/clients/kube-rs` does.

use std::path::Path;
use std::process::Command;

use kopf_rs_apiserver_tests::outside_program;

use super::beside::same_beside;
use super::client::{Client, pinned};

#[test]
fn kube_rs_does_the_same_on_both_servers() {
    let program = outside_program(&Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/kube-rs"));
    let client = Client {
        test: "clients::kube_rs::kube_rs_does_the_same_on_both_servers",
        name: "kube-rs",
        version: pinned("clients/kube-rs/Cargo.toml", "kube = "),
        files: &["tests/clients/kube-rs"],
    };
    same_beside(&client, |_| Command::new(&program));
}
