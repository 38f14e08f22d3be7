//! A Lease as data: its record, and the term that it grants to its holder.
//!
//! The caller provides times. This module does not know which component reads or writes the Lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// A point in time by the clocks of one instance. The first two clocks count from an arbitrary origin, which is the same for all compared
/// moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// May stop while the machine is suspended.
    pub(crate) mono: Duration,
    /// Continues while the machine is suspended, if the system has such a clock.
    pub(crate) boot: Duration,
    /// Only written to records, never compared, because it can be changed at any time.
    pub(crate) wall: Timestamp,
}

/// The duration of terms and the interval of renewals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    /// The duration in the record: other instances take the Lease if it has not changed for this long.
    pub(crate) duration: Duration,
    /// After this long without a renewal, the holder starts no new attempts.
    pub(crate) renew_deadline: Duration,
    /// The interval between two renewals, and between two checks by a waiting instance.
    pub(crate) retry: Duration,
}

/// The permission to write, while the term is young enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The sequence number of the term in this process. It increases with every acquisition, but not with renewals.
    pub(crate) number: u64,
    /// The time just before the request was sent that has granted or renewed the term.
    pub(crate) stamp: Moment,
    pub(crate) times: LeaseTimes,
}

/// The record of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Empty if there is no holder.
    pub(crate) holder: String,
    pub(crate) acquired: String,
    pub(crate) renewed: String,
    /// `None` if the record has no valid duration.
    pub(crate) duration: Option<Duration>,
    pub(crate) transitions: u64,
    /// True if an external coordinator assigns the holder.
    pub(crate) is_given: bool,
}

/// The largest integer of the API: larger numbers count as this one and are never written.
pub(crate) const LARGEST: u64 = i32::MAX as u64;

impl Moment {
    /// Returns the time since `earlier`: the maximum of both clocks.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let mono = self.mono.saturating_sub(earlier.mono);
        mono.max(self.boot.saturating_sub(earlier.boot))
    }

    /// Returns the minimum time since `earlier`: the minimum of both clocks.
    pub(crate) fn surely_since(&self, earlier: &Self) -> Duration {
        let mono = self.mono.saturating_sub(earlier.mono);
        mono.min(self.boot.saturating_sub(earlier.boot))
    }
}

impl LeaseTimes {
    /// Returns the age of a term from which on no request is sent, and requests in flight are abandoned. Two fifths of the time between the
    /// renew deadline and the end remain for the network and for clocks that run at a different speed.
    pub(crate) fn last_write(&self) -> Duration {
        let rest = self.duration.saturating_sub(self.renew_deadline);
        self.renew_deadline + rest * 2 / 5
    }

    /// Returns how long a request may wait for its connection.
    fn slack(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// Returns the minimum server timeout; requests with less time are not sent.
    fn least(&self) -> Duration {
        self.duration / 30
    }
}

impl Term {
    /// Returns true if new attempts of handlers may start.
    pub(crate) fn may_begin(&self, now: &Moment) -> bool {
        now.since(&self.stamp) < self.times.renew_deadline
    }

    /// Returns the server timeout for a request that is made now, or `None` if there is too little time.
    pub(crate) fn time_for_request(&self, now: &Moment) -> Option<Duration> {
        let left = self.left(now).checked_sub(self.times.slack())?;
        Some(left).filter(|left| *left >= self.times.least())
    }

    /// Returns true if a request with this server timeout may be sent now.
    pub(crate) fn may_send(&self, timeout: Duration, now: &Moment) -> bool {
        self.left(now) >= timeout
    }

    /// Returns how long a response may be waited for.
    pub(crate) fn left(&self, now: &Moment) -> Duration {
        let age = now.since(&self.stamp);
        self.times.last_write().saturating_sub(age)
    }
}

impl LeaseRecord {
    /// Returns true if no instance can hold a term of this Lease: its holder has released it by setting a duration of one second, as this
    /// operator and client-go do.
    pub(crate) fn is_given_back(&self) -> bool {
        let second = Duration::from_secs(1);
        let is_short = self.duration.is_some_and(|it| it <= second);
        self.holder.is_empty() && is_short
    }

    /// Returns true if the record names no holder, present or former: there never was one, or others have removed the record.
    pub(crate) fn is_blank(&self) -> bool {
        self.holder.is_empty() && self.renewed.is_empty()
    }

    pub(crate) fn of(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| spec[key].as_u64().map(|it| it.min(LARGEST));
        let seconds = number("leaseDurationSeconds").filter(|it| *it > 0);
        Self {
            holder: text("holderIdentity"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            duration: seconds.map(Duration::from_secs),
            transitions: number("leaseTransitions").unwrap_or_default(),
            is_given: spec["strategy"].as_str().is_some_and(|it| !it.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono: u64, boot: u64) -> Moment {
        Moment {
            mono: Duration::from_secs(mono),
            boot: Duration::from_secs(boot),
            wall: Timestamp::UNIX_EPOCH,
        }
    }

    fn term() -> Term {
        Term {
            number: 1,
            stamp: at(100, 100),
            times: LeaseTimes {
                duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry: Duration::from_secs(2),
            },
        }
    }

    #[test]
    fn a_term_ends_by_the_faster_clock() {
        let term = term();
        for (now, begins, timeout) in [
            (at(100, 100), true, Some(10)),
            (at(109, 109), true, Some(1)),
            (at(110, 110), false, None),
            (at(100, 111), false, None),
            (at(160, 100), false, None),
            // A clock that is set back has no effect.
            (at(90, 90), true, Some(10)),
        ] {
            let seconds = term.time_for_request(&now).map(|it| it.as_secs());
            assert_eq!((term.may_begin(&now), seconds), (begins, timeout), "{now:?}");
        }
        let five = Duration::from_secs(5);
        assert!(term.may_send(five, &at(107, 107)));
        assert!(!term.may_send(five, &at(108, 108)));
        assert_eq!(at(110, 170).surely_since(&at(100, 100)).as_secs(), 10);
    }

    #[test]
    fn no_number_is_beyond_those_of_the_api() {
        let lease =
            serde_json::json!({"spec": {"leaseDurationSeconds": u64::MAX, "leaseTransitions": u64::MAX}});
        let record = LeaseRecord::of(&lease);
        assert_eq!(record.duration, Some(Duration::from_secs(LARGEST)));
        assert_eq!(record.transitions, LARGEST);
    }

    #[test]
    fn absent_fields_of_a_record_have_no_value() {
        let empty = LeaseRecord::of(&serde_json::json!({"spec": {"leaseDurationSeconds": 0}}));
        assert_eq!(empty, LeaseRecord::default());
        let lease = serde_json::json!({"spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 7, "leaseTransitions": 3, "strategy": "OldestEmulationVersion",
            "acquireTime": "t1", "renewTime": "t2",
        }});
        let record = LeaseRecord::of(&lease);
        assert_eq!((record.holder.as_str(), record.transitions), ("a", 3));
        assert_eq!((record.duration, record.is_given), (Some(Duration::from_secs(7)), true));
    }
}
