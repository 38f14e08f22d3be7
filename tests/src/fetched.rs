//! A program of another language in a folder with what it depends on: fetched once per machine, outside the repository.
//!
//! The files that pin the versions name the folder, so a change of them fetches anew. A folder counts only when it is complete.
//! Must not know the languages.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip::{Missing, say, skipped, slow};
use crate::toolchain::{cache_root, key, once_per_machine};

/// What a program is made with, and of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe<'a> {
    /// What the machine must have, as a user would install it.
    pub(crate) language: &'a str,
    /// Programs that must start, each with the option at which it says its version.
    pub(crate) programs: &'a [[&'a str; 2]],
    /// The files that make up the program and pin what it depends on.
    pub(crate) files: &'a [&'a str],
    /// Programs to run in the folder, with their arguments.
    pub(crate) steps: &'a [(&'a str, &'a [&'a str])],
}

/// The folder in which the program of `sources` lies complete; `test` is recorded as skipped where a toolchain is missing.
///
/// # Panics
///
/// Where the dependencies cannot be had for another reason.
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
