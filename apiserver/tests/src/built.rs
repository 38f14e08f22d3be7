//! Paths of what cargo has built from a workspace: programs to run and libraries to compile against.
//!
//! Uses the target folder, profile and features of the running test, so cargo builds nothing twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::skip::slow;
use crate::toolchain::cache_root;

/// Returns the paths of the programs and examples of the workspace in a folder, by name.
///
/// Builds all of them with one cargo command: separate commands would each wait for the build lock that other tests hold.
///
/// # Panics
///
/// Panics if cargo fails to build them.
#[must_use]
pub fn built_programs(workspace: &Path) -> BTreeMap<String, PathBuf> {
    let made = |message: Value| {
        let path = message["executable"].as_str()?;
        Some((message["target"]["name"].as_str()?.to_owned(), path.into()))
    };
    let lines = build(workspace, &["--bins", "--examples"]);
    messages(&lines).filter_map(made).collect()
}

/// Returns the path of a library of the workspace in a folder by its cargo name, such as `serde_json`. Its dependencies lie beside it.
///
/// # Panics
///
/// Panics if cargo fails to build it.
#[must_use]
pub fn built_library(workspace: &Path, name: &str) -> PathBuf {
    let library = |message: Value| {
        let files = message["filenames"]
            .as_array()
            .filter(|_| message["target"]["name"] == name)?;
        let files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
        files
            .into_iter()
            .find(|file| file.extension().is_some_and(|it| it == "rlib"))
    };
    let lines = build(workspace, &["--lib"]);
    let found = messages(&lines).find_map(library);
    found.unwrap_or_else(|| panic!("cargo has not told where {name} is"))
}

/// Builds the program of another cargo workspace, which lies in `folder`, and returns its path. Its target folder is in the cache of this
/// machine, so its dependencies are built once per machine.
///
/// # Panics
///
/// Panics if cargo fails to build it.
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

/// Removes the environment variables that `cargo test` sets. Some build scripts watch these variables, so a cargo that the program starts
/// would rebuild their packages and all packages that depend on them.
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

/// Parses the JSON messages that cargo prints.
fn messages(lines: &str) -> impl Iterator<Item = Value> {
    lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

fn build(workspace: &Path, args: &[&str]) -> String {
    let test = std::env::current_exe().expect("a test knows its executable");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("test executables lie in target/PROFILE/deps");
    let target = profile
        .parent()
        .expect("a profile folder lies in the target folder");
    // Builds the whole workspace, so that features unify as in `cargo test --workspace` and cargo rebuilds nothing.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    leave_outer_cargo(&mut cargo);
    let output = cargo
        .args(["build", "--quiet", "--workspace", "--message-format=json"])
        .args(args)
        .arg("--target-dir")
        .arg(target)
        .args(profile.ends_with("release").then_some("--release"))
        .current_dir(workspace)
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("JSON is UTF-8")
}
