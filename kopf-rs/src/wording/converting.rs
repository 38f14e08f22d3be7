//! The log lines about conversions between versions. Kopf has no such lines.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::converting::Converting;

pub(super) fn level(converting: &Converting) -> Level {
    match converting {
        Converting::Configured { .. } => Level::INFO,
        Converting::Kept { .. }
        | Converting::Omitted { .. }
        | Converting::DefinitionUnread { .. }
        | Converting::DefinitionFailed { .. }
        | Converting::Unreachable { .. } => Level::WARN,
        Converting::Refused { .. } | Converting::OutOfTime { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, converting: &Converting) -> fmt::Result {
    match converting {
        Converting::Kept { version, problem } => write!(
            f,
            "The object cannot be converted to {version}; what cannot be converted is kept in an annotation: {problem}"
        ),
        Converting::Omitted { version, omitted } => write!(
            f,
            "The object is shown in {version} without all of its fields, and cannot be changed in that version: {omitted}. Read, write and delete it in the stored version."
        ),
        Converting::Refused { version, problem } => {
            write!(f, "The object is not converted to {version}: {problem}")
        }
        Converting::OutOfTime { kind, within } => write!(
            f,
            "Objects of {kind} are not converted within {:.1} seconds. A function with #[on_convert] does not return, or is too slow.",
            within.as_secs_f64()
        ),
        Converting::Configured { definition } => write!(
            f,
            "CustomResourceDefinition {definition} is written: the operator converts its objects."
        ),
        Converting::DefinitionFailed {
            definition,
            error,
            pause,
        } => write!(
            f,
            "CustomResourceDefinition {definition} cannot be written; will retry in {:.1} seconds: {error}",
            pause.as_secs_f64()
        ),
        Converting::DefinitionUnread {
            definition,
            error,
            pause,
        } => write!(
            f,
            "CustomResourceDefinition {definition} cannot be read, so that nobody knows which values its schemas accept; until then conversions put back \
             nothing of what annotations carry; will retry in {:.1} seconds: {error}",
            pause.as_secs_f64()
        ),
        Converting::Unreachable {
            definition,
            missing,
        } => write!(
            f,
            "CustomResourceDefinition {definition} has a version that this release of the operator does not convert; all others are converted: {missing}"
        ),
    }
}
