//! Durations as users write them: seconds as a whole or broken number, or a `Duration`.

use std::time::Duration;

/// A span of time, made of a number of seconds or of a [`Duration`]. Negative and unusable numbers count as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(Duration);

impl Seconds {
    pub(crate) fn duration(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<f64> for Seconds {
    fn from(seconds: f64) -> Self {
        Self(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

impl From<u64> for Seconds {
    fn from(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl From<u32> for Seconds {
    fn from(seconds: u32) -> Self {
        u64::from(seconds).into()
    }
}

impl From<i32> for Seconds {
    fn from(seconds: i32) -> Self {
        u64::try_from(seconds).unwrap_or_default().into()
    }
}
