//! A Lease as data: what its record says, and the term that it gives to whoever holds it.
//!
//! Times are given by the caller. Must not know who reads or writes the Lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// A moment by the clocks of one instance. The first two count from some moment of their own, which is the same for all moments that are
/// compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// May stop while the machine is suspended.
    pub(crate) mono: Duration,
    /// Counts while the machine is suspended, where the system has such a clock.
    pub(crate) boot: Duration,
    /// For what is written only: anybody may set it.
    pub(crate) wall: Timestamp,
}

/// How long terms last, and how often they are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    /// What the record says: others take the Lease when it has not changed for so long.
    pub(crate) duration: Duration,
    /// After so long without a renewal, the holder begins nothing any more.
    pub(crate) renew_deadline: Duration,
    /// Between two renewals, and between two looks of who waits.
    pub(crate) retry: Duration,
}

/// The right to write, for as long as it is not too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// Which term of this process it is: it grows with every acquisition, and not with renewals.
    pub(crate) number: u64,
    /// Just before the request was sent that has given or renewed it.
    pub(crate) stamp: Moment,
    pub(crate) times: LeaseTimes,
}

/// Who has a Lease, as its record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Empty: nobody.
    pub(crate) holder: String,
    pub(crate) acquired: String,
    pub(crate) renewed: String,
    /// `None` where the record tells no sensible time.
    pub(crate) duration: Option<Duration>,
    pub(crate) transitions: u64,
    /// Somebody else decides who has it.
    pub(crate) is_given: bool,
}

impl Moment {
    /// How long ago `earlier` was: as long as any of the clocks says.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let mono = self.mono.saturating_sub(earlier.mono);
        mono.max(self.boot.saturating_sub(earlier.boot))
    }

    /// How long ago `earlier` was at least: as long as all of the clocks say.
    pub(crate) fn surely_since(&self, earlier: &Self) -> Duration {
        let mono = self.mono.saturating_sub(earlier.mono);
        mono.min(self.boot.saturating_sub(earlier.boot))
    }
}

impl LeaseTimes {
    /// From this age of a term on, nothing is sent, and what was sent before is answered or given up: two fifths of the time between the
    /// renew deadline and the end are left to the network and to clocks of other speed.
    pub(crate) fn last_write(&self) -> Duration {
        let rest = self.duration.saturating_sub(self.renew_deadline);
        self.renew_deadline + rest * 2 / 5
    }

    /// For so long may a request wait for its connection.
    fn slack(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// A request that the server has less time for is not sent.
    fn least(&self) -> Duration {
        self.duration / 30
    }
}

impl Term {
    /// Whether attempts of handlers may begin.
    pub(crate) fn may_begin(&self, now: &Moment) -> bool {
        now.since(&self.stamp) < self.times.renew_deadline
    }

    /// How much time the server may be given for a request that is made now; `None` where none may be made.
    pub(crate) fn time_for_request(&self, now: &Moment) -> Option<Duration> {
        let left = self.left(now).checked_sub(self.times.slack())?;
        Some(left).filter(|left| *left >= self.times.least())
    }

    /// Whether a request that gives the server so much time may be sent now.
    pub(crate) fn may_send(&self, timeout: Duration, now: &Moment) -> bool {
        self.left(now) >= timeout
    }

    /// For how long at most an answer may be waited for.
    pub(crate) fn left(&self, now: &Moment) -> Duration {
        let age = now.since(&self.stamp);
        self.times.last_write().saturating_sub(age)
    }
}

impl LeaseRecord {
    pub(crate) fn of(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let seconds = spec["leaseDurationSeconds"].as_u64().filter(|it| *it > 0);
        Self {
            holder: text("holderIdentity"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            duration: seconds.map(Duration::from_secs),
            transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
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
    fn a_term_ends_by_whichever_clock_says_so_first() {
        let term = term();
        for (now, begins, timeout) in [
            (at(100, 100), true, Some(10)),
            (at(109, 109), true, Some(1)),
            (at(110, 110), false, None),
            (at(100, 111), false, None),
            (at(160, 100), false, None),
            // A clock that goes back takes nothing back.
            (at(90, 90), true, Some(10)),
        ] {
            let seconds = term.time_for_request(&now).map(|it| it.as_secs());
            assert_eq!(
                (term.may_begin(&now), seconds),
                (begins, timeout),
                "{now:?}"
            );
        }
        let five = Duration::from_secs(5);
        assert!(term.may_send(five, &at(107, 107)));
        assert!(!term.may_send(five, &at(108, 108)));
        assert_eq!(at(110, 170).surely_since(&at(100, 100)).as_secs(), 10);
    }

    #[test]
    fn what_a_record_does_not_tell_is_nothing() {
        let empty = LeaseRecord::of(&serde_json::json!({"spec": {"leaseDurationSeconds": 0}}));
        assert_eq!(empty, LeaseRecord::default());
        let lease = serde_json::json!({"spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 7, "leaseTransitions": 3, "strategy": "OldestEmulationVersion",
            "acquireTime": "t1", "renewTime": "t2",
        }});
        let record = LeaseRecord::of(&lease);
        assert_eq!((record.holder.as_str(), record.transitions), ("a", 3));
        assert_eq!(
            (record.duration, record.is_given),
            (Some(Duration::from_secs(7)), true)
        );
    }
}
