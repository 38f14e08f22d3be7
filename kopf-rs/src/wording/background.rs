//! The log lines about daemons and timers: Kopf's words wherever Kopf has such a line.

use std::fmt::{Formatter, Result};

use tracing::Level;

use crate::happening::background::{Background, Exit};
use crate::object::python::seconds;

pub(super) fn level(background: &Background) -> Level {
    match background {
        Background::Exits {
            exit: Exit::Abandoned,
            ..
        }
        | Background::Exits {
            exit: Exit::Awaited { deletion: true, .. },
            ..
        }
        | Background::ZeroInterval { .. } => Level::WARN,
        Background::NoInterval { .. } => Level::ERROR,
        Background::Exits {
            exit: Exit::Awaited { .. },
            ..
        } => Level::INFO,
        Background::Exited { .. } | Background::CutOff { .. } | Background::Exits { .. } => {
            Level::DEBUG
        }
    }
}

pub(super) fn write(f: &mut Formatter<'_>, background: &Background) -> Result {
    match background {
        Background::Exited { handler, requested } => {
            let why = if *requested {
                "on request"
            } else {
                "on its own"
            };
            write!(
                f,
                "{handler} has exited {why} and will not be retried or restarted."
            )
        }
        Background::CutOff { handler } => write!(f, "{handler} has been cut off."),
        Background::Exits { handler, exit } => {
            write!(f, "{handler} ")?;
            write_exit(f, *exit)
        }
        Background::ZeroInterval { handler, instead } => write!(
            f,
            "The function that says the interval of {handler} has given zero, or less: it is called in {} seconds.",
            seconds(*instead)
        ),
        Background::NoInterval {
            handler,
            panic,
            instead,
        } => write!(
            f,
            "The function that says the interval of {handler} {panic}: it is called in {} seconds.",
            seconds(*instead)
        ),
    }
}

fn write_exit(f: &mut Formatter<'_>, exit: Exit) -> Result {
    match exit {
        Exit::Told(reason) => write!(f, "is told to exit: {reason}."),
        Exit::Signalled => f.write_str("is signalled to exit gracefully."),
        Exit::Cancelled => f.write_str("is signalled to exit by force."),
        Exit::Abandoned => f.write_str("did not exit in time. Leaving it orphaned."),
        Exit::Awaited {
            age,
            next,
            deletion,
        } => {
            let (age, next) = (seconds(age), seconds(next));
            let waits = if deletion {
                ", and the deletion of the object waits for it"
            } else {
                ""
            };
            write!(
                f,
                "is still exiting. The next check is in {next} seconds. It was told to {age} seconds ago{waits}: `cancellation_timeout = ..` \
                 puts an end to that for a daemon."
            )
        }
    }
}
