//! Log lines about an object, in Kopf's words.

use tracing::Level;

/// A log line about the object, in Kopf's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Every pass finds it anew: news at the first time only.
    pub(crate) recurs: bool,
}

impl Line {
    pub(crate) fn new(level: Level, text: String) -> Self {
        Self {
            level,
            text,
            recurs: false,
        }
    }

    pub(crate) fn recurring(level: Level, text: String) -> Self {
        let recurs = true;
        Self {
            level,
            text,
            recurs,
        }
    }
}
