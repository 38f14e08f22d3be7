//! `kopf-rs manifests --observe`: runs the tests of the crates, which record the requests of handlers, and lets the operator compare these
//! with its permissions.
//!
//! This module does not know how requests are recorded and compared, which is the library's task.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::args::Run;
use crate::cargo;
use crate::run::{self, RunError, crate_args, sources};

/// The variable of `kopf_rs::testing`: the folder for the recorded requests.
const FOLDER: &str = "KOPF_RS_OBSERVE";

/// Runs the tests, and becomes the operator, which prints the comparison.
pub(crate) fn observe(run: &Run, operator_args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    let sources = sources(run)?;
    let crates = sources.iter().map(|it| it.package().map_err(|script| RunError::NotTested(script.name())));
    let crates = crates.collect::<Result<Vec<_>, _>>()?;
    let mut args = operator_args.to_vec();
    if let [(first, workspace), ..] = &crates[..] {
        let folder = workspace.target_directory.join("kopf-run").join(format!("{}-observed", first.name));
        remove(&folder)?;
        for (package, _) in &crates {
            cargo::test(&package.name, &package.manifest_path, &crate_args(run), (FOLDER, &folder))?;
        }
        args.push(["--observed".as_ref(), folder.as_os_str()].join("=".as_ref()));
    }
    run::run(run, &args)
}

/// Removes the requests of a former run.
fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!(
            "cannot remove {}: {error}\n  the tests record requests there: set CARGO_TARGET_DIR to a folder that can be written",
            folder.display()
        )),
        _ => Ok(()),
    }
}
