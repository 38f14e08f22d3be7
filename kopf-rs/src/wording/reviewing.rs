//! The log lines about reviews of requests: Kopf has none of these.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::reviewing::Reviewing;

pub(super) fn level(reviewing: &Reviewing) -> Level {
    match reviewing {
        Reviewing::OddCode { .. } => Level::WARN,
        Reviewing::OutOfTime { .. }
        | Reviewing::ChangeRefused { .. }
        | Reviewing::FilterPanicked { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, reviewing: &Reviewing) -> fmt::Result {
    match reviewing {
        Reviewing::OutOfTime { handler, after } => write!(
            f,
            "{handler} has not returned within {:.1} seconds. The request fails, or is carried out if the failures of the handler are ignored.",
            after.as_secs_f64()
        ),
        Reviewing::ChangeRefused { handler, reason } => {
            write!(f, "{handler} has changed the object in vain: {reason}.")
        }
        Reviewing::FilterPanicked { handler, panic } => {
            write!(f, "{handler} is not called, and the request fails: {panic}")
        }
        Reviewing::OddCode { handler, code } => write!(
            f,
            "{handler} has denied the request with the code {code}, which is none of an error: expected 400 to 599. It counts as 500."
        ),
    }
}
