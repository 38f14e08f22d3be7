//! Programs in JavaScript, each in a folder with what it depends on: made once per machine, outside the repository.
//!
//! What is installed is pinned by the program's `package-lock.json`. Must not know what the program does.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::{Missing, say, skipped};
use crate::toolchain::{cache_root, key, once_per_machine};

/// What makes up a program.
const FILES: [&str; 3] = ["package.json", "package-lock.json", "main.mjs"];

/// The `main.mjs` of a folder beside its dependencies, for `node`; `test` is recorded as skipped where there is no npm.
///
/// # Panics
///
/// Where the dependencies cannot be had for another reason.
#[must_use]
pub fn node_program_for(test: &str, sources: &Path) -> Option<PathBuf> {
    if let Err(error) = Command::new("npm").arg("--version").output() {
        let missing = Missing {
            what: "Node".into(),
            detail: format!("could not run `npm`: {error}"),
        };
        skipped(test, &missing);
        return None;
    }
    let files = FILES.map(|name| sources.join(name));
    let name = sources.file_name().unwrap_or_default().to_string_lossy();
    let hash = key(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
    let home = cache_root().join(format!("{name}-{hash}"));
    let install = || {
        say(&format!("installing what {name} needs, once per machine"));
        for (file, source) in FILES.iter().zip(&files) {
            std::fs::copy(source, home.join(file)).map_err(|error| error.to_string())?;
        }
        npm_ci(&home)?;
        std::fs::write(home.join("complete"), "").map_err(|error| error.to_string())
    };
    let unusable = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    once_per_machine(&home, &home.join("complete"), unusable, install)
        .unwrap_or_else(|error| panic!("{error}"));
    Some(home.join("main.mjs"))
}

fn npm_ci(folder: &Path) -> Result<(), String> {
    let run = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    if run.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&run.stderr).into_owned())
}
