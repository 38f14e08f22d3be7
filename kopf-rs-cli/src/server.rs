//! `kopf-rs apiserver`: finds the program `kopf-rs-apiserver`, builds it if necessary, and becomes it.
//!
//! The server is a separate program, so that this one installs within seconds. An installed `kopf-rs` uses the server
//! installed beside it, or else builds it from the checkout that it was built from if that still exists, or else
//! installs it once into the user's cache. This module does not know what the server does.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::become_program::become_program;
use crate::cache::cache;
use crate::cargo::{self, Build};
use crate::processes;
use crate::terminal;

const NAME: &str = "kopf-rs-apiserver";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
enum ServerError {
    #[error("there is no folder to install {NAME} into: set HOME, or XDG_CACHE_HOME")]
    NoCache,
    #[error("{NAME} cannot be installed: cargo's messages are above")]
    Install,
}

/// Builds the server if necessary, and becomes it.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    let mut command = Command::new(program()?);
    command.args(args);
    become_program(command)
}

/// Returns the path of the server; builds or installs it if necessary.
pub(crate) fn program() -> Result<PathBuf, Box<dyn Error>> {
    let installed_here = env::current_exe().ok().filter(|this| !is_in_target(this));
    let beside = installed_here.map(|this| this.with_file_name(file_name()));
    if let Some(beside) = beside.filter(|path| is_ours(path)) {
        return Ok(beside);
    }
    match checkout() {
        Some(workspace) => Ok(build(&workspace)?),
        None => installed(),
    }
}

/// Returns whether the program lies in a cargo target folder, where programs beside it may be older than the sources.
fn is_in_target(program: &Path) -> bool {
    program.with_file_name("deps").is_dir()
}

fn file_name() -> String {
    format!("{NAME}{}", env::consts::EXE_SUFFIX)
}

/// Returns the server's workspace in the checkout that this program was built from, if it still exists.
fn checkout() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("apiserver");
    let there = ["Cargo.toml", "server/Cargo.toml"];
    let there = there.iter().all(|file| workspace.join(file).is_file());
    there.then_some(workspace)
}

/// Builds the server with the features of its whole workspace, so that an existing build is reused.
fn build(workspace: &Path) -> Result<PathBuf, cargo::CargoError> {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.and_then(|target| std::path::absolute(target).ok());
    let target = target.unwrap_or_else(|| workspace.with_file_name("target"));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if !target.join(profile).join(file_name()).is_file() {
        terminal::say(&format!(
            "Building {NAME}, which is a separate program: this takes some minutes, once. To have it beside this program: cargo install \
             --path {} --features program",
            workspace.join("server").display()
        ));
    }
    let mut args: Vec<OsString> =
        ["--workspace", "--features", "kopf-rs-apiserver/program"].map(Into::into).into();
    args.extend((!cfg!(debug_assertions)).then(|| "--release".into()));
    Build {
        what: NAME.to_owned(),
        manifest: workspace.join("Cargo.toml"),
        program: NAME.to_owned(),
        folder: workspace.to_owned(),
        target,
        args,
        stand_ins: Vec::new(),
    }
    .run()
}

/// Returns whether the program is a server of this version.
fn is_ours(path: &Path) -> bool {
    let said = Command::new(path).arg("--version").output();
    said.is_ok_and(|said| said.stdout == format!("{NAME} {VERSION}\n").as_bytes())
}

/// Returns the server in the user's cache; installs it there if necessary.
fn installed() -> Result<PathBuf, Box<dyn Error>> {
    let cache = cache().ok_or(ServerError::NoCache)?;
    let root = cache.join(format!("apiserver-{VERSION}"));
    let program = root.join("bin").join(file_name());
    if program.is_file() {
        return Ok(program);
    }
    terminal::say(&format!(
        "Installing {NAME} {VERSION} into {}, because it is a separate program: this takes some minutes, once.",
        root.display()
    ));
    let mut command = cargo::cargo(Path::new("."));
    command
        .args(["install", NAME, "--version", &format!("={VERSION}")])
        .args(["--features", "program", "--root"])
        .arg(&root)
        .stdin(Stdio::null());
    let installed = processes::run_build(&mut command).map_err(cargo::start_error)?;
    if installed.status.success() && program.is_file() {
        return Ok(program);
    }
    Err(ServerError::Install.into())
}
