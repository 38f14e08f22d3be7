//! The classes of errors, as used in conditions.
//!
//! Must not know conditions.

use crate::handler::child_trouble::ChildTrouble;
use crate::happening::handling::{AttemptEnd, Fate, Handling};

pub(super) const TEMPORARY: &str = "TemporaryError";
pub(super) const PERMANENT: &str = "PermanentError";
pub(super) const UNEXPECTED: &str = "UnexpectedError";
pub(super) const TIMED_OUT: &str = "TimedOut";
pub(super) const RETRIES_EXCEEDED: &str = "RetriesExceeded";

/// Returns the class of the error of a failed attempt.
pub(super) fn class_of(handling: &Handling) -> Option<&'static str> {
    let Handling::Attempted { end, .. } = handling else {
        return None;
    };
    let of_fate = |fate: &Fate, plain: &'static str| match fate {
        Fate::Ignored => None,
        Fate::Retried { .. } | Fate::Stopped => Some(plain),
        Fate::WouldTimeOut(_) => Some(TIMED_OUT),
        Fate::WouldExceed(_) => Some(RETRIES_EXCEEDED),
    };
    match end {
        AttemptEnd::Succeeded => None,
        AttemptEnd::Temporary { fate, child, .. } => {
            of_fate(fate, child.map_or(TEMPORARY, ChildTrouble::reason))
        }
        AttemptEnd::Permanent { child, .. } => Some(child.map_or(PERMANENT, ChildTrouble::reason)),
        AttemptEnd::Arbitrary { fate, .. } => of_fate(fate, UNEXPECTED),
        AttemptEnd::TimedOut { .. } => Some(TIMED_OUT),
        AttemptEnd::RetriesExceeded { .. } => Some(RETRIES_EXCEEDED),
    }
}
