//! Replaces this process by another program, so that signals and exit codes are the program's own.
//!
//! On Unix, no process of this program remains. This module does not know which program it is.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A built program that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be started: {error}", .program.display())]
struct StartError {
    program: PathBuf,
    error: std::io::Error,
}

/// Replaces this process by that program; returns only on failure.
#[cfg(unix)]
pub(crate) fn become_program(mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(refused(&command, error))
}

/// Runs that program, and exits with its exit code.
#[cfg(not(unix))]
pub(crate) fn become_program(mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let status = command.status().map_err(|error| refused(&command, error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn refused(command: &Command, error: std::io::Error) -> Box<dyn Error> {
    let program = PathBuf::from(command.get_program());
    StartError { program, error }.into()
}
