//! A program that a test runs: its output, signals, and its exit.
//!
//! Every wait has a deadline, after which it panics with the output. The program and its children end with the test. Must not know the
//! purpose of the program.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::watch;

use crate::watchdog::Watchdog;

/// A running program; dropping it kills it with all its children.
#[derive(Debug)]
pub struct Program {
    /// The command, as a failure shows it.
    title: String,
    child: Child,
    patience: Duration,
    /// The lines of both streams; the sender is dropped when both have ended.
    lines: watch::Receiver<Vec<String>>,
    _watchdog: Watchdog,
}

impl Program {
    /// Starts a program. `patience` is the deadline for its lines and for its exit.
    #[must_use]
    pub fn start(command: Command, patience: Duration) -> Self {
        let title = format!("{command:?}");
        let mut watchdog = Watchdog::start(None).expect("a shell can be run");
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{title}: {error}"));
        let process = child.id().expect("nobody has waited for it");
        watchdog.over(process).expect("the watchdog reads");
        let (sink, lines) = watch::channel(Vec::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        tokio::spawn(async move { tokio::join!(copy(stdout, &sink), copy(stderr, &sink)) });
        Self {
            title,
            child,
            patience,
            lines,
            _watchdog: watchdog,
        }
    }

    /// Returns all lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits until the lines satisfy a condition, and returns them.
    pub async fn until(&self, what: &str, condition: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut lines = self.lines.clone();
        let waited = tokio::time::timeout(self.patience, lines.wait_for(|it| condition(it))).await;
        match waited {
            Ok(Ok(found)) => found.clone(),
            _ => panic!("{}: no {what} in\n{}", self.title, self.shown()),
        }
    }

    /// Sends a signal, such as `TERM`, to the program without its children.
    pub fn signal(&self, name: &str) {
        let process = self.child.id().expect("nobody has waited for it");
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -s \"$0\" \"$1\"", name, &process.to_string()]);
        let killed = kill.status().is_ok_and(|status| status.success());
        assert!(killed, "kill -s {name} {process} failed");
    }

    /// Waits for the exit and for all lines. Returns the exit code, or the negative number of the signal that ended the program.
    pub async fn ended(&mut self) -> i32 {
        let mut lines = self.lines.clone();
        let all = async {
            let status = self.child.wait().await.expect("it was started");
            // An error is the end of the lines.
            while lines.changed().await.is_ok() {}
            status
        };
        let Ok(status) = tokio::time::timeout(self.patience, all).await else {
            panic!("{}: it still runs after\n{}", self.title, self.shown());
        };
        code(status)
    }

    fn shown(&self) -> String {
        self.lines().join("\n")
    }
}

fn code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| -signal);
    status.code().or(signal).unwrap_or_default()
}

/// Copies the lines of a stream until its end. Reads bytes, because a program may write invalid UTF-8.
async fn copy(stream: Option<impl AsyncRead + Unpin>, lines: &watch::Sender<Vec<String>>) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = reader.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r').to_owned();
        lines.send_modify(|lines| lines.push(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_signals_and_ends_are_awaited() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exec sleep 60"]);
        let mut program = Program::start(command, Duration::from_secs(30));
        let mut lines = program.until("two lines", |lines| lines.len() == 2).await;
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
        program.signal("TERM");
        assert_eq!(program.ended().await, -15);
    }
}
