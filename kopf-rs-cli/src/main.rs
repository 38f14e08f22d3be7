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
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use kopf_rs_flags::forwarded::{Receiver, forwarded};

use crate::add::AddError;
use crate::args::{Cli, Manifests, Run, Subcommand};
use crate::cargo::CargoError;
use crate::dev::DevError;
use crate::new::NewError;
use crate::run::RunError;
use crate::source::SourceError;

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let matches = Cli::command().get_matches_from(&typed);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|usage| usage.exit());
    let operator_args = || {
        let (_, of_subcommand) = matches.subcommand().expect("clap demands one");
        forwarded(of_subcommand, Receiver::Process)
    };
    let is_dev = matches!(cli.command, Subcommand::Dev(_));
    if !is_dev && let Err(error) = processes::end_with_builds() {
        eprintln!("warning: builds may outlive this program, because it cannot receive signals: {error}");
    }
    let ended = match cli.command {
        Subcommand::New(args) => new::new(&args).map(|()| ExitCode::SUCCESS),
        Subcommand::Add(args) => add::add(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Subcommand::Run(run) => start("run", &run, &operator_args()),
        Subcommand::Dev(dev) => {
            let operator_args = operator_args();
            checked("dev", &operator_args);
            dev::dev(*dev, operator_args)
        }
        Subcommand::Manifests(args) => {
            let Manifests { run, observe } = *args;
            start_as(if observe { observe::observe } else { run::run }, "manifests", &run, operator_args())
        }
        Subcommand::Install(run) => start_as(run::run, "install", &run, operator_args()),
        Subcommand::Upgrade(run) => start_as(run::run, "upgrade", &run, operator_args()),
        Subcommand::Uninstall(run) => start_as(run::run, "uninstall", &run, operator_args()),
        Subcommand::Why(why) => {
            let (run, object) = why.split();
            let mut operator_args = operator_args();
            operator_args.extend(["--why".into(), object]);
            start("why", &run, &operator_args)
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

/// Starts the operator with the flag that has the name of the subcommand.
fn start_as(
    run_it: RunIt,
    name: &str,
    run: &Run,
    mut operator_args: Vec<OsString>,
) -> Result<ExitCode, Box<dyn Error>> {
    let flag = OsString::from(format!("--{name}"));
    if !operator_args.contains(&flag) {
        operator_args.push(flag);
    }
    start_by(run_it, name, run, &operator_args)
}

/// Builds handlers, and lets the operator do something.
type RunIt = fn(&Run, &[OsString]) -> Result<ExitCode, Box<dyn Error>>;

fn start(name: &str, run: &Run, operator_args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    start_by(run::run, name, run, operator_args)
}

fn start_by(
    run_it: RunIt,
    name: &str,
    run: &Run,
    operator_args: &[OsString],
) -> Result<ExitCode, Box<dyn Error>> {
    checked(name, operator_args);
    run_it(run, operator_args)
}

/// Ends this program if the operator would refuse its flags.
fn checked(name: &str, operator_args: &[OsString]) {
    if let Err(usage) = args::check(name, operator_args) {
        usage.exit();
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
