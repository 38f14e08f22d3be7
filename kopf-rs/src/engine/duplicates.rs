//! Remembers for which kinds another operator of this name was noticed: reported once per kind, and once more if it persists.
//!
//! Must not know how it is noticed, nor how it is reported.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::happening::duplicates::Severity;
use crate::state::trace::Evidence;

/// Longer than an instance and its successor run at the same time.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);

/// The number of times that a worker removes a finalizer which another program keeps adding.
pub(super) const READDED_FINALIZERS: u8 = 3;

/// The evidence of other operators, by kind.
#[derive(Debug, Default)]
pub(crate) struct DuplicateOperators(Mutex<BTreeMap<u32, Noticed>>);

#[derive(Debug)]
struct Noticed {
    first: Instant,
    /// Reported as another operator, and not only as another instance.
    said: bool,
}

impl DuplicateOperators {
    pub(super) fn note(
        &self,
        kind: u32,
        evidence: Evidence,
        readded_finalizers: u8,
        now: Instant,
    ) -> Option<Severity> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = !kinds.contains_key(&kind);
        let noticed = kinds.entry(kind).or_insert(Noticed {
            first: now,
            said: false,
        });
        let lasted = now.duration_since(noticed.first);
        let severity = match evidence {
            _ if noticed.said => return None,
            Evidence::UnknownRecords => Severity::Certain,
            Evidence::FinalizerReadded if readded_finalizers >= READDED_FINALIZERS => {
                Severity::Certain
            }
            _ if lasted >= REPLACED_WITHIN => Severity::Lasting(lasted),
            _ if news => Severity::Possible,
            _ => return None,
        };
        noticed.said = severity != Severity::Possible;
        Some(severity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_once_more_where_it_lasts() {
        let (duplicates, start) = (DuplicateOperators::default(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            duplicates.note(1, Evidence::KnownRecords, 1, start),
            Some(Severity::Possible)
        );
        assert_eq!(
            duplicates.note(1, Evidence::FinalizerReadded, 1, later(60)),
            None
        );
        let lasting = Severity::Lasting(Duration::from_secs(130));
        assert_eq!(
            duplicates.note(1, Evidence::KnownRecords, 1, later(130)),
            Some(lasting)
        );
        assert_eq!(
            duplicates.note(1, Evidence::UnknownRecords, 1, later(200)),
            None
        );
        assert_eq!(
            duplicates.note(2, Evidence::FinalizerReadded, 1, start),
            Some(Severity::Possible)
        );
        assert_eq!(
            duplicates.note(2, Evidence::UnknownRecords, 1, start),
            Some(Severity::Certain)
        );
        assert_eq!(
            duplicates.note(2, Evidence::UnknownRecords, 1, later(300)),
            None
        );
        assert_eq!(
            duplicates.note(3, Evidence::FinalizerReadded, 3, start),
            Some(Severity::Certain)
        );
    }
}
