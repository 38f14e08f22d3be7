//! Runs cargo: asks it what a folder holds, and builds. Its words reach the user unchanged, but for paths made short.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::workspace::Workspace;

/// Why cargo did not do what it was asked for.
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
    Answer {
        manifest: PathBuf,
        error: serde_json::Error,
    },
    #[error("{0} does not compile: the compiler's messages are above")]
    Compile(String),
    #[error("{0} cannot be built: cargo's messages are above")]
    Build(String),
    #[error("cargo built {0}, but did not say where the program is")]
    NoProgram(String),
}

impl CargoError {
    /// Whether what was given is wrong, rather than that something has failed.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        matches!(self, Self::Metadata { .. } | Self::Compile(_))
    }
}

/// One build.
pub(crate) struct Build<'a> {
    /// What is being built, as the user knows it.
    pub(crate) what: &'a str,
    pub(crate) manifest: &'a Path,
    /// The name of the program to build.
    pub(crate) program: &'a str,
    /// Where cargo runs, which decides on its configuration and toolchain.
    pub(crate) folder: &'a Path,
    pub(crate) target: &'a Path,
    /// Further arguments.
    pub(crate) args: Vec<OsString>,
    /// In diagnostics, the file that is compiled, and the file that it stands for.
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

/// `cargo metadata --no-deps` for a manifest; `args` are about lock and network.
pub(crate) fn metadata(manifest: &Path, args: &[OsString]) -> Result<Workspace, CargoError> {
    let mut asking = vec!["--no-deps".into()];
    asking.extend_from_slice(args);
    serde_json::from_slice(&ask(manifest, &asking)?).map_err(|error| CargoError::Answer {
        manifest: manifest.to_owned(),
        error,
    })
}

/// Check that the lock file of a workspace is there and current: what `--locked` demands.
pub(crate) fn check_lock(manifest: &Path, offline: bool) -> Result<(), CargoError> {
    let mut asking = vec!["--locked".into()];
    asking.extend(offline.then(|| "--offline".into()));
    ask(manifest, &asking).map(drop)
}

/// What `cargo metadata` answers.
fn ask(manifest: &Path, args: &[OsString]) -> Result<Vec<u8>, CargoError> {
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let output = cargo(folder)
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .args(args)
        .output()
        .map_err(start_error)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(CargoError::Metadata {
        manifest: manifest.to_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Build<'_> {
    /// Build, and say where the program is.
    pub(crate) fn run(self) -> Result<PathBuf, CargoError> {
        let format = if colours() {
            "json-diagnostic-rendered-ansi"
        } else {
            "json"
        };
        let mut child = cargo(self.folder)
            .args(["build", "--bin", self.program, "--message-format", format])
            .arg("--manifest-path")
            .arg(self.manifest)
            .arg("--target-dir")
            .arg(self.target)
            .args(&self.args)
            // What comes through a pipe is the operator's.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start_error)?;
        let stdout = child.stdout.take().expect("piped above");
        let (mut program, mut refused) = (None, false);
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(CargoError::Start)?;
            let Ok(line) = serde_json::from_str::<Line>(&line) else {
                continue;
            };
            refused |= line
                .message
                .as_ref()
                .is_some_and(|said| said.level == "error");
            self.show(&line);
            program = program.or(self.program_of(line));
        }
        if !child.wait().map_err(CargoError::Start)?.success() {
            let what = self.what.to_owned();
            return Err(if refused {
                CargoError::Compile(what)
            } else {
                CargoError::Build(what)
            });
        }
        program.ok_or_else(|| CargoError::NoProgram(self.what.to_owned()))
    }

    fn program_of(&self, line: Line) -> Option<PathBuf> {
        let ours = line.reason == "compiler-artifact"
            && line
                .target
                .is_some_and(|target| target.name == self.program);
        line.executable.filter(|_| ours)
    }

    fn show(&self, line: &Line) {
        let rendered = line
            .message
            .as_ref()
            .and_then(|said| said.rendered.as_deref());
        let Some(mut text) = rendered.map(str::to_owned) else {
            return;
        };
        for (compiled, real) in &self.stand_ins {
            text = text.replace(&*compiled.to_string_lossy(), &real.to_string_lossy());
        }
        if let Ok(here) = env::current_dir() {
            text = text.replace(&format!("{}/", here.display()), "");
        }
        eprint!("{text}");
    }
}

/// Cargo in a folder. What an outer `cargo run` has put into the environment stays out: build scripts that watch it would run anew.
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
    if error.kind() == io::ErrorKind::NotFound {
        CargoError::Missing
    } else {
        CargoError::Start(error)
    }
}

fn colours() -> bool {
    match env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| format!("  {line}"))
        .collect();
    lines.join("\n")
}
