//! Runs cargo: queries the metadata of a folder, and builds. Passes cargo's messages to the user unchanged except for
//! shortened paths.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::processes;
use crate::terminal::{self, Stream};
use crate::workspace::Workspace;

/// Why cargo failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CargoError {
    #[error(
        "cargo is not found, but kopf-rs needs it to build operators\n  install Rust from https://rustup.rs, or put the folder of cargo into PATH"
    )]
    Missing,
    #[error("cargo cannot be started: {0}")]
    Start(io::Error),
    #[error("cargo cannot read {}:\n{}", .manifest.display(), indented(.said))]
    Metadata { manifest: PathBuf, said: String },
    #[error("cargo's metadata of {} cannot be read: {error}", .manifest.display())]
    Answer { manifest: PathBuf, error: serde_json::Error },
    #[error("{0} does not compile: the compiler's messages are above")]
    Compile(String),
    #[error("{0} cannot be built: cargo's messages are above")]
    Build(String),
    #[error(
        "the tests of {0} have failed, so not all of their requests are known: their messages are above\n  make `cargo test` pass, and try again"
    )]
    Tests(String),
    #[error("cargo built {0}, but did not say where the program is")]
    NoProgram(String),
}

impl CargoError {
    /// Returns whether the input is invalid, as opposed to a failed operation.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        matches!(self, Self::Metadata { .. } | Self::Compile(_))
    }
}

/// One build.
pub(crate) struct Build {
    /// The name of the build for the user.
    pub(crate) what: String,
    pub(crate) manifest: PathBuf,
    /// The name of the program to build.
    pub(crate) program: String,
    /// The folder in which cargo runs, which determines its configuration and toolchain.
    pub(crate) folder: PathBuf,
    pub(crate) target: PathBuf,
    /// Further arguments.
    pub(crate) args: Vec<OsString>,
    /// Pairs of a compiled file and the original file that replaces it in diagnostics.
    pub(crate) stand_ins: Vec<(PathBuf, PathBuf)>,
}

/// A line of `--message-format=json`.
#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    target: Option<Built>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Built {
    name: String,
}

/// Runs `cargo metadata --no-deps` for a manifest; `args` are flags about the lock file and the network.
pub(crate) fn metadata(manifest: &Path, args: &[OsString]) -> Result<Workspace, CargoError> {
    ask(manifest, &[&["--no-deps".into()], args].concat())
}

/// Checks that the lock file of a workspace exists and is current, as `--locked` requires.
pub(crate) fn check_lock(manifest: &Path, offline: bool) -> Result<(), CargoError> {
    let mut asking = vec!["--locked".into()];
    asking.extend(offline.then(|| "--offline".into()));
    ask(manifest, &asking).map(drop)
}

/// Returns the folders of all packages with sources on this machine that a manifest needs.
pub(crate) fn local_packages(manifest: &Path, args: &[OsString]) -> Result<Vec<PathBuf>, CargoError> {
    let packages = ask(manifest, args)?.packages;
    let local = packages.iter().filter(|package| package.source.is_none());
    Ok(local.map(|package| package.folder().to_owned()).collect())
}

/// Runs `cargo metadata`.
fn ask(manifest: &Path, args: &[OsString]) -> Result<Workspace, CargoError> {
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let mut command = cargo(folder);
    command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = processes::run_build(&mut command).map_err(start_error)?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout)
            .map_err(|error| CargoError::Answer { manifest: manifest.to_owned(), error });
    }
    Err(CargoError::Metadata {
        manifest: manifest.to_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Build {
    /// Builds the program, and returns its path.
    pub(crate) fn run(self) -> Result<PathBuf, CargoError> {
        let (mut child, handle) = processes::spawn_build(&mut self.command()).map_err(start_error)?;
        let errors = child.stderr.take().map(|stderr| terminal::relay(stderr, Stream::Error, || ()));
        let stdout = child.stdout.take().expect("piped above");
        let (mut program, mut refused) = (None, false);
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(CargoError::Start)?;
            let Ok(line) = serde_json::from_str::<Line>(&line) else {
                continue;
            };
            refused |= line.message.as_ref().is_some_and(|said| said.level == "error");
            self.show(&line);
            program = program.or(self.program_of(line));
        }
        let status = handle.wait(&mut child).map_err(CargoError::Start)?;
        terminal::drain(errors);
        match program.filter(|_| status.success()) {
            Some(program) => Ok(program),
            None if refused => Err(CargoError::Compile(self.what)),
            None if !status.success() => Err(CargoError::Build(self.what)),
            None => Err(CargoError::NoProgram(self.what)),
        }
    }

    /// Returns the command of the build.
    pub(crate) fn command(&self) -> Command {
        let mut command = cargo(&self.folder);
        let format = if colours() { "json-diagnostic-rendered-ansi" } else { "json" };
        command
            .args(["build", "--bin", &self.program, "--message-format", format])
            .arg("--manifest-path")
            .arg(&self.manifest)
            .arg("--target-dir")
            .arg(&self.target)
            .args(&self.args)
            // Standard input belongs to the operator.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(terminal::output_of_child());
        if terminal::has_status() && colours() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        command
    }

    fn program_of(&self, line: Line) -> Option<PathBuf> {
        let ours = line.reason == "compiler-artifact"
            && line.target.is_some_and(|target| target.name == self.program);
        line.executable.filter(|_| ours)
    }

    fn show(&self, line: &Line) {
        let rendered = line.message.as_ref().and_then(|said| said.rendered.as_deref());
        let Some(mut text) = rendered.map(str::to_owned) else {
            return;
        };
        for (compiled, real) in &self.stand_ins {
            text = text.replace(&*compiled.to_string_lossy(), &real.to_string_lossy());
        }
        if let Ok(here) = env::current_dir() {
            text = text.replace(&format!("{}/", here.display()), "");
        }
        terminal::say(&text);
    }
}

/// Runs the tests of a package with an environment variable. Their output goes to standard error, because standard output belongs to the
/// operator.
pub(crate) fn test(
    package: &str,
    manifest: &Path,
    args: &[OsString],
    (variable, value): (&str, &Path),
) -> Result<(), CargoError> {
    let mut command = cargo(manifest.parent().unwrap_or(Path::new(".")));
    command.args(["test", "--manifest-path"]).arg(manifest).args(args).env(variable, value);
    command.stdin(Stdio::null()).stdout(io::stderr());
    let tested = processes::run_build(&mut command).map_err(start_error)?;
    if tested.status.success() { Ok(()) } else { Err(CargoError::Tests(package.to_owned())) }
}

/// Returns a cargo command for a folder. Removes variables of an outer `cargo run` from the environment, since they
/// would make build scripts that watch them run again.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        let outer = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "DEP_"];
        if outer.iter().any(|prefix| name.starts_with(prefix))
            || ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&&*name)
        {
            command.env_remove(&key);
        }
    }
    command
}

pub(crate) fn start_error(error: io::Error) -> CargoError {
    if error.kind() == io::ErrorKind::NotFound { CargoError::Missing } else { CargoError::Start(error) }
}

fn colours() -> bool {
    match env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
