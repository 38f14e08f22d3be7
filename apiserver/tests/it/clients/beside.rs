//! Runs a client's program against our server and compares its output with the one against the real server.
//!
//! The program ends or fails at a deadline; the output is compared line by line. Must not know the programs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kopf_rs_apiserver_tests::{Program, say};

use super::both::ours;
use super::client::{ALL, Client};
use super::ledger::Ledger;
use super::plain::{Own, plain, unequal};

/// The deadline for a program on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the program of a client with the kubeconfig file of our server, and also with that of the real one if there is no valid recording.
///
/// # Panics
///
/// Panics if it fails against the real server, or if the outputs differ and the ledger does not cover the difference.
pub(super) fn same_beside(client: &Client<'_>, program: impl Fn(&Path) -> Command) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let run = |kubeconfig: &Path| {
        let mut command = program(kubeconfig);
        command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        runtime.block_on(ended(command, kubeconfig))
    };
    let name = client.name;
    let real = client.beside_the_real_server(&[ALL], true, |kubeconfig| {
        let [said, exit] = run(kubeconfig);
        assert_eq!(
            exit,
            ["0"],
            "beside the real server {name} said:\n{}",
            said.join("\n")
        );
        vec![said]
    });
    let Some([real]) = real.as_deref() else {
        return;
    };
    assert!(
        real.len() > 5,
        "beside the real server {name} said:\n{}",
        real.join("\n")
    );
    let [said, exit] = run(&ours());
    let ledger = Ledger::of(name);
    let mut found = unequal("exit", &exit, &["0".to_owned()]);
    found.extend(unequal("out", &said, real));
    let count = found.len();
    let left = ledger.without_excused((name, ""), found);
    let closing = format!(
        "{name}: {} lines, {} in the ledger / {} different",
        real.len(),
        count - left.len(),
        left.len()
    );
    assert!(left.is_empty(), "{}\n{closing}", left.join("\n"));
    say(&closing);
    assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
}

/// Runs a program to its end and returns its lines of output and its exit code.
async fn ended(command: Command, kubeconfig: &Path) -> [Vec<String>; 2] {
    let mut program = Program::start(command, PATIENCE);
    let exit = program.ended().await;
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig is readable");
    let lines = plain(&program.lines().join("\n"), &Own::of(&text));
    [lines, vec![exit.to_string()]]
}
