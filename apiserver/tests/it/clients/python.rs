//! Python: the official client, its asynchronous variant, three community clients, and Kopf itself.
//!
//! Must not know what the programs in `tests/clients/python` do.

use std::path::Path;
use std::process::Command;

use kopf_rs_apiserver_tests::{Package, python_for};

use super::beside::same_beside;
use super::client::{Client, pinned};

#[test]
fn the_python_client_sees_the_same_on_both_servers() {
    compare(
        "the_python_client_sees_the_same_on_both_servers",
        Package::Kubernetes,
        "official",
    );
}

#[test]
fn the_asynchronous_python_client_sees_the_same_on_both_servers() {
    compare(
        "the_asynchronous_python_client_sees_the_same_on_both_servers",
        Package::Kubernetes,
        "asynchronous",
    );
}

#[test]
fn clients_of_others_see_the_same_on_both_servers() {
    compare(
        "clients_of_others_see_the_same_on_both_servers",
        Package::Community,
        "community",
    );
}

#[test]
fn watches_go_over_web_sockets_on_both_servers() {
    compare(
        "watches_go_over_web_sockets_on_both_servers",
        Package::Kubernetes,
        "sockets",
    );
}

#[test]
fn kopf_operates_the_same_on_both_servers() {
    compare(
        "kopf_operates_the_same_on_both_servers",
        Package::Kopf,
        "toys",
    );
}

fn compare(test: &str, package: Package, script: &str) {
    let test = format!("clients::python::{test}");
    let Some(python) = python_for(&test, package) else {
        return;
    };
    let package = format!("{package:?}").to_lowercase();
    let pins = format!("python/{package}.txt");
    let program = format!("tests/clients/python/{script}.py");
    let client = Client {
        test: &test,
        name: &format!("python/{script}"),
        version: pinned(&pins, "=="),
        files: &[&program, &format!("tests/{pins}")],
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    same_beside(&client, |_| {
        let mut command = Command::new(&python);
        command
            .args(["-W", "ignore", "-u"])
            .arg(folder.join(format!("{script}.py")));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    });
}
