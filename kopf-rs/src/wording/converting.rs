//! The log lines about conversions between versions: Kopf has none of these.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::converting::Converting;

pub(super) fn level(converting: &Converting) -> Level {
    match converting {
        Converting::Configured { .. } => Level::INFO,
        Converting::Kept { .. }
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
        Converting::Unreachable {
            definition,
            missing,
        } => write!(
            f,
            "CustomResourceDefinition {definition} is left as it is: {missing}"
        ),
    }
}
