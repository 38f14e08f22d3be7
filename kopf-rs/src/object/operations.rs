//! The difference of two states of an object, as a JSON patch (RFC 6902).
//!
//! Lists are replaced whole. Total; must not know what the patch is bound to.

use std::fmt;

use serde_json::{Map, Value, json};

/// Changes from one state to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operations(Vec<Value>);

impl Operations {
    pub(crate) fn between(found: &Value, wanted: &Value) -> Self {
        let mut operations = Vec::new();
        compare("", found, wanted, &mut operations);
        Self(operations)
    }

    /// Those of the status, or all others.
    fn of(&self, of_status: bool) -> impl Iterator<Item = &Value> {
        let is_of_status = |operation: &Value| {
            let path = path_of(operation);
            path == "/status" || path.starts_with("/status/")
        };
        self.0
            .iter()
            .filter(move |it| is_of_status(it) == of_status)
    }

    /// Whether there are any of the status, or any others.
    pub(crate) fn has(&self, of_status: bool) -> bool {
        self.of(of_status).next().is_some()
    }

    /// Whether `found` is as these operations make it, as far as they go: those of the parts that are wanted.
    pub(crate) fn hold_in(&self, status: bool, others: bool, found: &Value) -> bool {
        self.parts(status, others).all(|operation| {
            let there = found.pointer(path_of(operation));
            match operation.get("value") {
                None | Some(Value::Null) => there.is_none_or(Value::is_null),
                wanted => there == wanted,
            }
        })
    }

    /// Those of the parts that are wanted as a document, good for one version of one object only: on another one the server answers with
    /// a conflict.
    pub(crate) fn bound_to(&self, status: bool, others: bool, uid: &str, version: &str) -> Value {
        let replace = |key: &str, value: &str| json!({"op": "replace", "path": format!("/metadata/{key}"), "value": value});
        let bonds = [replace("uid", uid), replace("resourceVersion", version)];
        let parts = self.parts(status, others).cloned();
        bonds.into_iter().chain(parts).collect()
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where something is changed, as JSON pointers.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(path_of)
    }

    fn parts(&self, status: bool, others: bool) -> impl Iterator<Item = &Value> {
        let of_status = self.of(true).filter(move |_| status);
        of_status.chain(self.of(false).filter(move |_| others))
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> = self.0.iter().map(Value::to_string).collect();
        write!(f, "[{}]", operations.join(","))
    }
}

fn path_of(operation: &Value) -> &str {
    operation["path"].as_str().unwrap_or_default()
}

fn compare(path: &str, found: &Value, wanted: &Value, operations: &mut Vec<Value>) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => members(path, found, wanted, operations),
        (found, wanted) if found == wanted => {}
        _ => operations.push(json!({"op": "replace", "path": path, "value": wanted})),
    }
}

fn members(
    path: &str,
    found: &Map<String, Value>,
    wanted: &Map<String, Value>,
    operations: &mut Vec<Value>,
) {
    let at = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, value) in found {
        match wanted.get(key) {
            Some(wanted) => compare(&at(key), value, wanted, operations),
            None => operations.push(json!({"op": "remove", "path": at(key)})),
        }
    }
    for (key, value) in wanted.iter().filter(|(key, _)| !found.contains_key(*key)) {
        operations.push(json!({"op": "add", "path": at(key), "value": value}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_one_operation() {
        let found =
            json!({"a": 1, "l": [1, 2], "gone": {"x": 1}, "same": {"y": [1]}, "m/~": {"k": "v"}});
        let wanted = json!({"a": 2, "l": [1], "same": {"y": [1]}, "m/~": {"k": "w"}, "new": null});
        assert_eq!(
            Operations::between(&found, &wanted).0,
            [
                json!({"op": "replace", "path": "/a", "value": 2}),
                json!({"op": "remove", "path": "/gone"}),
                json!({"op": "replace", "path": "/l", "value": [1]}),
                json!({"op": "replace", "path": "/m~1~0/k", "value": "w"}),
                json!({"op": "add", "path": "/new", "value": null}),
            ]
        );
        assert_eq!(Operations::between(&found, &found).0, [json!(null); 0]);
    }

    #[test]
    fn the_status_goes_apart() {
        let found = json!({"spec": {}, "statusx": 1});
        let wanted = json!({"spec": {"a": 1}, "status": {"s": 1}, "statusx": 2});
        let operations = Operations::between(&found, &wanted);
        assert!(operations.has(true) && operations.has(false));
        let bound = |status, others| operations.bound_to(status, others, "u", "7");
        let status = bound(true, false);
        assert_eq!(status[1]["value"], "7");
        assert_eq!(status[2]["path"], "/status");
        let sizes = [(true, false), (false, true), (true, true)].map(|(status, others)| {
            let document = bound(status, others);
            document.as_array().map(Vec::len)
        });
        assert_eq!(sizes, [Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn what_they_have_made_is_recognised() {
        let before = json!({"spec": {"items": ["a"], "old": 1}, "status": {"n": 1}});
        let after = json!({"spec": {"items": ["a", "b"], "m/~": null}, "status": {"n": 2}});
        let operations = Operations::between(&before, &after);
        let holds = |found: &Value| {
            let parts = [(true, false), (false, true)];
            parts.map(|(status, others)| operations.hold_in(status, others, found))
        };
        assert_eq!(holds(&before), [false, false]);
        assert_eq!(holds(&after), [true, true]);
        let half = json!({"spec": {"items": ["a"], "old": 1}, "status": {"n": 2, "x": 1}});
        assert_eq!(holds(&half), [true, false]);
        let overwritten = json!({"spec": {"items": ["a", "b", "c"]}, "status": {"n": 2}});
        assert_eq!(holds(&overwritten), [true, false]);
    }
}
