//! A separate process for a test: awaits its lines, sends it signals and observes its exit.
//!
//! The process and all its children end with the test, regardless of how the test ends. This module does not depend
//! on the program.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Child;

use crate::testing::deadline::within;
use crate::testing::lines::Lines;

/// A running program, such as an operator with `kopf_rs::main!()`. Dropping it kills the program and all its
/// children.
///
/// ```no_run
/// use std::process::Command;
/// use std::time::Duration;
///
/// use kopf_rs::testing::{Program, TestCluster};
///
/// # async fn example() {
/// let cluster = TestCluster::with(include_str!("../../../examples/myapp/crd.yaml")).await;
/// let mut command = cluster.command("target/debug/my-operator").await; // in a test: env!("CARGO_BIN_EXE_my-operator")
/// command.args(["--all-namespaces", "--verbose"]);
/// let mut operator = Program::start(command, Duration::from_secs(60));
/// operator.lines().until("of a start", |line| line.contains("Serving")).await;
/// operator.signal("TERM").await;
/// assert_eq!(operator.ended().await.code(), Some(0));
/// # }
/// ```
#[derive(Debug)]
pub struct Program {
    /// The command, as typed in a shell.
    title: String,
    child: Child,
    lines: Lines,
    #[cfg(unix)]
    guard: Option<guard::Guard>,
}

impl Program {
    /// Starts a program. `patience` limits waits for its lines and for its exit. Needs a tokio runtime with real
    /// time.
    ///
    /// # Panics
    /// Panics if the program cannot be started.
    #[must_use]
    pub fn start(command: Command, patience: Duration) -> Self {
        let title = format!("{command:?}");
        #[cfg(unix)]
        let mut guard = guard::Guard::start();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{title}: {error}"));
        #[cfg(unix)]
        if let Some(id) = child.id() {
            guard.watch_over(id);
        }
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
            #[cfg(unix)]
            guard: Some(guard),
        }
    }

    /// Returns the lines of its standard output and standard error.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Sends the program a signal, such as `TERM`, `INT` or `KILL`. Its children do not get the signal.
    ///
    /// # Panics
    /// Panics if the program has exited, or if the system is not Unix.
    pub async fn signal(&self, name: &str) {
        self.signals(&[name]).await;
    }

    /// Sends the program several signals in quick succession.
    ///
    /// # Panics
    /// Panics if the program has exited, or if the system is not Unix.
    pub async fn signals(&self, names: &[&str]) {
        let Some(pid) = self.child.id() else { panic!("{} is gone\n{}", self.title, self.lines.shown()) };
        let each = "pid=$0; for name; do kill -s \"$name\" \"$pid\" || exit; done";
        let mut kill = tokio::process::Command::new("sh");
        kill.args(["-c", each, &pid.to_string()]).args(names);
        let killed = kill.status().await.is_ok_and(|status| status.success());
        assert!(killed, "kill -s {names:?} {pid} failed");
    }

    /// Waits for its exit, kills the children that it left behind, and waits for all its lines.
    ///
    /// # Panics
    /// Panics at the deadline, showing its lines.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = within(self.lines.patience(), self.child.wait()).await;
        let Some(ended) = ended else {
            let patience = self.lines.patience();
            panic!("{} still runs after {patience:?}\n{}", self.title, self.lines.shown());
        };
        // A child that still runs would keep the output open.
        #[cfg(unix)]
        drop(self.guard.take());
        self.lines.until_end().await;
        ended.unwrap_or_else(|error| panic!("{}: {error}", self.title))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have exited already.
        let _ = self.child.start_kill();
        #[cfg(unix)]
        drop(self.guard.take());
    }
}

async fn copy(stream: Option<impl AsyncRead + Unpin>, lines: &Lines) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    // Reads bytes, since the output may not be valid UTF-8. Reads to the end, since closing the pipe early would
    // break the program's writes.
    while reader.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let whole = line.strip_suffix(b"\n").unwrap_or(&line);
        let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
        lines.push(String::from_utf8_lossy(whole));
        line.clear();
    }
}

/// A helper shell that reads a pipe from this process. When this process ends in any way, including SIGKILL, the pipe
/// closes, and the shell kills the program and its children.
#[cfg(unix)]
mod guard {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    const SCRIPT: &str = r#"read -r pid; while read -r _; do :; done; kill -s KILL -- "-$pid" 2>/dev/null"#;

    #[derive(Debug)]
    pub(super) struct Guard(Option<Child>);

    impl Guard {
        /// Starts the guard before the program, so that the program is never unguarded. Without a shell, there is no
        /// guard.
        pub(super) fn start() -> Self {
            let shell = Command::new("sh")
                .args(["-c", SCRIPT])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn();
            Self(shell.ok())
        }

        /// Sets the process group to kill.
        pub(super) fn watch_over(&mut self, group: u32) {
            let shell = self.0.as_mut();
            if let Some(pipe) = shell.and_then(|shell| shell.stdin.as_mut()) {
                // The shell may have exited.
                let _ = writeln!(pipe, "{group}");
            }
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if let Some(mut shell) = self.0.take() {
                drop(shell.stdin.take());
                let _ = shell.wait();
            }
        }
    }
}

#[cfg(all(test, unix))]
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
        program.lines().until("from stdout", |line| line == "out").await;
        program.lines().until("from stderr", |line| line == "err").await;
        assert_eq!(program.ended().await.code(), Some(3));
    }

    #[tokio::test]
    async fn an_exit_is_reported_after_all_lines() {
        let fifo = std::env::temp_dir().join(format!("kopf-rs-program-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut program = shell(&format!("exec 3> {}; echo last", fifo.display()));
        // Blocks this thread until the exit, so that nothing can read the line before it.
        std::fs::read(&fifo).unwrap();
        std::fs::remove_file(&fifo).unwrap();
        assert_eq!(program.ended().await.code(), Some(0));
        assert_eq!(program.lines().all(), ["last"]);
    }

    #[tokio::test]
    async fn invalid_utf_8_hides_no_line() {
        let mut program = shell(r"printf 'a\377b\r\n'; echo after; printf 'the end'");
        let lines = program.lines().clone();
        lines.until("after that", |line| line == "after").await;
        assert_eq!(program.ended().await.code(), Some(0));
        assert_eq!(lines.all(), ["a\u{fffd}b", "after", "the end"]);
    }

    #[tokio::test]
    async fn a_signal_reaches_the_program() {
        let mut program = shell("trap 'echo terminated; exit 7' TERM; tail -f /dev/null & echo ready; wait");
        program.lines().until("ready", |line| line == "ready").await;
        program.signal("TERM").await;
        program.lines().until("from the trap", |line| line == "terminated").await;
        assert_eq!(program.ended().await.code(), Some(7));
    }

    #[tokio::test]
    async fn a_dropped_program_takes_its_children_with_it() {
        let program = shell("tail -f /dev/null & echo ready; wait");
        let lines = program.lines().clone();
        lines.until("ready", |line| line == "ready").await;
        drop(program);
        // The grandchild holds the other end of the pipe while it lives.
        lines.until_end().await;
    }
}
