//! Checks that the newcomer's operators share one build of the framework: asks cargo which crates it would compile with which features and
//! profile, without compiling them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{CommandFactory as _, FromArgMatches as _};
use serde_json::Value;

use super::prepare;
use crate::args::{Cli, Subcommand};
use crate::cargo::cargo;
use crate::new::new;

const HANDLER: &str = "use kopf_rs::prelude::*;\n\n#[on_create(\"configmaps\")]\nasync fn seen() {}\n";

fn parsed(words: &[&OsStr]) -> Subcommand {
    let matches = Cli::command().try_get_matches_from(words).unwrap();
    Cli::from_arg_matches(&matches).unwrap().command
}

/// Returns the crates of others that a build compiles, each with everything that distinguishes two builds of it.
fn crates_of(mut command: Command, own: &Path) -> BTreeSet<String> {
    let output =
        command.args(["--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own = own.to_string_lossy();
    let units = graph["units"].as_array().unwrap().iter();
    let others = units.filter(|unit| {
        let id = unit["pkg_id"].as_str().unwrap();
        !id.contains(&*own) && !id.contains("/kopf-run/")
    });
    others
        .map(|unit| {
            let mut unit = unit.clone();
            unit["profile"]["name"].take();
            unit["dependencies"].take();
            unit.to_string()
        })
        .collect()
}

/// Returns the crates that `kopf-rs run` compiles.
fn crates_of_run(path: &Path, own: &Path) -> BTreeSet<String> {
    let words = ["kopf-rs", "run", "--offline"].map(OsStr::new);
    let Subcommand::Run(run) = parsed(&[&words[..], &[path.as_os_str()]].concat()) else {
        panic!("not `run`");
    };
    crates_of(prepare(&run).unwrap().build.command(), own)
}

#[test]
fn operators_of_a_newcomer_share_one_build_of_the_framework() {
    let name = format!("kopf-rs-sharing-{}", std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let (file, typed, demo) = (folder.join("hello.rs"), folder.join("typed.rs"), folder.join("demo"));
    fs::write(&file, HANDLER).unwrap();
    for (path, option) in [(&typed, "--single-file"), (&demo, "--reconcile")] {
        let words = ["kopf-rs", "new", option].map(OsStr::new);
        let Subcommand::New(args) = parsed(&[&words[..], &[path.as_os_str()]].concat()) else {
            panic!("not `new`");
        };
        new(&args).unwrap();
    }
    let first = crates_of_run(&file, &folder);
    assert!(first.iter().any(|it| it.contains("\"kopf_rs\"")), "{first:?}");
    let mut testing = cargo(&demo);
    testing.args(["test", "--offline"]);
    for (what, crates) in [
        ("a typed file", crates_of_run(&typed, &folder)),
        ("a new crate", crates_of_run(&demo, &folder)),
        ("the tests of a new crate", crates_of(testing, &folder)),
    ] {
        let more: Vec<_> = crates.difference(&first).collect();
        assert!(more.is_empty(), "{what} compiles {} more crates: {more:#?}", more.len());
    }
    fs::remove_dir_all(&folder).unwrap();
}
