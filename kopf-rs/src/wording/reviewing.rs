//! The log lines about admission reviews. Kopf has no such lines.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::reviewing::Reviewing;

pub(super) fn level(reviewing: &Reviewing) -> Level {
    match reviewing {
        Reviewing::Denied { .. } => Level::INFO,
        Reviewing::OddCode { .. } => Level::WARN,
        Reviewing::OutOfTime { .. }
        | Reviewing::ChangeRefused { .. }
        | Reviewing::FilterPanicked { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, reviewing: &Reviewing) -> fmt::Result {
    match reviewing {
        Reviewing::Denied { handler, message } => {
            write!(f, "{handler} has denied the request: {message}")
        }
        Reviewing::OutOfTime {
            handler,
            after,
            awaits,
        } => {
            let seconds = after.as_secs_f64();
            write!(f, "{handler} has not returned within {seconds:.1} seconds")?;
            if let Some(awaits) = awaits {
                write!(f, ": {awaits}")?;
            }
            f.write_str(". The request fails, or is carried out if the failures of the handler are ignored.")
        }
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
