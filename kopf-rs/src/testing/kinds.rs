//! Maps a resource name from a test to request paths.
//!
//! This module reads only the `apiVersion` and `kind` of objects, and discovery documents.

use serde_json::Value;

/// A served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: String,
    plural: String,
    kind: String,
    pub(super) namespaced: bool,
}

impl Served {
    /// Returns the path of the collection, in a namespace for namespaced kinds.
    pub(super) fn collection(&self, namespace: &str) -> String {
        let Self { root, plural, .. } = self;
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    }

    /// Returns whether `word` names this resource: `myapps`, `MyApp`, or either with `.group` appended.
    pub(super) fn is_meant_by(&self, word: &str) -> bool {
        let group = self.root.strip_prefix("/apis/");
        let group = group.and_then(|rest| rest.split('/').next());
        let name = match word.split_once('.') {
            Some((name, wanted)) if Some(wanted) == group => name,
            Some(_) => return false,
            None => word,
        };
        name == self.plural || name == self.kind
    }

    /// Returns whether objects of this `apiVersion` and `kind` belong to this resource.
    pub(super) fn is_of(&self, object: &Value) -> bool {
        object["kind"] == self.kind && self.root == root_of(text(&object["apiVersion"]))
    }
}

/// Returns the resources in one `APIResourceList`, without subresources.
pub(super) fn listed(root: &str, list: &Value) -> Vec<Served> {
    let entries = list["resources"].as_array().into_iter().flatten();
    entries
        .filter(|entry| !text(&entry["name"]).contains('/'))
        .map(|entry| Served {
            root: root.to_owned(),
            plural: text(&entry["name"]).to_owned(),
            kind: text(&entry["kind"]).to_owned(),
            namespaced: entry["namespaced"] == true,
        })
        .collect()
}

/// Returns the root of the core group, then the roots of the groups in an `APIGroupList`, each with its preferred
/// version first.
pub(super) fn roots(groups: &Value) -> Vec<String> {
    let mut roots = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().into_iter().flatten() {
        let versions = group["versions"].as_array().into_iter().flatten();
        for version in std::iter::once(&group["preferredVersion"]).chain(versions) {
            let root = root_of(text(&version["groupVersion"]));
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
    }
    roots
}

/// Returns the root path of an `apiVersion`.
fn root_of(api_version: &str) -> String {
    let base = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{base}/{api_version}")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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
        let path = "/apis/demo.example.com/v1/namespaces/ns/myapps";
        assert_eq!(apps.collection("ns"), path);
        for word in ["myapps", "MyApp", "myapps.demo.example.com", "MyApp.demo.example.com"] {
            assert!(apps.is_meant_by(word), "{word}");
        }
        for word in ["myapp", "myapps.example.com", "pods"] {
            assert!(!apps.is_meant_by(word), "{word}");
        }
        let object = json!({"apiVersion": "demo.example.com/v1", "kind": "MyApp"});
        assert!(apps.is_of(&object));
    }
}
