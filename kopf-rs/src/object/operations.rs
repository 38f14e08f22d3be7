//! The difference of two states of an object, as a JSON patch (RFC 6902).
//!
//! Lists are replaced whole. Total; must not know what the patch is bound to.

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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of the status, and the others.
    pub(crate) fn split(self) -> (Self, Self) {
        let of_status = |operation: &Value| {
            let path = operation["path"].as_str().unwrap_or_default();
            path == "/status" || path.starts_with("/status/")
        };
        let (status, others) = self.0.into_iter().partition(of_status);
        (Self(status), Self(others))
    }

    /// As a document, good for one version of one object only: on another one the server answers with a conflict.
    pub(crate) fn bound_to(self, uid: &str, version: &str) -> Value {
        let replace = |key: &str, value: &str| json!({"op": "replace", "path": format!("/metadata/{key}"), "value": value});
        let bonds = [replace("uid", uid), replace("resourceVersion", version)];
        bonds.into_iter().chain(self.0).collect()
    }
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
        assert!(Operations::between(&found, &found).is_empty());
    }

    #[test]
    fn the_status_goes_apart() {
        let found = json!({"spec": {}, "statusx": 1});
        let wanted = json!({"spec": {"a": 1}, "status": {"s": 1}, "statusx": 2});
        let (status, others) = Operations::between(&found, &wanted).split();
        assert_eq!((status.0.len(), others.0.len()), (1, 2));
        let bound = status.bound_to("u", "7");
        assert_eq!(bound[1]["value"], "7");
        assert_eq!(bound[2]["path"], "/status");
    }
}
