//! The program `kopf-rs`: creates and extends operators, builds handler crates and single `.rs` files into operators and runs
//! them, once or again at each change, installs them, asks running operators to pause, cleans up after them, and runs an API server to try
//! them on.
//!
//! It generates a small crate that links the user's code with `kopf_rs::cli`, builds it with cargo and then replaces
//! itself by it, so that signals and exit codes are the operator's own. This crate must not depend on Kubernetes,
//! which is the library's task.

#![forbid(unsafe_code)]

mod add;
mod args;
mod become_program;
mod cache;
mod cargo;
mod dev;
mod kopf;
mod locks;
mod new;
mod observe;
mod processes;
mod run;
mod runner;
mod script;
mod server;
mod source;
mod terminal;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::add::AddError;
use crate::args::{Cli, Manifests, Subcommand};
use crate::cargo::CargoError;
use crate::dev::DevError;
use crate::new::NewError;
use crate::run::RunError;
use crate::source::SourceError;

fn main() -> ExitCode {
    let typed = args::with_task(std::env::args_os().collect());
    let matches = Cli::command().get_matches_from(&typed);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|usage| usage.exit());
    let operator_args = || {
        let (_, of_subcommand) = matches.subcommand().expect("clap demands one");
        args::for_program(of_subcommand)
    };
    let is_dev = matches!(cli.command, Subcommand::Dev(_));
    if !is_dev && let Err(error) = processes::end_with_builds() {
        eprintln!("warning: builds may outlive this program, because it cannot receive signals: {error}");
    }
    let ended = match cli.command {
        Subcommand::New(args) => new::new(&args).map(|()| ExitCode::SUCCESS),
        Subcommand::Add(args) => add::add(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Subcommand::Run(run) => run::run(&run, &operator_args().checked("run")),
        Subcommand::Dev(dev) => {
            let operator_args = operator_args().checked("dev");
            dev::dev(*dev, operator_args)
        }
        Subcommand::Manifests(args) => {
            let Manifests { run, observe } = *args;
            let run_it = if observe { observe::observe } else { run::run };
            run_it(&run, &operator_args().checked("manifests"))
        }
        Subcommand::Install(run) => run::run(&run, &operator_args().checked("install")),
        Subcommand::Upgrade(run) => run::run(&run, &operator_args().checked("upgrade")),
        Subcommand::Uninstall(run) => run::run(&run, &operator_args().checked("uninstall")),
        Subcommand::Why(why) => {
            let (run, object) = why.split();
            let mut operator_args = operator_args();
            operator_args.operator.extend(["--why".into(), object]);
            run::run(&run, &operator_args.checked("why"))
        }
        Subcommand::Task(_) => run::do_task(typed.get(1..).unwrap_or_default()),
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

/// Returns the same exit codes as an operator: 2 for invalid input, 1 for a failure.
fn code_of(error: &(dyn Error + 'static)) -> ExitCode {
    let source = error.downcast_ref().map(SourceError::is_wrong_usage);
    let cargo = error.downcast_ref().map(CargoError::is_wrong_usage);
    let new = error.downcast_ref().map(NewError::is_wrong_usage);
    let add = error.downcast_ref().map(AddError::is_wrong_usage);
    let is_wrong_usage = source.or(cargo).or(new).or(add);
    let is_wrong_usage = is_wrong_usage.unwrap_or(error.is::<RunError>() || error.is::<DevError>());
    if is_wrong_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
}
