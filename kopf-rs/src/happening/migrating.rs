//! Happenings of storage migrations, which rewrite objects so that they are stored in the newest version.
//!
//! This module contains no wording.

use std::time::Duration;

/// A happening of a storage migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migrating {
    /// The name of the CRD.
    pub(crate) definition: String,
    /// The storage version; empty if the CRD cannot be read.
    pub(crate) version: String,
    pub(crate) news: MigrationNews,
}

/// The stages and problems of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MigrationNews {
    /// The migration starts after a delay, and rewrites this many objects per second.
    Planned {
        from: Vec<String>,
        after: Duration,
        rate: u32,
    },
    /// The cluster migrates by itself.
    LeftToCluster,
    /// This many objects were checked; all are stored in the storage version.
    Done { objects: usize },
    /// The CRD has changed meanwhile; the migration starts again.
    Changed,
    /// The server has dropped the list's continuation after this many objects. The migration lists again and
    /// continues after the last object.
    Listed { objects: usize },
    /// One object cannot be written.
    ObjectFailed { object: String, error: String },
    /// This many objects could not be written, so others may remain in former versions.
    Incomplete { failed: usize, pause: Duration },
    /// The objects cannot be listed.
    Failed { error: String, pause: Duration },
}
