//! What happens while objects are written again, so that they are stored in the newest version.
//!
//! Must not know any wording.

use std::time::Duration;

/// Something that has happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migrating {
    /// The name of the definition.
    pub(crate) definition: String,
    /// The version that objects are to be stored in.
    pub(crate) version: String,
    pub(crate) news: MigrationNews,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MigrationNews {
    /// It begins after a while: so many objects a second.
    Planned {
        from: Vec<String>,
        after: Duration,
        rate: u32,
    },
    /// The cluster does it by itself.
    LeftToCluster,
    /// So many were looked at; all are stored in the version.
    Done { objects: usize },
    /// The definition was changed meanwhile: it begins anew.
    Changed,
    /// One object cannot be written.
    ObjectFailed { object: String, error: String },
    /// So many objects could not be written: others may still be stored in former versions.
    Incomplete { failed: usize, pause: Duration },
    /// Nothing is known of objects.
    Failed { error: String, pause: Duration },
}
