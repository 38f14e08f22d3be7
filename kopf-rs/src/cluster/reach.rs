//! Shares one request's finding that the server is reachable with all requests that wait for it.
//!
//! During an outage, one waiting request probes the server often on behalf of all. Once the server responds, the
//! others follow, each after a random delay. This module must not depend on the content of requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;

use crate::rt::rng::Rng;

/// The longest pause between probes.
const PROBING: Duration = Duration::from_secs(3);
/// The time within which all other requests follow.
const FOLLOWING: Duration = Duration::from_secs(1);

/// The reachability of the server.
pub(super) struct Reachability {
    lost: AtomicBool,
    regained: Notify,
    probe: Semaphore,
}

impl Default for Reachability {
    fn default() -> Self {
        Self { lost: AtomicBool::new(false), regained: Notify::new(), probe: Semaphore::new(1) }
    }
}

impl Reachability {
    /// Records that the server has responded, with any status.
    pub(super) fn answered(&self) {
        if self.lost.swap(false, Ordering::Relaxed) {
            self.regained.notify_waiters();
        }
    }

    /// Records a request without a response.
    pub(super) fn unanswered(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Waits before the next attempt of a request that got no response.
    pub(super) async fn pause(&self, pause: Duration, rng: &Rng) {
        let probe = self.probe.try_acquire();
        let pause = if probe.is_ok() { pause.min(PROBING) } else { pause };
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = self.regained.notified() => sleep(rng.jitter(FOLLOWING)).await,
        }
    }
}
