//! Converts the changes that handlers request for an object under review to a JSON patch with only the differences.
//!
//! Refuses changes that the API server would refuse or lose without naming the handler. This module must not depend
//! on the rest of the response.

use jiff::Timestamp;
use serde_json::Value;

use crate::admission::review::Review;
use crate::handler::operation::Operation;
use crate::object::operations::Operations;
use crate::object::patch::{self, Patch};

/// The object under review while handlers change it.
pub(crate) struct Changes<'a> {
    review: &'a Review,
    has_status_subresource: bool,
    /// The states before and after, without fields that only the API server writes, which are never patched. `None` before the first change.
    sides: Option<(Value, Value)>,
}

/// The fields that must not change, as JSON pointers.
const FIXED: [&str; 6] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/managedFields",
];

impl<'a> Changes<'a> {
    pub(crate) fn new(review: &'a Review, has_status_subresource: bool) -> Self {
        Self { review, has_status_subresource, sides: None }
    }

    /// Applies the changes of a handler, including functions of users.
    ///
    /// # Errors
    /// The path of a field that must not change, with the reason.
    pub(crate) fn add(&mut self, wanted: &Patch, now: Timestamp) -> Result<(), String> {
        if wanted.is_empty() {
            return Ok(());
        }
        if self.review.facts.operation == Operation::Delete {
            return Err("an object that is being deleted cannot be changed".to_owned());
        }
        let (before, after) = match self.sides.take() {
            Some((original, changed)) => (Some(original), changed),
            None => (None, self.original()),
        };
        let mut changed = after.clone();
        let resolved = wanted.resolved(&changed, now);
        patch::apply(&mut changed, resolved.as_value());
        for function in resolved.functions() {
            function.to(&mut changed);
        }
        self.check(&after, &changed)?;
        self.sides = Some((before.unwrap_or(after), changed));
        Ok(())
    }

    /// Returns all differences, if there are any.
    pub(crate) fn operations(self) -> Option<Operations> {
        let (before, after) = self.sides?;
        let operations = Operations::between(&before, &after);
        (!operations.is_empty()).then_some(operations)
    }

    fn original(&self) -> Value {
        let mut original = Value::clone(&self.review.body);
        if let Some(Value::Object(metadata)) = original.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        original
    }

    fn check(&self, before: &Value, after: &Value) -> Result<(), String> {
        if !after.is_object() || !after["metadata"].is_object() && before["metadata"].is_object() {
            return Err("the changed value is not an object".to_owned());
        }
        if let Some(path) = FIXED.into_iter().find(|it| before.pointer(it) != after.pointer(it)) {
            return Err(format!("{} must not be changed", dotted(path)));
        }
        let is_main = self.review.facts.subresource.is_none();
        if is_main && self.has_status_subresource && before.get("status") != after.get("status") {
            return Err("the API server would lose a change of status, which is a subresource: \
                 only requests about that can change it"
                .to_owned());
        }
        Ok(())
    }
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::review::ConnectionFacts;
    use crate::admission::review::tests::creation;

    fn review(object: &Value) -> Review {
        let body = creation(object).to_string();
        Review::parse(body.as_bytes(), ConnectionFacts::default()).unwrap()
    }

    fn object() -> Value {
        json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "one", "namespace": "default", "managedFields": [{"manager": "m"}]},
            "spec": {"size": 1, "items": ["a"], "gone": {"x": 1}},
        })
    }

    fn merge(value: Value) -> Patch {
        let mut patch = Patch::new();
        patch.merge(value);
        patch
    }

    fn changed(review: &Review, patches: &[Patch]) -> Result<Value, String> {
        let mut changes = Changes::new(review, true);
        for patch in patches {
            changes.add(patch, Timestamp::UNIX_EPOCH)?;
        }
        let operations = changes.operations();
        let document = operations.map(|it| serde_json::from_str(&it.to_string()).unwrap());
        Ok(document.unwrap_or_default())
    }

    #[test]
    fn only_differences_are_patched() {
        let review = review(&object());
        let mut second = merge(json!({"spec": {"size": 3, "gone": null}}));
        second.transform(|object| {
            assert!(object["metadata"].get("managedFields").is_none());
            object["spec"]["items"].as_array_mut().unwrap().push(json!("b"));
        });
        let first = merge(json!({"spec": {"size": 2}, "metadata": {"labels": {"a": "b"}}}));
        let document = changed(&review, &[first, second]).unwrap();
        assert_eq!(
            document,
            json!([
                {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
                {"op": "remove", "path": "/spec/gone"},
                {"op": "replace", "path": "/spec/items", "value": ["a", "b"]},
                {"op": "replace", "path": "/spec/size", "value": 3},
            ])
        );
        let same = merge(json!({"spec": {"size": 1, "absent": null}}));
        assert_eq!(changed(&review, &[same]), Ok(Value::Null));
        assert_eq!(changed(&review, &[]), Ok(Value::Null));
    }

    #[test]
    fn forbidden_changes_are_named() {
        let review = review(&object());
        for (wanted, expected) in [
            (json!({"kind": "Other"}), "kind must not be changed"),
            (json!({"apiVersion": "v1"}), "apiVersion must"),
            (json!({"metadata": {"name": "two"}}), "metadata.name must"),
            (json!({"metadata": {"namespace": null}}), "metadata.namespace must"),
            (json!({"metadata": {"uid": "u"}}), "metadata.uid must"),
            (json!({"metadata": {"managedFields": []}}), "metadata.managedFields must"),
            (json!({"metadata": "text"}), "not an object"),
            (json!({"status": {"a": 1}}), "status"),
        ] {
            let refused = changed(&review, &[merge(wanted)]).unwrap_err();
            assert!(refused.contains(expected), "{refused}, not {expected}");
        }
        let mut none = Patch::new();
        none.transform(|object| *object = json!(5));
        assert!(changed(&review, &[none]).unwrap_err().contains("not an object"));
    }

    #[test]
    fn a_status_is_changed_unless_it_is_another_subresource() {
        let mut posted = creation(&object());
        let status = merge(json!({"status": {"a": 1}}));
        let review = review(&object());
        let mut changes = Changes::new(&review, false);
        assert_eq!(changes.add(&status, Timestamp::UNIX_EPOCH), Ok(()));
        posted["request"]["subResource"] = json!("status");
        let about_status = posted.to_string();
        let about_status = Review::parse(about_status.as_bytes(), ConnectionFacts::default());
        assert!(changed(&about_status.unwrap(), &[status]).is_ok());
    }

    #[test]
    fn a_deleted_object_cannot_be_changed() {
        let mut posted = creation(&Value::Null);
        posted["request"]["operation"] = json!("DELETE");
        posted["request"]["oldObject"] = object();
        let body = posted.to_string();
        let review = Review::parse(body.as_bytes(), ConnectionFacts::default()).unwrap();
        let wanted = merge(json!({"spec": {"size": 2}}));
        assert!(changed(&review, &[wanted]).unwrap_err().contains("deleted"));
        assert_eq!(changed(&review, &[Patch::new()]), Ok(Value::Null));
    }
}
