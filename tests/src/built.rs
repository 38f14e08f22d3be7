//! What cargo has built of this workspace: programs to run, libraries to compile against.
//!
//! Promises that nothing is built twice: the same target folder, profile and features as those of the test itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::skip::slow;
use crate::toolchain::cache_root;

/// The path of the program `kopf-rs`.
///
/// # Panics
///
/// When cargo fails to build it.
#[must_use]
pub fn kopf_rs_binary() -> &'static Path {
    built_program("kopf-rs")
}

/// The path of a program of this workspace, or of an operator under `tests/programs`. All of them are built by one call of cargo, on first use
/// in each test process: for each further one it would wait until no other test builds anything.
///
/// # Panics
///
/// When cargo fails to build them.
#[must_use]
pub fn built_program(name: &str) -> &'static Path {
    static ALL: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let made = |message: Value| {
            let path = message["executable"].as_str()?;
            Some((message["target"]["name"].as_str()?.to_owned(), path.into()))
        };
        let lines = build(&["--bins", "--examples"]);
        messages(&lines).filter_map(made).collect()
    });
    let program = all.get(name).map(PathBuf::as_path);
    program.unwrap_or_else(|| panic!("cargo has not told where {name} is"))
}

/// The path of a library of this workspace, as cargo names it: `kopf_rs`. What it depends on lies beside it.
///
/// # Panics
///
/// When cargo fails to build it.
#[must_use]
pub fn built_library(name: &str) -> PathBuf {
    let library = |message: Value| {
        let files = message["filenames"]
            .as_array()
            .filter(|_| message["target"]["name"] == name)?;
        let files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
        files
            .into_iter()
            .find(|file| file.extension().is_some_and(|it| it == "rlib"))
    };
    let lines = build(&["--lib"]);
    let found = messages(&lines).find_map(library);
    found.unwrap_or_else(|| panic!("cargo has not told where {name} is"))
}

/// The path of a program that is a workspace of its own, by its folder. What it depends on is built once per machine, beside what
/// else the tests keep there.
///
/// # Panics
///
/// When cargo fails to build it.
#[must_use]
pub fn outside_program(folder: &Path) -> PathBuf {
    slow("a program of another workspace");
    let name = folder.file_name().expect("a folder with a name");
    let target = cache_root().join(format!("{}-target", name.to_string_lossy()));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    leave_outer_cargo(&mut cargo);
    let output = cargo
        .args(["build", "--quiet", "--locked", "--message-format=json"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .output()
        .expect("cargo can be run");
    let problem = || String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", problem());
    let lines = String::from_utf8_lossy(&output.stdout);
    messages(&lines)
        .find_map(|it| it["executable"].as_str().map(PathBuf::from))
        .unwrap_or_else(|| panic!("cargo has not told where {} is", name.display()))
}

/// Keep from a program what `cargo test` has put into the environment: there are build scripts that watch it, so that a cargo called
/// in the program would build their packages, and all that depend on them, once more.
pub fn leave_outer_cargo(command: &mut Command) {
    let families = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "DEP_"];
    let singles = ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        let is_outer =
            families.iter().any(|family| name.starts_with(family)) || singles.contains(&&*name);
        if is_outer {
            command.env_remove(&key);
        }
    }
}

/// What cargo says in JSON.
fn messages(lines: &str) -> impl Iterator<Item = Value> {
    lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

fn build(args: &[&str]) -> String {
    let test = std::env::current_exe().expect("a test knows its executable");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("test executables lie in target/PROFILE/deps");
    let target = profile
        .parent()
        .expect("a profile folder lies in the target folder");
    // The whole workspace, so that features unify as in `cargo test --workspace` and nothing is rebuilt.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    leave_outer_cargo(&mut cargo);
    let output = cargo
        .args(["build", "--quiet", "--workspace", "--message-format=json"])
        .args(args)
        .arg("--target-dir")
        .arg(target)
        .args(profile.ends_with("release").then_some("--release"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("JSON is UTF-8")
}
