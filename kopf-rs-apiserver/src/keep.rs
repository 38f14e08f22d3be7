//! The task that does what is due while nobody asks for anything: it waits for changes and for the clock.
//!
//! Promise: runs from the first request (or from the moment workloads are asked for) until the server is gone; sleeps by
//! tokio's clock, so that virtual time moves it. Must not know what is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::serve::shared::Core;

/// How long the task waits when nothing is planned.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// Whether the task runs, and how to wake it up.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    runs: AtomicBool,
    signal: Arc<Notify>,
}

/// Says that the task runs, as long as it does: its runtime may end before the server.
struct Running(Weak<Core>);

// === impl Keeper ===

impl Keeper {
    /// What wakes the task.
    pub(crate) fn signal(&self) -> Arc<Notify> {
        self.signal.clone()
    }

    /// Let the task run from now on, if there is something for it to do and a runtime to run in.
    pub(crate) fn start(core: &Arc<Core>) {
        let keeper = &core.keeper;
        if keeper.runs.load(Ordering::Relaxed) || !core.store().has_plans() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if !keeper.runs.swap(true, Ordering::AcqRel) {
            let running = Running(Arc::downgrade(core));
            runtime.spawn(run(running, keeper.signal()));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.signal.notify_one();
    }
}

// === impl Running ===

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.keeper.runs.store(false, Ordering::Release);
        }
    }
}

async fn run(running: Running, signal: Arc<Notify>) {
    loop {
        let next = {
            let Some(core) = running.0.upgrade() else {
                return;
            };
            core.tend()
        };
        let next = next.unwrap_or(IDLE);
        tokio::task::yield_now().await;
        // Woken or in time: either way it is time to look.
        let _elapsed = tokio::time::timeout_at(Instant::now() + next, signal.notified()).await;
    }
}
