//! Detects children that a handler declares differently in each call although their owner is unchanged: reports the field, and applies them
//! rarely.
//!
//! An unordered map, a random name or a time stamp in a child turns each apply into a change, which may in turn trigger the handler. Must not
//! know requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::object::child::ChildName;
use crate::reaction::children::{AppliedFacts, Author};

/// The number of consecutive differing calls that are tolerated.
const FREE: u8 = 5;
/// The interval between two applies of an unstable child.
const SELDOM: Duration = Duration::from_secs(60);

/// The unstable children of one object.
#[derive(Debug, Default)]
pub(crate) struct UnstableChildren(BTreeMap<ChildName, Unstable>);

#[derive(Debug)]
struct Unstable {
    /// The number of consecutive calls whose child differed from the former one.
    times: u8,
    /// The last declared state.
    wanted: Value,
    /// The time of the last apply, as the operator's uptime.
    applied: Duration,
    /// The path of the last difference.
    place: String,
}

/// The stability of a child that is about to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// The child is stable.
    Stable,
    /// The child differs in each call, which is to be reported.
    Lost { times: u8, place: String },
    /// The child must not be applied for this long.
    Withheld { place: String, wait: Duration },
}

impl UnstableChildren {
    /// Examines a child before an apply; `former` is the last applied state, and `now` is the operator's uptime.
    pub(crate) fn applies(
        &mut self,
        child: &ChildName,
        former: &AppliedFacts,
        (digest, author, body): (&str, &Author, &Value),
        now: Duration,
    ) -> Stability {
        if former.digest == digest || former.author.state != author.state {
            self.0.remove(child);
            return Stability::Stable;
        }
        let known = self.0.entry(child.clone()).or_insert_with(|| Unstable {
            times: 1,
            wanted: Value::Null,
            applied: now,
            place: String::new(),
        });
        known.times = known.times.saturating_add(1);
        let place = difference(&known.wanted, body);
        if let Some(place) = place.filter(|_| !known.wanted.is_null()) {
            known.place = place;
        }
        known.wanted = body.clone();
        let wait = SELDOM.saturating_sub(now.saturating_sub(known.applied));
        if known.times > FREE && !wait.is_zero() {
            let place = known.place.clone();
            return Stability::Withheld { place, wait };
        }
        known.applied = now;
        if known.times == FREE {
            let place = known.place.clone();
            return Stability::Lost { times: FREE, place };
        }
        Stability::Stable
    }

    /// Records that the declared state equals the last applied one.
    pub(crate) fn mark_stable(&mut self, child: &ChildName) {
        self.0.remove(child);
    }
}

/// Returns the path of the first difference between two values, such as `.spec.containers[0].env`.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys = left.keys().chain(right.keys());
            keys.find_map(|key| {
                let at = match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => difference(left, right)?,
                    _ => String::new(),
                };
                Some(format!(".{key}{at}"))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(at, (left, right))| Some(format!("[{at}]{}", difference(left, right)?)))
        }
        _ => (one != other).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reaction::children::tests::{applied, author, child};

    fn facts(digest: &str, state: &str) -> AppliedFacts {
        AppliedFacts { digest: digest.to_owned(), author: author("h", state), ..applied("1") }
    }

    #[test]
    fn what_differs_each_time_is_told_and_then_applied_seldom() {
        let mut unstable = UnstableChildren::default();
        let mut former = facts("1", "1");
        let mut call = |n: u32, state: &str, now: u64| {
            let digest = n.to_string();
            let body = json!({"data": {"env": ["x", {"n": n}]}});
            let wanted = (&*digest, &author("h", state), &body);
            let found = unstable.applies(&child(), &former, wanted, Duration::from_secs(now));
            if !matches!(found, Stability::Withheld { .. }) {
                former = facts(&digest, state);
            }
            found
        };
        for n in 2..5 {
            assert_eq!(call(n, "1", 0), Stability::Stable, "{n}");
        }
        let place = || ".data.env[1].n".to_owned();
        let lost = Stability::Lost { times: 5, place: place() };
        assert_eq!(call(5, "1", 0), lost);
        let withheld = Stability::Withheld { place: place(), wait: Duration::from_secs(40) };
        assert_eq!(call(6, "1", 20), withheld);
        assert_eq!(call(7, "1", 60), Stability::Stable);
        assert!(matches!(call(8, "1", 61), Stability::Withheld { .. }));
        assert_eq!(call(9, "2", 62), Stability::Stable, "the owner has changed");
        assert_eq!(call(10, "2", 63), Stability::Stable);
        assert_eq!(call(10, "2", 64), Stability::Stable, "no difference");
        assert!(unstable.0.is_empty());
    }

    #[test]
    fn the_first_difference_is_named() {
        for (one, other, expected) in [
            (json!({"a": [1, 2]}), json!({"a": [1, 3]}), Some(".a[1]")),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(".a")),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), Some(".b")),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!(1), json!(2), Some("")),
        ] {
            assert_eq!(difference(&one, &other).as_deref(), expected);
        }
    }
}
