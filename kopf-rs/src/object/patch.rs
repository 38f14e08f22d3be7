//! The changes to an object that a handler or the framework requests: a merge patch under construction.
//!
//! This module guarantees to stay a JSON object with any input. It does not know how it is sent.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::object::conditions::{FoundStatus, StatusEdits};
use crate::object::inconsistency::{ITEMS, is_kept};
use crate::object::path::FieldPath;

const CONDITIONS: [&str; 2] = ["status", "conditions"];
const OBSERVED_GENERATION: [&str; 2] = ["status", "observedGeneration"];

/// A merge patch (RFC 7386): `patch.set("status.address", "10.0.0.1")`, or `patch["status"]["address"] = json!("10.0.0.1")`; `null` removes a
/// key.
///
/// Writing to an absent key creates it. Lists are replaced as a whole. Values that the object already has are not sent. Values that the
/// server has stored in another form, such as list items with their defaults, are not sent again for an hour or until the value or the
/// definition changes.
///
/// A change of `status` calls no handlers, except those with a `field` in it. A change of labels, annotations or `spec` does: a handler that
/// patches them on its own object causes an update, for itself and for handlers that were called before it in the cycle, as in Kopf.
///
/// A function of the object can change lists, and does not overwrite concurrent changes of other writers:
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(patch: &mut Patch) {
///     patch.transform(|object| {
///         if let Some(items) = object["spec"]["items"].as_array_mut() {
///             let item = json!("one more");
///             if !items.contains(&item) {
///                 items.push(item);
///             }
///         }
///     });
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Patch {
    merge: Value,
    functions: Vec<Transformation>,
    /// Changes of conditions and the like, whose result depends on the current object.
    status: StatusEdits,
}

/// A function that changes the object at the time of sending.
#[derive(Clone)]
pub(crate) struct Transformation {
    function: Arc<dyn Fn(&mut Value) + Send + Sync>,
    /// The handler that has added it, once known.
    handler: Option<Arc<str>>,
}

impl Transformation {
    /// Applies the function.
    pub(crate) fn to(&self, object: &mut Value) {
        (self.function)(object);
    }
    /// Returns true if both are the same function.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
    }
    /// Returns the handler that has added the function.
    pub(crate) fn handler(&self) -> Option<&Arc<str>> {
        self.handler.as_ref()
    }
}

impl std::fmt::Debug for Transformation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transformation(..)")
    }
}

impl PartialEq for Patch {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Transformation, &Transformation)| one.is(other);
        self.merge == other.merge
            && self.status == other.status
            && self.functions.len() == other.functions.len()
            && self.functions.iter().zip(&other.functions).all(same)
    }
}

