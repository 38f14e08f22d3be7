//! Programs in other languages, each in a folder with its dependencies, installed once per machine and outside the repository.
//!
//! The name of the folder is a digest of the files that pin the versions, so a change of these files installs a new one. Uses a folder only
//! if its installation completed. Must not know the languages.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip::{Missing, say, skipped, slow};
use crate::toolchain::{cache_root, key, once_per_machine};

/// How to build a program, and from which files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe<'a> {
    /// The language runtime that the machine needs, by the name that a user would install.
    pub(crate) language: &'a str,
    /// Commands that must be present, each with the option that prints its version.
    pub(crate) programs: &'a [[&'a str; 2]],
    /// The source files of the program, and those that pin its dependencies.
    pub(crate) files: &'a [&'a str],
    /// Commands to run in the folder, with their arguments.
    pub(crate) steps: &'a [(&'a str, &'a [&'a str])],
}

/// Returns the folder of the complete program built from `sources`; records `test` as skipped if a toolchain is missing.
///
/// # Panics
///
/// Panics if the installation fails for another reason.
pub(crate) fn program_for(test: &str, sources: &Path, recipe: Recipe<'_>) -> Option<PathBuf> {
    slow(recipe.language);
    if let Err(missing) = recipe.available() {
        skipped(test, &missing);
        return None;
    }
    let name = sources.file_name().unwrap_or_default().to_string_lossy();
    let home = recipe
        .home(sources)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let complete = home.join("complete");
    let unusable = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    once_per_machine(&home, &complete, unusable, || {
        say(&format!("installing what {name} needs, once per machine"));
        recipe.fill(sources, &home)?;
        std::fs::write(&complete, "").map_err(|error| unusable(&complete, error))
    })
    .unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(home)
}

// === impl Recipe ===

impl Recipe<'_> {
    fn available(self) -> Result<(), Missing> {
        for [program, version] in self.programs {
            Command::new(program)
                .arg(version)
                .output()
                .map_err(|error| Missing {
                    what: self.language.into(),
                    detail: format!("could not run `{program}`: {error}"),
                })?;
        }
        Ok(())
    }

    fn home(self, sources: &Path) -> io::Result<PathBuf> {
        let name = sources.file_name().unwrap_or_default().to_string_lossy();
        let files: Vec<PathBuf> = self.files.iter().map(|file| sources.join(file)).collect();
        Ok(cache_root().join(format!("{name}-{}", key(&files)?)))
    }

    fn fill(self, sources: &Path, home: &Path) -> Result<(), String> {
        for file in self.files {
            std::fs::copy(sources.join(file), home.join(file))
                .map_err(|error| format!("{file}: {error}"))?;
        }
        for (program, arguments) in self.steps {
            let run = Command::new(program)
                .args(*arguments)
                .current_dir(home)
                .output();
            succeeded(run).map_err(|why| format!("{program} {}: {why}", arguments.join(" ")))?;
        }
        Ok(())
    }
}

fn succeeded(run: io::Result<Output>) -> Result<(), String> {
    let run = run.map_err(|error| error.to_string())?;
    if run.status.success() {
        return Ok(());
    }
    let said = [run.stdout, run.stderr].concat();
    Err(String::from_utf8_lossy(&said).into_owned())
}
