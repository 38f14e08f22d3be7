//! The built program `kopf-rs`, or any other, running beside a test: its lines awaited, its end observed.
//!
//! Promises that the program and all it started die with the test, however the test ends. Must not know what the
//! program does.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Child;

use crate::lines::Lines;
use crate::watchdog::Watchdog;

/// A running program; dropping it kills it and all it started.
#[derive(Debug)]
pub struct Program {
    /// The command, as it would be typed.
    title: String,
    child: Child,
    lines: Lines,
    patience: Duration,
    watchdog: Option<Watchdog>,
}

impl Program {
    /// Starts a program whose lines, and end, may each take up to `patience`.
    ///
    /// Must be called within a tokio runtime of real time.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(command: Command, patience: Duration) -> Self {
        let title = format!("{command:?}");
        let mut watchdog = Watchdog::start(None).expect("a shell can be started");
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let spawned = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{:?}: {error}", command.as_std()));
        watchdog
            .over(child.id().expect("a new child has an id"))
            .expect("the watchdog listens");
        let lines = Lines::new(patience);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let sink = lines.clone();
        tokio::spawn(async move {
            tokio::join!(copy(stdout, &sink), copy(stderr, &sink));
            sink.end();
        });
        Self {
            title,
            child,
            lines,
            patience,
            watchdog: Some(watchdog),
        }
    }

    /// What it wrote, standard output and standard error together.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Sends it a signal, such as `TERM`, `INT` or `KILL`; not to what it started.
    ///
    /// # Panics
    ///
    /// When it is gone already.
    pub async fn signal(&self, name: &str) {
        self.signals(&[name]).await;
    }

    /// Sends it several signals, one right after the other.
    ///
    /// # Panics
    ///
    /// When it is gone already.
    pub async fn signals(&self, names: &[&str]) {
        let pid = self.child.id().expect("the program runs").to_string();
        let each = "pid=$0; for name; do kill -s \"$name\" \"$pid\" || exit; done";
        let status = tokio::process::Command::new("sh")
            .args(["-c", each, &pid])
            .args(names)
            .status()
            .await;
        assert!(
            status.is_ok_and(|status| status.success()),
            "kill -s {names:?} {pid} failed"
        );
    }

    /// Awaits its end and all its lines.
    ///
    /// # Panics
    ///
    /// At the deadline, showing its lines.
    pub async fn ended(&mut self) -> ExitStatus {
        let waited = tokio::time::timeout(self.patience, self.child.wait()).await;
        let shown = || self.lines.all().join("\n");
        let status = waited.unwrap_or_else(|_| {
            panic!(
                "{} still runs after {:?}; lines:\n{}",
                self.title,
                self.patience,
                shown()
            )
        });
        status.expect("a child can be waited for")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        drop(self.watchdog.take());
    }
}

async fn copy(stream: Option<impl AsyncRead + Unpin>, lines: &Lines) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command, Duration::from_secs(30))
    }

    #[tokio::test]
    async fn lines_of_both_streams_and_the_exit_code() {
        let mut program = shell("echo out; echo err >&2; exit 3");
        program
            .lines()
            .until("from stdout", |line| line == "out")
            .await;
        program
            .lines()
            .until("from stderr", |line| line == "err")
            .await;
        assert_eq!(program.ended().await.code(), Some(3));
    }

    #[tokio::test]
    async fn a_signal_reaches_the_program() {
        let mut program =
            shell("trap 'echo terminated; exit 7' TERM; tail -f /dev/null & echo ready; wait");
        program.lines().until("ready", |line| line == "ready").await;
        program.signal("TERM").await;
        program
            .lines()
            .until("from the trap", |line| line == "terminated")
            .await;
        assert_eq!(program.ended().await.code(), Some(7));
    }

    #[tokio::test]
    async fn a_dropped_program_takes_its_children_with_it() {
        let program = shell("tail -f /dev/null & echo ready; wait");
        let lines = program.lines().clone();
        lines.until("ready", |line| line == "ready").await;
        drop(program);
        // The grandchild holds the other end of the pipe as long as it lives.
        lines.until_end().await;
    }
}
