//! The program `kopf-rs`: builds handler crates and single `.rs` files into operators, and runs them; asks running ones to pause; and an API server to try them on.
//!
//! It generates a tiny crate that links the user's code with `kopf_rs::cli`, builds it with cargo and then becomes it, so
//! that signals and exit codes are the operator's own. Must not know Kubernetes: what an operator does is the library's.

#![forbid(unsafe_code)]

mod args;
mod become_program;
mod cache;
mod cargo;
mod locks;
mod run;
mod runner;
mod script;
mod server;
mod source;
mod workspace;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Run, Subcommand};
use crate::cargo::CargoError;
use crate::run::RunError;
use crate::source::SourceError;

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let ended = match Cli::parse_from(&typed).command {
        Subcommand::Run(run) => start(&run, &args::forwarded(&typed)),
        Subcommand::Manifests(run) => {
            let mut forwarded = args::forwarded(&typed);
            if !run.flags.cluster.manifests {
                forwarded.push("--manifests".into());
            }
            start(&run, &forwarded)
        }
        Subcommand::Why(mut run) => {
            let mut forwarded = args::forwarded(&typed);
            if let Some(object) = run.paths.pop() {
                forwarded.extend(["--why".into(), object.into()]);
            }
            start(&run, &forwarded)
        }
        Subcommand::Freeze(_) | Subcommand::Resume(_) => {
            run::pause(typed.get(1..).unwrap_or_default())
        }
        Subcommand::ApiServer(_) => server::run(typed.get(2..).unwrap_or_default()),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            code_of(error.as_ref())
        }
    }
}

fn start(run: &Run, operator_args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    if let Err(usage) = run.check() {
        usage.exit();
    }
    run::run(run, operator_args)
}

/// The operator's own codes: 2 where what was given is wrong, 1 where something has failed.
fn code_of(error: &(dyn Error + 'static)) -> ExitCode {
    let source = error.downcast_ref().map(SourceError::is_wrong_usage);
    let cargo = error.downcast_ref().map(CargoError::is_wrong_usage);
    let is_wrong_usage = source.or(cargo).unwrap_or(error.is::<RunError>());
    if is_wrong_usage {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}
