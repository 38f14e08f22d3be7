//! An operator as a process: started, measured, awaited until it rests, and always ended.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::usage::{self, Usage};

/// Waits for the end of its input, which comes when this process ends in any way, and then kills the process `$1`.
const GUARD: &str = r#"cat >/dev/null; kill -KILL "$1" 2>/dev/null"#;
/// A process with at most `REST_CPU` of CPU time in the last `REST_SPAN` is at rest.
const REST_SPAN: Duration = Duration::from_millis(500);
const REST_CPU: Duration = Duration::from_millis(5);
const REST_DEADLINE: Duration = Duration::from_secs(120);
const PULSE: Duration = Duration::from_millis(20);

/// A running operator; dropping it kills it.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    guard: Child,
    log: PathBuf,
    /// The time of its start.
    pub started: Instant,
}

impl Operator {
    /// Starts an operator with a kubeconfig, and writes its output to a file.
    pub fn spawn(mut command: Command, kubeconfig: &Path, log: PathBuf) -> Result<Self> {
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        command
            .env("KUBECONFIG", kubeconfig)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", &child.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .context("starting the guard of an operator")?;
        Ok(Self { child, guard, log, started })
    }

    /// Fails with the last lines of its output if it has ended by itself.
    pub fn must_run(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the operator ended with {status}; it said:\n{}", self.last_words());
        }
        Ok(())
    }

    /// Returns the last lines of its output.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    pub fn usage(&self) -> Result<Usage> {
        usage::of(self.child.id()).context("usage of the operator")
    }

    /// Waits until it is at rest, and returns when the rest began.
    pub async fn until_rest(&mut self) -> Result<Instant> {
        let deadline = Instant::now() + REST_DEADLINE;
        let mut past = VecDeque::new();
        let mut pulse = tokio::time::interval(PULSE);
        loop {
            pulse.tick().await;
            self.must_run()?;
            let (now, used) = (Instant::now(), usage::cpu(self.child.id())?);
            past.push_back((now, used));
            while past.get(1).is_some_and(|(then, _)| now - *then >= REST_SPAN) {
                past.pop_front();
            }
            let (since, before) = past[0];
            if now - since >= REST_SPAN && used.saturating_sub(before) <= REST_CPU {
                return Ok(since);
            }
            if now > deadline {
                bail!("the operator did not come to rest within {REST_DEADLINE:?}");
            }
        }
    }
}

/// A port of this machine that nobody listens at.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

impl Drop for Operator {
    fn drop(&mut self) {
        // End the guard first, because after `wait` another process may get the child's process id.
        for process in [&mut self.guard, &mut self.child] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
