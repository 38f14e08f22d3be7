//! What schemas have dropped of what was written, by resource.
//!
//! Must not know requests: `cluster::write::pruned` compares their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::object::inconsistency::Inconsistency;
use crate::object::resource::Resource;

/// A definition whose changes nobody tells of may have the field by then.
const BELIEVED: Duration = Duration::from_secs(3600);

/// Paths below the status that a schema does not have.
pub(crate) type PrunedPaths = Arc<BTreeSet<Vec<String>>>;

/// What is known of all resources.
#[derive(Default)]
pub(super) struct Pruned(Mutex<BTreeMap<String, OfResource>>);

#[derive(Default)]
struct OfResource {
    told: BTreeSet<Inconsistency>,
    paths: PrunedPaths,
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
        let mut paths = BTreeSet::clone(&known.paths);
        if known.is_old() {
            paths.clear();
        }
        paths.extend(missing.map(<[String]>::to_vec));
        known.paths = Arc::new(paths);
        known.since = Some(Instant::now());
        all.retain(|it| known.told.insert(it.clone()));
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
