//! The operator's clock: a wall-clock anchor taken at the start plus tokio's elapsed time, so that it follows paused time.
//!
//! The system's wall clock may be adjusted, and this clock stops while the machine is suspended: [`WallClock`] tracks the difference.
//!
//! This module guarantees that an operator that is restarted under paused time continues with the time of the former
//! one, so that scenarios under paused time are reproducible, regardless of their real duration.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};
use tokio::time::Instant;

/// The clock. Clones share the anchor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    start: Instant,
    is_virtual: bool,
}

/// The lead of the system's wall clock over an operator's [`Clock`] at the last check, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct WallClock(AtomicI64);

thread_local! {
    /// The first clock of this thread. If time is paused, the whole runtime uses one thread.
    static FIRST: Cell<Option<Clock>> = const { Cell::new(None) };
}

impl Clock {
    /// Anchors the clock now. Must be called within a tokio runtime if its time is paused.
    pub(crate) fn start() -> Self {
        let mut clock = Self { wall: Timestamp::now(), start: Instant::now(), is_virtual: is_virtual() };
        let first = FIRST.get();
        let wall = match first {
            None => clock.wall,
            Some(first) if clock.is_virtual => first.now(),
            // This is ahead of the system's clock only if that was set back.
            Some(first) => clock.wall.max(first.now()),
        };
        clock.wall = next_millisecond(wall);
        if first.is_none() {
            FIRST.set(Some(clock));
        }
        clock
    }
    /// Returns the time of this clock.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
    /// Returns the time since the anchor by a clock that may stop while the machine is suspended.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
    /// Returns the time since an arbitrary origin by a clock that continues during suspension, if the system has one. Virtual time does not.
    pub(crate) fn elapsed_since_boot(&self) -> Duration {
        if self.is_virtual {
            return self.elapsed();
        }
        since_boot().unwrap_or_else(|| self.elapsed())
    }
    /// Returns the system's current wall time, including adjustments and suspensions, to compare with times that other systems have set.
    /// Under virtual time this is [`Clock::now`].
    pub(crate) fn wall(&self) -> Timestamp {
        if self.is_virtual { self.now() } else { Timestamp::now() }
    }
    /// Returns the instant of the anchor.
    pub(crate) fn started(&self) -> Instant {
        self.start
    }
    /// Waits until the next check of the wall clock. Never returns under virtual time.
    pub(crate) async fn wait_for_the_wall(&self) {
        if self.is_virtual {
            return std::future::pending().await;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    /// Returns the instant of `at` for sleeping, or the current one if `at` has passed.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + std::time::Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
    }
}

#[cfg(test)]
impl Clock {
    /// Creates the clock of an operator whose machine was suspended, or whose wall clock was set forward, by this duration.
    pub(crate) fn behind_the_wall(by: SignedDuration) -> Self {
        Self { wall: Timestamp::now() - by, start: Instant::now(), is_virtual: false }
    }
}

#[cfg(unix)]
fn since_boot() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    // On systems other than Linux, the monotonic clock itself continues during suspension.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let told = clock_gettime(clock);
    let seconds = u64::try_from(told.tv_sec).ok()?;
    let nanos = u32::try_from(told.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanos))
}

#[cfg(not(unix))]
fn since_boot() -> Option<Duration> {
    None
}

/// The interval between checks of the wall clock.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);

impl WallClock {
    pub(crate) fn ahead(&self) -> SignedDuration {
        SignedDuration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Returns true if the wall clock was adjusted or the machine was suspended since the last check. Ignores less than a second.
    pub(crate) fn has_moved(&self, clock: Clock) -> bool {
        let ahead = Timestamp::now().duration_since(clock.now());
        let has_moved = (ahead - self.ahead()).abs() >= SignedDuration::from_secs(1);
        if has_moved {
            let micros = i64::try_from(ahead.as_micros()).unwrap_or_default();
            self.0.store(micros, Ordering::Relaxed);
        }
        has_moved
    }
}

/// Returns true if the runtime's time differs from the system's: it is paused, or was advanced by hand.
#[expect(clippy::disallowed_methods, reason = "this is the one place that has to compare both")]
fn is_virtual() -> bool {
    let before = std::time::Instant::now();
    let told = Instant::now().into_std();
    let after = std::time::Instant::now();
    !(before..=after).contains(&told)
}

/// Rounds to milliseconds, the resolution of timers. With an anchor between two milliseconds, the same pause would vary by one millisecond,
/// and scenarios under paused time would not be reproducible.
fn next_millisecond(wall: Timestamp) -> Timestamp {
    let whole = TimestampRound::new().smallest(Unit::Millisecond).mode(RoundMode::Ceil);
    wall.round(whole).unwrap_or(wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_wall_clock_is_ahead_where_it_was_set_since() {
        let clock = Clock::start();
        let wall = WallClock::default();
        assert!(!wall.has_moved(clock));
        for hours in [2, -1] {
            let ahead = SignedDuration::from_hours(hours);
            let anchor = Timestamp::now() - ahead;
            let set = Clock { wall: anchor, start: Instant::now(), ..clock };
            assert!(wall.has_moved(set) && !wall.has_moved(set), "once");
            let apart = (wall.ahead() - ahead).abs();
            assert!(apart < SignedDuration::from_secs(1), "{apart}");
        }
    }

    #[tokio::test]
    async fn the_clock_since_boot_goes_on() {
        let clock = Clock::start();
        let before = clock.elapsed_since_boot();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let passed = clock.elapsed_since_boot().checked_sub(before);
        assert!(passed >= Some(Duration::from_millis(4)), "{passed:?}");
        tokio::time::pause();
        let clock = Clock::start();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // Timers fire up to a millisecond late.
        let passed = clock.elapsed_since_boot().as_millis();
        assert!((60_000..60_010).contains(&passed), "{passed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_clock_tells_no_earlier_time() {
        let first = Clock::start();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let second = Clock::start();
        let apart = second.now().duration_since(first.now());
        assert_eq!(apart, SignedDuration::ZERO, "{first:?}, {second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn work_takes_no_time_where_time_is_paused() {
        let first = Clock::start();
        let real = Timestamp::now();
        while Timestamp::now().duration_since(real).as_millis() < 5 {
            std::hint::spin_loop();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let second = Clock::start();
        assert_eq!(first.now(), second.now());
    }

    #[tokio::test]
    async fn only_time_that_is_not_the_systems_is_virtual() {
        assert!(!is_virtual());
        tokio::time::pause();
        assert!(is_virtual());
    }
}
