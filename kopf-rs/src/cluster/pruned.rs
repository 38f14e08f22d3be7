//! What schemas have dropped of what was written, by resource.
//!
//! Must not know requests: `cluster::write::pruned` compares their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::object::inconsistency::Inconsistency;
use crate::object::resource::Resource;

/// After that time a dropped field is written again: an operator that cannot watch definitions does not see that a schema has got it.
const BELIEVED: Duration = Duration::from_secs(3600);
/// So many fields of a resource are told of, and so many are left out of patches. A schema that lacks more lacks a map with names as its keys.
const MOST: usize = 200;

/// Paths below the status that a schema does not have.
pub(crate) type PrunedPaths = Arc<BTreeSet<Vec<String>>>;

/// What is known of all resources.
#[derive(Default)]
pub(super) struct Pruned(Mutex<BTreeMap<String, OfResource>>);

#[derive(Default)]
struct OfResource {
    told: BTreeSet<Inconsistency>,
    paths: PrunedPaths,
    /// When the first of them was noted.
    since: Option<Instant>,
}

impl Pruned {
    /// Note what an answer has shown; what of it is news.
    pub(super) fn note(
        &self,
        resource: &Resource,
        mut all: Vec<Inconsistency>,
    ) -> Vec<Inconsistency> {
        if all.is_empty() {
            return all;
        }
        let mut resources = self.lock();
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
        all.retain(|it| known.told.len() < MOST && known.told.insert(it.clone()));
        all
    }

    /// What is believed of the schema of the resource.
    pub(super) fn paths(&self, resource: &Resource) -> Option<PrunedPaths> {
        let resources = self.lock();
        if resources.is_empty() {
            return None;
        }
        let known = resources.get(&resource.to_string());
        let known = known.filter(|it| !it.is_old() && !it.paths.is_empty())?;
        Some(known.paths.clone())
    }

    /// The definition `plural.group` has changed, or was looked at anew.
    pub(super) fn forget(&self, definition: &str, has_changed: bool) {
        let Some((plural, group)) = definition.split_once('.') else {
            return;
        };
        for (resource, known) in self.lock().iter_mut() {
            let version = resource.strip_prefix(plural);
            let version = version.and_then(|it| it.strip_prefix('.')?.strip_suffix(group));
            if version.is_some_and(|it| it.find('.') == Some(it.len().wrapping_sub(1))) {
                known.since = None;
                if has_changed {
                    known.told.clear();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfResource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// What is news where the schema has nothing of what is sent.
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
        assert!(
            !paths.contains(&["status".to_owned(), "a".to_owned()][..]),
            "{paths:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn fields_without_end_take_no_memory_without_end() {
        let pruned = Pruned::default();
        let mut told = 0;
        for number in 0..2000 {
            let field = format!("pod-{number}");
            told += note(&pruned, "status", &json!({"pods": {field: true}}));
        }
        assert!(told <= MOST, "{told} fields are told of");
        let paths = pruned.paths(&widgets()).unwrap_or_default();
        assert!(paths.len() <= MOST, "{} paths are kept", paths.len());
    }
}
