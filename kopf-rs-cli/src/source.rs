//! Classifies a PATH: a crate with a library of handlers, a program, or a single file.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::cargo::{self, CargoError};
use crate::kopf::Kopf;
use crate::script::{Script, ScriptError};
use crate::workspace::{Dependency, Package, Target, Workspace};

/// The classification of a PATH.
#[derive(Debug)]
pub(crate) enum Source {
    Library(Library),
    Program(Program),
    Script(Script),
}

/// A crate whose library contains annotated functions.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) package: Package,
    pub(crate) workspace: Workspace,
    /// The kopf-rs that it depends on.
    pub(crate) kopf: Dependency,
}

/// A crate with a program that is a complete operator.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) package: Package,
    pub(crate) workspace: Workspace,
    /// The name of the program.
    pub(crate) target: String,
}

/// Why a PATH cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// The PATH is neither a crate nor a source file. The text begins with it.
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Cargo(#[from] CargoError),
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl SourceError {
    /// Returns whether the input is invalid, as opposed to a failed operation.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        match self {
            Self::Cargo(error) => error.is_wrong_usage(),
            Self::Unfit(_) | Self::Script(_) => true,
        }
    }
}

/// Returns the error about `path`: `problem` follows it.
fn unfit(path: &Path, problem: impl Display) -> SourceError {
    SourceError::Unfit(format!("{}{problem}", path.display()))
}

impl Source {
    /// Classifies `path`; `package` selects a package of a workspace, and `cargo_args` are passed to cargo.
    pub(crate) fn find(
        path: &Path,
        package: Option<&str>,
        cargo_args: &[OsString],
    ) -> Result<Self, SourceError> {
        let real = existing(path)?;
        if real.is_file() && real.extension().is_some_and(|ending| ending == "rs") {
            return Ok(Self::Script(Script::read(&real, path)?));
        }
        let manifest = if real.ends_with("Cargo.toml") {
            real
        } else if real.is_dir() {
            real.join("Cargo.toml")
        } else {
            return Err(unfit(
                path,
                " is neither the folder of a crate nor a .rs file\n  to apply objects, name the operator and the file: kopf-rs run OPERATOR --apply FILE",
            ));
        };
        if !manifest.is_file() {
            return Err(unfit(path, format_args!(" has no Cargo.toml{}", instead(path))));
        }
        let workspace = cargo::metadata(&manifest, cargo_args)?;
        let package = choose(&workspace, &manifest, package, path)?.clone();
        of_package(package, workspace, path)
    }

    /// Returns the operator's name.
    pub(crate) fn name(&self) -> String {
        self.package().map_or_else(Script::name, |(package, _)| package.name.clone())
    }

    /// Returns the package and its workspace, or the single file.
    pub(crate) fn package(&self) -> Result<(&Package, &Workspace), &Script> {
        match self {
            Self::Script(script) => Err(script),
            Self::Library(Library { package, workspace, .. })
            | Self::Program(Program { package, workspace, .. }) => Ok((package, workspace)),
        }
    }
}

/// Returns the absolute path of an existing file or folder.
pub(crate) fn existing(path: &Path) -> Result<PathBuf, SourceError> {
    path.canonicalize()
        .map_err(|_| unfit(path, " does not exist\n  expected the folder of a crate, or a single .rs file"))
}

fn choose<'a>(
    workspace: &'a Workspace,
    manifest: &Path,
    wanted: Option<&str>,
    path: &Path,
) -> Result<&'a Package, SourceError> {
    let find = |is_meant: &dyn Fn(&Package) -> bool, problem: &str| {
        let found = workspace.packages.iter().find(|it| is_meant(it));
        found.ok_or_else(|| {
            let names: Vec<_> = workspace.packages.iter().map(|it| &*it.name).collect();
            unfit(path, format_args!(" {problem}\n  its packages: {}", names.join(", ")))
        })
    };
    match wanted {
        Some(name) => find(&|it| it.name == name, &format!("has no package `{name}`")),
        None => find(
            &|it| it.manifest_path == manifest,
            "is a workspace of several packages: choose one with --package NAME",
        ),
    }
}

/// Uses a program with `kopf_rs::main!` as it is; otherwise links the library into a generated program.
fn of_package(package: Package, workspace: Workspace, path: &Path) -> Result<Source, SourceError> {
    let name = &package.name;
    if let Some(target) = program_of(&package, path)? {
        return Ok(Source::Program(Program { package, workspace, target }));
    }
    if package.library().is_none() {
        return Err(unfit(
            path,
            format_args!(
                ": package `{name}` has neither a library nor a program whose main is `kopf_rs::main!()`\n  \
                 put the annotated functions into src/lib.rs, or the line `kopf_rs::main!();` in the place of `fn main` into src/main.rs"
            ),
        ));
    }
    let Some(kopf) = package.dependency("kopf-rs").cloned() else {
        return Err(unfit(
            path,
            format_args!(
                ": package `{name}` does not depend on kopf-rs, so it cannot have handlers\n  run in that folder: {}",
                Kopf::own().cargo_add()
            ),
        ));
    };
    Ok(Source::Library(Library { package, workspace, kopf }))
}

fn program_of(package: &Package, path: &Path) -> Result<Option<String>, SourceError> {
    let operators = package.programs().filter(|target| is_operator(target));
    let operators: Vec<&str> = operators.map(|target| &*target.name).collect();
    let default = package.default_run.as_deref();
    match operators.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).to_owned())),
        several => match default.filter(|name| several.contains(name)) {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(unfit(
                path,
                format_args!(
                    ": package `{}` has several programs whose main is `kopf_rs::main!()`: {}\n  \
                     choose one in its Cargo.toml: [package] default-run = \"NAME\"",
                    package.name,
                    several.join(", ")
                ),
            )),
        },
    }
}

/// Returns whether the program's main is `kopf_rs::main!`, judging by its text, since only the compiler knows for
/// certain.
fn is_operator(target: &Target) -> bool {
    let text = std::fs::read_to_string(&target.src_path).unwrap_or_default();
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| {
        let ours = ["kopf_rs::main!", "cli::main(", "cli::run("];
        !line.starts_with("//") && (line.starts_with("main!") || ours.iter().any(|call| line.contains(call)))
    })
}

/// Suggests an alternative for a folder that is not a crate.
fn instead(path: &Path) -> String {
    let files = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|ending| ending == "rs"))
        .collect();
    files.sort();
    match files.first() {
        Some(file) => format!(
            "\n  expected the folder of a crate, or a single .rs file: kopf-rs run {}",
            file.display()
        ),
        None => format!(
            "\n  expected the folder of a crate, or a single .rs file; to begin a crate: cargo init --lib {}",
            path.display()
        ),
    }
}
