//! Child processes that never outlive the test process, however it ends.
//!
//! Beside each child runs a small shell that reads a pipe from the test process. When the test process ends, even by SIGKILL, the pipe
//! closes, and the shell kills the child's process group and removes its folder. Dropping the handle does the same at once. Must not know
//! the children's programs.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Reads the process group from its first input line, waits for the end of its input, then kills the group and removes the folder `$1`.
const GUARD: &str = r#"read -r pid; while read -r _; do :; done; kill -s KILL -- "-$pid" 2>/dev/null; [ -z "$1" ] || rm -rf -- "$1""#;

/// The shell beside a process group; dropping it kills the group and waits until its folder is removed.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Starts the shell before the child, so that the child is guarded from its start.
    pub(crate) fn start(folder: Option<&Path>) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", GUARD, "watchdog"])
            .arg(folder.map_or_else(|| "".as_ref(), Path::as_os_str))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Sets the process group to kill at the end.
    pub(crate) fn over(&mut self, group: u32) -> io::Result<()> {
        match self.shell.stdin.as_mut() {
            Some(pipe) => writeln!(pipe, "{group}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A server process with its own folder, which contains its output in `output.log`.
#[derive(Debug)]
pub(crate) struct Guarded {
    child: Child,
    folder: PathBuf,
    watchdog: Option<Watchdog>,
}

impl Guarded {
    /// Starts `command` in a new process group.
    pub(crate) fn spawn(mut command: Command, folder: &Path) -> io::Result<Self> {
        let mut watchdog = Watchdog::start(Some(folder))?;
        let log = std::fs::File::create(folder.join("output.log"))?;
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        watchdog.over(child.id())?;
        Ok(Self {
            child,
            folder: folder.to_owned(),
            watchdog: Some(watchdog),
        })
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status, if the process has exited.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the last lines of its output.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("output.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Kills the process, waits for its end and the removal of its folder; later calls have no effect.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.watchdog.take());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_end_of_our_pipe_ends_the_whole_group_and_its_folder() {
        let folder = std::env::temp_dir().join(format!("kopf-rs-watchdog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut watchdog = Watchdog::start(Some(&folder)).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "tail -f /dev/null & echo ready; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        watchdog.over(child.id()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .try_for_each(|line| tell.send(line))
        });
        let patience = Duration::from_secs(30);
        assert_eq!(told.recv_timeout(patience).unwrap().unwrap(), "ready");
        drop(watchdog);
        // The grandchild holds the other end of the pipe for as long as it lives.
        assert_eq!(
            told.recv_timeout(patience).unwrap_err(),
            RecvTimeoutError::Disconnected
        );
        assert!(!child.wait().unwrap().success());
        assert!(!folder.exists());
    }
}
