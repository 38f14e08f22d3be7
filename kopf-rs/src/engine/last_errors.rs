//! Keeps the most recent warnings and errors about objects for status pages.
//!
//! Exists only where a status page may ask for them. Must not know what went wrong.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::Level;

use crate::happening::Happening;
use crate::object::reference::Reference;

/// The most recent errors. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastErrors(Arc<Mutex<VecDeque<LastError>>>);

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastError {
    pub(crate) at: Timestamp,
    /// `namespace/name`, or the name alone.
    pub(crate) object: String,
    /// The line as it is logged.
    pub(crate) line: String,
}

/// The number of errors that are kept.
const KEPT: usize = 20;
/// The maximum length of a line in characters.
const LONGEST: usize = 500;

impl LastErrors {
    /// Stores the line if it is a warning or an error.
    pub(crate) fn note(&self, about: &Reference, happening: &dyn Happening, at: Timestamp) {
        if happening.level() > Level::WARN {
            return;
        }
        let line = happening.to_string().chars().take(LONGEST).collect();
        let mut errors = self.0.lock();
        if errors.len() >= KEPT {
            errors.pop_front();
        }
        errors.push_back(LastError { at, object: about.to_string(), line });
    }

    /// Returns the errors, the newest first.
    pub(crate) fn all(&self) -> Vec<LastError> {
        self.0.lock().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::happening::working::Working;

    #[test]
    fn the_last_warnings_and_errors_are_kept() {
        let errors = LastErrors::default();
        let about = Reference::default();
        let at = Timestamp::UNIX_EPOCH;
        errors.note(&about, &Working::Unwatched, at);
        assert_eq!(errors.all(), [], "at DEBUG only");
        for rule in 0..30 {
            let rule = format!("{rule} {}", "ü".repeat(LONGEST));
            errors.note(&about, &Working::PermissionMissing { rule }, at);
        }
        let all = errors.all();
        assert_eq!(all.len(), KEPT);
        assert!(all[0].line.contains("add 29"), "{}", all[0].line);
        assert!(all.iter().all(|error| error.line.chars().count() <= LONGEST));
    }
}
