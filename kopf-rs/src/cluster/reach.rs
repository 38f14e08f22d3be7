//! Whether the server answers at all: what one request finds out helps all that wait for it.
//!
//! While it does not, one of those that wait looks again often, for all; once it does, the others follow at once, each a random
//! moment later. Must not know what is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;

use crate::rt::rng::Rng;

/// The longest pause of the one that looks for all.
const PROBING: Duration = Duration::from_secs(3);
/// All others follow within that time.
const FOLLOWING: Duration = Duration::from_secs(1);

/// Whether the server answers.
pub(super) struct Reachability {
    lost: AtomicBool,
    regained: Notify,
    probe: Semaphore,
}

impl Default for Reachability {
    fn default() -> Self {
        Self {
            lost: AtomicBool::new(false),
            regained: Notify::new(),
            probe: Semaphore::new(1),
        }
    }
}

impl Reachability {
    /// The server has answered, whatever it said.
    pub(super) fn answered(&self) {
        if self.lost.swap(false, Ordering::Relaxed) {
            self.regained.notify_waiters();
        }
    }

    /// There was no answer.
    pub(super) fn unanswered(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Wait before the next try of a request that was not answered.
    pub(super) async fn pause(&self, pause: Duration, rng: &Rng) {
        let probe = self.probe.try_acquire();
        let pause = if probe.is_ok() {
            pause.min(PROBING)
        } else {
            pause
        };
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = self.regained.notified() => sleep(rng.jitter(FOLLOWING)).await,
        }
    }
}
