//! Durations as users write them: a number of seconds, integer or fractional, or a `Duration`.

use std::time::Duration;

/// A span of time, from a number of seconds or a [`Duration`]. Negative numbers and NaN count as zero. Numbers too
/// large for a [`Duration`], such as infinity, count as the longest possible one.
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
        let unusable = if seconds > 0.0 { Duration::MAX } else { Duration::ZERO };
        Self(Duration::try_from_secs_f64(seconds).unwrap_or(unusable))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_any_duration_count_as_the_longest_one() {
        for (seconds, expected) in [
            (0.5, Duration::from_millis(500)),
            (-1.0, Duration::ZERO),
            (f64::NAN, Duration::ZERO),
            (1e30, Duration::MAX),
            (f64::INFINITY, Duration::MAX),
        ] {
            assert_eq!(Seconds::from(seconds).duration(), expected, "{seconds}");
        }
    }
}
