//! The watch beside a run: an input that takes too long or too much memory ends the test, and is shown.
//!
//! Promise: it knows which input was begun last. Must not know what is done with it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long one input may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// By how many MiB the process may grow.
const GROWTH: u64 = 1024;
/// How often it is looked at.
const PULSE: Duration = Duration::from_millis(100);

/// What is being done, and since when.
type Now = Arc<Mutex<Option<(&'static str, Vec<u8>, Instant)>>>;

/// A thread that looks on; it ends with this.
pub(super) struct Watch {
    now: Now,
    _ends: Sender<()>,
}

// === impl Watch ===

impl Watch {
    pub(super) fn begin() -> Self {
        let (ends, ended) = channel();
        let now = Now::default();
        let seen = now.clone();
        std::thread::spawn(move || look_on(&seen, &ended));
        Self { now, _ends: ends }
    }

    /// An input is begun.
    pub(super) fn over(&self, target: &'static str, input: &[u8]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = Some((target, input.to_vec(), Instant::now()));
    }

    /// Nothing is being done.
    pub(super) fn rest(&self) {
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
        // The input cannot be interrupted: the process ends.
        eprintln!("fuzz {target}: {why}: \"{}\"", input.escape_ascii());
        std::process::abort();
    }
}

/// The memory of this process in MiB; 0 where the system does not tell.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096 / (1 << 20)
}
