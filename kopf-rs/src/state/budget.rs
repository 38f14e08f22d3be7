//! Computes the remaining room for annotations: the server refuses a patch that exceeds the limit, even one that removes the finalizer.
//!
//! This module must not depend on the content of annotations.

use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;

/// The limit for all keys and values of an object's annotations, as the API server counts them.
pub(crate) const LIMIT: usize = 256 * 1024;

/// Returns the size of all annotations after applying `patch` to `body`.
pub(super) fn annotations_after(body: &Body, patch: &Patch) -> usize {
    let wanted = patch.get(&["metadata", "annotations"]).and_then(Value::as_object);
    let size = |key: &str, value: &Value| key.len() + value.as_str().map_or(0, str::len);
    let is_replaced = |key: &str| wanted.is_some_and(|wanted| wanted.contains_key(key));
    let kept = body.annotation_map().iter().filter(|(key, _)| !is_replaced(key));
    let new = wanted.into_iter().flatten();
    new.filter(|(_, value)| !value.is_null()).chain(kept).map(|(key, value)| size(key, value)).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_the_resulting_annotations() {
        let body = Body::new(json!({"metadata": {"annotations": {"a": "1234", "b": "12", "c": "1"}}}));
        let mut patch = Patch::new();
        assert_eq!(annotations_after(&body, &patch), 10);
        patch.merge(json!({"metadata": {"annotations": {"a": null, "b": "123456", "d": "1"}}}));
        assert_eq!(annotations_after(&body, &patch), 2 + 2 + 7);
    }
}