impl Patch {
    /// Creates an empty patch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns true if the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
            && self.status.is_empty()
            && self.merge.as_object().is_none_or(Map::is_empty)
    }
    /// Returns the patch as JSON.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.merge
    }
    /// Adds another merge patch, whose values take precedence. Ignores a value that is not a JSON object.
    pub fn merge(&mut self, other: Value) {
        if other.is_object() {
            compose(&mut self.merge, other);
        }
    }
    /// Sets a field to a value that can be serialized; `None` and `null` remove the field. The field is dotted text, or an array of names:
    ///
    /// ```
    /// use kopf_rs::prelude::*;
    ///
    /// #[on_create("kopfexamples")]
    /// async fn create_fn(patch: &mut Patch, name: &str) {
    ///     patch.set("status.size", 1);
    ///     patch.set("status.hosts", [name, "localhost"]);
    ///     patch.set("metadata.labels.example.com/app", name);
    ///     patch.set(["spec", "config", "log.level"], None::<u8>);
    /// }
    /// ```
    ///
    /// If an earlier value of the patch is in the way, such as text where an object is needed, it is replaced. Indexing panics in this case.
    ///
    /// # Panics
    /// If the value cannot be represented in JSON, such as a map whose keys are not text; `json!` panics in this case, too.
    pub fn set(&mut self, field: impl Into<FieldPath>, value: impl Serialize) {
        let field = field.into();
        let path: Vec<_> = field.parts().iter().map(String::as_str).collect();
        self.put(&path, json!(value));
    }
    /// Changes the object by a function, after everything else in this patch.
    ///
    /// The patch is then sent as a JSON patch, bound to the version of the object that the function was called with. If another writer was
    /// faster, the function is called again with the newer object. It may therefore be called several times, and must depend only on its
    /// argument.
    ///
    /// If the response of the server is lost, the operator compares the object with the patch, and sends the patch again only if they differ.
    /// If another writer changes the same fields at that moment, the function gets an object that it has already changed. It should therefore
    /// check first whether any change is left to make.
    ///
    /// The object comes without `metadata.managedFields`. A function that panics is skipped and logged. Functions cannot change or remove the
    /// operator's own annotations and its finalizer.
    pub fn transform(&mut self, function: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.functions.push(Transformation { function: Arc::new(function), handler: None });
    }
    /// Assigns functions without a handler to `handler`.
    pub(crate) fn sign(&mut self, handler: &Arc<str>) {
        for function in &mut self.functions {
            function.handler.get_or_insert_with(|| handler.clone());
        }
    }
    /// Returns the functions in order.
    pub(crate) fn functions(&self) -> &[Transformation] {
        &self.functions
    }
    /// Adds all of another patch, which takes precedence.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.merge(other.merge);
        self.functions.extend(other.functions);
        self.status.absorb(other.status);
    }
    /// Requests changes of conditions and the like.
    pub(crate) fn edit_status(&mut self, edits: StatusEdits) {
        self.status.absorb(edits);
    }
    /// Returns the requested changes of conditions and the like.
    pub(crate) fn status_edits(&self) -> &StatusEdits {
        &self.status
    }
    /// Returns the patch for the object `found`, with changes of conditions converted to parts of the merge patch.
    pub(crate) fn resolved(&self, found: &Value, now: Timestamp) -> Self {
        let mut resolved = self.clone();
        if self.status.is_empty() {
            return resolved;
        }
        let status = self.found_status(found);
        if let Some(list) = self.status.conditions(status, now) {
            resolved.put(&CONDITIONS, list);
        }
        if let Some(generation) = self.status.observed_generation(status) {
            resolved.put(&OBSERVED_GENERATION, generation.into());
        }
        resolved
    }
    /// Returns the status to which changes of conditions apply: that of the object with this patch.
    fn found_status<'a>(&'a self, found: &'a Value) -> FoundStatus<'a> {
        let at = |path: [&'static str; 2]| {
            let own = self.get(&path);
            own.or_else(|| found.get(path[0])?.get(path[1]))
        };
        FoundStatus {
            conditions: at(CONDITIONS),
            observed_generation: at(OBSERVED_GENERATION).and_then(Value::as_i64),
            generation: at(["metadata", "generation"]).and_then(Value::as_i64),
        }
    }
    /// Returns the patch, and leaves an empty one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the value at `path`.
    pub(crate) fn get(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.merge, |value, key| value.as_object()?.get(*key))
    }
    /// Sets `value` at `path`. Unlike indexing it cannot fail: values on the path that are not objects are replaced.
    pub(crate) fn put(&mut self, path: &[&str], value: Value) {
        let mut at = &mut self.merge;
        for key in path {
            at = object(at).entry((*key).to_owned()).or_insert(Value::Null);
        }
        *at = value;
    }
    /// Removes the change at `path`, and parents that become empty.
    pub(crate) fn unset(&mut self, path: &[&str]) {
        unset(&mut self.merge, path);
    }
    /// Removes all changes of the status.
    pub(crate) fn forget_status(&mut self) {
        self.unset(&["status"]);
        self.status = StatusEdits::default();
    }
    /// Returns the patch without changes at these paths.
    pub(crate) fn without(mut self, paths: &BTreeSet<Vec<String>>) -> Self {
        for path in paths {
            remove(&mut self.merge, path);
        }
        self.status.leave_out(paths);
        self
    }
    /// Removes the parts that `body` already fulfils.
    pub(crate) fn effective(mut self, body: &Value) -> Self {
        let edits = std::mem::take(&mut self.status);
        self.status = edits.effective(self.found_status(body));
        if let Value::Object(wanted) = &mut self.merge {
            drop_fulfilled(wanted, body);
        }
        self
    }
}

