//! Noticing that the server has not kept what was written, as a schema without the field makes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::object::inconsistency::{Inconsistency, inconsistencies};
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// A definition whose changes nobody tells of may have the field by then.
const BELIEVED: Duration = Duration::from_secs(3600);

/// Paths below the status that a schema does not have.
pub(crate) type PrunedPaths = Arc<BTreeSet<Vec<String>>>;

/// What schemas have dropped, by resource.
#[derive(Default)]
pub(in crate::cluster) struct Pruned(Mutex<BTreeMap<String, OfResource>>);

#[derive(Default)]
struct OfResource {
    told: BTreeSet<Inconsistency>,
    paths: PrunedPaths,
    since: Option<Instant>,
}

impl Cluster {
    /// The fields that the reply to this request does not show as they were sent, and that is news. Metadata are not looked at.
    pub(crate) fn news_of_pruned(
        &self,
        request: PatchRequest<'_>,
        reply: &Raw,
    ) -> Vec<Inconsistency> {
        let PatchRequest { resource, part, .. } = request;
        let all = request.changes.missing_in(reply, part);
        if all.is_empty() {
            return all;
        }
        let mut resources = self.shared.pruned.lock();
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
        let mut news = all;
        news.retain(|it| known.told.insert(it.clone()));
        news
    }

    /// The fields of the status that the schema does not have, as far as writes have shown.
    pub(crate) fn pruned(&self, resource: &Resource) -> Option<PrunedPaths> {
        let resources = self.shared.pruned.lock();
        if resources.is_empty() {
            return None;
        }
        let known = resources.get(&resource.to_string());
        let known = known.filter(|it| !it.is_old() && !it.paths.is_empty())?;
        Some(known.paths.clone())
    }

    /// The definition `plural.group` has changed, or was looked at anew: its schema may have other fields.
    pub(crate) fn forget_pruned(&self, definition: &str, has_changed: bool) {
        let mut resources = self.shared.pruned.lock();
        let Some((plural, group)) = definition.split_once('.') else {
            return;
        };
        for (resource, known) in resources.iter_mut() {
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
}

impl Pruned {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfResource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfResource {
    fn is_old(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= BELIEVED)
    }
}

impl Changes {
    /// Whether the reply does not show the status as it was sent.
    pub(crate) fn lose_status_in(&self, reply: &Raw) -> bool {
        self.has(Part::Status) && !self.missing_in(reply, Part::Status).is_empty()
    }

    /// The fields of this part that are not in the reply as they were sent. What functions have made is only looked at in the status.
    fn missing_in(&self, reply: &Raw, part: Part) -> Vec<Inconsistency> {
        let (sent, is_looked_at): (_, fn(&str) -> bool) = match self {
            Self::Merge(patch) => (patch.as_value(), |_| true),
            Self::Operations { wanted, .. } => (wanted, |key| key == "status"),
        };
        let sent = sent.as_object().into_iter().flatten();
        let sent = sent.filter(|(key, _)| is_looked_at(key) && part.takes(key));
        let mut sent = sent.peekable();
        if sent.peek().is_none() {
            return Vec::new();
        }
        let found: HashMap<String, &RawValue> =
            serde_json::from_str(reply.text()).unwrap_or_default();
        let compared = sent.flat_map(|(key, sent)| {
            let found = found
                .get(key)
                .and_then(|text| serde_json::from_str(text.get()).ok());
            inconsistencies(key, sent, found.as_ref())
        });
        compared.collect()
    }
}
