//! One program beside both servers, and whether it says the same.
//!
//! Promise: both runs end, or fail at a deadline, and what they print is compared line by line. Must not know programs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kopf_rs_tests::{Program, say};

use super::both::Both;
use super::ledger::Ledger;
use super::plain::{Own, plain, unequal};

/// How long a program may take, on a machine busy with other tests.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the program of a client with the kubeconfig file of each server.
///
/// # Panics
///
/// Where it fails beside the real server, or does not say the same beside both, but for what the ledger excuses.
pub(super) fn same_beside(client: &str, both: &Both, program: impl Fn(&Path) -> Command) {
    let run = |kubeconfig: &Path| {
        let mut command = program(kubeconfig);
        command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        command
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let ([ours, ours_exit], [real, real_exit]) = runtime.block_on(async {
        tokio::join!(
            ended(run(&both.ours), &both.ours),
            ended(run(&both.real), &both.real)
        )
    });
    let told = || format!("beside the real server {client} said:\n{}", real.join("\n"));
    assert_eq!(real_exit, ["0"], "{}", told());
    assert!(real.len() > 5, "{}", told());
    let ledger = Ledger::of(client);
    let mut found = unequal("exit", &ours_exit, &real_exit);
    found.extend(unequal("out", &ours, &real));
    let count = found.len();
    let left = ledger.without_excused((client, ""), found);
    let closing = format!(
        "{client}: {} lines, {} in the ledger / {} different",
        real.len(),
        count - left.len(),
        left.len()
    );
    assert!(left.is_empty(), "{}\n{closing}", left.join("\n"));
    say(&closing);
    assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
}

/// The lines of a program, and its exit code.
async fn ended(command: Command, kubeconfig: &Path) -> [Vec<String>; 2] {
    let mut program = Program::start(command, PATIENCE);
    let exit = program.ended().await;
    program.lines().until_end().await;
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig is readable");
    let lines = plain(&program.lines().all().join("\n"), &Own::of(&text));
    [lines, vec![exit.code().unwrap_or(-1).to_string()]]
}
