//! The program `kopf-rs`: builds handler crates and single `.rs` files into operators, and runs them.
//!
//! It generates a tiny crate that links the user's code with `kopf_rs::cli`, builds it with cargo and then becomes it, so
//! that signals and exit codes are the operator's own. Must not know Kubernetes: what an operator does is the library's.

#![forbid(unsafe_code)]

mod args;
mod cargo;
mod run;
mod runner;
mod script;
mod source;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Subcommand};

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let Cli {
        command: Subcommand::Run(run),
    } = Cli::parse_from(&typed);
    if let Err(usage) = run.check() {
        usage.exit();
    }
    match run::run(&run, &args::forwarded(&typed)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
