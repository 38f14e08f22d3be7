//! Resolves the kind or plural in a test to request paths.
//!
//! This module must not depend on the contents of objects, except `apiVersion` and `kind`.

use serde_json::Value;

/// A served resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) root: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
}

impl Resource {
    /// Returns the path of all objects, in a namespace if the kind is namespaced.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let (root, plural) = (&self.root, &self.plural);
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    }

    /// Returns whether `word` names this resource: `myapps`, `MyApp`, or either with `.group` appended.
    pub(crate) fn is_meant_by(&self, word: &str) -> bool {
        let group = self.root.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        let name = match word.split_once('.') {
            Some((name, wanted)) if Some(wanted) == group => name,
            Some(_) => return false,
            None => word,
        };
        name == self.plural || name == self.kind
    }
}

/// Returns the root path of an `apiVersion`.
pub(crate) fn root_of(api_version: &str) -> String {
    let base = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{base}/{api_version}")
}

/// Returns the resources in an `APIResourceList`, without subresources.
pub(crate) fn listed(root: &str, list: &Value) -> Vec<Resource> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .filter(|entry| !text(entry, "name").contains('/'))
        .map(|entry| Resource {
            root: root.to_owned(),
            plural: text(entry, "name"),
            kind: text(entry, "kind"),
            namespaced: entry["namespaced"] == true,
        })
        .collect()
}

/// Returns the root path of the preferred version of each group in an `APIGroupList`.
pub(crate) fn group_roots(groups: &Value) -> Vec<String> {
    let entries = groups["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    let preferred = |group: &Value| group["preferredVersion"]["groupVersion"].as_str().map(root_of);
    entries.iter().filter_map(preferred).collect()
}

/// Parses the documents of a YAML or JSON text; skips empty ones.
///
/// # Panics
///
/// Panics if the text is malformed, because it is part of the test.
#[must_use]
pub fn documents(text: &str) -> Vec<Value> {
    let parsed = serde_saphyr::from_multiple::<Value>(text);
    let all = parsed.unwrap_or_else(|error| panic!("not YAML: {error}\n{text}"));
    all.into_iter().filter(|document| !document.is_null()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_paths_of_a_resource() {
        let list = json!({"resources": [
            {"name": "myapps", "kind": "MyApp", "namespaced": true},
            {"name": "myapps/status", "kind": "MyApp", "namespaced": true},
        ]});
        let found = listed("/apis/demo.example.com/v1", &list);
        let [apps] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(apps.collection("ns"), "/apis/demo.example.com/v1/namespaces/ns/myapps");
        for word in ["myapps", "MyApp", "myapps.demo.example.com", "MyApp.demo.example.com"] {
            assert!(apps.is_meant_by(word), "{word}");
        }
        for word in ["myapp", "myapps.example.com", "pods"] {
            assert!(!apps.is_meant_by(word), "{word}");
        }
    }

    #[test]
    fn documents_of_yaml_and_json() {
        let yaml = "---\na: 1\n---\n---\nb: \"\u{1f680}\"\n";
        assert_eq!(documents(yaml), [json!({"a": 1}), json!({"b": "\u{1f680}"})]);
        assert_eq!(documents("{\"a\": [1, 2]}"), [json!({"a": [1, 2]})]);
    }
}
