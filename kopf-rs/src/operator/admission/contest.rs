//! Limits the repairs of an object that another writer changes again and again.
//!
//! Guarantees that occasional changes are repaired at once, and that two writers that disagree do not write in a hot loop. Must not know the
//! object.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::engine::report::report_of_operator;
use crate::happening::webhooks::AdmissionServing;
use crate::operator::admission::sharing::Plan;
use crate::rt::backoff::Backoff;
use crate::rt::rng::Rng;

/// The number of consecutive repairs that are made at once.
const AT_ONCE: u32 = 20;
/// The back-off after that.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The contest is over after this time without a change by the other writer.
const CALM: Duration = Duration::from_secs(150);

/// The consecutive repairs of one object.
#[derive(Debug)]
pub(super) struct Contest {
    repairs: u32,
    last: Option<Instant>,
    not_before: Option<Instant>,
    backoff: Backoff,
    /// The desired content when the object last had it.
    right: Option<Value>,
}

impl Default for Contest {
    fn default() -> Self {
        let backoff = Backoff::new(PAUSES.0, PAUSES.1);
        Self { repairs: 0, last: None, not_before: None, backoff, right: None }
    }
}

impl Contest {
    /// Notes that the plan for `what` was carried out. It was a repair if the object had the same content before.
    pub(super) fn note(&mut self, what: &str, plan: &Plan, wanted: Value, found: Option<&Value>, rng: &Rng) {
        if plan.writes && self.right.as_ref() == Some(&wanted) {
            self.repaired(what, found, rng);
        }
        self.right = plan.decides.then_some(wanted);
    }

    /// Counts a repair of `what`, which was found in the state `found`.
    pub(super) fn repaired(&mut self, what: &str, found: Option<&Value>, rng: &Rng) {
        if self.count(Instant::now(), rng) {
            report_of_operator(&AdmissionServing::Contested {
                what: what.to_owned(),
                by: found.map(last_manager).unwrap_or_default(),
                times: self.repairs,
                longest: PAUSES.1,
            });
        }
    }

    /// Counts a repair. Returns whether the contest has to be reported.
    fn count(&mut self, now: Instant, rng: &Rng) -> bool {
        let is_calm = self.last.is_some_and(|last| now.duration_since(last) >= CALM);
        if is_calm {
            *self = Self::default();
        }
        self.repairs = self.repairs.saturating_add(1);
        self.last = Some(now);
        if self.repairs < AT_ONCE {
            return false;
        }
        self.not_before = Some(now + self.backoff.next_pause(rng));
        self.repairs == AT_ONCE
    }

    /// Waits until the next repair is allowed. Cancel-safe.
    pub(super) async fn over(&self) {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
    }
}

/// Returns the manager that has written an object last.
fn last_manager(object: &Value) -> String {
    let fields = object["metadata"]["managedFields"].as_array();
    let last = fields.into_iter().flatten().max_by_key(|it| it["time"].as_str().unwrap_or_default());
    let manager = last.and_then(|it| it["manager"].as_str());
    manager.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_repairs_are_made_at_once_and_many_with_pauses() {
        let (mut contest, rng) = (Contest::default(), Rng::new());
        let begun = Instant::now();
        for number in 1..AT_ONCE {
            assert!(!contest.count(Instant::now(), &rng), "{number}");
            contest.over().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(contest.count(Instant::now(), &rng));
        for _ in 0..10 {
            contest.over().await;
            assert!(!contest.count(Instant::now(), &rng));
        }
        assert!(begun.elapsed() > Duration::from_secs(60));
        tokio::time::sleep(CALM).await;
        let begun = Instant::now();
        assert!(!contest.count(begun, &rng));
        contest.over().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[test]
    fn the_last_manager_is_named() {
        let of = |manager: &str, time: &str| json!({"manager": manager, "time": time});
        let fields = [of("b", "2026-01-01T00:00:02Z"), of("a", "2026-01-01T00:00:01Z")];
        let object = json!({"metadata": {"managedFields": fields}});
        assert_eq!(last_manager(&object), "b");
        assert_eq!(last_manager(&json!({})), "");
    }
}
