//! The one clock of the server: a wall anchor taken once, moved on by tokio's elapsed time.
//!
//! Promise: under `tokio::time::pause` timestamps move with virtual time, and nothing else here reads a clock, but for the
//! validity of certificates.
//! Must not know what the timestamps are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time that follows tokio's time. Clones jump together.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    since: Instant,
    /// By how many seconds it has jumped.
    jumped: Arc<AtomicI64>,
}

impl Clock {
    /// Anchor the clock at the real wall time of now.
    pub(crate) fn new() -> Self {
        Self {
            wall: Timestamp::now(),
            since: Instant::now(),
            jumped: Arc::default(),
        }
    }

    /// Go on from so many seconds later, or earlier if negative.
    pub(crate) fn jump(&self, seconds: i64) {
        self.jumped.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The time now, as tokio sees it.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = Instant::now().saturating_duration_since(self.since);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::ZERO);
        let jumped = SignedDuration::from_secs(self.jumped.load(Ordering::Relaxed));
        let elapsed = elapsed.saturating_add(jumped);
        self.wall.saturating_add(elapsed).unwrap_or(self.wall)
    }

    /// The time now as Kubernetes writes it: UTC, whole seconds.
    pub(crate) fn stamp(&self) -> String {
        stamp(self.now())
    }

    /// Whole seconds since the epoch, for the validity of tokens.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.now().as_second()
    }
}

/// The real time in whole seconds since the epoch. Clients check certificates by it, wherever the server's clock has jumped to.
pub(crate) fn real_seconds() -> i64 {
    Timestamp::now().as_second()
}

/// A moment as Kubernetes writes it: UTC, whole seconds.
pub(crate) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_the_stamp() {
        let clock = Clock::new();
        let before = clock.now();
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        assert_eq!(clock.now().as_second() - before.as_second(), 3600);
        assert_eq!(clock.stamp().len(), "2026-01-01T00:00:00Z".len());
        clock.clone().jump(-7200);
        assert_eq!(clock.now().as_second() - before.as_second(), -3600);
    }
}
