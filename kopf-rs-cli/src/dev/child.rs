//! The child processes of `kopf-rs dev`, whose output appears above the status line.
//!
//! This module does not know which programs they are.

use std::io;
use std::process::{Command, Stdio};
use std::thread;

use crate::processes::{self, Handle};
use crate::terminal::{self, Stream};

/// Starts a process that signals of the terminal do not reach. Calls `seen` after each line of its standard output if that is piped, and `ended`
/// with its exit code after its last line.
pub(super) fn start(
    command: &mut Command,
    seen: impl Fn() + Send + 'static,
    ended: impl FnOnce(Option<i32>) + Send + 'static,
) -> io::Result<Handle> {
    command.stdin(Stdio::null()).stderr(terminal::output_of_child());
    let (mut child, handle) = processes::spawn(command, true)?;
    let output = child.stdout.take().map(|it| terminal::relay(it, Stream::Output, seen));
    let errors = child.stderr.take().map(|it| terminal::relay(it, Stream::Error, || ()));
    let waiting = handle.clone();
    thread::spawn(move || {
        let status = waiting.wait(&mut child);
        terminal::drain(output.into_iter().chain(errors));
        ended(status.ok().and_then(|status| status.code()));
    });
    Ok(handle)
}
