//! The log lines about daemons and timers. Uses Kopf's wording wherever Kopf has such a line.

use std::fmt::{Formatter, Result};

use tracing::Level;

use crate::handler::definition::Handler;
use crate::handler::timing::BackgroundKind;
use crate::happening::background::{BackgroundHandling, Exit};
use crate::object::python::seconds;

pub(super) fn level(background: &BackgroundHandling) -> Level {
    match background {
        BackgroundHandling::Exits {
            exit: Exit::Abandoned,
            ..
        }
        | BackgroundHandling::Exits {
            exit: Exit::Awaited { deletion: true, .. },
            ..
        }
        | BackgroundHandling::ChangesItself { .. }
        | BackgroundHandling::AgainAtOnce { .. }
        | BackgroundHandling::ZeroInterval { .. } => Level::WARN,
        BackgroundHandling::NoPause { .. } => Level::ERROR,
        BackgroundHandling::Exits {
            exit: Exit::Awaited { .. },
            ..
        }
        | BackgroundHandling::EndedByDeletion { .. }
        | BackgroundHandling::MissedRuns { .. } => Level::INFO,
        BackgroundHandling::Exited { .. }
        | BackgroundHandling::CutOff { .. }
        | BackgroundHandling::Exits { .. } => Level::DEBUG,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, background: &BackgroundHandling) -> Result {
    match background {
        BackgroundHandling::Exited { handler, requested } => {
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
        BackgroundHandling::CutOff { handler } => write!(f, "{handler} has been cut off."),
        BackgroundHandling::Exits { handler, exit } => {
            write!(f, "{handler} ")?;
            write_exit(f, handler, *exit)
        }
        BackgroundHandling::MissedRuns {
            handler,
            first,
            more,
        } => {
            let runs = if *more {
                "several runs, the first at"
            } else {
                "its run at"
            };
            write!(
                f,
                "{handler} has missed {runs} {first}: it is called once now."
            )
        }
        BackgroundHandling::ChangesItself { .. }
        | BackgroundHandling::EndedByDeletion { .. }
        | BackgroundHandling::AgainAtOnce { .. } => write_level_triggered(f, background),
        BackgroundHandling::ZeroInterval { handler, instead } => write!(
            f,
            "The function that says the interval of {handler} has given zero, or less: it is called in {} seconds.",
            seconds(*instead)
        ),
        BackgroundHandling::NoPause {
            handler,
            option,
            panic,
            instead,
        } => write!(
            f,
            "The function that says the {option} of {handler} {panic}: it is called in {} seconds.",
            seconds(*instead)
        ),
    }
}

fn write_level_triggered(f: &mut Formatter<'_>, background: &BackgroundHandling) -> Result {
    match background {
        BackgroundHandling::ChangesItself {
            handler,
            times,
            field,
        } => write!(
            f,
            "{handler} has changed what it is called for in {times} calls in a row, the last time at {field}: from now on its own changes call it \
             ever later, up to a minute. It should write the same spec, labels and annotations where nothing else has changed."
        ),
        BackgroundHandling::EndedByDeletion { handler, message } => write!(
            f,
            "{handler} is ended, because the object is being deleted: {message}"
        ),
        BackgroundHandling::AgainAtOnce { handler, instead } => write!(
            f,
            "{handler} wants to be called again at once (`Again::after(0)`): it is called every {} seconds while it does. To wait for a change, it \
             should return `Again::on_change()`.",
            seconds(*instead)
        ),
        _ => Ok(()),
    }
}

fn write_exit(f: &mut Formatter<'_>, handler: &Handler, exit: Exit) -> Result {
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
                "is still exiting. The next check is in {next} seconds. It was told to {age} seconds ago{waits}"
            )?;
            match handler.background() {
                Some((BackgroundKind::Daemon, _)) => {
                    f.write_str(": `cancellation_timeout = ..` puts an end to that.")
                }
                // Timers have no such option.
                _ => f.write_str(": its function should look at `stopped`."),
            }
        }
    }
}
