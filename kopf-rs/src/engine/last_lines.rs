//! Keeps the most recent warnings and errors about objects for status pages, and for the web page also the most recent other lines.
//!
//! Exists only where a status page may ask for them. Guarantees bounds on the number of lines and on their length. Must not know what
//! happened.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::Level;

use crate::happening::Happening;
use crate::object::reference::Reference;

/// The most recent lines. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LastLines(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    errors: VecDeque<Arc<LastLine>>,
    /// Lines of all objects at INFO and above.
    history: VecDeque<Arc<LastLine>>,
    /// The maximum length of the history.
    most: usize,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastLine {
    pub(crate) at: Timestamp,
    pub(crate) level: Level,
    /// The object, as [`Reference::kind_word`] and as `namespace/name` or the name alone.
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) uid: String,
    /// The line as it is logged.
    pub(crate) line: String,
}

/// The number of errors that are kept.
const KEPT: usize = 20;
/// The maximum number of lines of the history.
const HISTORY: usize = 1000;
/// The maximum length of a line in characters.
const LONGEST: usize = 500;

impl LastLines {
    /// Keeps errors, and with `history` also other lines.
    pub(crate) fn new(history: bool) -> Self {
        let most = if history { HISTORY } else { 0 };
        let (errors, history) = (VecDeque::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(Kept { errors, history, most })))
    }

    /// Stores the line if it is a warning or an error, or belongs to the history.
    pub(crate) fn note(&self, about: &Reference, happening: &dyn Happening, at: Timestamp) {
        let level = happening.level();
        if level > Level::INFO {
            return;
        }
        let mut kept = self.0.lock();
        let is_error = level <= Level::WARN;
        let is_history = kept.most > 0;
        if !is_error && !is_history {
            return;
        }
        let line = Arc::new(LastLine {
            at,
            level,
            kind: about.kind_word(),
            object: about.to_string(),
            uid: about.uid.clone(),
            line: happening.to_string().chars().take(LONGEST).collect(),
        });
        if is_error {
            push(&mut kept.errors, line.clone(), KEPT);
        }
        if is_history {
            let most = kept.most;
            push(&mut kept.history, line, most);
        }
    }

    /// Returns the errors, the newest first.
    pub(crate) fn errors(&self) -> Vec<Arc<LastLine>> {
        self.0.lock().errors.iter().rev().cloned().collect()
    }

    #[cfg(any(feature = "web", test))]
    /// Returns the kept lines about the object with this uid, the newest first.
    pub(crate) fn history(&self, uid: &str) -> Vec<Arc<LastLine>> {
        let kept = self.0.lock();
        kept.history.iter().rev().filter(|line| line.uid == uid).cloned().collect()
    }
}

fn push(lines: &mut VecDeque<Arc<LastLine>>, line: Arc<LastLine>, most: usize) {
    if lines.len() >= most {
        lines.pop_front();
    }
    lines.push_back(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::subject::Reason;
    use crate::happening::handling::Handling;
    use crate::happening::working::Working;

    fn processed() -> Handling {
        Handling::Processed { reason: Reason::Create, succeeded: 1, failed: 0 }
    }

    #[test]
    fn the_last_warnings_and_errors_are_kept() {
        let lines = LastLines::new(false);
        let about = Reference::default();
        let at = Timestamp::UNIX_EPOCH;
        lines.note(&about, &Working::Unwatched, at);
        lines.note(&about, &processed(), at);
        assert_eq!((lines.errors(), lines.history("")), (Vec::new(), Vec::new()), "at DEBUG and INFO only");
        for rule in 0..30 {
            let rule = format!("{rule} {}", "ü".repeat(LONGEST));
            lines.note(&about, &Working::PermissionMissing { rule }, at);
        }
        let all = lines.errors();
        assert_eq!(all.len(), KEPT);
        assert!(all[0].line.contains("add 29"), "{}", all[0].line);
        assert!(all.iter().all(|error| error.line.chars().count() <= LONGEST));
        assert_eq!(lines.history(""), []);
    }

    #[test]
    fn the_history_has_the_last_lines_of_each_object() {
        let lines = LastLines::new(true);
        let of = |uid: &str| Reference { uid: uid.to_owned(), ..Reference::default() };
        let at = Timestamp::UNIX_EPOCH;
        lines.note(&of("a"), &Working::Unwatched, at);
        lines.note(&of("a"), &processed(), at);
        lines.note(&of("b"), &Working::PermissionMissing { rule: String::new() }, at);
        let levels = |uid: &str| lines.history(uid).iter().map(|line| line.level).collect::<Vec<_>>();
        assert_eq!((levels("a"), levels("b")), (vec![Level::INFO], vec![Level::WARN]));
        for _ in 0..HISTORY {
            lines.note(&of("b"), &processed(), at);
        }
        assert_eq!((levels("a").len(), levels("b").len()), (0, HISTORY));
    }
}
