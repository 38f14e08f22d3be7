//! Protects the operator's own parts of an object: its annotations, the values of its storages, and its finalizer.
//!
//! This module guarantees that functions of handlers cannot remove or change these. It must not depend on their
//! content.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::object::body::Body;
use crate::object::essence::Essence;
use crate::object::patch::{Patch, apply};
use crate::object::path::FieldPath;
use crate::state::Persistence;
use crate::state::diffbase::KnownEssence;

/// Values that are not objects, by their paths.
type Leaves = BTreeMap<Vec<String>, Value>;

impl Persistence {
    /// Restores the operator's own parts of `changed` to those of `wanted`, and returns the paths that differed.
    pub(crate) fn keep(&self, wanted: &Value, changed: &mut Value) -> Vec<String> {
        let mut lost = Vec::new();
        let mut back = Patch::new();
        let (own, found) = (self.own(wanted), self.own(changed));
        let places = own.keys().chain(found.keys().filter(|it| !own.contains_key(*it)));
        for place in places.filter(|place| own.get(*place) != found.get(*place)) {
            let path: Vec<&str> = place.iter().map(String::as_str).collect();
            back.put(&path, own.get(place).cloned().unwrap_or_default());
            lost.push(FieldPath::from_parts(path).to_string());
        }
        if let Some(list) = self.finalizers(wanted, changed) {
            back.put(&["metadata", "finalizers"], list);
            lost.push("metadata.finalizers".to_owned());
        }
        if !lost.is_empty() {
            apply(changed, back.as_value());
        }
        lost
    }

    fn own(&self, object: &Value) -> Leaves {
        let mut own = Leaves::new();
        let mut rest = object.clone();
        if let (Some(prefix), Some(annotations)) = (self.prefix(), annotations(&mut rest)) {
            annotations.retain(|key, _| key.split_once('/').is_none_or(|(it, _)| it != prefix));
        }
        self.progress.clear(&mut rest);
        without(object, Some(&rest), &mut Vec::new(), &mut own);
        // A storage for essences may clear more than its own values: fields that users have chosen to ignore.
        if self.plain().is_none() {
            let (last, body) = (Essence::from(json!({})), Body::new(object.clone()));
            let mut stored = Patch::new();
            let store = &self.essence;
            if store.store(&KnownEssence::Whole(last), &body, &mut stored).is_ok() {
                common(object, stored.as_value(), &mut Vec::new(), &mut own);
            }
        }
        own
    }

    /// Returns the finalizers of `changed`, with the operator's added or removed as in `wanted`, or `None` if they already agree.
    fn finalizers(&self, wanted: &Value, changed: &Value) -> Option<Value> {
        let list = |object: &Value| object["metadata"]["finalizers"].as_array().cloned();
        let own = json!(&*self.finalizer);
        let is_on = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|it| it.contains(&own));
        let (before, after) = (list(wanted), list(changed));
        let wants = is_on(&before);
        if wants == is_on(&after) {
            return None;
        }
        let mut after = after.unwrap_or_default();
        if wants {
            after.push(own);
        } else {
            after.retain(|it| *it != own);
        }
        Some(after.into())
    }
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}

/// Returns the leaves of `object` that `rest` lacks.
fn without(object: &Value, rest: Option<&Value>, at: &mut Vec<String>, leaves: &mut Leaves) {
    match object {
        Value::Object(members) => {
            for (key, value) in members {
                at.push(key.clone());
                without(value, rest.and_then(|it| it.get(key)), at, leaves);
                at.pop();
            }
        }
        value if rest.is_none() => drop(leaves.insert(at.clone(), value.clone())),
        _ => {}
    }
}

/// Returns the leaves of `object` at the positions of the leaves of `shape`.
fn common(object: &Value, shape: &Value, at: &mut Vec<String>, leaves: &mut Leaves) {
    match (object, shape) {
        (Value::Object(members), Value::Object(shape)) => {
            for (key, shape) in shape {
                if let Some(value) = members.get(key) {
                    at.push(key.clone());
                    common(value, shape, at, leaves);
                    at.pop();
                }
            }
        }
        (value, _) => without(value, None, at, leaves),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::kopf::annotations::AnnotationsDiffBaseStorage;
    use crate::state::kopf::status::{StatusDiffBaseStorage, StatusProgressStorage};

    fn kept(persistence: &Persistence, wanted: &Value, mut changed: Value) -> (Value, Vec<String>) {
        let lost = persistence.keep(wanted, &mut changed);
        (changed, lost)
    }

    #[test]
    fn annotations_and_the_finalizer_come_back_and_cannot_be_forged() {
        let wanted = json!({"metadata": {"annotations": {"op.kopf.rs/f": "1", "a": "b"}, "finalizers": ["x", "op.kopf.rs/finalizer"]}});
        let persistence = Persistence::named("op");
        assert_eq!(kept(&persistence, &wanted, wanted.clone()), (wanted.clone(), vec![]));
        let changed =
            json!({"metadata": {"annotations": {"op.kopf.rs/g": "1", "c": "d"}, "finalizers": null}});
        let (found, lost) = kept(&persistence, &wanted, changed);
        assert_eq!(
            found,
            json!({"metadata": {"annotations": {"op.kopf.rs/f": "1", "c": "d"}, "finalizers": ["op.kopf.rs/finalizer"]}})
        );
        assert_eq!(
            lost,
            ["metadata.annotations.op.kopf.rs/f", "metadata.annotations.op.kopf.rs/g", "metadata.finalizers"]
        );
        let (found, _) = kept(&persistence, &wanted, json!({"metadata": {"annotations": null}}));
        assert_eq!(found["metadata"]["annotations"], json!({"op.kopf.rs/f": "1"}));
        let free = json!({"metadata": {"finalizers": ["x"]}});
        let (found, lost) = kept(&persistence, &free, wanted);
        assert_eq!(found["metadata"]["finalizers"], json!(["x"]));
        assert_eq!(lost, ["metadata.annotations.op.kopf.rs/f", "metadata.finalizers"]);
    }

    #[test]
    fn storages_protect_their_own_values_only() {
        let wanted = json!({"spec": {"n": 1}, "status": {"kopf": {"progress": {"f": {"retries": 1, "stopped": null}}}, "s": 1},
            "metadata": {"annotations": {"my.org/last-handled-configuration": "{}", "my.org/kopf-managed": "yes"}}});
        let essence = AnnotationsDiffBaseStorage::new("my.org").ignored_field("spec.n");
        let persistence = Persistence::kopf().progress(StatusProgressStorage::default());
        let persistence = persistence.diff_base(essence);
        let (found, _) = kept(&persistence, &wanted, json!({"spec": {"n": 2}, "status": {"s": 2}}));
        let mut expected = wanted.clone();
        (expected["spec"]["n"], expected["status"]["s"]) = (json!(2), json!(2));
        // A null cannot be restored by a merge, and has no meaning in a record.
        expected["status"]["kopf"]["progress"]["f"] = json!({"retries": 1});
        assert_eq!(found["spec"], expected["spec"]);
        assert_eq!(found["status"], expected["status"]);
        let last = "my.org/last-handled-configuration";
        assert_eq!(found["metadata"]["annotations"][last], "{}");
        let persistence = persistence.diff_base(StatusDiffBaseStorage::default());
        let last = json!({"status": {"kopf": {"last-handled-configuration": "{}"}}});
        assert_eq!(kept(&persistence, &last, json!({})).0, last);
    }
}