impl Default for Patch {
    fn default() -> Self {
        Self { merge: Value::Object(Map::new()), functions: Vec::new(), status: StatusEdits::default() }
    }
}

impl Index<&str> for Patch {
    type Output = Value;
    fn index(&self, key: &str) -> &Value {
        &self.merge[key]
    }
}

impl IndexMut<&str> for Patch {
    fn index_mut(&mut self, key: &str) -> &mut Value {
        &mut self.merge[key]
    }
}

/// Applies a merge patch to a document, as a server does.
pub(crate) fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *document = patch.clone();
        return;
    };
    let document = object(document);
    for (key, wanted) in members {
        if wanted.is_null() {
            document.remove(key);
        } else {
            apply(document.entry(key.clone()).or_insert(Value::Null), wanted);
        }
    }
}

/// Returns the merge patch from one value to the other. A value that is not a JSON object counts as an empty one.
pub(crate) fn difference(before: &Value, after: &Value) -> Map<String, Value> {
    let none = Map::new();
    let [before, after] = [before, after].map(|it| it.as_object().unwrap_or(&none));
    let mut changed = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        changed.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        let change = match before.get(key) {
            Some(same) if same == value => None,
            Some(Value::Object(_)) if value.is_object() => Some(difference(&before[key], value).into()),
            None if value.is_null() => None,
            _ => Some(value.clone()),
        };
        changed.extend(change.map(|change| (key.clone(), change)));
    }
    changed
}

/// Removes the value at `path` unless it is `null`, and parents that become empty. The part [`ITEMS`] stands for all items of a list.
pub(crate) fn remove(value: &mut Value, path: &[String]) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Array(items) if key == ITEMS => {
            for item in items {
                remove(item, rest);
            }
        }
        Value::Object(members) => {
            let Some(member) = members.get_mut(key).filter(|it| !it.is_null()) else {
                return;
            };
            remove(member, rest);
            if rest.is_empty() || member.as_object().is_some_and(Map::is_empty) {
                members.remove(key);
            }
        }
        _ => {}
    }
}

/// Combines two merge patches: like [`apply`], but keeps `null`, because it still has to remove a field on the server.
fn compose(first: &mut Value, second: Value) {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            for (key, wanted) in second {
                compose(first.entry(key).or_insert(Value::Null), wanted);
            }
        }
        (first, second) => *first = second,
    }
}

fn unset(value: &mut Value, path: &[&str]) {
    let (Some((key, rest)), Value::Object(members)) = (path.split_first(), value) else {
        return;
    };
    let emptied = members.get_mut(*key).is_some_and(|member| {
        unset(member, rest);
        rest.is_empty() || member.as_object().is_some_and(Map::is_empty)
    });
    if emptied {
        members.remove(*key);
    }
}

