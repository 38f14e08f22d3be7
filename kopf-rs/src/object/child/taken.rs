//! Finds the fields that an apply has taken from other managers, by comparing `managedFields` before and after.
//!
//! This module does not know why the apply was sent.

use std::fmt;

use serde_json::{Map, Value};

use crate::object::child::{ChildMarks, entry_of, is_ours};

/// Fields that another manager has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenFields {
    pub(crate) manager: String,
    /// Such as `.spec.containers[name="web"].image`.
    pub(crate) fields: Vec<String>,
    /// True if the manager has set some of them through the subresource `scale`.
    pub(crate) by_scale: bool,
}

/// The maximum number of fields to name.
const NAMED: usize = 5;

impl fmt::Display for TakenFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.fields.iter().take(NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        write!(f, "{named}")?;
        match self.fields.len().saturating_sub(NAMED) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        write!(f, " (of \"{}\")", self.manager)
    }
}

/// Returns the fields that an apply of ours has taken from each other manager: those that it owned `before` and no longer owns `after`, and
/// that we own instead.
pub(crate) fn taken(before: &Value, after: &Value, marks: &ChildMarks) -> Vec<TakenFields> {
    let nothing = Map::new();
    let of = |managers| {
        let entry = entry_of(managers, marks);
        let fields = entry.and_then(|it| it["fieldsV1"].as_object());
        fields.unwrap_or(&nothing)
    };
    let (had, have) = (of(before), of(after));
    let mut taken: Vec<TakenFields> = Vec::new();
    let entries = before.as_array().into_iter().flatten();
    for entry in entries.filter(|it| !is_ours(it, marks)) {
        let Some(theirs) = entry["fieldsV1"].as_object() else {
            continue;
        };
        let mut fields = leaves(theirs, have, had);
        let is_same =
            |it: &&Value| ["manager", "operation", "subresource"].iter().all(|key| it[key] == entry[key]);
        let left = after.as_array().into_iter().flatten().find(is_same);
        if let Some(left) = left.and_then(|it| it["fieldsV1"].as_object()) {
            let still = leaves(theirs, left, &nothing);
            fields.retain(|field| !still.contains(field));
        }
        if fields.is_empty() {
            continue;
        }
        let manager = entry["manager"].as_str().unwrap_or_default();
        let by_scale = entry["subresource"] == "scale";
        match taken.iter_mut().find(|it| it.manager == manager) {
            Some(known) => {
                known.fields.extend(fields);
                known.by_scale |= by_scale;
            }
            None => taken.push(TakenFields { manager: manager.to_owned(), fields, by_scale }),
        }
    }
    taken
}

/// Returns the leaves that are in the first two sets of fields and not in the third.
fn leaves(one: &Map<String, Value>, other: &Map<String, Value>, without: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    common(one, other, without, &mut String::new(), &mut found);
    found
}

fn common(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    without: &Map<String, Value>,
    path: &mut String,
    found: &mut Vec<String>,
) {
    let nothing = Map::new();
    for (name, inner) in one {
        let (Some(inner), Some(in_other)) = (inner.as_object(), other.get(name).and_then(Value::as_object))
        else {
            continue;
        };
        let length = path.len();
        path.push_str(&step(name));
        let in_without = without.get(name).and_then(Value::as_object);
        let is_leaf = inner.keys().all(|name| name == ".");
        if is_leaf && in_without.is_none() {
            found.push(path.clone());
        } else {
            common(inner, in_other, in_without.unwrap_or(&nothing), path, found);
        }
        path.truncate(length);
    }
}

/// Returns a step of `fieldsV1` in readable form.
fn step(name: &str) -> String {
    match name.split_once(':') {
        Some(("f", field)) if field.contains(['.', '/']) => format!("[\"{field}\"]"),
        Some(("f", field)) => format!(".{field}"),
        Some(("k", key)) => {
            let key = serde_json::from_str::<Map<String, Value>>(key).unwrap_or_default();
            let pairs = key.iter().map(|(name, value)| format!("{name}={value}"));
            format!("[{}]", pairs.collect::<Vec<_>>().join(","))
        }
        Some((_, value)) => format!("[{value}]"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taken_fields_are_named_by_path_and_manager() {
        let marks = ChildMarks { manager: "op.kopf.rs".to_owned() };
        let managed = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let container = |fields: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}, "f:metadata": {"f:labels": {"f:a.b/c": {}}}});
        let both = json!({".": {}, "f:name": {}, "f:image": {}});
        let before = json!([
            managed(
                "op.kopf.rs",
                "Apply",
                json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}}}}})
            ),
            managed("kubectl", "Update", container(both.clone())),
            managed("other", "Update", json!({"f:status": {"f:ready": {}}})),
        ]);
        let left = json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:name": {}}}}});
        let after =
            json!([managed("op.kopf.rs", "Apply", container(both)), managed("kubectl", "Update", left)]);
        let taken = taken(&before, &after, &marks);
        let told: Vec<String> = taken.iter().map(ToString::to_string).collect();
        let expected = ".metadata.labels[\"a.b/c\"], .spec.containers[name=\"web\"].image (of \"kubectl\")";
        assert_eq!(told, [expected]);
    }
}
