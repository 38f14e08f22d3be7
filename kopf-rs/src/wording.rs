//! The log line of each happening: Kopf's words and levels wherever Kopf has such a line.
//!
//! The only place where these lines are worded. Must not know where they go.

use std::fmt;

use tracing::Level;

use crate::happening::Happening;

/// A happening as a log line. Formatting costs nothing until it is displayed.
pub(crate) struct Line<'a>(pub(crate) &'a Happening);

impl Line<'_> {
    /// The level at which it is logged.
    pub(crate) fn level(&self) -> Level {
        match self.0 {
            Happening::Invoked { .. } => Level::DEBUG,
            Happening::Cancelled { .. } => Level::WARN,
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Happening::Invoked { handler } => write!(f, "{handler} is invoked."),
            Happening::Cancelled { handler } => {
                write!(f, "{handler} is cancelled. Will escalate.")
            }
        }
    }
}
