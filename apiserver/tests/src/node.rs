//! Programs in JavaScript. The program's `package-lock.json` pins the dependencies. Must not know the purpose of the program.

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

/// Returns the path of `main.mjs` in a folder with its dependencies, for `node`; records `test` as skipped if npm is missing.
///
/// # Panics
///
/// Panics if the installation of the dependencies fails for another reason.
#[must_use]
pub fn node_program_for(test: &str, sources: &Path) -> Option<PathBuf> {
    Some(program_for(test, sources, RECIPE)?.join("main.mjs"))
}
