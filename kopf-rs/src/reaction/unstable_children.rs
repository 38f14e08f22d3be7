//! Children that a handler wants to be different in each call, while their owner stays as it is: told with the place, and applied seldom.
//!
//! A map without an order, a random name or a time stamp in a child makes each apply a change, which may be what calls the handler again. Must not
//! know requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::object::child::ChildName;
use crate::reaction::children::{AppliedFacts, Author};

/// So many calls in a row may want a child to be different.
const FREE: u8 = 5;
/// Between two applies of one that was different more often.
const SELDOM: Duration = Duration::from_secs(60);

/// The children of one object that are wanted to be different in each call.
#[derive(Debug, Default)]
pub(crate) struct UnstableChildren(BTreeMap<ChildName, Unstable>);

#[derive(Debug)]
struct Unstable {
    /// How many calls in a row have wanted something else than the one before.
    times: u8,
    /// What the last one wanted.
    wanted: Value,
    /// When it was applied last, by the age of the operator.
    applied: Duration,
    /// Where the last two were different.
    place: String,
}

/// What is to be said of a child that is about to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// Nothing.
    Stable,
    /// It is different in each call, and that is news.
    Lost { times: u8, place: String },
    /// It is not to be applied for so long.
    Withheld { place: String, wait: Duration },
}

impl UnstableChildren {
    /// A child is about to be applied, which was applied before like `former`. `now` is the age of the operator.
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

    /// The child is wanted as it was applied last.
    pub(crate) fn is_stable(&mut self, child: &ChildName) {
        self.0.remove(child);
    }
}

/// The first place at which two values differ, as `.spec.containers[0].env`.
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
            pairs
                .find_map(|(at, (left, right))| Some(format!("[{at}]{}", difference(left, right)?)))
        }
        _ => (one != other).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(digest: &str, state: &str) -> AppliedFacts {
        AppliedFacts {
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            state: "s".to_owned(),
            digest: digest.to_owned(),
            author: author(state),
        }
    }

    fn author(state: &str) -> Author {
        Author {
            handler: "h".into(),
            state: state.to_owned(),
        }
    }

    fn child() -> ChildName {
        ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: None,
            name: "c".to_owned(),
        }
    }

    #[test]
    fn what_differs_each_time_is_told_and_then_applied_seldom() {
        let mut unstable = UnstableChildren::default();
        let mut former = facts("1", "1");
        let mut call = |n: u32, state: &str, now: u64| {
            let digest = n.to_string();
            let body = json!({"data": {"env": ["x", {"n": n}]}});
            let wanted = (&*digest, &author(state), &body);
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
        let lost = Stability::Lost {
            times: 5,
            place: place(),
        };
        assert_eq!(call(5, "1", 0), lost);
        let withheld = Stability::Withheld {
            place: place(),
            wait: Duration::from_secs(40),
        };
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
