//! Detects that the server has not stored the written fields, for example because the schema lacks them.

use crate::cluster::Cluster;
use crate::cluster::pruned::PrunedPaths;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::object::inconsistency::{Inconsistency, inconsistencies};
use crate::object::raw::Raw;
use crate::object::resource::Resource;

impl Cluster {
    /// Returns the fields that the response does not show as sent and that were not reported before. Ignores metadata.
    pub(crate) fn news_of_pruned(&self, request: PatchRequest<'_>, reply: &Raw) -> Vec<Inconsistency> {
        let PatchRequest { resource, part, .. } = request;
        let mut all = request.changes.missing_in(reply, part);
        if !resource.is_custom() {
            all.retain(|it| !it.is_of_empty_value());
        }
        self.shared.pruned.note(resource, all)
    }

    /// Returns the status fields that the schema lacks, as far as writes have shown.
    pub(crate) fn pruned(&self, resource: &Resource) -> Option<PrunedPaths> {
        self.shared.pruned.paths(resource)
    }

    /// Forgets the pruned fields, because the definition `plural.group` has changed or was listed again and its schema may have other fields.
    pub(crate) fn forget_pruned(&self, definition: &str, has_changed: bool) {
        self.shared.pruned.forget(definition, has_changed);
    }

    /// Returns a number that changes when the definition of the resource changes or is listed again.
    pub(crate) fn definitions(&self, resource: &Resource) -> u64 {
        self.shared.pruned.definitions(resource)
    }
}

impl Changes {
    /// Returns true if the response does not show the status as sent.
    pub(crate) fn lose_status_in(&self, reply: &Raw) -> bool {
        self.has(Part::Status) && !self.missing_in(reply, Part::Status).is_empty()
    }

    /// Returns the fields of this part that the response does not show as sent. For operations, only the status is compared.
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
        let compared = sent.flat_map(|(key, sent)| {
            let found = reply.stanza(key);
            inconsistencies(key, sent, found.as_ref())
        });
        compared.collect()
    }
}
