//! Collects outcomes that could not be written before the operator stopped. Logs one line for each outage at the end, instead of one for
//! each object.
//!
//! Must not know how often a write was tried.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::engine::report::report_of_operator;
use crate::happening::working::Working;

/// The objects whose outcomes were given up, by outage.
#[derive(Debug, Default)]
pub(super) struct LostOutcomes(Mutex<BTreeMap<String, Lost>>);

#[derive(Debug, Default)]
struct Lost {
    uids: BTreeSet<String>,
    /// The last error.
    error: String,
}

impl LostOutcomes {
    /// Notes that the outcomes of this object's handlers are not written because of an `outage`.
    pub(super) fn add(&self, outage: String, uid: &str, error: String) {
        let mut lost = self.0.lock();
        let lost = lost.entry(outage).or_default();
        lost.uids.insert(uid.to_owned());
        lost.error = error;
    }

    /// Reports all lost outcomes, one line for each outage. A second call reports nothing.
    pub(super) fn tell(&self) {
        let mut lost = self.0.lock();
        for lost in std::mem::take(&mut *lost).into_values() {
            report_of_operator(&Working::OutcomesLost { objects: lost.uids.len(), error: lost.error });
        }
    }
}
