//! Programs in JavaScript. What is installed is pinned by the program's `package-lock.json`. Must not know what the program does.

use std::path::{Path, PathBuf};

use crate::fetched::{Recipe, program_for};

const RECIPE: Recipe<'_> = Recipe {
    language: "Node",
    programs: &[["npm", "--version"]],
    files: &["package.json", "package-lock.json", "main.mjs"],
    steps: &[(
        "npm",
        &["ci", "--no-audit", "--no-fund", "--ignore-scripts"],
    )],
};

/// The `main.mjs` of a folder beside its dependencies, for `node`; `test` is recorded as skipped where there is no npm.
///
/// # Panics
///
/// Where the dependencies cannot be had for another reason.
#[must_use]
pub fn node_program_for(test: &str, sources: &Path) -> Option<PathBuf> {
    Some(program_for(test, sources, RECIPE)?.join("main.mjs"))
}
