//! The difference between two states of an object, as a JSON patch (RFC 6902).
//!
//! Lists are replaced completely. All functions are total. This module must not depend on the preconditions of the
//! patch.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::object::inconsistency::{is_kept, is_within};

/// Changes from one state to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operations {
    all: Vec<Value>,
    /// True if a change only removes content of a list's items: the former state then contains everything that is wanted.
    narrow: bool,
}

impl Operations {
    pub(crate) fn between(found: &Value, wanted: &Value) -> Self {
        let mut operations = Self::default();
        operations.compare("", found, wanted);
        operations
    }

    /// Returns the operations on the status, or all others.
    fn of(&self, of_status: bool) -> impl Iterator<Item = &Value> {
        let is_of_status = |operation: &Value| {
            let path = path_of(operation);
            path == "/status" || path.starts_with("/status/")
        };
        self.all.iter().filter(move |it| is_of_status(it) == of_status)
    }

    /// Returns true if there are operations on the status, or any others.
    pub(crate) fn has(&self, of_status: bool) -> bool {
        self.of(of_status).next().is_some()
    }

    /// Returns true if `found` already has the result of the selected operations, plus possible additions of the server.
    pub(crate) fn hold_in(&self, status: bool, others: bool, found: &Value) -> bool {
        self.parts(status, others).all(|operation| {
            let there = found.pointer(path_of(operation));
            match operation.get("value") {
                None | Some(Value::Null) => there.is_none_or(Value::is_null),
                Some(wanted) if self.narrow => there.is_some_and(|there| is_kept(wanted, there)),
                Some(wanted) => there.is_some_and(|there| is_within(wanted, there)),
            }
        })
    }

    /// Returns the selected operations as a patch document that is valid for one version of one object only: for any other version, the
    /// server responds with a conflict.
    pub(crate) fn bound_to(&self, status: bool, others: bool, uid: &str, version: &str) -> Value {
        let replace = |key: &str, value: &str| json!({"op": "replace", "path": format!("/metadata/{key}"), "value": value});
        let bonds = [replace("uid", uid), replace("resourceVersion", version)];
        let parts = self.parts(status, others).cloned();
        bonds.into_iter().chain(parts).collect()
    }

    /// Returns the paths of the selected operations, and the values to be there, if any.
    pub(crate) fn values(&self, status: bool, others: bool) -> impl Iterator<Item = (&str, Option<&Value>)> {
        let parts = self.parts(status, others);
        parts.map(|operation| (path_of(operation), operation.get("value")))
    }

    /// Keeps the operations for which `is_wanted` returns true. It receives the path and the value to be there, if any.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&str, Option<&Value>) -> bool) {
        self.all.retain(|operation| is_wanted(path_of(operation), operation.get("value")));
    }

    /// Returns true if there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the changed paths as JSON pointers.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(path_of)
    }

    fn parts(&self, status: bool, others: bool) -> impl Iterator<Item = &Value> {
        let of_status = self.of(true).filter(move |_| status);
        of_status.chain(self.of(false).filter(move |_| others))
    }

    fn compare(&mut self, path: &str, found: &Value, wanted: &Value) {
        match (found, wanted) {
            (Value::Object(found), Value::Object(wanted)) => self.members(path, found, wanted),
            (found, wanted) if is_kept(wanted, found) => {}
            _ => {
                self.narrow |= is_within(wanted, found);
                let operation = json!({"op": "replace", "path": path, "value": wanted});
                self.all.push(operation);
            }
        }
    }

    fn members(&mut self, path: &str, found: &Map<String, Value>, wanted: &Map<String, Value>) {
        let at = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        for (key, value) in found {
            match wanted.get(key) {
                Some(wanted) => self.compare(&at(key), value, wanted),
                None => self.all.push(json!({"op": "remove", "path": at(key)})),
            }
        }
        for (key, value) in wanted.iter().filter(|(key, _)| !found.contains_key(*key)) {
            let operation = json!({"op": "add", "path": at(key), "value": value});
            self.all.push(operation);
        }
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> = self.all.iter().map(Value::to_string).collect();
        write!(f, "[{}]", operations.join(","))
    }
}

fn path_of(operation: &Value) -> &str {
    operation["path"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_one_operation() {
        let found = json!({"a": 1, "l": [1, 2], "gone": {"x": 1}, "same": {"y": [1]}, "m/~": {"k": "v"}});
        let wanted = json!({"a": 2, "l": [1], "same": {"y": [1]}, "m/~": {"k": "w"}, "new": null});
        assert_eq!(
            Operations::between(&found, &wanted).all,
            [
                json!({"op": "replace", "path": "/a", "value": 2}),
                json!({"op": "remove", "path": "/gone"}),
                json!({"op": "replace", "path": "/l", "value": [1]}),
                json!({"op": "replace", "path": "/m~1~0/k", "value": "w"}),
                json!({"op": "add", "path": "/new", "value": null}),
            ]
        );
        assert_eq!(Operations::between(&found, &found).all, [json!(null); 0]);
        let (stored, meant) = (json!({"n": [50, 0.5]}), json!({"n": [50.0, 0.5]}));
        assert!(Operations::between(&stored, &meant).is_empty());
    }

    #[test]
    fn the_status_has_its_own_operations() {
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
    fn results_of_operations_are_recognised() {
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

    #[test]
    fn results_of_operations_are_recognised_beside_defaults() {
        for (before, after, kept) in [
            (json!({}), json!({"x": {"n": 1}}), json!({"x": {"n": 1, "d": 2}})),
            (json!({}), json!({"x": {"n": 1, "d": null}}), json!({"x": {"n": 1, "d": 2}})),
            (
                json!({"l": [{"n": 1, "d": 2}]}),
                json!({"l": [{"n": 1, "d": 2}, {"n": 3}]}),
                json!({"l": [{"n": 1, "d": 2}, {"n": 3, "d": 2}]}),
            ),
        ] {
            let operations = Operations::between(&before, &after);
            assert!(operations.hold_in(true, true, &after), "{operations}");
            assert!(operations.hold_in(true, true, &kept), "{operations}");
            assert!(!operations.hold_in(true, true, &before), "{operations}");
        }
    }

    /// If a change only removes members of items, the former list already contains everything that is wanted.
    #[test]
    fn missing_results_do_not_count_as_defaults() {
        for (before, after) in [
            (json!({"l": [{"n": 1, "d": 2}]}), json!({"l": [{"n": 1}]})),
            (json!({"l": [{"n": [{"d": 2}]}], "m": 1}), json!({"l": [{"n": [{}]}], "m": 1})),
            (json!({"x": null}), json!({"x": {}})),
            (json!({"x": [1]}), json!({"x": {}})),
        ] {
            let operations = Operations::between(&before, &after);
            assert!(operations.hold_in(true, true, &after), "{operations}");
            assert!(!operations.hold_in(true, true, &before), "{operations}");
        }
    }
}
