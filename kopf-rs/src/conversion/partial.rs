//! Converts objects without their required fields, which the API server sends to determine field ownership.
//!
//! The function is called with two different fillings for the missing fields. Results that depend on the fillings
//! differ and are dropped, as are results that also appear for an empty part. This module must not depend on the
//! origin of the functions.

use serde_json::Value;

/// The results for a part with two different fillings, and for an empty part with the same fillings.
pub(crate) struct Filled {
    pub(crate) of_part: [Value; 2],
    pub(crate) of_nothing: [Value; 2],
}

impl Filled {
    /// Returns the results that depend on the part alone.
    pub(crate) fn common(&self) -> Option<Value> {
        let [one, other] = &self.of_part;
        let [nothing, nothing_else] = &self.of_nothing;
        common(one, other, [Some(nothing), Some(nothing_else)])
    }
}

fn common(one: &Value, other: &Value, of_nothing: [Option<&Value>; 2]) -> Option<Value> {
    // Results that also appear for an empty part are dropped.
    if one == other && of_nothing == [Some(one); 2] {
        return None;
    }
    match (one, other) {
        (Value::Object(members), Value::Object(others)) => {
            let kept = members.iter().filter_map(|(name, value)| {
                let of_nothing = of_nothing.map(|it| it?.get(name));
                let kept = common(value, others.get(name)?, of_nothing)?;
                Some((name.clone(), kept))
            });
            let kept: serde_json::Map<_, _> = kept.collect();
            let is_kept = !kept.is_empty() || members.is_empty() && others.is_empty();
            is_kept.then(|| kept.into())
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let items = items.iter().zip(others);
            let kept: Option<Vec<_>> = items.map(|(item, other)| common(item, other, [None; 2])).collect();
            kept.map(Value::Array)
        }
        _ => (one == other).then(|| one.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_of_the_part_alone_are_kept() {
        let filled = Filled {
            of_part: [
                json!({"kept": 1, "made": "a", "mode": "x", "empty": {}, "list": [{"n": 1, "m": "a"}], "bad": ["a"], "in": {"y": 1}}),
                json!({"kept": 1, "made": "b", "mode": "x", "empty": {}, "list": [{"n": 1, "m": "b"}], "bad": ["b"], "in": {"y": 2}}),
            ],
            of_nothing: [
                json!({"kept": 11, "made": "a", "mode": "x", "list": [{"n": 11, "m": "a"}], "bad": ["a"], "in": {"y": 1}}),
                json!({"kept": 22, "made": "b", "mode": "x", "list": [{"n": 22, "m": "b"}], "bad": ["b"], "in": {"y": 2}}),
            ],
        };
        assert_eq!(filled.common(), Some(json!({"kept": 1, "empty": {}, "list": [{"n": 1}]})));
    }

    #[test]
    fn an_empty_part_has_no_results() {
        let of_nothing = [json!({"mode": "x", "made": 1}), json!({"mode": "x", "made": 2})];
        let filled = Filled { of_part: of_nothing.clone(), of_nothing };
        assert_eq!(filled.common(), None);
    }
}
