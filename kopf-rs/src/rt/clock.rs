//! The one clock: a wall anchor taken at start plus tokio's elapsed time, so that paused time moves it.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time. Clones share the anchor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    start: Instant,
}

impl Clock {
    /// Anchor the clock now. Needs a tokio runtime when its time is paused.
    pub(crate) fn start() -> Self {
        Self {
            wall: Timestamp::now(),
            start: Instant::now(),
        }
    }
    /// The wall time.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
    /// When `at` will be, for sleeping; now where it is past.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        Instant::now()
            + std::time::Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
    }
}
