//! The level of the program's log lines.
//!
//! Must not know how lines are written.

use std::fmt;

/// The level of the program's log lines: [`Logging::level`](crate::Logging::level). Details of libraries appear at `Trace` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also what is unexpected: as `--quiet`.
    Warning,
    /// Also normal operation: the default.
    Info,
    /// Also the operator's actions in detail: as `--verbose`.
    Debug,
    /// Everything, also details of libraries: as `--debug`.
    Trace,
}

impl LogLevel {
    pub(super) const ALL: [(&str, Self); 5] = [
        ("error", Self::Error),
        ("warning", Self::Warning),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, _) = Self::ALL.iter().find(|(_, level)| level == self).unwrap_or(&Self::ALL[0]);
        f.write_str(word)
    }
}
