//! Becoming another program, so that signals and exit codes are its own.
//!
//! Promise: on Unix nothing of this program is left. Must not know which program it is.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A program that was built and does not start.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be started: {error}", .program.display())]
struct StartError {
    program: PathBuf,
    error: std::io::Error,
}

/// Replace this process by that program; returns only where it does not start.
#[cfg(unix)]
pub(crate) fn become_program(mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(refused(&command, error))
}

/// Run that program, and end as it ended.
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
