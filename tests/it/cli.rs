//! The program `kopf-rs` and the operators it makes, from the outside: what is typed, what is said, how it ends.
//!
//! Builds are shared: one target folder, and for what is only about building a kopf-rs of a few lines. What is about an operator and not about
//! `kopf-rs run` is a program of `tests/programs`, which is built with the tests.

mod crates;
mod operators;
mod paths;
mod scripts;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::{Program, built_program, kopf_rs_binary, leave_outer_cargo};

/// Long enough for all dependencies to be built on a small machine that does other things too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1200);

/// A folder of a test's own; the same one in every run, so that what is built in it is built once.
pub(crate) struct Folder(PathBuf);

/// How a program ended, and what it said.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

/// The root of this repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// `kopf-rs` in the repository's root.
pub(crate) fn kopf_rs(args: &[&str]) -> Command {
    let binary = kopf_rs_binary();
    let target = binary.ancestors().nth(2).expect("target/PROFILE/kopf-rs");
    let mut command = Command::new(binary);
    command.args(args).env("CARGO_TARGET_DIR", target);
    at_home(command)
}

/// An operator of `tests/programs` in the repository's root, with the name of its file as `kopf-rs run` gives it.
pub(crate) fn operator(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(built_program(program));
    if !args.contains(&"--name") {
        command.args(["--name", program]);
    }
    command.args(args);
    at_home(command)
}

/// In the repository's root, with nothing of the environment that could tell where a cluster is.
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
        let user =
            std::env::var_os("HOME").map(|user| Path::new(&user).join(format!(".{default}")));
        if let Some(user) = std::env::var_os(home).map(PathBuf::from).or(user) {
            command.env(home, user);
        }
    }
    command
}

/// A command as the `"$@"` of a shell script.
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

/// Run to the end.
pub(crate) async fn ended(command: Command) -> Ended {
    let mut program = Program::start(command, PATIENCE);
    let status = program.ended().await;
    program.lines().with_patience(PATIENCE).until_end().await;
    Ended {
        code: status.code(),
        said: program.lines().all().join("\n"),
    }
}

impl Ended {
    /// It ended with `code`, and said all of these.
    #[track_caller]
    pub(crate) fn with(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.said);
        for text in texts {
            assert!(
                self.said.contains(text),
                "not said: {text}\nsaid:\n{}",
                self.said
            );
        }
    }
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("cli")
            .join(name);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it, as an argument.
    pub(crate) fn at(&self, below: &str) -> String {
        let path = if below.is_empty() {
            self.0.clone()
        } else {
            self.0.join(below)
        };
        path.into_os_string().into_string().expect("an ASCII path")
    }

    /// With this file; one that is there with this text keeps its time.
    pub(crate) fn file(self, below: &str, text: &str) -> Self {
        let path = self.0.join(below);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return self;
        }
        fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("folders can be made");
        fs::write(path, text).expect("files can be written");
        self
    }
}
