//! Shows the difference between two states of an object as a unified diff of YAML.
//!
//! This module must not depend on requests.

use serde_json::Value;
use similar::TextDiff;

use crate::operator::installation::comparable;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Returns the difference, or `None` if the states are equal. `None` for a state means that there is no object.
pub(super) fn difference(name: &str, before: Option<&Value>, after: Option<&Value>) -> Option<String> {
    let [old, new] = [before, after].map(|it| it.map(comparable));
    if old == new {
        return None;
    }
    let text = |object: &Option<Value>| {
        let text =
            object.as_ref().map(|it| serde_saphyr::to_string(it).unwrap_or_else(|_| format!("{it:#}")));
        text.unwrap_or_default()
    };
    let path = |object: &Option<Value>, side: &str| match object {
        Some(_) => format!("{side}/{name}"),
        None => "/dev/null".to_owned(),
    };
    let (old_path, new_path) = (path(&old, "cluster"), path(&new, "wanted"));
    let (old, new) = (text(&old), text(&new));
    let diff = TextDiff::from_lines(&old, &new);
    let diff = diff.unified_diff().context_radius(CONTEXT).header(&old_path, &new_path).to_string();
    Some(diff.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_wanted_fields_differ() {
        let object = |version: u8, image: &str| {
            json!({
                "kind": "Demo", "metadata": {"name": "a", "resourceVersion": version}, "spec": {"image": image}, "status": {"seen": version},
            })
        };
        assert_eq!(difference("demo/a", Some(&object(1, "a:1")), Some(&object(2, "a:1"))), None);
        let changed = difference("demo/a", Some(&object(1, "a:1")), Some(&object(2, "a:2"))).unwrap();
        assert!(changed.starts_with("--- cluster/demo/a\n+++ wanted/demo/a\n@@"), "{changed}");
        assert!(changed.contains("\n-  image: a:1\n+  image: a:2"), "{changed}");
        let created = difference("demo/a", None, Some(&object(1, "a:1"))).unwrap();
        assert!(created.starts_with("--- /dev/null\n+++ wanted/demo/a\n"), "{created}");
    }
}
