//! The background task that does due work while no request arrives: it waits for changes and for the clock.
//!
//! Runs from the first request, or from the call that enables workloads, until the server is dropped. Sleeps on tokio's clock, so
//! that virtual time drives it. Independent of the work itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::serve::shared::Core;

/// The time until the next run if no work is planned.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// The state of the background task, and the signal that wakes it.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    runs: AtomicBool,
    signal: Arc<Notify>,
}

/// Marks the task as running until it is dropped, as the runtime of the task may end before the server.
struct Running(Weak<Core>);

// === impl Keeper ===

impl Keeper {
    /// Returns the signal that wakes the task.
    pub(crate) fn signal(&self) -> Arc<Notify> {
        self.signal.clone()
    }

    /// Starts the task if it is not running, has work to do, and there is a runtime to run it.
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
        // The task looks for work after a signal and after the timeout alike.
        let _elapsed = tokio::time::timeout_at(Instant::now() + next, signal.notified()).await;
    }
}
