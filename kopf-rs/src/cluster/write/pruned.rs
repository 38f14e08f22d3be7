//! Noticing that the server has not kept what was written, as a schema without the field makes it.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::cluster::Cluster;
use crate::cluster::pruned::PrunedPaths;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::object::inconsistency::{Inconsistency, inconsistencies};
use crate::object::raw::Raw;
use crate::object::resource::Resource;

impl Cluster {
    /// The fields that the reply to this request does not show as they were sent, and that is news. Metadata are not looked at.
    pub(crate) fn news_of_pruned(
        &self,
        request: PatchRequest<'_>,
        reply: &Raw,
    ) -> Vec<Inconsistency> {
        let PatchRequest { resource, part, .. } = request;
        let mut all = request.changes.missing_in(reply, part);
        if !resource.is_custom() {
            all.retain(|it| !it.is_of_empty_value());
        }
        self.shared.pruned.note(resource, all)
    }

    /// The fields of the status that the schema does not have, as far as writes have shown.
    pub(crate) fn pruned(&self, resource: &Resource) -> Option<PrunedPaths> {
        self.shared.pruned.paths(resource)
    }

    /// The definition `plural.group` has changed, or was looked at anew: its schema may have other fields.
    pub(crate) fn forget_pruned(&self, definition: &str, has_changed: bool) {
        self.shared.pruned.forget(definition, has_changed);
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
