//! The log lines about storage migrations. Kopf has no such lines.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::migrating::{Migrating, MigrationNews};

pub(super) fn level(migrating: &Migrating) -> Level {
    match migrating.news {
        MigrationNews::Planned { .. }
        | MigrationNews::LeftToCluster
        | MigrationNews::Done { .. }
        | MigrationNews::Listed { .. }
        | MigrationNews::Changed => Level::INFO,
        MigrationNews::ObjectFailed { .. }
        | MigrationNews::Incomplete { .. }
        | MigrationNews::Failed { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, migrating: &Migrating) -> fmt::Result {
    let Migrating {
        definition,
        version,
        news,
    } = migrating;
    write!(f, "Storage migration of {definition}")?;
    if !version.is_empty() {
        write!(f, " to {version}")?;
    }
    f.write_str(": ")?;
    match news {
        MigrationNews::Planned { from, after, rate } => write!(
            f,
            "objects may be stored as {}; in {:.0} seconds, all are written again, {rate} a second.",
            from.join(", "),
            after.as_secs_f64()
        ),
        MigrationNews::LeftToCluster => {
            f.write_str("it is left to the cluster, which does it by itself (StorageMigrating).")
        }
        MigrationNews::Done { objects } => write!(
            f,
            "done; {objects} objects were looked at, and status.storedVersions names {version} alone."
        ),
        MigrationNews::Changed => {
            f.write_str("the definition was changed meanwhile; it begins anew.")
        }
        MigrationNews::Listed { objects } => write!(
            f,
            "the server has forgotten the list after {objects} objects; it is asked for again, and the migration goes on after the last of them."
        ),
        MigrationNews::ObjectFailed { object, error } => {
            write!(f, "{object} cannot be written: {error}")
        }
        MigrationNews::Incomplete { failed, pause } => write!(
            f,
            "{failed} objects cannot be written, so status.storedVersions stays; will retry in {:.0} seconds.",
            pause.as_secs_f64()
        ),
        MigrationNews::Failed { error, pause } => write!(
            f,
            "it cannot go on; will retry in {:.1} seconds: {error}",
            pause.as_secs_f64()
        ),
    }
}
