//! A watchdog: if an input takes too long or needs too much memory, it prints the input and aborts the process.
//!
//! Guarantees that the printed input is the one that was started last. Must not depend on the use of inputs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time limit for one input.
const PATIENCE: Duration = Duration::from_secs(20);
/// The memory that the process may gain, in MiB.
const GROWTH: u64 = 1024;
/// The interval of checks.
const PULSE: Duration = Duration::from_millis(100);

/// The current target and input, with its start time.
type Now = Arc<Mutex<Option<(&'static str, Vec<u8>, Instant)>>>;

/// A watchdog thread, which ends when this is dropped.
pub(crate) struct Watch {
    now: Now,
    _ends: Sender<()>,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn begin() -> Self {
        let (ends, ended) = channel();
        let now = Now::default();
        let seen = now.clone();
        std::thread::spawn(move || look_on(&seen, &ended));
        Self { now, _ends: ends }
    }

    /// Records the start of an input.
    pub(crate) fn over(&self, target: &'static str, input: &[u8]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = Some((target, input.to_vec(), Instant::now()));
    }

    /// Records that no input is running.
    pub(crate) fn rest(&self) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn look_on(now: &Now, ended: &Receiver<()>) {
    let before = resident();
    while ended.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
        let now = now.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((target, input, since)) = &*now else {
            continue;
        };
        let grown = resident().saturating_sub(before);
        let why = if since.elapsed() > PATIENCE {
            format!("hangs for {PATIENCE:?}")
        } else if grown > GROWTH {
            format!("has taken {grown} MiB")
        } else {
            continue;
        };
        // Code that hangs cannot be interrupted, so the process aborts.
        eprintln!("fuzz {target}: {why}: \"{}\"", input.escape_ascii());
        std::process::abort();
    }
}

/// Returns the resident memory of this process in MiB, or 0 if the system does not report it.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096 / (1 << 20)
}
