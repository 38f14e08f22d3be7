//! Rust: a controller on kube-rs.
//!
//! Must not know what the program in `tests/clients/kube-rs` does.

use std::path::Path;
use std::process::Command;

use kopf_rs_tests::outside_program;

use super::beside::same_beside;
use super::both::both;

#[test]
fn kube_rs_does_the_same_on_both_servers() {
    let Some(both) = both("clients::kube_rs::kube_rs_does_the_same_on_both_servers") else {
        return;
    };
    let program = outside_program(&Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/kube-rs"));
    same_beside("kube-rs", both, |_| Command::new(&program));
}
