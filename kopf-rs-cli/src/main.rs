//! The program `kopf-rs`: builds handler crates and single `.rs` files into operators, and runs them; and an API server to try them on.
//!
//! It generates a tiny crate that links the user's code with `kopf_rs::cli`, builds it with cargo and then becomes it, so
//! that signals and exit codes are the operator's own. Must not know Kubernetes: what an operator does is the library's.

#![forbid(unsafe_code)]

mod args;
mod become_program;
mod cargo;
mod run;
mod runner;
mod script;
mod server;
mod source;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Subcommand};

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let ended = match Cli::parse_from(&typed).command {
        Subcommand::Run(run) => {
            if let Err(usage) = run.check() {
                usage.exit();
            }
            run::run(&run, &args::forwarded(&typed))
        }
        Subcommand::ApiServer(_) => server::run(typed.get(2..).unwrap_or_default()),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
