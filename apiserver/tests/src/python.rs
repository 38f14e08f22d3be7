//! Python programs, each in its own virtual environment, made once per machine and outside the repository.
//!
//! `tests/python/*.txt` pins the packages. An environment appears under its final name only when it is complete. Must not know which
//! programs run in it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::{Missing, say, skipped, slow};
use crate::toolchain::{cache_root, key, once_per_machine};

/// Names of the Python interpreter; the first one that starts creates the environment.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// A Python package that the tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Kopf itself, for comparison.
    Kopf,
    /// The official Kubernetes client for Python.
    Kubernetes,
    /// Community clients: lightkube, pykube-ng, kr8s.
    Community,
    /// Moto, which simulates AWS on this machine, for the examples.
    Moto,
    /// The Prometheus client, which parses expositions, and a `PromQL` parser.
    Prometheus,
}

/// The reason why a Python package is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// The machine has no Python.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The installation failed.
    #[error("{step} failed: {stderr}")]
    Install {
        /// The command that failed.
        step: String,
        /// Its error output.
        stderr: String,
    },
    /// The cache folder could not be used.
    #[error("cache of Python environments at {path}: {source}")]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// Returns the Python interpreter that can import the pinned package; installs the package first if necessary.
///
/// # Errors
///
/// Returns an error if Python is missing, the packages cannot be installed, or the cache folder cannot be written.
pub fn python_of(package: Package) -> Result<PathBuf, PythonError> {
    slow("a program in Python");
    let name = format!("{package:?}").to_lowercase();
    let requirements = requirements(package);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PythonError::Cache { path, source }
    };
    let hash = key(&[&requirements]).map_err(at(&requirements))?;
    let home = cache_root().join(format!("{name}-{hash}"));
    let python = home.join("bin/python");
    let complete = home.join("complete");
    once_per_machine(
        &home,
        &complete,
        |path, source| at(path)(source),
        || {
            say(&format!(
                "installing {name} into a Python environment, once per machine"
            ));
            run(Command::new(base()?)
                .args(["-m", "venv", "--clear"])
                .arg(&home))?;
            run(Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "-r",
                ])
                .arg(&requirements))?;
            std::fs::write(&complete, "").map_err(at(&complete))
        },
    )?;
    Ok(python)
}

/// Does the same as [`python_of`] for `test`, and records it as skipped if Python is missing.
///
/// # Panics
///
/// Panics if the package is unavailable for another reason.
#[must_use]
pub fn python_for(test: &str, package: Package) -> Option<PathBuf> {
    match python_of(package) {
        Ok(python) => Some(python),
        Err(PythonError::Missing(missing)) => {
            skipped(test, &missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the file that pins a package and its dependencies.
#[must_use]
pub fn requirements(package: Package) -> PathBuf {
    let name = format!("{package:?}").to_lowercase();
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("python/{name}.txt"))
}

fn base() -> Result<&'static str, Missing> {
    let starts = |python: &&str| {
        let run = Command::new(python).arg("--version").output();
        run.is_ok_and(|run| run.status.success())
    };
    PYTHONS.into_iter().find(starts).ok_or_else(|| Missing {
        what: "Python".into(),
        detail: "no `python3` on PATH".into(),
    })
}

fn run(command: &mut Command) -> Result<(), PythonError> {
    let step = format!("{command:?}");
    let failed = |stderr: String| PythonError::Install {
        step: step.clone(),
        stderr,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}
