//! Parses and validates label selectors in objects: `matchLabels` and `matchExpressions`.
//!
//! Guarantees the real server's messages. Must not depend on the selected objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::labels::Rule;
use crate::object::Body;
use crate::rules::names;
use crate::status::Cause;

/// Requirements for labels. All must hold; an empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSelector {
    rules: Vec<(String, Rule)>,
}

// === impl ObjectSelector ===

impl ObjectSelector {
    /// Reads a selector from JSON; an invalid expression matches nothing.
    pub(crate) fn of(object: &Value) -> Self {
        let labels = object.get("matchLabels").and_then(Value::as_object);
        let exact = labels.into_iter().flatten().map(|(key, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            (key.clone(), Rule::In(vec![value]))
        });
        let expressions = object.get("matchExpressions").and_then(Value::as_array);
        let rules = expressions.into_iter().flatten().map(|expression| {
            let word = |field: &str| {
                let found = expression.get(field).and_then(Value::as_str);
                found.unwrap_or_default()
            };
            let rule = match word("operator") {
                "In" => Rule::In(texts(expression)),
                "NotIn" => Rule::NotIn(texts(expression)),
                "Exists" => Rule::Has,
                "DoesNotExist" => Rule::HasNot,
                _ => Rule::In(Vec::new()),
            };
            (word("key").to_owned(), rule)
        });
        Self {
            rules: exact.chain(rules).collect(),
        }
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.rules
            .iter()
            .all(|(key, rule)| rule.holds(labels.get(key).map(String::as_str)))
    }
}

fn texts(expression: &Value) -> Vec<String> {
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten().filter_map(Value::as_str);
    values.map(str::to_owned).collect()
}

/// Validates a selector.
pub(crate) fn check(selector: &Body, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let field = format!("{at}.matchLabels");
    for (key, value) in labels.into_iter().flatten() {
        for message in names::qualified(key) {
            causes.push(Cause::invalid(&field, &key.as_str().into(), &message));
        }
        for message in names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(&field, value, &message));
        }
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        check_expression(expression, &at, &mut causes);
    }
    causes
}

fn check_expression(expression: &Value, at: &str, causes: &mut Vec<Cause>) {
    let values = texts(expression);
    let operator = expression.get("operator").and_then(Value::as_str);
    match operator.unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => causes.push(Cause::required(
            format!("{at}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => causes.push(Cause::forbidden(
            format!("{at}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => causes.push(Cause::invalid(
            format!("{at}.operator"),
            &other.into(),
            "not a valid selector operator",
        )),
    }
    let key = expression.get("key").and_then(Value::as_str);
    let key = key.unwrap_or_default();
    for message in names::qualified(key) {
        causes.push(Cause::invalid(format!("{at}.key"), &key.into(), &message));
    }
    for (index, value) in values.iter().enumerate() {
        for message in names::label_value(value) {
            let field = format!("{at}.values[{index}]");
            causes.push(Cause::invalid(field, &value.as_str().into(), &message));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_selects_by_labels_and_expressions() {
        let selector = ObjectSelector::of(&json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}],
        }));
        let labels = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            owned.collect()
        };
        assert!(selector.matches(&labels(&[("a", "b")])));
        assert!(!selector.matches(&labels(&[("a", "b"), ("c", "")])));
        assert!(!selector.matches(&labels(&[])));
    }
}
