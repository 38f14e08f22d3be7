//! Noticing that the server has not kept what was written, as a schema without the field makes it.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::cluster::Cluster;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::object::raw::Raw;

impl Cluster {
    /// The fields that the reply to this request does not show as they were sent: once per resource, nothing later. Metadata are not
    /// looked at.
    pub(crate) fn first_pruned(&self, request: PatchRequest<'_>, reply: &Raw) -> Vec<String> {
        let PatchRequest { resource, part, .. } = request;
        let key = resource.to_string();
        if self.shared.pruned.has(&key) {
            return Vec::new();
        }
        let differences = request.changes.missing_in(reply, part);
        if differences.is_empty() || !self.shared.pruned.add(&key) {
            return Vec::new();
        }
        differences
    }
}

impl Changes {
    /// Whether the reply does not show the status as it was sent.
    pub(crate) fn lose_status_in(&self, reply: &Raw) -> bool {
        self.has(Part::Status) && !self.missing_in(reply, Part::Status).is_empty()
    }

    /// The fields of this part that are not in the reply as they were sent. What functions have made is only looked at in the status.
    fn missing_in(&self, reply: &Raw, part: Part) -> Vec<String> {
        let (sent, is_looked_at): (_, fn(&str) -> bool) = match self {
            Self::Merge(patch) => (patch.as_value(), |_| true),
            Self::Operations { wanted, .. } => (wanted, |key| key == "status"),
        };
        let sent = sent.as_object().into_iter().flatten();
        let sent = sent.filter(|(key, _)| is_looked_at(key) && part.takes(key));
        let mut sent = sent.peekable();
        let mut differences = Vec::new();
        if sent.peek().is_none() {
            return differences;
        }
        let found: HashMap<String, &RawValue> =
            serde_json::from_str(reply.text()).unwrap_or_default();
        for (key, sent) in sent {
            let found = found
                .get(key)
                .and_then(|text| serde_json::from_str(text.get()).ok());
            compare(key, sent, found.as_ref(), &mut differences);
        }
        differences
    }
}

/// Note every leaf of `sent` that is not in `found`.
fn compare(path: &str, sent: &Value, found: Option<&Value>, differences: &mut Vec<String>) {
    match (sent, found) {
        (Value::Null, None | Some(Value::Null)) => {}
        (Value::Null, Some(_)) => differences.push(format!("{path} is still there")),
        (Value::Object(sent), found) => {
            for (key, sent) in sent {
                let found = found.and_then(|found| found.get(key));
                compare(&format!("{path}.{key}"), sent, found, differences);
            }
        }
        (_, None) => differences.push(format!("{path} is missing")),
        (sent, Some(found)) if !same(sent, found) => {
            differences.push(format!("{path} is different"));
        }
        _ => {}
    }
}

/// Numbers are compared by value: the server may write `1.0` as `1`.
fn same(sent: &Value, found: &Value) -> bool {
    sent == found || (sent.is_number() && sent.as_f64() == found.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(sent: &Value, found: &Value, expected: &[&str]) {
        let mut differences = Vec::new();
        compare("status", sent, Some(found), &mut differences);
        assert_eq!(differences, expected);
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
}
