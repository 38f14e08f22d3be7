//! Compact times for daemons and timers: thousands are idle, and each time takes eight bytes.
//!
//! Must not know the meaning of the times.

use std::num::NonZeroI64;

use jiff::Timestamp;

/// The replacement for zero.
const FIRST: NonZeroI64 = match NonZeroI64::new(1) {
    Some(one) => one,
    None => NonZeroI64::MAX,
};

/// A time with microsecond precision, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroI64);

impl Moment {
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_microsecond(self.0.get()).unwrap_or(Timestamp::MAX)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        // The beginning of 1970 becomes a microsecond later.
        Self(NonZeroI64::new(time.as_microsecond()).unwrap_or(FIRST))
    }
}

impl Default for Moment {
    fn default() -> Self {
        Timestamp::default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_the_microsecond() {
        for text in ["2026-01-01T00:00:00.123456Z", "1969-12-31T23:59:59Z"] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(Moment::from(time).time(), time);
        }
        assert_eq!(Moment::default().time().as_microsecond(), 1);
        let last = Moment::from(Timestamp::MAX).time();
        assert!(last <= Timestamp::MAX && last > Timestamp::UNIX_EPOCH);
        assert_eq!(size_of::<Option<Moment>>(), 8);
    }
}
