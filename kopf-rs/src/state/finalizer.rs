//! Adds and removes the finalizer.
//!
//! The patch contains the complete list and must be applied to the list that it was made from, so that other
//! finalizers keep their positions. This module does not know when to add or remove.

use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;

/// Returns true if the object has the finalizer.
pub(crate) fn is_on(body: &Body, finalizer: &str) -> bool {
    body.finalizers().any(|it| it == finalizer)
}

/// Returns true if no other finalizer blocks the deletion of the object.
pub(crate) fn is_alone(body: &Body, finalizer: &str) -> bool {
    body.finalizers().all(|it| it == finalizer)
}

/// Adds the finalizer to the patch, and returns the list that the patch requires. Respects a list that a handler has set in the patch.
pub(crate) fn add(body: &Body, finalizer: &str, patch: &mut Patch) -> Vec<String> {
    edit(body, patch, |list| {
        if !list.iter().any(|it| it == finalizer) {
            list.push(finalizer.to_owned());
        }
    })
}

/// Removes the finalizer in the patch, and returns the list that the patch requires.
pub(crate) fn remove(body: &Body, finalizer: &str, patch: &mut Patch) -> Vec<String> {
    edit(body, patch, |list| list.retain(|it| it != finalizer))
}

fn edit(body: &Body, patch: &mut Patch, change: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
    const PATH: [&str; 2] = ["metadata", "finalizers"];
    let found: Vec<String> = body.finalizers().map(str::to_owned).collect();
    let wanted = patch.get(&PATH).and_then(Value::as_array).map(|list| {
        let names = list.iter().filter_map(Value::as_str);
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    let mut list = wanted.unwrap_or_else(|| found.clone());
    change(&mut list);
    let list = if list.is_empty() { Value::Null } else { list.into() };
    patch.put(&PATH, list);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn others_keep_their_places() {
        for (found, added, removed) in [
            (json!(null), json!(["f"]), json!(null)),
            (json!(["a", "b"]), json!(["a", "b", "f"]), json!(["a", "b"])),
            (json!(["a", "f", "b"]), json!(["a", "f", "b"]), json!(["a", "b"])),
            (json!(["f"]), json!(["f"]), json!(null)),
        ] {
            let body = Body::new(json!({"metadata": {"finalizers": found}}));
            let mut patch = Patch::new();
            let expected = add(&body, "f", &mut patch);
            assert!(body.finalizers().eq(expected.iter().map(String::as_str)));
            assert_eq!(patch["metadata"]["finalizers"], added);
            let mut patch = Patch::new();
            remove(&body, "f", &mut patch);
            assert_eq!(patch["metadata"]["finalizers"], removed);
        }
    }

    #[test]
    fn a_handlers_list_is_respected() {
        let body = Body::new(json!({"metadata": {"finalizers": ["f", "a"]}}));
        let mut patch = Patch::new();
        patch["metadata"]["finalizers"] = json!(["f", "mine"]);
        remove(&body, "f", &mut patch);
        assert_eq!(patch["metadata"]["finalizers"], json!(["mine"]));
        assert!(!is_alone(&body, "f") && is_on(&body, "f"));
    }
}
