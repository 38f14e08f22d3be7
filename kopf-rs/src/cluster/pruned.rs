//! Records the fields that schemas have pruned from our writes, by resource.
//!
//! This module must not depend on requests: `cluster::write::pruned` compares their responses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::object::inconsistency::Inconsistency;
use crate::object::resource::Resource;

/// After this time a pruned field is written again, because an operator that cannot watch definitions does not see that a schema has gained
/// the field.
const BELIEVED: Duration = Duration::from_secs(3600);
/// The maximum number of pruned fields per resource that are reported and left out of patches. A schema that prunes more probably lacks a map
/// with arbitrary keys.
const MOST: usize = 200;

/// Paths below the status that a schema does not have.
pub(crate) type PrunedPaths = Arc<BTreeSet<Vec<String>>>;

/// The pruned fields of all resources.
#[derive(Default)]
pub(super) struct Pruned {
    resources: Mutex<BTreeMap<String, OfResource>>,
    /// The number of changes and new listings of each definition, by group and plural.
    definitions: Mutex<BTreeMap<String, BTreeMap<String, u64>>>,
}

#[derive(Default)]
struct OfResource {
    reported: BTreeSet<Inconsistency>,
    paths: PrunedPaths,
    /// The time when the first of these paths was noted.
    since: Option<Instant>,
}

impl Pruned {
    /// Records the pruned fields that a response has revealed, and returns those that are new.
    pub(super) fn note(&self, resource: &Resource, mut all: Vec<Inconsistency>) -> Vec<Inconsistency> {
        if all.is_empty() {
            return all;
        }
        let mut resources = self.resources.lock();
        let known = resources.entry(resource.to_string()).or_default();
        let missing = all.iter().filter_map(Inconsistency::missing);
        let missing = missing.filter(|path| path[0] == "status");
        if known.is_old() {
            known.paths = PrunedPaths::default();
            known.since = Some(Instant::now());
        }
        for path in missing {
            if known.paths.len() < MOST && !known.paths.contains(path) {
                Arc::make_mut(&mut known.paths).insert(path.to_vec());
            }
        }
        all.retain(|it| known.reported.len() < MOST && known.reported.insert(it.clone()));
        all
    }

    /// Returns the paths that the schema of the resource is assumed to prune.
    pub(super) fn paths(&self, resource: &Resource) -> Option<PrunedPaths> {
        let resources = self.resources.lock();
        if resources.is_empty() {
            return None;
        }
        let known = resources.get(&resource.to_string());
        let known = known.filter(|it| !it.is_old() && !it.paths.is_empty())?;
        Some(known.paths.clone())
    }

    /// Forgets the pruned paths after the definition `plural.group` has changed or was listed again.
    pub(super) fn forget(&self, definition: &str, has_changed: bool) {
        let Some((plural, group)) = definition.split_once('.') else {
            return;
        };
        let mut definitions = self.definitions.lock();
        let of_group = definitions.entry(group.to_owned()).or_default();
        *of_group.entry(plural.to_owned()).or_default() += 1;
        drop(definitions);
        for (resource, known) in self.resources.lock().iter_mut() {
            let version = resource.strip_prefix(plural);
            let version = version.and_then(|it| it.strip_prefix('.')?.strip_suffix(group));
            if version.is_some_and(|it| it.find('.') == Some(it.len().wrapping_sub(1))) {
                known.since = None;
                if has_changed {
                    known.reported.clear();
                }
            }
        }
    }

    /// Returns how often the definition of the resource has changed or was listed again.
    pub(super) fn definitions(&self, resource: &Resource) -> u64 {
        let definitions = self.definitions.lock();
        let of_group = definitions.get(&resource.group);
        let times = of_group.and_then(|of_group| of_group.get(&resource.plural));
        times.copied().unwrap_or_default()
    }
}

impl OfResource {
    fn is_old(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= BELIEVED)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::inconsistency::inconsistencies;

    fn widgets() -> Resource {
        Resource {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            plural: "widgets".to_owned(),
            ..Resource::default()
        }
    }

    /// Returns the number of new fields if the schema prunes everything that is sent.
    fn note(pruned: &Pruned, key: &str, sent: &serde_json::Value) -> usize {
        let all = inconsistencies(key, sent, Some(&json!({})));
        pruned.note(&widgets(), all).len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_field_is_tried_again_after_an_hour_whatever_else_is_dropped_meanwhile() {
        let pruned = Pruned::default();
        assert_eq!(note(&pruned, "status", &json!({"a": 1})), 1);
        for _ in 0..4 {
            assert!(pruned.paths(&widgets()).is_some());
            tokio::time::advance(BELIEVED / 4).await;
            note(&pruned, "spec", &json!({"b": 1}));
            note(&pruned, "status", &json!({"c": 1}));
        }
        let paths = pruned.paths(&widgets()).unwrap_or_default();
        assert!(!paths.contains(&["status".to_owned(), "a".to_owned()][..]), "{paths:?}");
    }

    #[test]
    fn a_definition_that_changes_is_no_news_of_other_resources() {
        let pruned = Pruned::default();
        let before = pruned.definitions(&widgets());
        pruned.forget("gadgets.example.com", true);
        pruned.forget("widgets.example.org", true);
        assert_eq!(pruned.definitions(&widgets()), before);
        pruned.forget("widgets.example.com", false);
        assert_ne!(pruned.definitions(&widgets()), before);
    }

    #[tokio::test(start_paused = true)]
    async fn fields_without_end_take_no_memory_without_end() {
        let pruned = Pruned::default();
        let mut reported = 0;
        for number in 0..2000 {
            let field = format!("pod-{number}");
            reported += note(&pruned, "status", &json!({"pods": {field: true}}));
        }
        assert!(reported <= MOST, "{reported} fields are reported of");
        let paths = pruned.paths(&widgets()).unwrap_or_default();
        assert!(paths.len() <= MOST, "{} paths are kept", paths.len());
    }
}
