//! The log lines about the Lease that the instances of an operator share.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::leasing::Leasing;

pub(super) fn level(leasing: &Leasing) -> Level {
    match leasing {
        Leasing::Holds { .. }
        | Leasing::Begins { .. }
        | Leasing::StandsBy { .. }
        | Leasing::Released { .. } => Level::INFO,
        Leasing::Lapsed { .. }
        | Leasing::Lost { .. }
        | Leasing::Deleted { .. }
        | Leasing::OfOther { .. }
        | Leasing::Given { .. }
        | Leasing::Refused { .. }
        | Leasing::CutOff { .. }
        | Leasing::Kept { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, leasing: &Leasing) -> fmt::Result {
    match leasing {
        Leasing::Holds { lease } => {
            write!(f, "This instance is at work: it holds the Lease {lease}.")
        }
        Leasing::Begins { lease, wait } => write!(
            f,
            "This instance has made the Lease {lease}, and begins after {} seconds: by then, whoever held a former one has noticed.",
            wait.as_secs()
        ),
        Leasing::StandsBy { lease, holder } => {
            write!(f, "Standing by: the Lease {lease} is held by {holder}.")
        }
        Leasing::Lapsed { lease, after } => write!(
            f,
            "Handlers are paused, since the Lease {lease} could not be renewed for {} seconds: another instance may take it.",
            after.as_secs()
        ),
        Leasing::Lost { lease, holder } => write!(
            f,
            "This instance has lost the Lease {lease}, and stands by: it is held by {holder}."
        ),
        Leasing::Deleted { lease, wait } => write!(
            f,
            "The Lease {lease} was deleted, so no instance is at work: it is made anew in {} seconds.",
            wait.as_secs()
        ),
        Leasing::OfOther { lease, operator } => write!(
            f,
            "Handlers are not called, since the Lease {lease} belongs to the operator '{operator}', as its label kopf.rs/operator says: give \
             this operator a Lease of its own by --lease=NAME, or settings.lease.name."
        ),
        Leasing::Given { lease } => write!(
            f,
            "Handlers are not called, since the Lease {lease} has a strategy, by which somebody else gives it: take `spec.strategy` out of it, \
             or choose another Lease by --lease=NAME."
        ),
        Leasing::Refused { lease, error, rule } => {
            write!(
                f,
                "Handlers are not called, since the Lease {lease} cannot be read and written; will retry: {error}"
            )?;
            if rule.is_empty() {
                return Ok(());
            }
            write!(f, "\nTo permit it, add {rule}")
        }
        Leasing::CutOff { handler } => write!(
            f,
            "{handler} is cancelled, since this instance may not be at work any more. It is called again by the one that is."
        ),
        Leasing::Released { lease } => write!(f, "The Lease {lease} is given back."),
        Leasing::Kept { lease, after } => write!(
            f,
            "The Lease {lease} could not be given back within {} seconds: others wait until it is over.",
            after.as_secs()
        ),
    }
}
