//! The log lines about several operators of the same objects. Uses Kopf's wording wherever Kopf has such a line.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::peering::Peering;

pub(super) fn level(peering: &Peering) -> Level {
    match peering {
        Peering::KeptAlive { .. } => Level::DEBUG,
        Peering::Paused { .. } | Peering::Resumed => Level::INFO,
        Peering::Awaited { .. }
        | Peering::Rivals { .. }
        | Peering::Refused { .. }
        | Peering::Left { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, peering: &Peering) -> fmt::Result {
    match peering {
        Peering::Paused { in_favour_of } => {
            let peers = in_favour_of.join(", ");
            write!(f, "Pausing operations in favour of [{peers}].")
        }
        Peering::Awaited { name } => write!(
            f,
            "Pausing operations until there is a peering object '{name}': peering is mandatory (--peering, or settings.peering.mandatory)."
        ),
        Peering::Resumed => f.write_str(
            "Resuming operations after the pause. Conflicting operators with the same priority are gone.",
        ),
        Peering::Rivals { peers } => {
            let peers = peers.join(", ");
            write!(
                f,
                "Possibly conflicting operators with the same priority: [{peers}]. They are Kopf operators, which pause; this one goes on."
            )
        }
        Peering::KeptAlive { name, of, is_there } => {
            write!(f, "Keep-alive in '{name}' ")?;
            match &of.namespace {
                Some(namespace) => write!(f, "in '{namespace}'")?,
                None => f.write_str("cluster-wide")?,
            }
            f.write_str(if *is_there { ": ok." } else { ": not found." })
        }
        Peering::Refused { name, of, error, rule } => {
            write!(
                f,
                "The peering object '{name}' of {of} cannot be written, so other operators do not see this one; will retry: {error}"
            )?;
            if rule.is_empty() {
                return Ok(());
            }
            write!(f, "\nTo permit it, add {rule}")
        }
        Peering::Left { name, error } => write!(
            f,
            "The operator's record cannot be taken away from the peering object '{name}'; the others wait until its lifetime is over: {error}"
        ),
    }
}
