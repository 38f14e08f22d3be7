//! What happens while objects are converted between versions, and to their definitions.
//!
//! Must not know any wording.

use std::time::Duration;

/// Something that has happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Converting {
    /// A part of the object is empty in this version. What it should be is kept in an annotation.
    Kept { version: String, problem: String },
    /// The object is not shown in this version, nor stored: something would be lost.
    Refused { version: String, problem: String },
    /// Objects of a kind were not converted in time.
    OutOfTime { kind: String, within: Duration },
    /// A definition tells the API server from now on who converts.
    Configured { definition: String },
    /// A definition is not written as it should be.
    DefinitionFailed {
        definition: String,
        error: String,
        pause: Duration,
    },
    /// A definition has versions that nobody converts: it is left as it is.
    Unreachable { definition: String, missing: String },
}
