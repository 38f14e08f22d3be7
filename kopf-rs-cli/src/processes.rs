//! Child processes: starts them, signals them, and ends builds that run when this program is asked to end.
//!
//! Guarantees that a signal reaches the children of a child, too, if the child leads a process group of its own. This module does not know
//! which programs it starts.

use std::io;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The builds that run, and whether this program is about to end.
static BUILDS: Mutex<Builds> = Mutex::new(Builds { running: Vec::new(), are_ended: false });

struct Builds {
    running: Vec<Handle>,
    are_ended: bool,
}

/// A child process that can be signalled from any thread until it has been waited for.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    id: u32,
    leads_group: bool,
    is_running: Arc<Mutex<bool>>,
}

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGTERM.
    Gracefully,
    /// SIGKILL.
    AtOnce,
}

/// Starts a command. With `leads_group`, signals of the terminal do not reach it, and [`Handle::end`] reaches its children.
pub(crate) fn spawn(command: &mut Command, leads_group: bool) -> io::Result<(Child, Handle)> {
    #[cfg(unix)]
    if leads_group {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    let child = command.spawn()?;
    let handle = Handle { id: child.id(), leads_group, is_running: Arc::new(Mutex::new(true)) };
    Ok((child, handle))
}

/// Starts a build, which [`end_builds`] ends.
pub(crate) fn spawn_build(command: &mut Command) -> io::Result<(Child, Handle)> {
    let mut builds = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    if builds.are_ended {
        return Err(io::ErrorKind::Interrupted.into());
    }
    // In the group of a terminal, git and ssh may ask for a password, and Ctrl+C reaches all processes anyway.
    let leads_group = !io::IsTerminal::is_terminal(&io::stdin());
    let (child, handle) = spawn(command, leads_group)?;
    builds.running.retain(|it| *it.is_running());
    builds.running.push(handle.clone());
    Ok((child, handle))
}

/// Runs a build to its end, and returns its piped output.
pub(crate) fn run_build(command: &mut Command) -> io::Result<Output> {
    let (child, handle) = spawn_build(command)?;
    let output = child.wait_with_output();
    *handle.is_running() = false;
    output
}

/// Ends the builds that run, and refuses further ones.
pub(crate) fn end_builds() {
    let mut builds = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    builds.are_ended = true;
    for build in builds.running.drain(..) {
        build.end(End::Gracefully);
    }
}

/// Returns whether builds were ended by [`end_builds`].
pub(crate) fn are_builds_ended() -> bool {
    BUILDS.lock().unwrap_or_else(PoisonError::into_inner).are_ended
}

// === impl Handle ===

impl Handle {
    /// Returns whether [`Self::end`] sends a signal: after the process has ended, another process may get its id.
    fn is_running(&self) -> MutexGuard<'_, bool> {
        self.is_running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the process.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let status = child.wait();
        *self.is_running() = false;
        status
    }

    /// Asks the process to end, and kills it if it has not ended after this time; calls `overdue` before.
    pub(crate) fn stop(&self, patience: Duration, overdue: impl FnOnce() + Send + 'static) {
        self.end(End::Gracefully);
        let handle = self.clone();
        std::thread::spawn(move || {
            let (_open, never) = channel::<()>();
            let _timeout = never.recv_timeout(patience);
            if *handle.is_running() {
                overdue();
                handle.end(End::AtOnce);
            }
        });
    }

    /// Ends the process. Does nothing if it has ended.
    pub(crate) fn end(&self, how: End) {
        let is_running = self.is_running();
        if *is_running {
            self.signal(how);
        }
    }

    #[cfg(unix)]
    fn signal(&self, how: End) {
        use rustix::process::{Pid, Signal, kill_process, kill_process_group};
        let signal = match how {
            End::Gracefully => Signal::TERM,
            End::AtOnce => Signal::KILL,
        };
        let Some(pid) = i32::try_from(self.id).ok().and_then(Pid::from_raw) else {
            return;
        };
        // Fails only if the process has just ended.
        let _signalled =
            if self.leads_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }

    /// Windows has no signal that asks a program of the console to end.
    #[cfg(not(unix))]
    fn signal(&self, _: End) {
        let _killed = Command::new("taskkill").args(["/T", "/F", "/PID", &self.id.to_string()]).output();
    }
}

/// Calls `asked` in a thread with the number of each signal that asks this program to end.
#[cfg(unix)]
pub(crate) fn on_signals(signals: &[i32], asked: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(asked))?;
    Ok(())
}

/// Windows ends the console's processes together.
#[cfg(not(unix))]
pub(crate) fn on_signals(_: &[i32], _: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    Ok(())
}

/// SIGHUP: the terminal is gone.
pub(crate) const HANGUP: i32 = 1;
/// SIGINT: Ctrl+C.
pub(crate) const INTERRUPT: i32 = 2;
/// SIGTERM.
pub(crate) const TERMINATE: i32 = 15;

/// Ends this program at the first signal, together with its builds, with the exit code that shells use for the signal.
pub(crate) fn end_with_builds() -> io::Result<()> {
    on_signals(&[INTERRUPT, TERMINATE], |signal| {
        end_builds();
        std::process::exit(128 + signal);
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_signal_reaches_the_children_of_a_group() {
        let mut command = Command::new("sh");
        command.args(["-c", "tail -f /dev/null & echo ready; wait"]).stdout(Stdio::piped());
        let (mut child, handle) = spawn(&mut command, true).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).unwrap();
        handle.end(End::Gracefully);
        assert!(!handle.wait(&mut child).unwrap().success());
        // The grandchild holds the other end of the pipe while it lives.
        stdout.read_to_end(&mut Vec::new()).unwrap();
        handle.end(End::AtOnce);
    }

    #[test]
    fn a_process_that_does_not_stop_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo ready; read forever"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut child, handle) = spawn(&mut command, true).unwrap();
        let stdin = child.stdin.take().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        let (sender, overdue) = channel();
        handle.stop(Duration::from_millis(100), move || sender.send(()).unwrap());
        let status = handle.wait(&mut child).unwrap();
        assert_eq!((overdue.recv(), status.code()), (Ok(()), None));
        drop(stdin);
        let (sender, overdue) = channel();
        handle.stop(Duration::ZERO, move || sender.send(()).unwrap());
        assert!(overdue.recv().is_err(), "it has ended before");
    }
}
