//! Records the permanent failures of handlers for the report at the end.
//!
//! Stores them as text in one buffer: as separate values, the failures of a burst would be scattered over the heap and hold a page each
//! after the burst. Must not know the reasons of the failures.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;

use crate::object::reference::Reference;

/// A permanent failure of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The handler's id.
    pub handler: String,
    /// The object that the handler was called for; `None` for activities.
    pub object: Option<Reference>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.handler)?;
        match &self.object {
            Some(object) => write!(f, " for {object}"),
            None => Ok(()),
        }
    }
}

/// The most recent failures, or all of them.
#[derive(Debug)]
pub(super) struct Failures {
    keeps_all: bool,
    /// One line of JSON for each failure.
    lines: Mutex<VecDeque<u8>>,
}

/// The stored form: the handler, then the fields of the object.
type Line<'a, T> = (T, T, T, T, Option<T>, T);

impl Failures {
    /// The size limit of the buffer in bytes, enough for more than a hundred failures.
    const KEPT: usize = 32 * 1024;

    /// An operator that ends on failures keeps all of them; any other one would accumulate them without limit.
    pub(super) fn new(keeps_all: bool) -> Self {
        Self { keeps_all, lines: Mutex::default() }
    }

    pub(super) fn add(&self, handler: &str, object: &Reference) {
        let Reference { api_version, kind, name, namespace, uid } = object;
        let namespace = namespace.as_deref();
        let line: Line<'_, &str> = (handler, api_version, kind, name, namespace, uid);
        let Ok(mut line) = serde_json::to_vec(&line) else {
            return;
        };
        line.push(b'\n');
        let mut lines = self.lines.lock();
        if !self.keeps_all {
            if lines.capacity() == 0 {
                lines.reserve_exact(Self::KEPT);
            }
            while !lines.is_empty() && lines.len() + line.len() > Self::KEPT {
                let end = lines.iter().position(|byte| *byte == b'\n');
                let whole = lines.len();
                lines.drain(..end.map_or(whole, |end| end + 1));
            }
        }
        lines.extend(line);
    }

    pub(super) fn all(&self) -> Vec<Failure> {
        let mut lines = self.lines.lock();
        let lines = lines.make_contiguous().split(|byte| *byte == b'\n');
        let failure = |line| {
            let (handler, api_version, kind, name, namespace, uid) =
                serde_json::from_slice::<Line<'_, String>>(line).ok()?;
            Some(Failure { handler, object: Some(Reference { api_version, kind, name, namespace, uid }) })
        };
        lines.filter_map(failure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: usize) -> Reference {
        Reference {
            api_version: "kopf.dev/v1".into(),
            kind: "KopfExample".into(),
            name: format!("object-{number}"),
            namespace: (number > 0).then(|| "default".into()),
            uid: format!("0000-{number}"),
        }
    }

    #[test]
    fn the_last_failures_are_kept_in_one_place_and_all_of_an_operator_that_is_to_end() {
        const MANY: usize = 1000;
        let (last, all) = (Failures::new(false), Failures::new(true));
        assert_eq!(last.all(), []);
        for number in 0..MANY {
            for failures in [&last, &all] {
                failures.add("spec/\"x\"", &object(number));
            }
            assert!(last.lines.lock().capacity() <= 2 * Failures::KEPT);
        }
        let expected = |number| Failure { handler: "spec/\"x\"".into(), object: Some(object(number)) };
        assert_eq!(all.all(), (0..MANY).map(expected).collect::<Vec<_>>());
        let kept = last.all();
        assert!(kept.len() > 100, "{}", kept.len());
        let first = MANY - kept.len();
        assert_eq!(kept, (first..MANY).map(expected).collect::<Vec<_>>());
    }
}
