//! Evaluates label selectors in objects: `matchLabels` and `matchExpressions`.
//!
//! Guarantees that an empty selector matches everything. Must not depend on the place of the selector.

use serde_json::Value;

use crate::object::{Body, text};

/// Returns whether a selector matches these labels.
pub(crate) fn chooses(selector: &Body, labels: &Body) -> bool {
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    has_all(wanted, labels)
        && expressions
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .all(|expression| holds(expression, labels))
}

/// Returns whether all wanted labels exist.
pub(crate) fn has_all(wanted: Option<&Body>, labels: &Body) -> bool {
    let mut wanted = wanted.into_iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}

fn holds(expression: &Body, labels: &Body) -> bool {
    let found = labels.get(text(expression, "key"));
    let values = expression.get("values").and_then(Value::as_array);
    let listed = found.is_some_and(|found| values.is_some_and(|values| values.contains(found)));
    match text(expression, "operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_by_table() {
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
                false,
            ),
        ] {
            let found = chooses(selector.as_object().unwrap(), labels.as_object().unwrap());
            assert_eq!(found, expected, "{selector}");
        }
    }
}
