//! The program `kopf-rs` and the operators that it builds, from the outside: arguments, output, exit.
//!
//! Tests share builds: all use one target folder, and those about building use a stub of kopf-rs with a few lines. Tests of operators that
//! do not concern `kopf-rs run` use a program of `tests/programs`, which is built with the tests.

mod crates;
mod dev;
mod image;
mod new;
mod operators;
mod paths;
mod scripts;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::{Program, built_program, kopf_rs_binary, leave_outer_cargo};

/// Long enough to build all dependencies on a small and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1200);

/// A folder of one test; the same one in every run, so that later runs reuse its builds.
pub(crate) struct Folder(PathBuf);

/// The exit code of a program, and its output.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

/// Returns the root of this repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns `kopf-rs` as a command in the repository's root.
pub(crate) fn kopf_rs(args: &[&str]) -> Command {
    let binary = kopf_rs_binary();
    let target = binary.ancestors().nth(2).expect("target/PROFILE/kopf-rs");
    let mut command = Command::new(binary);
    command.args(args).env("CARGO_TARGET_DIR", target);
    at_home(command)
}

/// Returns an operator of `tests/programs` as a command in the repository's root, named after its file as by `kopf-rs run`.
pub(crate) fn operator(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(built_program(program));
    if !args.contains(&"--name") {
        command.args(["--name", program]);
    }
    command.args(args);
    at_home(command)
}

/// Runs the command in the repository's root, without environment variables that could point to a cluster.
fn at_home(mut command: Command) -> Command {
    leave_outer_cargo(&mut command);
    command
        .current_dir(root())
        .env("HOME", Folder::new("home").path())
        .env_remove("KUBECONFIG")
        .env_remove("RUST_BACKTRACE")
        .env("CARGO_TERM_COLOR", "never");
    for home in ["CARGO_HOME", "RUSTUP_HOME"] {
        let default = home.trim_end_matches("_HOME").to_lowercase();
        let user = std::env::var_os("HOME").map(|user| Path::new(&user).join(format!(".{default}")));
        if let Some(user) = std::env::var_os(home).map(PathBuf::from).or(user) {
            command.env(home, user);
        }
    }
    command
}

/// Returns a shell script as a command, with `program` as its `"$@"`.
pub(crate) fn in_shell(script: &str, program: &Command) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(program.get_current_dir().expect("a folder is chosen"));
    for (key, value) in program.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Runs a command to its end.
pub(crate) async fn ended(command: Command) -> Ended {
    let mut program = Program::start(command, PATIENCE);
    let status = program.ended().await;
    Ended { code: status.code(), said: program.lines().all().join("\n") }
}

impl Ended {
    /// Asserts the exit code, and that the output contains all texts.
    #[track_caller]
    pub(crate) fn with(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.said);
        for text in texts {
            assert!(self.said.contains(text), "not said: {text}\nsaid:\n{}", self.said);
        }
    }
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a path in the folder, as an argument.
    pub(crate) fn at(&self, below: &str) -> String {
        let path = if below.is_empty() { self.0.clone() } else { self.0.join(below) };
        path.into_os_string().into_string().expect("an ASCII path")
    }

    /// Writes a file into the folder; a file that already has this text keeps its modification time.
    pub(crate) fn file(self, below: &str, text: &str) -> Self {
        let path = self.0.join(below);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return self;
        }
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
        self
    }
}
