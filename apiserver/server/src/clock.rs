//! The server's clock: the wall time at start plus tokio's elapsed time.
//!
//! Under `tokio::time::pause`, timestamps follow the virtual time. Only the validity of certificates uses another clock.
//! Independent of the use of timestamps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time that follows tokio's time. All clones share later jumps.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    since: Instant,
    /// The sum of all jumps, in seconds.
    jumped: Arc<AtomicI64>,
}

impl Clock {
    /// Starts a clock at the current wall time.
    pub(crate) fn new() -> Self {
        Self {
            wall: Timestamp::now(),
            since: Instant::now(),
            jumped: Arc::default(),
        }
    }

    /// Moves the clock forward, or back if `seconds` is negative.
    pub(crate) fn jump(&self, seconds: i64) {
        self.jumped.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Returns the current time, which follows tokio's time.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = Instant::now().saturating_duration_since(self.since);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::ZERO);
        let jumped = SignedDuration::from_secs(self.jumped.load(Ordering::Relaxed));
        let elapsed = elapsed.saturating_add(jumped);
        self.wall.saturating_add(elapsed).unwrap_or(self.wall)
    }

    /// Returns the current time in Kubernetes' format: UTC, whole seconds.
    pub(crate) fn stamp(&self) -> String {
        stamp(self.now())
    }

    /// Returns the seconds since the epoch, for the validity of tokens.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.now().as_second()
    }
}

/// Returns the real seconds since the epoch, regardless of jumps, because clients check certificates against the real time.
pub(crate) fn real_seconds() -> i64 {
    Timestamp::now().as_second()
}

/// Formats a time as Kubernetes does: UTC, whole seconds.
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
