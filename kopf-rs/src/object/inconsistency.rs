//! Detects fields that the server has not stored as sent, for example because the schema lacks them.
//!
//! This module must not depend on the purpose of the write or the use of the result.

use std::fmt;

use serde_json::Value;

/// The path element that stands for the items of a list.
pub(crate) const ITEMS: &str = "[]";

/// A field that the server has not stored as sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inconsistency {
    path: Vec<String>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// The field is absent. Contains the schema type of the sent value.
    Missing(&'static str),
    /// The field is absent, but the sent value is empty: servers may omit empty values in responses although they store the field.
    MissingAndEmpty(&'static str),
    StillThere,
    Different,
}

/// Returns the fields in which `found` differs from `sent`, a merge patch of the value at `key`.
pub(crate) fn inconsistencies(key: &str, sent: &Value, found: Option<&Value>) -> Vec<Inconsistency> {
    let mut all = Vec::new();
    compare(&mut vec![key.to_owned()], sent, found, &mut all);
    all
}

impl Inconsistency {
    /// Returns the path if the schema lacks the field: a value was sent, and none is stored.
    pub(crate) fn missing(&self) -> Option<&[String]> {
        matches!(self.how, How::Missing(_)).then_some(&self.path)
    }

    /// Returns true if only an empty value is absent, which built-in types omit.
    pub(crate) fn is_of_empty_value(&self) -> bool {
        matches!(self.how, How::MissingAndEmpty(_))
    }

    /// Returns the schema line that would preserve the field.
    pub(crate) fn schema_line(&self) -> Option<String> {
        let (How::Missing(ty) | How::MissingAndEmpty(ty)) = self.how else {
            return None;
        };
        let mut line = String::new();
        for part in &self.path {
            if part == ITEMS {
                line.push_str("items.");
            } else {
                line.push_str("properties.");
                line.push_str(part);
                line.push('.');
            }
        }
        line.pop();
        let more = match ty {
            "object" => ", x-kubernetes-preserve-unknown-fields: true",
            "array" => ", items: {type: object, x-kubernetes-preserve-unknown-fields: true}",
            _ => "",
        };
        Some(format!("{line}: {{type: {ty}{more}}}"))
    }
}

/// Displays as `status.url is missing`.
impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Missing(_) | How::MissingAndEmpty(_) => "missing",
            How::StillThere => "still there",
            How::Different => "different",
        };
        write!(f, "{} is {how}", shown(&self.path))
    }
}

/// Returns a path in readable form.
fn shown(path: &[String]) -> String {
    path.join(".").replace(".[]", "[]")
}

/// Records every leaf of `sent` that `found` lacks.
fn compare(path: &mut Vec<String>, sent: &Value, found: Option<&Value>, all: &mut Vec<Inconsistency>) {
    let how = match (sent, found) {
        (Value::Null, None | Some(Value::Null)) => return,
        (Value::Null, Some(_)) => How::StillThere,
        (Value::Object(members), found) if found.is_some() || !members.is_empty() => {
            for (key, sent) in members {
                path.push(key.clone());
                let found = found.and_then(|found| found.get(key));
                compare(path, sent, found, all);
                path.pop();
            }
            return;
        }
        (Value::Object(_), _) => return,
        (_, None) if is_empty(sent) => How::MissingAndEmpty(schema_type(sent)),
        (_, None) => How::Missing(schema_type(sent)),
        (Value::Array(sent), Some(Value::Array(found))) if are_alike(sent, found) => {
            path.push(ITEMS.to_owned());
            for (sent, found) in sent.iter().zip(found) {
                compare(path, sent, Some(found), all);
            }
            path.pop();
            return;
        }
        (sent, Some(found)) if is_kept(sent, found) => return,
        _ => How::Different,
    };
    let path = path.clone();
    let inconsistency = Inconsistency { path, how };
    if !all.contains(&inconsistency) {
        all.push(inconsistency);
    }
}

/// Returns true if both lists have the same number of items and all are objects.
fn are_alike(sent: &[Value], found: &[Value]) -> bool {
    let all = || sent.iter().chain(found);
    sent.len() == found.len() && all().all(Value::is_object)
}

/// Returns true if `found` equals `sent`. Numbers compare by value, because the server may write `1.0` as `1`.
pub(crate) fn is_kept(sent: &Value, found: &Value) -> bool {
    is_like(sent, found, false)
}

/// Returns true if `found` contains everything that was `sent`. The server may add defaults, also in place of `null`.
pub(crate) fn is_within(sent: &Value, found: &Value) -> bool {
    is_like(sent, found, true)
}

fn is_like(sent: &Value, found: &Value, with_more: bool) -> bool {
    match (sent, found) {
        (Value::Number(sent), Value::Number(found)) => {
            let is_float = sent.is_f64() || found.is_f64();
            sent == found || is_float && sent.as_f64() == found.as_f64()
        }
        (Value::Array(sent), Value::Array(found)) => {
            let mut pairs = sent.iter().zip(found);
            sent.len() == found.len() && pairs.all(|(sent, found)| is_like(sent, found, with_more))
        }
        (Value::Object(sent), Value::Object(found)) => {
            let is_member = |(key, sent): (&String, &Value)| {
                let is_like = |it| is_like(sent, it, with_more);
                found.get(key).is_some_and(is_like) || with_more && sent.is_null()
            };
            (with_more || sent.len() == found.len()) && sent.iter().all(is_member)
        }
        (sent, found) => sent == found,
    }
}

/// Returns true for values that are zero values in Go.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn schema_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
        Value::String(_) => "string",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(sent: &Value, found: &Value, expected: &[&str]) -> Vec<Inconsistency> {
        let all = inconsistencies("status", sent, Some(found));
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
        all
    }

    #[test]
    fn leaves_are_compared_and_foreign_fields_are_not() {
        check(&json!({"a": 1}), &json!({"a": 1, "b": 2}), &[]);
        check(&json!({"a": 1.0, "gone": null}), &json!({"a": 1}), &[]);
        check(&json!({"a": [1.0, {"b": 2}]}), &json!({"a": [1, {"b": 2.0}]}), &[]);
        check(
            &json!({"a": 9_007_199_254_740_993_u64}),
            &json!({"a": 9_007_199_254_740_992_u64}),
            &["status.a is different"],
        );
        check(&json!({"a": {"b": 1}}), &json!({}), &["status.a.b is missing"]);
        check(&json!({"a": [1]}), &json!({"a": [2]}), &["status.a is different"]);
        check(&json!({"a": null}), &json!({"a": 1}), &["status.a is still there"]);
        check(&json!({"a": {}}), &json!({}), &[]);
    }

    #[test]
    fn a_missing_empty_value_proves_nothing_about_the_schema() {
        let all =
            check(&json!({"a": [], "b": [1]}), &json!({}), &["status.a is missing", "status.b is missing"]);
        assert!(all[0].is_of_empty_value() && all[0].missing().is_none());
        assert!(!all[1].is_of_empty_value() && all[1].missing().is_some());
    }

    #[test]
    fn items_of_lists_are_compared_and_the_schema_line_is_returned() {
        let sent = json!({"l": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "n": [{}]});
        let found = json!({"l": [{"b": "x"}, {"b": "y"}], "n": []});
        let all = check(&sent, &found, &["status.l[].a is missing", "status.n is different"]);
        let lines: Vec<_> = all.iter().filter_map(Inconsistency::schema_line).collect();
        let line = "properties.status.properties.l.items.properties.a: {type: integer}";
        assert_eq!(lines, [line]);
        assert_eq!(all[0].missing().map(<[String]>::len), Some(4));
    }
}
