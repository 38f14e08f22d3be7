//! What the server has not kept as it was sent, as a schema without the field makes it.
//!
//! Must not know what was sent it for, nor what is made of it.

use std::fmt;

use serde_json::Value;

/// In a path, the items of a list.
pub(crate) const ITEMS: &str = "[]";

/// A field that the server has not kept as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inconsistency {
    path: Vec<String>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// It is not there. What was sent is of this type, as schemas call it.
    Missing(&'static str),
    /// The same of an empty value: servers may leave such out of what they show, though they keep the field.
    MissingAndEmpty(&'static str),
    StillThere,
    Different,
}

/// Where `found` is not as `sent`, a merge patch of what stands at `key`.
pub(crate) fn inconsistencies(
    key: &str,
    sent: &Value,
    found: Option<&Value>,
) -> Vec<Inconsistency> {
    let mut all = Vec::new();
    compare(&mut vec![key.to_owned()], sent, found, &mut all);
    all
}

impl Inconsistency {
    /// Where it is, if the schema does not have the field: something was sent, and there is nothing.
    pub(crate) fn missing(&self) -> Option<&[String]> {
        matches!(self.how, How::Missing(_)).then_some(&self.path)
    }

    /// Whether only an empty value is missing, which types of Kubernetes itself leave out.
    pub(crate) fn is_of_empty_value(&self) -> bool {
        matches!(self.how, How::MissingAndEmpty(_))
    }

    /// What a schema lacks that would keep the field.
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

/// As `status.url is missing`.
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

/// A path, as people write it.
fn shown(path: &[String]) -> String {
    path.join(".").replace(".[]", "[]")
}

/// Note every leaf of `sent` that is not in `found`.
fn compare(
    path: &mut Vec<String>,
    sent: &Value,
    found: Option<&Value>,
    all: &mut Vec<Inconsistency>,
) {
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
        (sent, Some(found)) if same(sent, found) => return,
        _ => How::Different,
    };
    let path = path.clone();
    let inconsistency = Inconsistency { path, how };
    if !all.contains(&inconsistency) {
        all.push(inconsistency);
    }
}

/// Whether these are objects, one beside the other.
fn are_alike(sent: &[Value], found: &[Value]) -> bool {
    let all = || sent.iter().chain(found);
    sent.len() == found.len() && all().all(Value::is_object)
}

/// Numbers are compared by value: the server may write `1.0` as `1`.
fn same(sent: &Value, found: &Value) -> bool {
    sent == found || (sent.is_number() && sent.as_f64() == found.as_f64())
}

/// Whether Go calls it the zero value of its type.
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
    fn leaves_are_compared_and_what_others_wrote_is_not() {
        check(&json!({"a": 1}), &json!({"a": 1, "b": 2}), &[]);
        check(&json!({"a": 1.0, "gone": null}), &json!({"a": 1}), &[]);
        check(
            &json!({"a": {"b": 1}}),
            &json!({}),
            &["status.a.b is missing"],
        );
        check(
            &json!({"a": [1]}),
            &json!({"a": [2]}),
            &["status.a is different"],
        );
        check(
            &json!({"a": null}),
            &json!({"a": 1}),
            &["status.a is still there"],
        );
        check(&json!({"a": {}}), &json!({}), &[]);
    }

    #[test]
    fn an_empty_value_that_is_missing_says_nothing_of_the_schema() {
        let all = check(
            &json!({"a": [], "b": [1]}),
            &json!({}),
            &["status.a is missing", "status.b is missing"],
        );
        assert!(all[0].is_of_empty_value() && all[0].missing().is_none());
        assert!(!all[1].is_of_empty_value() && all[1].missing().is_some());
    }

    #[test]
    fn items_of_lists_are_compared_and_the_line_for_the_schema_is_said() {
        let sent = json!({"l": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "n": [{}]});
        let found = json!({"l": [{"b": "x"}, {"b": "y"}], "n": []});
        let all = check(
            &sent,
            &found,
            &["status.l[].a is missing", "status.n is different"],
        );
        let lines: Vec<_> = all.iter().filter_map(Inconsistency::schema_line).collect();
        let line = "properties.status.properties.l.items.properties.a: {type: integer}";
        assert_eq!(lines, [line]);
        assert_eq!(all[0].missing().map(<[String]>::len), Some(4));
    }
}