fn drop_fulfilled(wanted: &mut Map<String, Value>, found: &Value) {
    wanted.retain(|key, wanted| match (wanted, found.get(key)) {
        (Value::Null, found) => found.is_some(),
        (Value::Object(wanted), Some(found @ Value::Object(_))) if !wanted.is_empty() => {
            drop_fulfilled(wanted, found);
            !wanted.is_empty()
        }
        (Value::Object(wanted), Some(Value::Object(_))) => !wanted.is_empty(),
        (wanted, found) => !found.is_some_and(|found| is_kept(wanted, found)),
    });
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(value: Value) -> Patch {
        let mut patch = Patch::new();
        patch.merge(value);
        patch
    }

    #[test]
    fn keys_come_into_being() {
        let mut patch = Patch::new();
        assert!(patch.is_empty());
        patch["status"]["a"]["b"] = json!(1);
        assert_eq!(*patch.as_value(), json!({"status": {"a": {"b": 1}}}));
        assert_eq!(patch.take()["status"]["a"]["b"], json!(1));
        assert!(patch.is_empty());
        assert_eq!(patch["nothing"], Value::Null);
        assert!(patch.is_empty());
    }

    #[test]
    fn merging_composes() {
        let mut patch = patch(json!({"a": {"x": 1, "y": 2}, "b": 1}));
        patch.merge(json!({"a": {"x": null, "z": [3]}, "b": {"c": 1}}));
        patch.merge(json!("no patch"));
        assert_eq!(*patch.as_value(), json!({"a": {"x": null, "y": 2, "z": [3]}, "b": {"c": 1}}));
    }

    #[test]
    fn set_and_unset_are_total() {
        let mut patch = patch(json!({"metadata": "broken"}));
        patch.put(&["metadata", "annotations", "a"], json!("1"));
        assert_eq!(patch.get(&["metadata", "annotations", "a"]), Some(&json!("1")));
        assert_eq!(patch.get(&["metadata", "annotations", "a", "b"]), None);
        patch.unset(&["metadata", "annotations", "b"]);
        assert!(!patch.is_empty());
        patch.unset(&["metadata", "annotations", "a"]);
        assert!(patch.is_empty());
        patch.put(&["status"], json!("broken"));
        patch.set("status.n", 1);
        patch.set("metadata.annotations.example.com/a", "x");
        patch.set(["spec", "a.b"], None::<u8>);
        let wanted = json!({
            "metadata": {"annotations": {"example.com/a": "x"}},
            "spec": {"a.b": null},
            "status": {"n": 1},
        });
        assert_eq!(*patch.as_value(), wanted);
    }

    #[test]
    fn fulfilled_changes_are_removed() {
        let body = json!({"status": {"a": 1, "l": [1, 2]}, "spec": {"x": {"y": 1}}});
        for (wanted, left) in [
            (json!({"status": {"a": 1, "l": [1, 2], "gone": null}}), json!({})),
            (json!({"status": {"a": 1, "l": [2]}}), json!({"status": {"l": [2]}})),
            (json!({"status": {"a": null}, "spec": {"x": {"y": 1}}}), json!({"status": {"a": null}})),
            (json!({"spec": {}, "other": {}}), json!({"other": {}})),
            (json!({"spec": {"x": 1}}), json!({"spec": {"x": 1}})),
            (json!({"a": {"b": null}}), json!({"a": {"b": null}})),
            (json!({"status": {"a": 1.0, "l": [1.0, 2]}}), json!({})),
        ] {
            assert_eq!(*patch(wanted).effective(&body).as_value(), left);
        }
    }

    #[test]
    fn pruned_fields_are_omitted() {
        let merge = json!({"status": {"a": {"b": 1}, "gone": null, "l": [{"x": 1, "y": 2}], "kept": 1}});
        let paths = ["status.a.b", "status.gone", "status.l.[].x", "status.other"];
        let paths = paths.map(|it| it.split('.').map(str::to_owned).collect());
        let left = patch(merge).without(&BTreeSet::from(paths));
        let expected = json!({"status": {"gone": null, "l": [{"y": 2}], "kept": 1}});
        assert_eq!(*left.as_value(), expected);
    }

    #[test]
    fn applies_as_the_standard_says() {
        for (document, with, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut document = document;
            apply(&mut document, &with);
            assert_eq!(document, expected);
        }
    }

    #[test]
    fn a_difference_removes_unwanted_members() {
        let found = json!({"a": {"b": 1, "c": [1]}, "d": 1, "e": {"f": 1}});
        let wanted = json!({"a": {"b": 1, "c": [2]}, "e": {"f": 1}});
        for (before, after, expected) in [
            (&found, &wanted, json!({"a": {"c": [2]}, "d": null})),
            (&wanted, &wanted, json!({})),
            (&json!({"a": 1}), &json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (&json!(null), &json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        ] {
            assert_eq!(Value::Object(difference(before, after)), expected);
        }
    }
}
